"""What all estimators share: fitting, densities, features, samples and files."""

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from diglm.data.encoder import Container, Encoded, Rows
from diglm.estimators.common import Seed, Verbose, seed_of
from diglm.estimators.refusing import AbstractRefusing
from diglm.estimators.reporting import AbstractReportedEstimator
from diglm.fitting import FileSource, Fitted, Request, run
from diglm.fitting.sources import AbstractSource
from diglm.hybrid import Hybrid
from diglm.objectives import AskedTerms, terms_of
from diglm.parameters import Constraints, check_parameters, check_whole
from diglm.predictor import Predictor, log_px_error, save_predictor
from diglm.predictor.draw import WAYS
from diglm.predictor.frames import table_like
from diglm.predictor.scoring import score_file
from diglm.recipes import AskedSizes
from diglm.refusal import AbstractRule, Known, rule_of, score_of
from diglm.targets import AbstractTarget

PerRow = Float[np.ndarray, " rows"]
RECORDED = ("history_", "density_history_", "stopped_", "skipped_steps_", "fit_seconds_")
RECORDED += ("wait_seconds_", "n_epochs_")


class AbstractHybridEstimator(
    AbstractReportedEstimator,
    AbstractRefusing,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """A predictor behind scikit-learn's contract: parameters, checks, and the way to it."""

    constraints: Constraints
    predictor_: Predictor
    history_: list[dict[str, float | int]]
    card_: dict[str, object]  # what people note about a model; `save` keeps it
    n_features_in_: int
    random_state: Seed
    verbose: Verbose
    extra: str
    absent: str

    def __sklearn_tags__(self):
        """Missing values and strings are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep` also those of objects among them."""
        found = super().get_params(deep=deep)
        score = found["score"] = vars(self)["score"]  # the attribute is the method of that name
        if deep and hasattr(score, "get_params"):
            found |= {f"score__{name}": value for name, value in score.get_params().items()}
        return found

    # ------------------------------------------------------------------ fitting

    @abstractmethod
    def _learn_target(
        self, y: np.ndarray, weights: np.ndarray, *, nulls: bool = False
    ) -> AbstractTarget:
        """The meaning of the targets; with `nulls` a missing one is a missing label."""

    def _request(self, seed: int) -> Request:
        """The parameters, checked and resolved."""
        given = self.get_params(deep=False)
        check_parameters(given, self.constraints)
        weight = given.get("generative_weight", "auto")
        sizes = {name: given[name] for name in AskedSizes._fields if name in given}
        return Request(
            owner=type(self).__name__,
            flow=given["flow"],
            sizes=AskedSizes(**sizes),
            learn_target=self._learn_target,
            generative_weight=weight if isinstance(weight, str) else float(weight),
            volume_weight=given.get("volume_weight"),
            asked_terms=self._terms(given),
            validation_fraction=given["validation_fraction"],
            score=score_of(given["score"]),
            rule=self._rule(),
            max_time=given["max_time"],
            seed=seed,
            verbose=given["verbose"],
            parameters=given,
        )

    def _rule(self) -> AbstractRule:
        return rule_of(self.get_params(deep=False)["reject"])

    @staticmethod
    def _terms(given: Mapping[str, Any]) -> AskedTerms:
        """The terms that the parameters ask for, by weights of their own or in a list."""
        if "terms" not in given:
            return AskedTerms()

        def asked(name: str) -> Any:
            return given[name] if isinstance(given[name], str) else float(given[name])

        terms = terms_of(given["terms"])
        return AskedTerms(asked("entropy_weight"), asked("vat_weight"), asked("vat_radius"), terms)

    def _fit(self, source: AbstractSource, seed: int) -> None:
        """Fit to the rows of a source; attributes are set only on success."""
        if source.checkpoint is not None and self.random_state is None and source.must_be_seeded:
            raise ValueError(
                "checkpoint= resumes the same run, so that needs a seed: set random_state."
            )
        self._keep(run(source, self._request(seed)))

    def _keep(self, fitted: Fitted) -> None:
        result, encoder = fitted.result, fitted.predictor.encoder
        self.predictor_, self.n_features_in_ = fitted.predictor, encoder.n_features
        self.history_, self.stopped_ = result.history, result.stopped
        self.density_history_ = result.density_history
        self.skipped_steps_, self.n_epochs_ = result.skipped_steps, len(result.history)
        self.fit_seconds_, self.wait_seconds_ = result.seconds, result.waited
        self.card_ = {}
        self._name_features()

    def _restore(self, predictor: Predictor, about: Mapping[str, Any]) -> None:
        """What `save` kept, after a fit of this or another process."""
        self.predictor_, self.n_features_in_ = predictor, predictor.encoder.n_features
        for name in RECORDED:
            setattr(self, name, about["record"][name])
        self.card_ = dict(about.get("card", {}))
        self._name_features()

    def _name_features(self) -> None:
        vars(self).pop("feature_names_in_", None)
        if self.predictor_.encoder.feature_names is not None:
            self.feature_names_in_ = np.array(self.predictor_.encoder.feature_names, dtype=object)

    def _fit_file(
        self,
        path: str | os.PathLike,
        target: str | None,
        features: Sequence[str] | None,
        sample_weight: str | None,
        checkpoint: str | os.PathLike | None,
        save_every: int,
        shuffle: bool,
    ) -> None:
        source = FileSource(
            Path(path),
            target,
            features=features,
            weight=sample_weight,
            shuffle=shuffle,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            save_every=check_whole("save_every", save_every),
        )
        # A run must be the same run when it is called again, so no seed means seed 0 here.
        self._fit(source, 0 if self.random_state is None else seed_of(self.random_state))

    # ------------------------------------------------------------------ densities

    @property
    def model_(self) -> Hybrid:
        """The hybrid of flow and head, for those who look inside."""
        return self.predictor_.model

    @overload
    def score_samples(self, X: Rows, *, return_std: Literal[False] = False) -> PerRow: ...

    @overload
    def score_samples(self, X: Rows, *, return_std: Literal[True]) -> tuple[PerRow, PerRow]: ...

    def score_samples(self, X: Rows, *, return_std: bool = False) -> PerRow | tuple[PerRow, PerRow]:
        """Exact log p(x) of each row, natural log, in the units of the columns given.

        Whole numbers, rounded numbers and categories are cells: their part is a log mass per
        unit, estimated from 8 fixed places in the cell. What is missing is integrated out. A
        category that training never saw costs the log of the rate at which such ones turn up.

        Continuous and residual flows of many columns estimate log-determinants, from probes that
        never change. With `return_std` their standard error is given too, a number a row; it is
        zero for all that is exact, and takes a pass for each probe.
        """
        encoded = self._encode(X)
        log_px = self._fitted.log_px(encoded)
        return (log_px, log_px_error(self._fitted, encoded)) if return_std else log_px

    # ------------------------------------------------------------------ features and samples

    def transform(self, X: Rows) -> Float[np.ndarray, "rows dim"]:
        """Features z = f(x)."""
        return self._fitted.features(self._encode(X)).astype(float)

    @property
    def _n_features_out(self) -> int:
        return self.predictor_.encoder.dim

    def inverse_transform(self, Z: np.ndarray) -> Container:
        """Rows with features `Z`, in the container and units of the training table."""
        return self._fitted.invert(np.asarray(Z, float))

    def interpolate(self, a: Rows, b: Rows, steps: int = 8, *, way: str = "circle") -> Container:
        """`steps` rows from row `a` to row `b` through latent space.

        Latents of many dimensions lie on a shell around zero. A straight line between two of
        them, `way="line"`, cuts through its empty middle. On a great circle, the default, the
        direction turns at an even pace while the length goes from one to the other.
        """
        check_whole("steps", steps)
        if way not in WAYS:
            raise ValueError(f"way must be one of {[*WAYS]}; got {way!r}.")
        first, second = (self._encode(_one_row(row, name)) for row, name in ((a, "a"), (b, "b")))
        return self.predictor_.between(first, second, steps, way)

    # ------------------------------------------------------------------ files

    def score_file(
        self,
        path: str | os.PathLike,
        out: str | os.PathLike,
        *,
        keep: str | Sequence[str] = (),
        groups: str | None = None,
        engine: str = "local",
        n_workers: int | None = None,
    ) -> Path:
        """Write what `assess` says of every row of a file or folder to the Parquet file `out`.

        Args:
            path: a Parquet, CSV or Arrow file, or a folder of them.
            out: appears, complete, when all rows are done; an earlier file survives any failure.
            keep: columns copied through, such as a key.
            groups: column of the rows' groups, for a model that was fitted with groups.
            engine: "local", or "ray" for Ray Data with one model per worker.
            n_workers: workers of Ray; None for one a core.
        """
        return score_file(
            self._fitted,
            path,
            out,
            keep=keep,
            groups=groups,
            engine=engine,
            n_workers=n_workers,
            verbose=self.verbose,
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write the model to `path` (safetensors with a JSON header), replacing it atomically."""
        predictor = self._fitted
        about = {
            "estimator": type(self).__name__,
            "parameters": self.get_params(deep=False),
            "record": {name: getattr(self, name) for name in RECORDED},
            "card": self.card_,
        }
        save_predictor(predictor, path, about)

    # ------------------------------------------------------------------ shared steps

    @property
    def _fitted(self) -> Predictor:
        """The predictor, or scikit-learn's error where there is none yet."""
        check_is_fitted(self, "predictor_")
        return self.predictor_

    def _encode(self, X: Rows) -> Encoded:
        return self._fitted.encode(X, extra=self.extra, absent=self.absent)

    def _known(self, X: Rows, groups: np.ndarray | None = None) -> Known:
        encoded = self._encode(X)
        return self._fitted.known(encoded, self._fitted.codes(groups, len(encoded)))

    def _table(self, X: Rows, groups: np.ndarray | None) -> Container:
        """One table of all answers, of the library of `X`."""
        encoded = self._encode(X)
        codes = self.predictor_.codes(groups, len(encoded))
        return table_like(X, self.predictor_.columns(encoded, codes))


def _one_row(row: Rows, name: str) -> Rows:
    """A table of one row from a vector or from a table of one row."""
    table = np.asarray(row) if isinstance(row, list | tuple) else row
    if isinstance(table, np.ndarray) and table.ndim in (1, 3):  # a vector, or an image
        table = table[None]
    if len(table) != 1:  # type: ignore[arg-type]
        raise ValueError(f"interpolate() takes one row for {name}; got {len(table)}.")  # type: ignore
    return table
