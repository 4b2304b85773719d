"""What both estimators share: fitting a table, densities, refusal, samples, features, files."""

import dataclasses
import hashlib
import math
import numbers
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from diglm import __about__
from diglm.completion import fixed_offsets
from diglm.data.image import ImageEncoder, as_images, is_image_array
from diglm.data.table.encoder import Encoded, TableEncoder
from diglm.estimators import engine, persistence
from diglm.estimators.counterfactual import Counterfactual
from diglm.estimators.frames import is_frame, table_like
from diglm.estimators.image_start import IMAGE_OFFSETS, begin_images, train_images
from diglm.estimators.sampling import great_circle
from diglm.estimators.seen import Seen, mark_rows
from diglm.estimators.settling import known_weights, settle
from diglm.estimators.start import (
    SCORING_OFFSETS,
    Beginning,
    begin,
    calibrated,
    head_of,
    split_rows,
)
from diglm.estimators.targets import AbstractTarget
from diglm.heads import GLMHead
from diglm.hybrid import Hybrid
from diglm.selective import RejectRule, check_reject
from diglm.training import FitResult, ProgressBar, fit
from diglm.training.checkpoint import Checkpoints
from diglm.types import Batch

UNSEEN_LOG_MASS = -1e6  # nats per cell that training gave no meaning: always refused, yet finite

LEARNED_FROM_ROWS = ("statistics_", "seen_", "mixed_", "groups_")


class Prepared(NamedTuple):
    """A table ready to train on; `split` holds the numbers of the rows to train on and held out.

    `expected` is what was taken off the targets of all rows, if anything was.
    """

    encoder: TableEncoder | ImageEncoder
    encoded: Encoded
    split: tuple[np.ndarray, np.ndarray]
    train: Batch
    held_out: Batch
    begun: Beginning
    seed: int
    expected: np.ndarray | None = None


