"""What an exact posterior is known by: sums over rows, and marks of which rows they are."""

from typing import NamedTuple

import numpy as np

from diglm.heads.bayesian.regression import Statistics
from diglm.predictor.seen import Seen


class Memory(NamedTuple):
    """Sums over the rows that a posterior was learned from.

    Attributes:
        sums: float64, so that learning and unlearning leave rounding alone behind.
        seen: marks of the rows, by which those that were never learned are refused.
        weight_unit: the user's weight that counts as one.
    """

    sums: Statistics
    seen: Seen
    weight_unit: float = 1.0

    @classmethod
    def of(cls, sums: Statistics, marks: np.ndarray, weight_unit: float) -> "Memory":
        """From sums and the marks of their rows."""
        return cls(Statistics(*map(np.asarray, sums)), Seen.of(marks), weight_unit)
