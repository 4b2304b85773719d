"""What a regressor with an exact posterior can do besides predicting."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight

from diglm.data.encoder import Rows
from diglm.estimators.predicting import AbstractPredictingEstimator
from diglm.parameters import check_whole
from diglm.predictor import WeightPosterior, online

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
else:
    ArrayLike = object


def has_posterior(estimator: "AbstractOnlineEstimator") -> bool:
    """Whether the fitted head has an exact posterior; if not, the methods are not there."""
    fitted = vars(estimator).get("predictor_")
    if fitted is None or fitted.memory is None:
        state = "is not fitted" if fitted is None else f"has head={estimator.head!r}"
        raise AttributeError(
            "This needs the exact posterior of head='bayesian'; "
            f"{type(estimator).__name__} {state}."
        )
    return True


class AbstractOnlineEstimator(AbstractPredictingEstimator):
    """Learning and unlearning rows, and asking for the labels that would teach most."""

    @property
    def posterior_(self) -> WeightPosterior:
        """Posterior of the weights on (f(x), 1), in the units of y."""
        has_posterior(self)
        return online.weight_posterior(self.predictor_)

    @available_if(has_posterior)
    def log_evidence(self, X: Rows, y: ArrayLike) -> float:
        r"""$\log p(y_1, \ldots, y_N \mid x_1, \ldots, x_N)$, the weights integrated out.

        Natural log, in the units of y, under the fitted flow, noise and prior. Rows whose target
        is NaN are left out.
        """
        encoded = self._encode(X)
        return online.log_evidence(self.predictor_, encoded, self._targets_of(y, encoded))

    @available_if(has_posterior)
    def update(
        self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "AbstractOnlineEstimator":
        """Learn more rows: afterwards the posterior is that of a fit to all of them together.

        The flow, the noise and the prior stay. Order does not matter. NaN targets are passed over.
        """
        return self._change(X, y, sample_weight, 1)

    @available_if(has_posterior)
    def downdate(
        self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "AbstractOnlineEstimator":
        """Unlearn rows that were learned by `fit` or `update`, with the same targets and weights.

        Afterwards the posterior is that of a fit without them. Rows never learned are refused. The
        flow is not retrained, so it still carries what it had from them.
        """
        return self._change(X, y, sample_weight, -1)

    @available_if(has_posterior)
    def information_gain(self, X: Rows) -> Float[np.ndarray, " rows"]:
        r"""$\tfrac12 \log(1 + \phi^T A^{-1} \phi / s^2)$: nats that a row's label would teach."""
        return online.information_gain(self.predictor_, self._encode(X))

    @available_if(has_posterior)
    def most_informative(self, X: Rows, n: int = 1) -> Int[np.ndarray, " chosen"]:
        """Numbers of the `n` rows whose labels together teach most, best first.

        Chosen one after the other, each given that the labels of those before it will be known, so
        that no two ask the same. Rows that the model would refuse are never asked about; there may
        be fewer than `n` others.
        """
        return online.most_informative(self.predictor_, self._encode(X), check_whole("n", n))

    def _change(
        self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None, sign: int
    ) -> "AbstractOnlineEstimator":
        encoded = self._encode(X)
        weights = _check_sample_weight(
            sample_weight, encoded.values, dtype=float, ensure_non_negative=True
        )
        targets = self._targets_of(y, encoded)
        self.predictor_ = online.changed(self.predictor_, encoded, targets, weights, sign)
        return self
