"""What every rule offers: from the strangeness of familiar rows to a threshold."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from diglm.parameters import Parameters
from diglm.refusal.threshold import Ranks, Threshold


class SmallTableWarning(UserWarning):
    """Too few rows were held out for what was asked of them."""


class Calibration(NamedTuple):
    """Familiar rows; those of training are empty where a rule does not ask for them.

    Attributes:
        held_out: strangeness of the rows that were held out.
        unseen: their facts that no training row prepared for.
        training: strangeness of the rows of training.
        wrong: whether each held-out row is answered wrongly, NaN where its label is missing; None
            where no rule asks, or where answers are not right or wrong.
    """

    held_out: Float[np.ndarray, " n"]
    unseen: Bool[np.ndarray, "n facts"]
    training: Float[np.ndarray, " rows"]
    wrong: Float[np.ndarray, " n"] | None = None

    def of(self, some: Bool[np.ndarray, " n"]) -> "Calibration":
        """Some of the held-out rows, and those of training."""
        wrong = None if self.wrong is None else self.wrong[some]
        return Calibration(self.held_out[some], self.unseen[some], self.training, wrong)


class AbstractRule(Parameters, ABC):
    """How strange is too strange. A dataclass of its parameters.

    Attributes:
        needs_answers: whether the rule asks which held-out rows are answered wrongly.
        by: kinds of rows that have thresholds of their own, see `rules.kinds`; None for one.
    """

    needs_answers: ClassVar[bool] = False
    by: str | None = None

    @abstractmethod
    def fit(self, seen: Calibration) -> Threshold:
        """The threshold that familiar rows set."""

    def needs_training(self, n_held_out: int) -> bool:
        """Whether the rule looks at rows of training, with so many held out."""
        return False

    def enough(self, n_held_out: int) -> bool:
        """Whether so many rows carry what the rule promises."""
        return False

    def n_folds(self, n_held_out: int, n_rows: int) -> int:
        """In how many folds rows of a small table are left out in turn, with so many held out.

        None, 0, where those held out are enough, or where the rule promises nothing of new rows.
        """
        return 0

    @property
    def reads_answers(self) -> bool:
        """Whether the threshold depends on answers."""
        return self.needs_answers or self.by == "class"

    def of_detector(self) -> "AbstractRule":
        """The rule as outlier detectors have it: they tell some rows apart even of few."""
        return self


def ranks_of(seen: Calibration) -> Ranks:
    """Of the held-out rows, or of those of training where there are none."""
    if len(seen.held_out):
        return Ranks.of(seen.held_out, seen.unseen)
    return Ranks.of(seen.training, np.zeros((len(seen.training), seen.unseen.shape[1]), bool))


def over_all(limit: float, rule: str, seen: Calibration) -> Threshold:
    """A limit that all rows of fit have set; a row that is alone is refused."""
    return Threshold(float(limit), -math.inf, rule, ranks_of(seen))
