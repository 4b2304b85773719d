r"""Answers that hold what they promise: how well held-out targets agreed with their predictions.

Each held-out row that is answered, and whose label no part of the answer has learned from, has an
agreement: for classes the probability of its own, for numbers $2\min(F(y), 1 - F(y^-))$, the share
of the predictive distribution that lies as far out on either side. Among n such rows and a new one
the new one's agreement is below the $\lfloor (1 - \text{level})(n + 1) \rfloor$-th smallest with
probability at most 1 - level: the classes and the numbers that agree as well hold the truth with
probability level or more, on average over tables, whatever the model. Only rows that are answered
are counted, so it is among these that it holds.

References: Vovk, Gammerman and Shafer (2005), Algorithmic Learning in a Random World; Sadinle et
al. (2019), https://arxiv.org/abs/1609.00451; Chernozhukov et al. (2021),
https://arxiv.org/abs/1909.07889
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diglm.parameters import Real
from diglm.targets import AbstractTarget
from diglm.targets.base import Column

ROUNDING = 1e-9
OPEN_UNIT = Real(0.0, 1.0, open_low=True, open_high=True)


@dataclass(frozen=True)
class Agreement:
    """How well the targets of held-out rows agreed with their predictions.

    Attributes:
        values: of each answered row, one for each target.
        codes: numbers of the rows' classes; zeros where targets are numbers.
    """

    values: Float[np.ndarray, "rows targets"]
    codes: np.ndarray

    @classmethod
    def of(
        cls, target: AbstractTarget, response: object, y: Column, answered: np.ndarray
    ) -> "Agreement":
        """Of rows with these answers and targets, those that are answered and have a label."""
        values = target.agreement(response, y)  # type: ignore[arg-type]
        labels = target.read(y)
        kept = answered & labels.labelled & ~np.isnan(values).any(axis=1)
        codes = labels.ys[kept] if labels.ys.dtype.kind in "iu" else np.zeros(int(kept.sum()), int)
        return cls(values[kept], codes)

    def least(self, level: float, of_class: int | None = None) -> float:
        """The agreement that a new row reaches with probability `level`; 0 if none is sure."""
        values = self.values[:, 0] if of_class is None else self.values[self.codes == of_class, 0]
        place = _place(level, len(values))
        return float(np.sort(values)[place - 1]) if place else 0.0

    def tails(self, level: float) -> Float[np.ndarray, " targets"]:
        r"""The agreement of numbers that a new row reaches with probability `level`, by target.

        Of fewer than 1 / (1 - level) - 1 rows none is sure short of zero. Then minus its logarithm
        is taken to be exponential, as it is if predictions are true, with a mean m that n rows
        tell: a new one is above $n m\,((1 - \text{level})^{-1/n} - 1)$ with probability 1 - level.
        """
        n = len(self.values)
        place = _place(level, n)
        if place:
            return np.sort(self.values, axis=0)[place - 1]
        if n == 0:
            return np.full(self.values.shape[1], 1 - level)
        mean = -np.mean(np.log(np.maximum(self.values, np.finfo(float).tiny)), axis=0)
        return np.exp(-n * mean * ((1 - level) ** (-1 / n) - 1))


def checked_level(level: float | int) -> float:
    """A probability, or an error."""
    if not OPEN_UNIT.allows(level):
        percent = " Write 95 % as 0.95." if Real(1.0).allows(level) else ""
        raise ValueError(f"level must be a number between 0 and 1; got {level!r}.{percent}")
    return float(level)


def _place(level: float, n: int) -> int:
    return math.floor((1 - level) * (n + 1) + ROUNDING)
