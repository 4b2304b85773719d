"""Rules that look at strangeness alone: conformal, the paper's, a share of rows, never."""

import math
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from diglm.parameters import Constraints, OneOf, Real
from diglm.refusal.rules.base import (
    AbstractRule,
    Calibration,
    SmallTableWarning,
    over_all,
    ranks_of,
)
from diglm.refusal.threshold import Ranks, Threshold

RATE = Real(0.0, 1.0, open_low=True, open_high=True)


@dataclass
class Conformal(AbstractRule):
    r"""At most a share `rate` of familiar rows is refused.

    The limit is the $\lfloor \alpha(n+1) \rfloor$-th largest strangeness of n held-out rows, so
    that a new row of the same kind is refused with probability at most $\alpha$. With fewer than
    $1/\alpha - 1$ held-out rows no threshold carries the promise; then a warning says so and all
    rows set it.

    Args:
        rate: $\alpha$.
        few: what all rows set then: "minimum", the paper's rule, or "quantile", the threshold
            beyond which a share `rate` of them lies.
    """

    rate: float = 0.01
    few: str = "minimum"

    constraints: ClassVar[Constraints] = {"rate": [RATE], "few": [OneOf("minimum", "quantile")]}

    def fit(self, seen: Calibration) -> Threshold:
        n = len(seen.held_out)
        rank = math.floor(self.rate * (n + 1) + 1e-12)
        if rank >= 1:
            ranks = Ranks.of(seen.held_out, seen.unseen)
            return Threshold(*ranks.limits(rank), "conformal", ranks)
        every = np.sort(np.concatenate([seen.held_out, seen.training]))[::-1]
        place = math.floor(self.rate * (len(every) + 1)) if self.few == "quantile" else 0
        warnings.warn(
            f"A rate of {self.rate:g} cannot be promised from {n} held-out rows, which takes "
            f"{math.ceil(1 / self.rate) - 1}. The threshold is "
            + (
                f"that beyond which {place} of all rows lie"
                if place
                else "the paper's: no row is refused that is less strange than the strangest of fit"
            )
            + ". For the promise raise reject or validation_fraction.",
            SmallTableWarning,
            stacklevel=2,
        )
        rule = "quantile" if place else "minimum"
        return over_all(every[min(place, len(every) - 1)], rule, seen)

    def needs_training(self, n_held_out: int) -> bool:
        return self.rate * (n_held_out + 1) < 1

    def of_detector(self) -> "Conformal":
        return Conformal(self.rate, few="quantile")


@dataclass
class Minimum(AbstractRule):
    r"""The paper's: refuse what is stranger than every row of fit, $\min_n \log p(x_n) - c$.

    Args:
        slack: c, how much stranger, in units of the score.
    """

    slack: float = 0.0

    constraints: ClassVar[Constraints] = {"slack": [Real()]}

    def fit(self, seen: Calibration) -> Threshold:
        strangest = np.max(np.concatenate([seen.held_out, seen.training]))
        return over_all(strangest + self.slack, "minimum", seen)

    def needs_training(self, n_held_out: int) -> bool:
        return True


@dataclass
class Contamination(AbstractRule):
    """A share of the rows of fit is refused, as outlier detectors have it.

    Args:
        share: of all rows of fit.
    """

    share: float = 0.1

    constraints: ClassVar[Constraints] = {"share": [Real(0.0, 0.5, open_low=True)]}

    def fit(self, seen: Calibration) -> Threshold:
        every = np.sort(np.concatenate([seen.held_out, seen.training]))[::-1]
        place = min(round(self.share * len(every)), len(every) - 1)
        return over_all(every[place], "contamination", seen)

    def needs_training(self, n_held_out: int) -> bool:
        return True


@dataclass
class Never(AbstractRule):
    """Nothing is refused; p-values are as ever."""

    def fit(self, seen: Calibration) -> Threshold:
        return Threshold(math.inf, math.inf, "never", ranks_of(seen))

    def needs_training(self, n_held_out: int) -> bool:
        return n_held_out == 0
