"""HybridDensity: the density of rows or images, without a target; strange ones told apart."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import OutlierMixin

from diglm.data.encoder import Container, Rows
from diglm.estimators.common import (
    NETWORK,
    Flow,
    Reject,
    Score,
    Seed,
    Size,
    Sizes,
    Verbose,
    checked_rows,
    checked_weights,
    method_and_parameter,
    seed_of,
)
from diglm.estimators.watching import AbstractWatchingEstimator
from diglm.fitting import MemorySource
from diglm.parameters import Constraints, OneOf, Real
from diglm.refusal import AbstractRule, Contamination, rule_of
from diglm.targets import NoTarget

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
else:
    ArrayLike = object


class HybridDensity(OutlierMixin, AbstractWatchingEstimator):
    r"""$\log p(x) = \log p_z(f(x)) + \log|\det f'(x)|$, by maximum likelihood.

    Fits tables (NumPy, pandas, polars) of continuous, whole-number, categorical and missing
    values, and images. As an outlier detector of scikit-learn's it says +1 for familiar rows and
    -1 for strange ones.

    Args:
        flow: as for `HybridClassifier`.
        n_blocks: couplings (or planar layers) in the flow; "auto" chooses.
        width: hidden units of each conditioner; "auto" chooses from rows and columns.
        depth: hidden layers of each conditioner; "auto" chooses.
        n_epochs: passes over the rows at most; "auto" chooses.
        max_time: seconds that `fit` may take, compiling included; None for as many as it needs.
            Training ends early and its rates fall in time; what fits depends on the machine.
        batch_size: rows a step; "auto" chooses.
        learning_rate: the highest rate of the schedule; "auto" chooses.
        validation_fraction: share of rows held out to stop and to set the threshold; "auto" holds
            out 200 rows, within a tenth and a fifth of all.
        patience: epochs without improvement before stopping; "auto" chooses.
        score: what strange rows are judged by: "auto" (see `diglm.refusal`), "density" (the
            paper\'s: log p(x)), another name, or a score of `diglm.refusal`.
        reject: rate of familiar rows that may be called strange (conformal), or another rule, as
            for `HybridClassifier`. With too few rows for the promise a share of all rows is.
        contamination: share of the rows of fit that are strange, as other outlier detectors have
            it; replaces `reject`. None for no such share.
        extra: "error", or "ignore" for frames with columns that fit did not see.
        absent: "error", or "draw" for frames without some columns of fit: answers are then averaged
            over draws of these given the others.
        random_state: seed of everything random.
        verbose: True, False, or "auto" for a bar where a person watches.
    """

    constraints: ClassVar[Constraints] = {
        **NETWORK,
        "contamination": [OneOf(None), Real(0.0, 0.5, open_low=True)],
    }

    def __init__(
        self,
        flow: Flow = "auto",
        *,
        n_blocks: Sizes = "auto",
        width: Sizes = "auto",
        depth: Size = "auto",
        n_epochs: Size = "auto",
        max_time: float | None = None,
        batch_size: Size = "auto",
        learning_rate: float | str = "auto",
        validation_fraction: float | str = "auto",
        patience: Size = "auto",
        score: Score = "auto",
        reject: Reject = 0.01,
        contamination: float | None = None,
        extra: str = "error",
        absent: str = "error",
        random_state: Seed = None,
        verbose: Verbose = "auto",
    ):
        self.flow = flow
        self.n_blocks = n_blocks
        self.width = width
        self.depth = depth
        self.n_epochs = n_epochs
        self.max_time = max_time
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.score = score
        self.reject = reject
        self.contamination = contamination
        self.extra = extra
        self.absent = absent
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Rows,
        y: None = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: str | os.PathLike | None = None,
    ) -> Self:
        """Fit to rows or images `X`.

        Args:
            X: a table, or images (rows, height, width, channels) of bytes or floats in [0, 1].
            y: not used; scikit-learn passes it.
            sample_weight: what each row counts.
            checkpoint: folder where a fit to images is kept; the same call again resumes it.
        """
        X = checked_rows(X)
        weights, unit = checked_weights(sample_weight, X)
        folder = None if checkpoint is None else Path(checkpoint)
        source = MemorySource(X, np.zeros(len(weights)), weights, unit, None, folder)
        self._fit(source, seed_of(self.random_state))
        return self

    def fit_file(
        self,
        path: str | os.PathLike,
        *,
        features: Sequence[str] | None = None,
        sample_weight: str | None = None,
        checkpoint: str | os.PathLike | None = None,
        save_every: int = 20_000,
        shuffle: bool = True,
    ) -> Self:
        """Fit to a Parquet, CSV or Arrow file, or a folder of them; see `HybridClassifier`."""
        self._fit_file(path, None, features, sample_weight, checkpoint, save_every, shuffle)
        return self

    def _learn_target(self, y: np.ndarray, weights: np.ndarray, *, nulls: bool = False) -> NoTarget:
        return NoTarget()

    def _rule(self) -> AbstractRule:
        if self.contamination is not None:
            return Contamination(float(self.contamination))
        rule = rule_of(self.reject)
        return rule if rule is self.reject else rule.of_detector()

    # ------------------------------------------------------------------ answering

    def assess(self, X: Rows) -> Container:
        """One pass, one table: log_px, strangeness, p_value, rejected."""
        return self._table(X, None)

    def predict(self, X: Rows) -> Int[np.ndarray, " rows"]:
        """+1 for familiar rows, -1 for strange ones."""
        return np.where(self.rejects(X), -1, 1)

    def decision_function(self, X: Rows) -> Float[np.ndarray, " rows"]:
        """How far rows are from being strange: negative for those that are.

        Minus strangeness less `offset_`. Where strangeness is -log p(x), as under `score="density"`
        and by default in one or two columns, that is `score_samples` less `offset_`.
        """
        known = self._known(X)
        room = self.predictor_.refusal.threshold.limit - self.predictor_.refusal.strangeness(known)
        # What is alone in showing something never seen is strange whatever its density.
        refused = self.predictor_.refusal.rejects(known)
        return np.where(refused, np.minimum(room, -np.finfo(float).tiny), room)

    @property
    def offset_(self) -> float:
        """`decision_function` is minus strangeness, less this."""
        return self.threshold_

    @method_and_parameter
    def score(self, X: Rows, y: None = None) -> float:
        """Mean log p(x)."""
        return float(np.mean(self.score_samples(X)))

    def sample(
        self, n: int = 1, random_state: Seed = None, *, temperature: float = 1.0
    ) -> Container:
        """`n` rows like those of fit; below 1, `temperature` makes them more typical."""
        return self._fitted.sample(n, None, seed=seed_of(random_state), temperature=temperature)
