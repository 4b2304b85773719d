"""Refusal = score x rule: what a fitted model judges strange rows by."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from diglm.refusal.known import Known
from diglm.refusal.rules.base import AbstractRule, Calibration
from diglm.refusal.scores.base import AbstractScore, require
from diglm.refusal.threshold import Threshold

FEWEST_TO_SPARE = 400  # held-out rows, of which a score that learns may have every second
MOST_ASIDE = 4_000  # rows that tails are learned from


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

    def judge(
        self, known: Known
    ) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
        """Strangeness, p-value and whether it is refused, of each row."""
        strangeness = self.score(known)
        p_value = self.threshold.ranks.p_value(strangeness, known.unseen)
        return strangeness, p_value, self.threshold.rejects(strangeness, known.unseen)


def n_for_rule(score: AbstractScore, n_held_out: int) -> int:
    """How many of the rows that were held out a rule looks at."""
    spared = score.wants_training > 0 and n_held_out >= FEWEST_TO_SPARE
    return n_held_out // 2 if spared else n_held_out


def fit_refusal(
    score: AbstractScore,
    rule: AbstractRule,
    held_out: Known,
    training: Known | None,
    wrong: Float[np.ndarray, " n"] | None = None,
) -> Refusal:
    """The score and the rule fitted to familiar rows, no row of the rule's seen by the score.

    A score that learns has rows of training and, where many are held out, every second of those.
    The others are to it as new rows are, so that what a rule promises of them it promises of new
    rows: given what the score has learned, they are exchangeable.

    Args:
        score: as it was asked for.
        rule: as it was asked for.
        held_out: rows that the weights have not seen.
        training: rows of training, all of them where the rule looks at them; None where neither
            score nor rule does.
        wrong: whether each held-out row is answered wrongly, where the rule asks.
    """
    known = held_out if training is None else training
    require(score, known)
    aside = known
    if n_for_rule(score, held_out.n_rows) < held_out.n_rows:
        aside = held_out.take(np.arange(0, held_out.n_rows, 2))
        held_out = held_out.take(np.arange(1, held_out.n_rows, 2))
        wrong = None if wrong is None else wrong[1::2]
    fitted = score.fit(known.some(score.wants_training), aside.some(MOST_ASIDE))
    strangeness = np.zeros(0)
    if training is not None and rule.needs_training(held_out.n_rows):
        strangeness = fitted(training)
    seen = Calibration(fitted(held_out), held_out.unseen, strangeness, wrong)
    return Refusal(fitted, rule.fit(seen))


def recalibrated(
    refusal: Refusal, rule: AbstractRule, familiar: Known, strange: Known | None
) -> Refusal:
    """The same score with the threshold that new familiar rows set.

    With strange rows the score is weighed by these and every second familiar row, and the other
    familiar rows set the threshold: see `AbstractScore.weighed`.
    """
    if rule.needs_answers or rule.needs_training(familiar.n_rows):
        raise ValueError(
            f"calibrate() sets a threshold by {familiar.n_rows} familiar rows alone, of which "
            f"{type(rule).__name__} asks more: give more rows, or set reject to a rate."
        )
    score = refusal.score
    if strange is not None:
        score = score.weighed(familiar.take(np.arange(0, familiar.n_rows, 2)), strange)
        familiar = familiar.take(np.arange(1, familiar.n_rows, 2))
    return Refusal(score, rule.fit(Calibration(score(familiar), familiar.unseen, np.zeros(0))))
