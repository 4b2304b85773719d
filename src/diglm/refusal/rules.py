"""Rules: from the strangeness of familiar rows to a threshold."""

import math
import numbers
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from diglm.parameters import Constraints, OneOf, Parameters, Real
from diglm.refusal.threshold import Ranks, Threshold
from diglm.registry import Registry

RATE = Real(0.0, 1.0, open_low=True, open_high=True)


class SmallTableWarning(UserWarning):
    """Too few rows were held out for what was asked of them."""


class Calibration(NamedTuple):
    """Familiar rows; those of training are empty where a rule does not ask for them.

    Attributes:
        held_out: strangeness of the rows that were held out.
        unseen: their facts that no training row prepared for.
        training: strangeness of the rows of training.
    """

    held_out: Float[np.ndarray, " n"]
    unseen: Bool[np.ndarray, "n facts"]
    training: Float[np.ndarray, " rows"]


class AbstractRule(Parameters, ABC):
    """How strange is too strange. A dataclass of its parameters."""

    @abstractmethod
    def fit(self, seen: Calibration) -> Threshold:
        """The threshold that familiar rows set."""

    def needs_training(self, n_held_out: int) -> bool:
        """Whether the rule looks at rows of training, with so many held out."""
        return False

    def of_detector(self) -> "AbstractRule":
        """The rule as outlier detectors have it: they tell some rows apart even of few."""
        return self


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
        return _over_all(every[min(place, len(every) - 1)], rule, seen)

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
        return _over_all(strangest + self.slack, "minimum", seen)

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
        return _over_all(every[place], "contamination", seen)

    def needs_training(self, n_held_out: int) -> bool:
        return True


@dataclass
class Never(AbstractRule):
    """Nothing is refused; p-values are as ever."""

    def fit(self, seen: Calibration) -> Threshold:
        return Threshold(math.inf, math.inf, "never", _ranks(seen))

    def needs_training(self, n_held_out: int) -> bool:
        return n_held_out == 0


RULES: Registry[Callable[[], AbstractRule]] = Registry(
    "rule",
    {
        "conformal": Conformal,
        "minimum": Minimum,
        "contamination": Contamination,
        "never": Never,
    },
)


def rule_of(reject: object) -> AbstractRule:
    """The rule that `reject` stands for: a rate, a name, an object, or None for never."""
    if reject is None:
        return Never()
    if isinstance(reject, AbstractRule):
        rule = reject
    elif isinstance(reject, numbers.Real) and not isinstance(reject, bool):
        if not RATE.allows(reject):
            raise ValueError(
                "reject must be a rate between 0 and 1 (share of familiar rows that may be "
                f"refused), a rule or None (never refuse); got {reject!r}."
            )
        rule = Conformal(float(reject))
    elif isinstance(reject, str):
        rule = RULES[reject]()
    else:
        raise ValueError(
            "reject must be a rate between 0 and 1, the name of a rule "
            f"({', '.join(map(repr, RULES))}), a rule object, or None; got {reject!r}."
        )
    rule.check()
    return rule


def _ranks(seen: Calibration) -> Ranks:
    """Of the held-out rows, or of those of training where there are none."""
    if len(seen.held_out):
        return Ranks.of(seen.held_out, seen.unseen)
    return Ranks.of(seen.training, np.zeros((len(seen.training), seen.unseen.shape[1]), bool))


def _over_all(limit: float, rule: str, seen: Calibration) -> Threshold:
    """A limit that all rows of fit have set; a row that is alone is refused."""
    return Threshold(float(limit), -math.inf, rule, _ranks(seen))
