"""Several scores as one: their surprises added up."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from diglm.parameters import Constraints, Like, Real
from diglm.refusal.known import Known
from diglm.refusal.scores.base import AbstractScore, learned
from diglm.refusal.scores.surprise import Surprise


@dataclass
class Evidence(AbstractScore):
    r"""$w \max(0, -\log P(S \ge s) - b)$: what a score says in nats, as far as it is surprising.

    Args:
        score: S.
        beyond: b, nats that are no evidence yet.
        weight: w.
    """

    score: AbstractScore
    beyond: float = 0.0
    weight: float = 1.0
    surprise: Surprise | None = learned()

    constraints: ClassVar[Constraints] = {
        "score": [Like((AbstractScore,), "a score")],
        "beyond": [Real(0.0)],
        "weight": [Real(0.0)],
    }

    def why_not(self, known: Known) -> str:
        return self.score.why_not(known)

    def reads_head(self, layout: str) -> bool:
        return self.score.reads_head(layout)

    def fit(self, training: Known, aside: Known) -> "Evidence":
        score = self.score.fit(training, aside)
        return replace(self, score=score, surprise=Surprise.of(score(aside)))

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.surprise is not None, "fit() comes first"
        nats = self.surprise(self.score(known))
        return self.weight * np.maximum(nats - self.beyond, 0.0)


@dataclass
class Combined(AbstractScore):
    r"""$\sum_i w_i \max(0, -\log P(S_i \ge s_i) - b_i)$, Fisher's sum of surprises.

    Each part is turned into how rarely familiar rows have as much, so that distances, densities
    and bytes can be added. A row that is a little strange in many ways counts as one that is very
    strange in one. Parts that a model cannot have are left out.

    Args:
        parts: scores, or `Evidence` of them.
    """

    parts: list[AbstractScore] | tuple[AbstractScore, ...]

    wants_training: ClassVar[int] = 4_000
    constraints: ClassVar[Constraints] = {"parts": [Like((list, tuple), "a list of scores")]}

    def check(self) -> None:
        super().check()
        wrong = [part for part in self.parts if not isinstance(part, AbstractScore)]
        if wrong or not self.parts:
            raise ValueError(f"parts must be scores, at least one; got {list(self.parts)!r}.")
        for part in self.parts:
            part.check()

    def why_not(self, known: Known) -> str:
        reasons = [part.why_not(known) for part in self.parts]
        return reasons[0] if all(reasons) else ""

    def reads_head(self, layout: str) -> bool:
        return any(part.reads_head(layout) for part in self.parts)

    def fit(self, training: Known, aside: Known) -> "Combined":
        parts = [as_evidence(part) for part in self.parts if not part.why_not(training)]
        return replace(self, parts=tuple(part.fit(training, aside) for part in parts))

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        return np.sum(self.told(known), axis=1)

    def told(self, known: Known) -> Float[np.ndarray, "rows parts"]:
        """What each part says of each row, in nats."""
        return np.stack([part(known) for part in self.parts], axis=1)

    def weighed(self, familiar: Known, strange: Known) -> "Combined":
        """A copy whose weights tell some strange rows from familiar ones.

        See `separating_weights`.
        """
        parts = [as_evidence(part) for part in self.parts]
        even = replace(self, parts=tuple(replace(part, weight=1.0) for part in parts))
        weights = separating_weights(even.told(familiar), even.told(strange))
        chosen = [
            replace(part, weight=float(weight)) for part, weight in zip(parts, weights, strict=True)
        ]
        return replace(self, parts=tuple(chosen))


def as_evidence(score: AbstractScore) -> Evidence:
    """A score as a part of a combination."""
    return score if isinstance(score, Evidence) else Evidence(score)


def separating_weights(
    familiar: Float[np.ndarray, "n parts"], strange: Float[np.ndarray, "m parts"]
) -> Float[np.ndarray, " parts"]:
    r"""Weights, none negative and one on average, by which a sum tells strange rows apart.

    The minimum of the logistic loss, both kinds of rows counting alike, plus a pull
    $\frac{1}{2 n_s} |w - 1|^2$ towards equal weights with $n_s$ the number of strange rows: a few
    of them change little. Evidence never counts against strangeness.
    """
    if len(strange) == 0 or len(familiar) == 0:
        raise ValueError("Weights need at least one strange and one familiar row.")
    both = np.concatenate([familiar, strange]) / familiar.shape[1]
    sign = np.r_[-np.ones(len(familiar)), np.ones(len(strange))]
    share = np.r_[
        np.full(len(familiar), 0.5 / len(familiar)), np.full(len(strange), 0.5 / len(strange))
    ]
    weights, bias = np.ones(both.shape[1]), -float(np.mean(both.sum(axis=1)))
    curvature = 0.25 * (1 + np.sum(share[:, None] * both**2)) + 1 / len(strange)
    for _ in range(2_000):  # projected gradient descent: the loss is convex
        pull = -sign * share / (1 + np.exp(np.clip(sign * (both @ weights + bias), -500, 500)))
        step = both.T @ pull + (weights - 1) / len(strange)
        weights = np.maximum(weights - step / curvature, 0.0)
        bias -= float(np.sum(pull)) / curvature
    total = np.sum(weights)
    return weights * (len(weights) / total) if total > 0 else np.ones(len(weights))
