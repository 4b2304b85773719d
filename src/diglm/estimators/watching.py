"""What all estimators can be asked beyond an answer: why, how alike, has the world moved."""

import numpy as np

from diglm.data.encoder import Rows
from diglm.estimators.base import AbstractHybridEstimator
from diglm.estimators.common import Seed, seed_of
from diglm.predictor import Explanation, Monitor, explain
from diglm.predictor.kernels import KERNELS


class AbstractWatchingEstimator(AbstractHybridEstimator):
    """An estimator that explains rows, compares them and watches streams of them."""

    def explain(
        self, X: Rows, target: object = None, *, groups: np.ndarray | None = None
    ) -> Explanation:
        """What each column adds to a row's strangeness and to its prediction.

        Args:
            X: rows; each is evaluated some dozens of times for every column.
            target: the class that is asked about, one for all or one a row; None for the one that
                is predicted. With several targets, the position of one.
            groups: the rows' groups, for a model that was fitted with groups.
        """
        return explain(self._fitted, X, target, groups=groups, extra=self.extra)

    def kernel(self, X1: Rows, X2: Rows | None = None, *, kind: str = "implied") -> np.ndarray:
        r"""Likeness of rows as the model sees it, a row of the answer for each row of `X1`.

        Args:
            X1: rows.
            X2: other rows; None for the same.
            kind: "implied", $l^{-1} (f(x), 1)^\top (f(x'), 1)$ in squared units of y, of heads with
                an exact posterior: Gaussian process regression with it, prior mean
                `y_location_` and noise `posterior_.noise_variance` is this model, and with several
                targets there is a matrix for each. "fisher", $s(x)^\top I^{-1} s(x')$ of the scores
                of log p(x) by the parameters of the base. "product",
                $\int \sqrt{p(y|x)\, p(y|x')}\, dy$, for models with a target.
        """
        made = KERNELS[kind]
        first = self._encode(X1)
        return made(self._fitted, first, first if X2 is None else self._encode(X2))

    def monitor(
        self,
        reference: Rows,
        y: np.ndarray | None = None,
        *,
        groups: np.ndarray | None = None,
        level: float = 0.05,
        window: int = 1_000,
        random_state: Seed = 0,
    ) -> Monitor:
        """What watches a stream of rows for drift; see `Monitor.update`.

        Args:
            reference: usual rows, a thousand or so, that the model was not fitted to.
            y: their targets, if the relation is to be watched too.
            groups: their groups, for a model that was fitted with groups.
            level: probability of a false alarm, ever, while nothing moves.
            window: how many of the last rows are recent.
            random_state: seed of the numbers that break ties.
        """
        return Monitor.of(
            self._fitted,
            reference,
            y,
            groups=groups,
            level=level,
            window=window,
            extra=self.extra,
            seed=seed_of(random_state),
        )
