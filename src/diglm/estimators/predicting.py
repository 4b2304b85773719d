"""What a classifier and a regressor share beside a density: targets, groups, counterfactuals."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from jaxtyping import Float
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from diglm.data.encoder import Container, Encoded, Rows
from diglm.estimators.common import (
    Head,
    Seed,
    checked_column,
    checked_rows,
    checked_weights,
    seed_of,
)
from diglm.estimators.watching import AbstractWatchingEstimator
from diglm.fitting import MemorySource
from diglm.heads import AbstractResponse, MixedHead
from diglm.predictor import Counterfactual, Groups, counterfactual
from diglm.predictor.actions import Bound
from diglm.targets.base import Column

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
else:
    ArrayLike = object


def can_be_asked(estimator: "AbstractPredictingEstimator") -> bool:
    """Whether the fitted head can be asked for a target."""
    check_is_fitted(estimator, "predictor_")
    if not estimator.predictor_.model.head.inverts_mean:
        raise AttributeError(
            f"counterfactual() moves along the one predictor that decides the answer, which "
            f"head={estimator.head!r} does not have. Use 'student_t', 'heteroscedastic' or "
            "'gaussian', with one target."
        )
    return True


class AbstractPredictingEstimator(AbstractWatchingEstimator):
    """An estimator with a target."""

    head: Head

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Rows,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_unlabelled: Rows | None = None,
        groups: ArrayLike | None = None,
        checkpoint: str | os.PathLike | None = None,
    ) -> Self:
        """Fit to rows or images `X` and their targets `y`.

        Args:
            X: a table, or images (rows, height, width, channels) of bytes or floats in [0, 1].
            y: targets, one a row.
            sample_weight: what each row of `X` counts.
            X_unlabelled: further rows, whose targets nobody knows; each counts one.
            groups: the group of each row, for head="mixed".
            checkpoint: folder where a fit to images is kept; the same call again resumes it.
        """
        source = self._memory(X, y, sample_weight, groups, checkpoint)
        if X_unlabelled is not None:
            if groups is not None:
                raise ValueError(
                    "Rows of X_unlabelled are of no group; mark rows without a label in y instead."
                )
            source = source.with_unlabelled(checked_rows(X_unlabelled))
        self._fit(source, seed_of(self.random_state))
        return self

    def _memory(
        self,
        X: Rows,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        checkpoint: str | os.PathLike | None = None,
    ) -> MemorySource:
        """The rows of a fit, checked."""
        name = type(self).__name__
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        X = checked_rows(X)
        y = self._targets_of(y, X)
        weights, unit = checked_weights(sample_weight, X)
        if groups is not None:
            groups = checked_column(groups, X, "groups")
        folder = None if checkpoint is None else Path(checkpoint)
        return MemorySource(X, y, weights, unit, groups, folder)

    def _targets_of(self, y: ArrayLike, X: Rows | Encoded) -> Column:
        return checked_column(y, X)

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
    ) -> Self:
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
        self._fit_file(path, target, features, sample_weight, checkpoint, save_every, shuffle)
        return self

    # ------------------------------------------------------------------ answering

    def _response(self, X: Rows, groups: ArrayLike | None) -> AbstractResponse:
        encoded = self._encode(X)
        return self.predictor_.response(encoded, self._codes(groups, len(encoded)))

    def _codes(self, groups: ArrayLike | None, n: int) -> np.ndarray | None:
        return self.predictor_.codes(None if groups is None else column_or_1d(groups), n)

    def assess(self, X: Rows, *, groups: ArrayLike | None = None) -> Container:
        """One pass, one table: what is predicted and how sure it is, and how strange each row is.

        Columns are prediction, probability or sd, log_px, strangeness, p_value, rejected. The
        table is of the library of `X` (pandas or polars); for arrays it is a pandas frame where
        pandas is installed, else a NumPy record array. A group that training did not see, or None,
        stands for one drawn from the population.
        """
        return self._table(X, None if groups is None else column_or_1d(groups))

    def log_joint(
        self, X: Rows, y: ArrayLike, *, groups: ArrayLike | None = None
    ) -> Float[np.ndarray, " rows"]:
        """log p(x) + log p(y|x) of each row."""
        encoded = self._encode(X)
        targets = self._targets_of(y, encoded)
        known = self.predictor_.known(encoded, self._codes(groups, len(encoded)))
        return known.log_px + self.predictor_.target.log_prob(known.response, targets)

    def sample(
        self,
        n: int = 1,
        y: ArrayLike | None = None,
        random_state: Seed = None,
        *,
        temperature: float = 1.0,
    ) -> Container:
        """`n` rows like the training rows; with `y` (one value, or n of them) exactly given it.

        Below 1, `temperature` makes rows more typical and less varied: it multiplies the standard
        deviations of the features' density that they are drawn from. A draw with a number farther
        from those of fit than these lie apart is drawn again.
        """
        return self._fitted.sample(n, y, seed=seed_of(random_state), temperature=temperature)

    def sample_joint(self, n: int = 1, random_state: Seed = None) -> tuple[Container, Column]:
        """`n` rows and targets drawn from the joint p(x, y)."""
        return self._fitted.sample_joint(n, seed=seed_of(random_state))

    @available_if(can_be_asked)
    def counterfactual(
        self,
        X: Rows,
        target: ArrayLike,
        *,
        margin: float = 1.0,
        fixed: Sequence[str | int] = (),
        bounds: Mapping[str | int, Bound] | None = None,
        direction: Mapping[str | int, str] | None = None,
        n: int = 1,
        allow_strange: bool = False,
        random_state: Seed = 0,
    ) -> Counterfactual:
        """What would have to change for rows to be answered with `target`.

        Without constraints the nearest row in feature space, in closed form. Under constraints, or
        where that row is strange, the cheapest change that a search finds. `.valid` tells where
        there is one.

        Args:
            X: rows.
            target: a class or a mean, one for all or one a row.
            margin: log-odds by which a class shall lead, if that can be had.
            fixed: columns that cannot change; what is missing in a row never does.
            bounds: for each column of numbers a pair (lowest, highest), None for open; for a
                category a list of the levels that may be chosen. All stay in the data's range.
            direction: "up" or "down" for columns that can only rise or fall.
            n: answers for each row; each does without the column that the one before leans on most.
            allow_strange: whether rows that the model refuses will do.
            random_state: seed of the search.
        """
        predictor = self._fitted
        return counterfactual(
            predictor,
            predictor.cells(X, extra=self.extra),
            target,
            margin=margin,
            fixed=fixed,
            bounds=bounds,
            direction=direction,
            n=n,
            allow_strange=allow_strange,
            seed=seed_of(random_state),
        )

    # ------------------------------------------------------------------ groups

    @property
    def groups_(self) -> np.ndarray:
        """The groups whose effects were learned."""
        return self._effects("groups_")[1].names

    @property
    def random_covariance_(self) -> Float[np.ndarray, "q q"]:
        """Covariance of a group's effects: intercept, then slopes, in units of y and columns."""
        head, groups = self._effects("random_covariance_")
        turn = self._to_user_units(groups)
        return turn @ head.effects.covariance @ turn.T

    @property
    def random_effects_(self) -> Float[np.ndarray, "groups q"]:
        """Expected effects of each group of `groups_`, in units of y and columns."""
        head, groups = self._effects("random_effects_")
        return head.effects.effects @ self._to_user_units(groups).T

    @property
    def fixed_effects_(self) -> Float[np.ndarray, " p"]:
        """Weights on (f(x), 1) that all groups share, in units of y."""
        head, _ = self._effects("fixed_effects_")
        location, scale = self.predictor_.target.unit
        fixed = scale * head.effects.fixed
        fixed[-1] += location
        return fixed

    @property
    def residual_variance_(self) -> float:
        """Variance of y within a group; one for classes and counts, whose mean decides it."""
        head, _ = self._effects("residual_variance_")
        return float(self.predictor_.target.unit[1] ** 2 * head.effects.noise)

    def _effects(self, asked: str) -> tuple[MixedHead, Groups]:
        fitted = vars(self).get("predictor_")
        if fitted is None or fitted.groups is None:
            raise AttributeError(
                f"{asked} belongs to a model fitted with head='mixed' and groups; this one is not."
            )
        return fitted.model.head, fitted.groups

    def _to_user_units(self, groups: Groups) -> Float[np.ndarray, "q q"]:
        """From effects on encoded columns and targets to those on the user's."""
        location, scale = self.predictor_.encoder.slope_units(list(groups.places))
        turn = np.eye(1 + len(groups.places))
        turn[0, 1:] = -location / scale
        turn[1:, 1:] = np.diag(1 / scale)
        return self.predictor_.target.unit[1] * turn
