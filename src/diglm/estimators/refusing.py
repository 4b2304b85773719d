"""What all estimators refuse by: strangeness, p-values, a threshold, and how it is set anew."""

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from diglm.data.encoder import Encoded, Rows
from diglm.predictor import Predictor
from diglm.refusal import AbstractRule, Known, recalibrated


class AbstractRefusing(ABC):
    """The questions about rows that may be strange."""

    predictor_: Predictor

    @property
    @abstractmethod
    def _fitted(self) -> Predictor:
        """The predictor, or scikit-learn's error where there is none yet."""

    @abstractmethod
    def _encode(self, X: Rows) -> Encoded:
        """Rows as the model takes them."""

    @abstractmethod
    def _known(self, X: Rows, groups: np.ndarray | None = None) -> Known:
        """Everything about rows, from one pass."""

    @abstractmethod
    def _rule(self) -> AbstractRule:
        """The rule that the parameters ask for."""

    @property
    def threshold_(self) -> float:
        """Rows are refused whose minus strangeness, for score="density" log p(x), lies below."""
        return -self.predictor_.refusal.threshold.limit

    def strangeness(
        self, X: Rows, *, groups: np.ndarray | None = None
    ) -> Float[np.ndarray, " rows"]:
        """What refusals are judged by; the higher, the stranger."""
        return self._fitted.refusal.strangeness(self._known(X, groups))

    def rejects(self, X: Rows, *, groups: np.ndarray | None = None) -> Bool[np.ndarray, " rows"]:
        """Whether each row is refused: too strange, or alone in showing something never seen."""
        return self._fitted.refusal.rejects(self._known(X, groups))

    def p_value(self, X: Rows, *, groups: np.ndarray | None = None) -> Float[np.ndarray, " rows"]:
        """Conformal p-value of each row: the share of held-out rows at least as strange."""
        return self._fitted.refusal.p_value(self._known(X, groups))

    def calibrate(self, X: Rows, *, strange: Rows | None = None) -> "AbstractRefusing":
        """Set the threshold anew by familiar rows that fit has not seen; the model stays as it is.

        With `strange` rows, every second familiar row and these weigh the parts of the score so
        that they are told apart; the other familiar rows set the threshold. What is promised of
        familiar rows is thus promised as before; of rows as strange as the examples, more will be
        refused.

        Args:
            X: familiar rows, new to the model.
            strange: rows that should be refused, a handful or many.
        """
        predictor = self._fitted
        told = None if strange is None else predictor.known(self._encode(strange))
        familiar = predictor.known(self._encode(X))
        refusal = recalibrated(predictor.refusal, self._rule(), familiar, told)
        self.predictor_ = replace(predictor, refusal=refusal)
        return self