class AbstractHybridEstimator(TransformerMixin, BaseEstimator):
    """A hybrid model of a table, or of images, behind scikit-learn's contract."""

    # Parameters that the constructors store and this class reads.
    flow: Any
    generative_weight: float
    volume_weight: float | None
    validation_fraction: float | str
    reject: float | str | None
    slack: float
    entropy_weight: float
    vat_weight: float
    vat_radius: float
    random_state: Any
    verbose: bool | str

    encoder_: Any  # a TableEncoder or an ImageEncoder
    model_: Hybrid
    reject_rule_: RejectRule
    history_: list[dict[str, float | int]]
    wait_seconds_: float

    def __sklearn_tags__(self):
        """Missing values and strings are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # ------------------------------------------------------------------ fitting

    def _fit(
        self,
        X: Any,
        y: np.ndarray,
        target: AbstractTarget,
        weights: np.ndarray,
        checkpoint: str | os.PathLike | None = None,
    ) -> None:
        """Fit encoder, hybrid, calibration and reject rule; attributes are set only on success."""
        if checkpoint is not None and self.random_state is None:
            raise ValueError(
                "checkpoint= resumes the same run, so that needs a seed: set random_state."
            )
        ready = self._prepared(X, y, target, weights)
        if isinstance(ready.encoder, ImageEncoder):
            return self._finish(ready, self._trained_on_images(ready, target.metric, checkpoint))
        if checkpoint is not None:
            raise ValueError(
                "checkpoint= keeps long fits: of images, or of tables in files with fit_file()."
            )
        with ProgressBar(ready.begun.settings.n_epochs, target.metric, self.verbose) as bar:
            # With nothing to train but the head, its exact fit is the whole fit.
            result = (
                FitResult(ready.begun.model, stopped="exact")
                if ready.begun.exact
                else self._trained(ready, bar)
            )
        self._finish(ready, result)

    def _trained(self, ready: Prepared, bar: ProgressBar) -> FitResult:
        """The model trained by minibatches."""
        return fit(
            ready.begun.model,
            ready.train,
            objective=ready.begun.objective,
            validation=ready.held_out if len(ready.held_out.weight) else None,
            settings=ready.begun.settings,
            seed=ready.seed,
            progress=bar,
        )

    def _trained_on_images(
        self, ready: Prepared, metric: str, checkpoint: str | os.PathLike | None
    ) -> FitResult:
        kept: Any = nullcontext()
        if checkpoint is not None:
            pixels = hashlib.sha256(ready.encoded.values.tobytes()).hexdigest()
            described = {name: repr(value) for name, value in self.get_params(deep=False).items()}
            kept = Checkpoints(Path(checkpoint), described | {"verbose": "", "images": pixels})
        with (
            kept as checkpoints,
            ProgressBar(ready.begun.settings.n_epochs, metric, self.verbose) as bar,
        ):
            return train_images(
                ready.begun,
                ready.train,
                ready.held_out,
                seed=ready.seed,
                progress=bar,
                checkpoints=checkpoints,
            )

    def _prepared(
        self, X: Any, y: np.ndarray, target: AbstractTarget, weights: np.ndarray
    ) -> Prepared:
        """Encoder, split and starting model of a table or of images."""
        self._check_numbers()
        seed, labels = self._seed(), target.read(y)
        if is_image_array(X):
            encoder: Any = ImageEncoder.fit(X)
            set_out = begin_images
        else:
            relation = target.relation(labels)
            encoder = TableEncoder.fit(X, relation, weights=(weights > 0).astype(float))
            set_out = begin
        encoded = encoder.encode(X, owner=type(self).__name__)
        fraction = self.validation_fraction
        if fraction == "auto":
            fraction = float(np.clip(200 / max(1, np.sum(weights > 0)), 0.1, 0.2))
        split = split_rows(cast(float, fraction), target.strata(labels), weights, seed)
        rows = labels.batch(encoded.values, weights)
        train, held_out = (Batch(*(column[part] for column in rows)) for part in split)
        begun = set_out(
            self.get_params(deep=False),
            encoder,
            target,
            train,
            held_out,
            n_rows=len(train.weight),
            seed=seed,
        )
        return Prepared(encoder, encoded, split, train, held_out, begun, seed)

    def _finish(self, ready: Prepared, result: FitResult) -> None:
        """Settle base and head of the trained model, set the threshold, keep what was learned."""
        encoder, encoded, split = ready.encoder, ready.encoded, ready.split
        for name in LEARNED_FROM_ROWS:  # by an earlier fit, with another head
            vars(self).pop(name, None)
        train_rows, held_rows = split
        self.encoder_, self.history_ = encoder, result.history
        self.model_ = self._with_fitted_base(ready, result.model)
        self.stopped_, self.skipped_steps_ = result.stopped, result.skipped_steps
        self.fit_seconds_ = result.seconds
        self.n_epochs_ = len(result.history)
        if isinstance(encoder, ImageEncoder) and self._only_held_out_needed(held_rows):
            return self._finish_from_held_out(ready)
        seen = engine.evaluate(engine.look, self.model_, encoded.values, self._offsets)
        settled = settle(
            self.model_.head,
            seen.z,
            split,
            ready.train,
            ready.held_out,
            exact=result.stopped == "exact",
        )
        self.model_ = eqx.tree_at(lambda model: model.head, self.model_, settled.head)
        if settled.statistics is not None:
            self.statistics_ = tuple(map(np.asarray, settled.statistics))
            self._remember_rows(ready)
        log_px = self._in_user_units(seen.log_px, encoded)
        self.reject_rule_ = RejectRule.fit(
            self.reject, training=log_px[train_rows], held_out=log_px[held_rows], slack=self.slack
        )

    def _with_fitted_base(self, ready: Prepared, model: Hybrid) -> Hybrid:
        """The trained model with the density of its features that suits them best."""
        return model

    def _only_held_out_needed(self, held_rows: np.ndarray) -> bool:
        """Whether all that is settled after training is settled by the held-out images."""
        head = self.model_.head
        if not isinstance(head, GLMHead) or head.family.spreads or self.reject == "minimum":
            return False
        return self.reject is None or cast(float, self.reject) * (len(held_rows) + 1) >= 1

    def _finish_from_held_out(self, ready: Prepared) -> None:
        """As `_finish`, without looking again at each of very many training images."""
        held_rows = ready.split[1]
        seen = engine.evaluate(
            engine.look, self.model_, ready.encoded.values[held_rows], self._offsets
        )
        head = calibrated(self.model_.head, seen.z, ready.held_out)
        self.model_ = eqx.tree_at(lambda model: model.head, self.model_, head)
        log_px = seen.log_px.astype(float) + ready.encoded.log_scale[held_rows]
        self.reject_rule_ = RejectRule.fit(
            self.reject, training=log_px, held_out=log_px, slack=self.slack
        )

    def _learn_streamed(self, pieces: Callable[[], Iterable[Batch]]) -> None:
        """After a fit to a file: what a head must still learn from every row. Most need nothing."""

    def _remember_rows(self, ready: Prepared) -> None:
        """Keep marks of the rows that a conjugate posterior was learned from."""
        parts = [
            tuple(np.asarray(column)[known_weights(rows) > 0] for column in rows)
            for rows in (ready.train, ready.held_out)
        ]
        values, ys, _, weights = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        self.seen_ = tuple(Seen.of(mark_rows(values, ys, weights)))

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def fit_file(
        self,
        path: str | os.PathLike,
        target: str,
        *,
        features: Sequence[str] | None = None,
        sample_weight: str | None = None,
        checkpoint: str | os.PathLike | None = None,
        save_every: int = 20_000,
        shuffle: bool = True,
    ) -> "AbstractHybridEstimator":
        """Fit to a Parquet, CSV or Arrow file, or a folder of them, larger than memory or not.

        One pass surveys the table; the encoder and the starting model come from a sample of
        100,000 rows with everything rare in it (levels, gaps, extremes), then rows are streamed in
        random order. Memory does not grow with the number of rows. Up to
        20,000 rows are held out to choose the best epoch and to set the threshold. Several
        processes that called `diglm.distributed.connect` first share the work.

        Args:
            path: the file or folder.
            target: name of the column to predict; null marks a row without a label.
            features: names of the columns to learn from; None for all but target and weight.
            sample_weight: name of a column of row weights.
            checkpoint: folder where the run is kept every `save_every` steps and on SIGTERM. The
                same call again resumes it and ends with the same weights, bit for bit.
            save_every: steps between checkpoints.
            shuffle: whether rows are first copied, in random order, to the checkpoint folder or a
                temporary one. Leave it out only for files whose rows are in no order: of a file
                in order of time a model would remember best what it saw last.
        """
        from diglm.estimators.filefit import FileFit

        self._check_numbers()
        _whole("save_every", save_every)
        # A run must be the same run when it is called again, so no seed means seed 0 here.
        seed = 0 if self.random_state is None else self._seed()
        run = FileFit(
            self,
            path,
            target,
            features=features,
            sample_weight=sample_weight,
            checkpoint=checkpoint,
            save_every=save_every,
            shuffle=shuffle,
            seed=seed,
        )
        self._remember(*run.run(partial(self._learn_target, nulls=True)))
        self.feature_names_in_ = np.array(run.features, dtype=object)
        self.n_features_in_ = len(run.features)
        return self

    def score_file(
        self,
        path: str | os.PathLike,
        out: str | os.PathLike,
        *,
        keep: str | Sequence[str] = (),
        engine: str = "local",
        n_workers: int | None = None,
    ) -> Path:
        """Write what `assess` says of every row of a file or folder to the Parquet file `out`.

        Args:
            path: a Parquet, CSV or Arrow file, or a folder of them.
            out: appears, complete, when all rows are done; an earlier file survives any failure.
            keep: columns copied through, such as a key.
            engine: "local", or "ray" for Ray Data with one model per worker.
            n_workers: workers of Ray; None for one a core.
        """
        from diglm.estimators import scoring

        if isinstance(getattr(self, "encoder_", None), ImageEncoder):
            raise ValueError("score_file() reads tables, but this model was fitted to images.")
        return scoring.score_file(
            self, path, out, keep=keep, engine=engine, n_workers=n_workers, verbose=self.verbose
        )

    def _check_numbers(self) -> None:
        """Errors for parameters that are out of range, before any work is done."""
        check_reject(self.reject, self.slack)
        for name in ("generative_weight", "entropy_weight", "vat_weight", "vat_radius"):
            _check_number(name, getattr(self, name), low=0.0)
        if self.volume_weight is not None:
            _check_number("volume_weight", self.volume_weight, low=0.0, open_low=True)
        if self.validation_fraction != "auto":
            _check_number("validation_fraction", self.validation_fraction, low=0.0, high=0.9)

    # ------------------------------------------------------------------ densities and refusal

    def score_samples(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Exact log p(x) of each row, natural log, in the units of the columns given.

        Whole numbers, rounded numbers and categories are cells: their part is a log mass per
        unit, estimated from 8 fixed places in the cell. A category that training never saw, or a
        value missing where none was, costs 1e6 nats: finite, and always refused.
        """
        return self._log_px(self._encode(X))

    @property
    def threshold_(self) -> float:
        """Rows with log p(x) below this are refused."""
        return self.reject_rule_.threshold

    def rejects(self, X: Any) -> np.ndarray:
        """Whether each row is refused: log p(x) < `threshold_`."""
        return self.reject_rule_.rejects(self.score_samples(X))

    def p_value(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Conformal p-value of each row: the share of held-out rows at most as probable."""
        return self.reject_rule_.p_value(self.score_samples(X))

    def assess(self, X: Any) -> Any:
        """One pass, one table: prediction, probability or sd, log_px, p_value, rejected.

        The table is of the library of `X` (pandas or polars); for arrays it is a pandas frame
        where pandas is installed, else a NumPy record array.
        """
        encoded = self._encode(X)
        seen = self._evaluate(engine.look, encoded)
        log_px = self._in_user_units(seen.log_px, encoded)
        columns = self._answers(seen.response) | {
            "log_px": log_px,
            "p_value": self.reject_rule_.p_value(log_px),
            "rejected": self.reject_rule_.rejects(log_px),
        }
        return table_like(X, columns)

    # ------------------------------------------------------------------ features and samples

    def transform(self, X: Any) -> Float[np.ndarray, "rows dim"]:
        """Features z = f(x)."""
        return self._features(self._encode(X))

    def inverse_transform(self, Z: Any) -> Any:
        """Rows with features `Z`, in the container and units of the training table."""
        check_is_fitted(self, "model_")
        Z = np.asarray(Z, float)
        if Z.ndim != 2 or Z.shape[1] != self.encoder_.dim:
            raise ValueError(
                f"Expected features of shape (rows, {self.encoder_.dim}); got {Z.shape}. "
                "Use the output of transform()."
            )
        if not np.all(np.isfinite(Z)):
            raise ValueError("Features must be finite numbers; found NaN or infinity.")
        return self.encoder_.decode(
            engine.evaluate(engine.invert, self.model_, Z, self._offsets).astype(float)
        )

    def sample(
        self, n: int = 1, y: Any = None, random_state: Any = None, *, temperature: float = 1.0
    ) -> Any:
        """`n` rows like the training rows; with `y` (one value, or n of them) exactly given it.

        Below 1, `temperature` makes rows more typical and less varied: it multiplies the standard
        deviations of the features' density that they are drawn from.
        """
        check_is_fitted(self, "model_")
        _check_number("temperature", temperature, low=0.0, open_low=True)
        key, base = self._key(random_state), self.model_.flow.base.cooled(float(temperature))
        if y is None:
            return self.inverse_transform(base.sample(key, _whole("n", n)))
        wanted = np.asarray(y).ravel()
        if wanted.size not in (1, n):
            raise ValueError(f"y must be one value or n = {n} values; got {wanted.size}.")
        model = eqx.tree_at(lambda model: model.flow.base, self.model_, base)
        return self.inverse_transform(self._features_given(np.resize(wanted, n), key, model))

    def sample_joint(self, n: int = 1, random_state: Any = None) -> tuple[Any, np.ndarray]:
        """`n` rows and targets drawn from the joint p(x, y)."""
        check_is_fitted(self, "model_")
        key_z, key_y = jax.random.split(self._key(random_state))
        zs = self.model_.flow.base.sample(key_z, _whole("n", n))
        keys = jax.random.split(key_y, n)
        drawn = jax.vmap(lambda z, key: self.model_.head(z).sample(key))(zs, keys)
        return self.inverse_transform(zs), self._targets(np.asarray(drawn))

    def interpolate(self, a: Any, b: Any, steps: int = 8) -> Any:
        """`steps` rows from row `a` to row `b`, along a great circle of feature space.

        Features of many dimensions lie on a shell around zero. A straight line between two of
        them would cut through its empty middle, so the direction turns at an even pace while the
        length goes from one to the other.
        """
        first, second = (
            self.transform(_one_row(row, name))[0] for row, name in ((a, "a"), (b, "b"))
        )
        return self.inverse_transform(great_circle(first, second, _whole("steps", steps)))

    def _as_counterfactual(self, before: np.ndarray, zs: np.ndarray) -> Counterfactual:
        """The rows at features `zs`, evaluated afresh as what they became after rounding."""
        x = self.inverse_transform(zs)
        encoded = self._encode(x)
        seen = self._evaluate(engine.look, encoded)
        log_px = self._in_user_units(seen.log_px, encoded)
        return Counterfactual(
            x=x,
            z=seen.z,
            log_px=log_px,
            rejected=self.reject_rule_.rejects(log_px),
            prediction=self._answers(seen.response)["prediction"],
            distance=np.linalg.norm(seen.z - before, axis=1),
        )

    # ------------------------------------------------------------------ files

    def save(self, path: Any) -> None:
        """Write the model to `path` (safetensors with a JSON header), replacing it atomically."""
        check_is_fitted(self, "model_")
        own = {
            name: value
            for name, value in vars(self).items()
            if name.endswith("_") and name not in ("encoder_", "reject_rule_")
        }
        content = {
            "estimator": type(self).__name__,
            "version": __about__.__version__,
            "parameters": self.get_params(deep=False),
            "encoder": self.encoder_.to_dict(),
            "reject_rule": dataclasses.asdict(self.reject_rule_),
            "attributes": own,
        }
        persistence.write(path, content)

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> "AbstractHybridEstimator":
        estimator = cls(**content["parameters"])
        is_table = "shape" not in content["encoder"]
        kind = TableEncoder if is_table else ImageEncoder
        estimator.encoder_ = kind.from_dict(content["encoder"])
        estimator.reject_rule_ = RejectRule(**content["reject_rule"])
        for name, value in content["attributes"].items():
            if not (isinstance(name, str) and name.endswith("_") and not name.startswith("_")):
                raise ValueError(f"it sets an attribute {name!r} that no model has")
            setattr(estimator, name, value)
        model, encoder = estimator.model_, estimator.encoder_
        if not isinstance(model, Hybrid):
            raise ValueError("it holds no hybrid model")
        # Shapes must fit together before the first row is asked about.
        shape = (encoder.dim,) if isinstance(encoder, TableEncoder) else encoder.shape
        jax.eval_shape(lambda x: model(x), jax.ShapeDtypeStruct(shape, jnp.result_type(float)))
        return estimator

    # ------------------------------------------------------------------ shared steps

    def _validate(self, X: Any, *, reset: bool) -> Any:
        """scikit-learn's checks of the container; what the cells mean is the encoder's business."""
        fitted_to_images = not reset and isinstance(getattr(self, "encoder_", None), ImageEncoder)
        if fitted_to_images or (reset and is_image_array(X)):
            X = as_images(X)
            if reset:
                self.n_features_in_ = int(np.prod(X.shape[1:]))
                vars(self).pop("feature_names_in_", None)
            return X
        if is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        return validate_data(
            self, X, dtype=None, ensure_all_finite="allow-nan", reset=reset, accept_sparse=False
        )

    def _encode(self, X: Any) -> Encoded:
        check_is_fitted(self, "model_")
        encoded = self.encoder_.encode(self._validate(X, reset=False), owner=type(self).__name__)
        return self._filled(self.encoder_, encoded)

    @staticmethod
    def _filled(encoder: TableEncoder | ImageEncoder, encoded: Encoded) -> Encoded:
        """Cells missing where training had none stand at the middle; `unseen` counts them."""
        if isinstance(encoder, ImageEncoder):
            return encoded
        strange = np.isnan(encoded.values) & ~encoder.can_be_missing
        return encoded._replace(values=np.where(strange, 0.0, encoded.values))

    def _features(self, encoded: Encoded) -> np.ndarray:
        return self._evaluate(engine.respond, encoded).z

    def _responses(self, encoded: Encoded) -> Any:
        return self._evaluate(engine.respond, encoded).response

    def _log_px(self, encoded: Encoded) -> np.ndarray:
        return self._in_user_units(self._evaluate(engine.density, encoded).log_px, encoded)

    def _evaluate(self, part: Any, encoded: Encoded) -> Any:
        """The part of a look that is asked for, as NumPy arrays stacked along the rows.

        Where one pass gives all, that one program gives any part.
        """
        function = engine.look if self.model_.completion is None else part
        return engine.evaluate(function, self.model_, encoded.values, self._offsets)

    @staticmethod
    def _in_user_units(log_px: np.ndarray, encoded: Encoded) -> np.ndarray:
        return log_px.astype(float) + encoded.log_scale + UNSEEN_LOG_MASS * encoded.unseen

    @property
    def _head(self) -> Any:
        return head_of(self.model_)

    @property
    def _offsets(self) -> np.ndarray:
        if isinstance(self.encoder_, ImageEncoder):
            return fixed_offsets(self.encoder_.shape, IMAGE_OFFSETS)
        return fixed_offsets(self.encoder_.dim, SCORING_OFFSETS)

    def _key(self, random_state: Any) -> Any:
        return jax.random.key(int(check_random_state(random_state).randint(2**31 - 1)))

    def _weights(self, X: Any, sample_weight: Any) -> np.ndarray:
        """Weights with mean one over the rows that have any."""
        weights = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
        return weights / np.mean(weights[weights > 0])

    @abstractmethod
    def _learn_target(
        self, y: np.ndarray, weights: np.ndarray | None = None, *, nulls: bool = False
    ) -> AbstractTarget:
        """The meaning of the target column; with `nulls` a missing target is a missing label."""

    @abstractmethod
    def _remember(self, target: Any, y: np.ndarray, weights: np.ndarray) -> None:
        """Keep what was learned of the target, after a fit."""

    @abstractmethod
    def _answers(self, response: Any) -> dict[str, np.ndarray]:
        """Columns of `assess` that depend on the kind of target; "prediction" comes first."""

    @abstractmethod
    def _targets(self, drawn: np.ndarray) -> np.ndarray:
        """Targets in the user's terms from draws of the head."""

    @abstractmethod
    def _features_given(self, wanted: np.ndarray, key: Any, model: Hybrid) -> np.ndarray:
        """One draw of the model's z given each wanted target, in the user's terms."""


def _check_number(
    name: str, value: Any, *, low: float, high: float = math.inf, open_low: bool = False
) -> None:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = cast(float, value)  # the stubs of numbers.Real have no order with float
    if not (
        is_number
        and math.isfinite(value)
        and (number > low or (number == low and not open_low))
        and number <= high
    ):
        bounds = f"{'>' if open_low else '>='} {low:g}" + (
            "" if high == math.inf else f" and <= {high:g}"
        )
        raise ValueError(f"{name} must be a finite number {bounds}; got {value!r}.")


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
    return int(value)


def _one_row(row: Any, name: str) -> Any:
    """A table of one row from a vector or from a table of one row."""
    if is_frame(row):
        table = row
    else:
        table = np.asarray(row)
        table = table[None] if table.ndim in (1, 3) else table  # a vector, or an image
    if len(table) != 1:
        raise ValueError(f"interpolate() takes one row for {name}; got {len(table)}.")
    return table
