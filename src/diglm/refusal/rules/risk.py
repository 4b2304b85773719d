"""Rules that look at errors: a promised error among answered rows, and the cheapest threshold."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy import stats

from diglm.parameters import Constraints, Real
from diglm.refusal.rules.base import AbstractRule, Calibration
from diglm.refusal.rules.usual import RATE
from diglm.refusal.threshold import Ranks, Threshold

QUANTILES = (*np.linspace(0.2, 0.95, 16), 0.97, 0.98, 0.99, 0.995, 1.0)


@dataclass
class RiskControl(AbstractRule):
    r"""The error among answered rows is at most `error`, with a stated confidence.

    Limits are tried that are fixed beforehand: quantiles of the strangeness of training rows. If
    under one of them k held-out rows are answered, w of them wrongly,
    $P(\mathrm{Bin}(k, r) \le w)$ is a p-value of the hypothesis that the error there is at least r.
    Limits are tested from the smallest up, each at level $\delta$, until one cannot be rejected
    (fixed-sequence testing; limits under which too few rows lie to reject anything are passed
    over, which does not depend on answers): the last that passed has, with probability at least
    $1 - \delta$ over the held-out rows, an error of at most r. Where none passes, every row is
    refused.

    A score that follows errors gives the most answers: `score="undecided"`, or "auto" where
    strange rows are the danger.

    References: Geifman and El-Yaniv (2017), https://arxiv.org/abs/1705.08500, and Angelopoulos et
    al. (2021), https://arxiv.org/abs/2110.01052

    Args:
        error: r, the largest share of wrong answers.
        confidence: $1 - \delta$.
    """

    error: float = 0.05
    confidence: float = 0.95

    needs_answers: ClassVar[bool] = True
    constraints: ClassVar[Constraints] = {"error": [RATE], "confidence": [RATE]}

    def fit(self, seen: Calibration) -> Threshold:
        strangeness, wrong = labelled_rows(self, seen)
        ranks = Ranks.of(seen.held_out, seen.unseen)
        limit, level = -math.inf, 1 - self.confidence
        for tried in [*np.quantile(seen.training, QUANTILES), math.inf]:
            answered = strangeness <= tried
            n_answered, n_wrong = np.sum(answered), np.sum(wrong[answered])
            if stats.binom.cdf(0, n_answered, self.error) > level:
                continue  # too few to say anything, whatever their answers
            if stats.binom.cdf(n_wrong, n_answered, self.error) > level:
                break
            limit = float(tried)
        return Threshold(limit, -math.inf, "risk", ranks)

    def needs_training(self, n_held_out: int) -> bool:
        return True

    def enough(self, n_held_out: int) -> bool:
        return bool(stats.binom.cdf(0, n_held_out, self.error) <= 1 - self.confidence)


@dataclass
class Cost(AbstractRule):
    """The threshold at which held-out rows cost least: a price an error, and one a refusal.

    Args:
        wrong: what a wrong answer costs.
        refused: what a refusal costs.
    """

    wrong: float = 1.0
    refused: float = 0.1

    needs_answers: ClassVar[bool] = True
    constraints: ClassVar[Constraints] = {
        "wrong": [Real(0.0, open_low=True)],
        "refused": [Real(0.0, open_low=True)],
    }

    def fit(self, seen: Calibration) -> Threshold:
        strangeness, wrong = labelled_rows(self, seen)
        order = np.argsort(strangeness, kind="stable")
        ordered = strangeness[order]
        errors = np.r_[0.0, np.cumsum(wrong[order])]
        costs = self.wrong * errors + self.refused * np.arange(len(order), -1, -1)
        # A threshold between rows of one strangeness cannot be: answer all of them or none.
        last = np.r_[True, np.diff(ordered) > 0, True] if len(ordered) else np.ones(1, bool)
        best = int(np.argmin(np.where(last, costs, math.inf)))
        limit = -math.inf if best == 0 else float(ordered[best - 1])
        limit = math.inf if best == len(ordered) > 0 else limit
        return Threshold(limit, -math.inf, "cost", Ranks.of(seen.held_out, seen.unseen))


def labelled_rows(
    rule: AbstractRule, seen: Calibration
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Strangeness of the held-out rows whose labels are known, and which are answered wrongly.

    Rows that are alone in what they show are refused by these rules, and do not count.
    """
    if seen.wrong is None:
        raise ValueError(
            f"reject={type(rule).__name__} counts wrong answers, and this model predicts no "
            "classes. Use a rate, such as reject=0.01."
        )
    bearers = np.sum(seen.unseen, axis=0)
    alone = np.any(seen.unseen & (bearers == 1), axis=1)
    counted = ~np.isnan(seen.wrong) & ~alone
    if not np.any(counted):
        raise ValueError(
            f"reject={type(rule).__name__} counts wrong answers among labelled rows that were held "
            "out, of which there are none. Raise validation_fraction, or give more labels."
        )
    return seen.held_out[counted], seen.wrong[counted]
