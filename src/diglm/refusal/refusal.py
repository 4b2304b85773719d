"""Refusal = score x rule: what a fitted model judges strange rows by."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from diglm.refusal.rules import AbstractRule, Calibration
from diglm.refusal.scores import AbstractScore, Known
from diglm.refusal.threshold import Threshold


@dataclass(frozen=True)
class Refusal:
    """A fitted score, and the threshold that a rule has set on it."""

    score: AbstractScore
    threshold: Threshold

    def strangeness(self, known: Known) -> Float[np.ndarray, " rows"]:
        """How strange rows are; the higher, the stranger."""
        return self.score(known)

    def rejects(self, known: Known) -> Bool[np.ndarray, " rows"]:
        """Whether each row is refused."""
        return self.threshold.rejects(self.score(known), known.unseen)

    def p_value(self, known: Known) -> Float[np.ndarray, " rows"]:
        """How rarely familiar rows are as strange."""
        return self.threshold.ranks.p_value(self.score(known), known.unseen)


def fit_refusal(
    score: AbstractScore, rule: AbstractRule, held_out: Known, training: Known | None
) -> Refusal:
    """The score and the rule fitted to familiar rows."""
    fitted = score.fit(held_out)
    strangeness = fitted(training) if training is not None else np.zeros(0)
    seen = Calibration(fitted(held_out), held_out.unseen, strangeness)
    return Refusal(fitted, rule.fit(seen))
