"""The head that suits the targets: few candidates by what y looks like, one by held-out rows."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from diglm.heads.choices import GLM, AbstractHeadChoice
from diglm.heads.families.counts import NegativeBinomialFamily, PoissonFamily
from diglm.heads.families.positive import GammaFamily
from diglm.heads.families.zeros import HurdleFamily, ZeroInflatedFamily
from diglm.heads.glm import GLMHead
from diglm.parameters import Constraints, Like

FEWEST_TARGETS = 100  # fewer tell little of their kind
LARGEST_COUNT = 1_000  # above, steps of one are as good as none
MANY_ZEROS = 0.1
SKEWED = 1.0


@dataclass
class Auto(AbstractHeadChoice):
    """The `usual` head, unless the targets are of a kind for which another does better.

    - Whole numbers from zero to a thousand: also Poisson and negative binomial; if a tenth or
      more of them are zero, also zero-inflated.
    - Other numbers from zero on of which a tenth or more are zero: also the hurdle.
    - Positive and skewed numbers: also Gamma.

    Others are not compared at all. `better` says which of the candidates, fitted exactly to the
    features of the untrained flow, is taken.

    Args:
        usual: what stays unless another is better.
    """

    usual: AbstractHeadChoice = field(default_factory=GLM)

    constraints: ClassVar[Constraints] = {
        "usual": [Like((AbstractHeadChoice,), "a head of diglm.heads")]
    }

    def check_support(self, y: Float[np.ndarray, " rows"]) -> None:
        self.usual.check_support(y)

    def unit(self, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        return self.usual.unit(y)

    def for_numbers(
        self, dim: int, *, n_targets: int, scale: float | np.ndarray, n_groups: int
    ) -> GLMHead:
        return self.usual.for_numbers(  # type: ignore[return-value]
            dim, n_targets=n_targets, scale=scale, n_groups=n_groups
        )

    def candidates(self, y: np.ndarray) -> tuple[AbstractHeadChoice, ...]:
        if y.ndim != 1 or len(y) < FEWEST_TARGETS or np.min(y) < 0 or len(np.unique(y)) < 3:
            return (self.usual,)
        zeros = np.mean(y == 0)
        if np.all(y == np.round(y)) and np.max(y) <= LARGEST_COUNT:
            families = [PoissonFamily(), NegativeBinomialFamily()]
            families += [ZeroInflatedFamily()] if zeros >= MANY_ZEROS else []
        elif zeros >= MANY_ZEROS:
            families = [HurdleFamily()]
        elif zeros == 0 and skewness(y) > SKEWED:
            families = [GammaFamily()]
        else:
            families = []
        return (self.usual, *(GLM(family) for family in families))


def skewness(y: Float[np.ndarray, " rows"]) -> float:
    """The third moment about the mean, in standard deviations."""
    apart = y - np.mean(y)
    return float(np.mean(apart**3) / max(np.mean(apart**2) ** 1.5, 1e-300))


def resolution(y: Float[np.ndarray, " rows"]) -> float:
    """How finely targets are told apart: one for whole numbers, else the median gap between them.

    A density and a mass are not comparable, nor are a density and a hurdle's mixture of both. The
    probability of the cell of this width about y is: see `AbstractResponse.log_cell`.
    """
    distinct = np.unique(y)
    if len(distinct) < 2 or np.all(distinct == np.round(distinct)):
        return 1.0
    return float(np.median(np.diff(distinct)))


def better(
    log_cells: Float[np.ndarray, "candidates rows"],
    errors: Float[np.ndarray, "candidates rows"],
    weights: Float[np.ndarray, " rows"],
) -> int:
    """Which candidate to take; the first unless another is better by more than chance.

    The log-probability of the rows' cells must be higher than the first's by more than the
    standard error of the difference, and the squared error of the mean must not be higher by more
    than its own: a good likelihood is no excuse for a bad mean. Of several the most likely.
    """
    best, gain = 0, 0.0
    for i in range(1, len(log_cells)):
        mean, error = _difference(log_cells[i] - log_cells[0], weights)
        worse, chance = _difference(errors[i] - errors[0], weights)
        if mean > max(gain, error) and not worse > chance:
            best, gain = i, mean
    return best


def _difference(
    values: Float[np.ndarray, " rows"], weights: Float[np.ndarray, " rows"]
) -> tuple[float, float]:
    """A weighted mean and its standard error."""
    share = weights / np.sum(weights)
    mean = float(share @ values)
    effective = 1 / float(share @ share)
    return mean, float(np.sqrt(share @ (values - mean) ** 2 / max(effective - 1, 1.0)))
