"""Rules that look at strangeness alone: conformal, the paper's, a share of rows, never."""

import math
import warnings
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from diglm.parameters import Constraints, OneOf, Real, Whole
from diglm.refusal.rules.base import (
    AbstractRule,
    Calibration,
    SmallTableWarning,
    over_all,
    ranks_of,
)
from diglm.refusal.rules.kinds import KINDS
from diglm.refusal.threshold import Ranks, Threshold, faded

RATE = Real(0.0, 1.0, open_low=True, open_high=True)
ROUNDING = 1e-12
FEWEST_FOR_TAIL = 8  # held-out rows; fewer say nothing of where strangeness fades
FEWEST_TO_FOLD = 20


class Fallback(NamedTuple):
    """What decides where no threshold carries a promise.

    Attributes:
        by_tail: whether the limit is where strangeness fades, if enough rows tell.
        by_share: whether it is where the share of all rows that may be refused begins.
    """

    by_tail: bool
    by_share: bool


FALLBACKS = {
    "tail": Fallback(by_tail=True, by_share=False),
    "minimum": Fallback(by_tail=False, by_share=False),
    "quantile": Fallback(by_tail=True, by_share=True),
}


@dataclass
class Conformal(AbstractRule):
    r"""At most a share `rate` of familiar rows is refused.

    The limit is the $\lfloor \alpha(n+1) \rfloor$-th largest strangeness of n rows that nothing
    else has seen, so that a new row of the same kind is refused with probability at most
    $\alpha$. Where fewer than $1/\alpha - 1$ rows are held out, all rows of a table set the limit,
    each by how strange it is to a model that it was left out of: cross-conformal. With fewer than
    $1/\alpha - 1$ rows in all no threshold carries the promise; then a warning says so.

    Args:
        rate: $\alpha$.
        by: None, or "class" or "group" for a limit for rows of each predicted class, or of each
            group, so that the promise holds among each of them. Those of which too few rows are
            held out have the limit of all.
        folds: how many models leave rows out; each costs a fit of the density. 0 for none.
        few: what decides where no threshold carries the promise: "tail", where strangeness would
            reach with probability `rate` if it faded exponentially; "minimum", the paper's rule
            for all rows; "quantile", the threshold beyond which a share `rate` of all rows lies.
    """

    rate: float = 0.01
    by: str | None = None
    folds: int = 5
    few: str = "tail"

    constraints: ClassVar[Constraints] = {
        "rate": [RATE],
        "by": [OneOf(None, *KINDS)],
        "folds": [OneOf(0), Whole(2)],
        "few": [OneOf(*FALLBACKS)],
    }

    def fit(self, seen: Calibration) -> Threshold:
        n = len(seen.held_out)
        if self.enough(n):
            ranks = Ranks.of(seen.held_out, seen.unseen)
            rank = math.floor(self.rate * (n + 1) + ROUNDING)
            return Threshold(*ranks.limits(rank), "conformal", ranks)
        every = np.sort(np.concatenate([seen.held_out, seen.training]))[::-1]
        fallback = FALLBACKS[self.few]
        place = math.floor(self.rate * (len(every) + 1)) if fallback.by_share else 0
        tail = fallback.by_tail and place == 0 and n >= FEWEST_FOR_TAIL
        if tail:
            how = "where strangeness would reach at that rate if it faded exponentially"
        elif place:
            how = f"that beyond which {place} of all rows lie"
        else:
            how = "the paper's: no row is refused that is less strange than the strangest of fit"
        warnings.warn(
            f"A rate of {self.rate:g} cannot be promised from {n} held-out rows, which takes "
            f"{math.ceil(1 / self.rate) - 1}. The threshold is {how}. For the promise give more "
            f"rows, a reject of {math.ceil(1e3 / (n + 1)) / 1e3:g} or more, or a larger "
            "validation_fraction.",
            SmallTableWarning,
            stacklevel=2,
        )
        if tail:
            limit, ranks = faded(seen.held_out, self.rate), Ranks.of(seen.held_out, seen.unseen)
            alone = limit if len(ranks.alone) else -math.inf  # what is new to all is refused
            return Threshold(limit, alone, "tail", ranks)
        rule = "quantile" if place else "minimum"
        return over_all(every[min(place, len(every) - 1)], rule, seen)

    def enough(self, n_held_out: int) -> bool:
        return self.rate * (n_held_out + 1) + ROUNDING >= 1

    def needs_training(self, n_held_out: int) -> bool:
        return not self.enough(n_held_out)

    def n_folds(self, n_held_out: int, n_rows: int) -> int:
        return self.folds if n_rows >= FEWEST_TO_FOLD and not self.enough(n_held_out) else 0

    def of_detector(self) -> "Conformal":
        return replace(self, few="quantile")


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
