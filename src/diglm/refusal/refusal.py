"""Refusal = score x rule: what a fitted model judges strange rows by."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from diglm.refusal.known import Known
from diglm.refusal.rules.base import AbstractRule, Calibration, SmallTableWarning
from diglm.refusal.rules.kinds import KINDS
from diglm.refusal.scores.base import AbstractScore, require
from diglm.refusal.threshold import Kinds, Threshold

FEWEST_TO_SPARE = 400  # held-out rows, of which a score that learns may have every second
MOST_ASIDE = 4_000  # rows that tails are learned from


class LeftOut(NamedTuple):
    """Rows of a small table as models that they were left out of see them, fold by fold.

    Attributes:
        folds: rows left out, rows that taught the model, and rows that judged its training.
    """

    folds: Sequence[tuple[Known, Known, Known]]


@dataclass(frozen=True)
class Refusal:
    """A fitted score, and the threshold that a rule has set on it.

    A strangeness that is not a number is the largest there is.

    Attributes:
        score: how strange rows are.
        threshold: how strange is too strange.
        kinds: thresholds for rows of some kinds, where the rule asked for them.
    """

    score: AbstractScore
    threshold: Threshold
    kinds: Kinds | None = None

    def strangeness(self, known: Known) -> Float[np.ndarray, " rows"]:
        """How strange rows are; the higher, the stranger."""
        return strangeness_of(self.score, known)

    def rejects(self, known: Known) -> Bool[np.ndarray, " rows"]:
        """Whether each row is refused."""
        return self.judge(known)[2]

    def p_value(self, known: Known) -> Float[np.ndarray, " rows"]:
        """How rarely familiar rows are as strange."""
        return self.judge(known)[1]

    def judge(
        self, known: Known
    ) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
        """Strangeness, p-value and whether it is refused, of each row."""
        strangeness = self.strangeness(known)
        p_value = self.threshold.ranks.p_value(strangeness, known.unseen)
        refused = self.threshold.rejects(strangeness, known.unseen)
        if self.kinds is not None:
            kinds = KINDS[self.kinds.by](known)
            for name, own in zip(self.kinds.names, self.kinds.each, strict=True):
                of_kind = kinds == name
                p_value = np.where(of_kind, own.ranks.p_value(strangeness, known.unseen), p_value)
                refused = np.where(of_kind, own.rejects(strangeness, known.unseen), refused)
        return strangeness, p_value, refused


def strangeness_of(score: AbstractScore, known: Known) -> Float[np.ndarray, " rows"]:
    """The score of rows, infinite where it is not a number."""
    strangeness = np.asarray(score(known), float)
    return np.where(np.isnan(strangeness), np.inf, strangeness)


def n_for_rule(score: AbstractScore, rule: AbstractRule, n_held_out: int) -> int:
    """How many of the rows that were held out a rule looks at, which nothing else does.

    Half of them if that is enough for what the rule promises, or if there are many and the score
    learns from the others; else all.
    """
    learns = score.wants_training > 0 and n_held_out >= FEWEST_TO_SPARE
    return n_held_out // 2 if learns or rule.enough(n_held_out // 2) else n_held_out


def fit_refusal(
    score: AbstractScore,
    rule: AbstractRule,
    held_out: Known,
    training: Known | None,
    wrong: Float[np.ndarray, " n"] | None = None,
    *,
    aside: Known | None = None,
    left_out: LeftOut | None = None,
) -> Refusal:
    """The score and the rule fitted to familiar rows, no row of the rule's seen by the score.

    A score that learns has rows of training and, where they are spared, rows aside. The others are
    to it as new rows are, so that what a rule promises of them it promises of new rows: given what
    the score has learned, they are exchangeable.

    Args:
        score: as it was asked for.
        rule: as it was asked for.
        held_out: rows that the weights have not seen.
        training: rows of training, all of them where the rule looks at them; None where neither
            score nor rule does.
        wrong: whether each held-out row is answered wrongly, where the rule asks.
        aside: rows that the rule does not look at; None to spare every second of those held out,
            where there are many and the score learns.
        left_out: all rows, as models without them see them; they set the threshold if given.
    """
    known = held_out if training is None else training
    require(score, known)
    if aside is None:
        aside = known
        if score.wants_training > 0 and held_out.n_rows >= FEWEST_TO_SPARE:
            aside = held_out.take(np.arange(0, held_out.n_rows, 2))
            held_out = held_out.take(np.arange(1, held_out.n_rows, 2))
            wrong = None if wrong is None else wrong[1::2]
    fitted = _learned(score, known, aside)
    strangeness = np.zeros(0)
    if left_out is not None:
        seen = _seen_by_others(score, rule, left_out)
        return _ruled(fitted, rule, seen, _kinds_left_out(rule, left_out))
    if training is not None and rule.needs_training(held_out.n_rows):
        strangeness = strangeness_of(fitted, training)
    seen = Calibration(strangeness_of(fitted, held_out), held_out.unseen, strangeness, wrong)
    return _ruled(fitted, rule, seen, None if rule.by is None else KINDS[rule.by](held_out))


def _learned(score: AbstractScore, training: Known, aside: Known) -> AbstractScore:
    return score.fit(training.some(score.wants_training), aside.some(MOST_ASIDE))


def _seen_by_others(score: AbstractScore, rule: AbstractRule, left_out: LeftOut) -> Calibration:
    """Every row's strangeness to the model, and to the score, that it was left out of."""
    told = [
        (strangeness_of(_learned(score, training, aside), rows), rows.unseen)
        for rows, training, aside in left_out.folds
    ]
    strangeness, unseen = (np.concatenate(part) for part in zip(*told, strict=True))
    return Calibration(strangeness, unseen, np.zeros(0))


def _kinds_left_out(rule: AbstractRule, left_out: LeftOut) -> Int[np.ndarray, " n"] | None:
    if rule.by is None:
        return None
    return np.concatenate([KINDS[rule.by](rows) for rows, _, _ in left_out.folds])


def _ruled(
    score: AbstractScore,
    rule: AbstractRule,
    seen: Calibration,
    kinds: Int[np.ndarray, " n"] | None,
) -> Refusal:
    """The threshold of all rows, and those of kinds of which there are enough."""
    refusal = Refusal(score, rule.fit(seen))
    if rule.by is None or kinds is None:
        return refusal
    every = np.unique(kinds[kinds >= 0])
    counts = [int(np.sum(kinds == name)) for name in every]
    names = [int(name) for name, n in zip(every, counts, strict=True) if rule.enough(n)]
    if len(names) < len(every):
        warnings.warn(
            f"A rate of refusals cannot be promised by {rule.by} where few rows are held out: "
            f"{len(every) - len(names)} of {len(every)} kinds have the threshold of all rows. "
            "Raise reject or validation_fraction.",
            SmallTableWarning,
            stacklevel=2,
        )
    each = tuple(rule.fit(seen.of(kinds == name)) for name in names)
    return replace(refusal, kinds=Kinds(rule.by, tuple(names), each))


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
    seen = Calibration(strangeness_of(score, familiar), familiar.unseen, np.zeros(0))
    return _ruled(score, rule, seen, None if rule.by is None else KINDS[rule.by](familiar))
