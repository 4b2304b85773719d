"""A fitted rule: how strange is too strange, and ranks among rows that were held out."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float


@dataclass(frozen=True)
class Ranks:
    r"""Strangeness of held-out rows, and which facts they show that training never saw.

    Of a row that shows a fact, such as a level of a category, that neither training nor any other
    row has shown, nothing is known but that: it is *alone*. Rows that are alone are stranger than
    all others, and ranked among themselves by their score. Among exchangeable rows, n held out and
    one new, this treats all alike, so the p-value
    $(1 + \#\{\text{held-out rows as strange}\}) / (n + 1)$ is at most $\alpha$ with probability at
    most $\alpha$. Where held-out rows show a fact often, it is as familiar as they are.

    Attributes:
        usual: strangeness of the held-out rows that are not alone, ascending.
        alone: of those that are, ascending.
        shown: which facts some held-out row shows.
    """

    usual: Float[np.ndarray, " n"]
    alone: Float[np.ndarray, " m"]
    shown: Bool[np.ndarray, " facts"]

    @classmethod
    def of(
        cls, strangeness: Float[np.ndarray, " n"], unseen: Bool[np.ndarray, "n facts"]
    ) -> "Ranks":
        """From held-out rows."""
        bearers = np.sum(unseen, axis=0)
        alone = np.any(unseen & (bearers == 1), axis=1)
        strangeness = np.asarray(strangeness, float)
        return cls(np.sort(strangeness[~alone]), np.sort(strangeness[alone]), bearers > 0)

    def __len__(self) -> int:
        """How many rows were held out."""
        return len(self.usual) + len(self.alone)

    def is_alone(self, unseen: Bool[np.ndarray, "rows facts"]) -> Bool[np.ndarray, " rows"]:
        """Whether new rows show something that none of these shows."""
        if not unseen.any():  # a row at a time takes ten times as long
            return np.zeros(len(unseen), bool)
        return np.any(unseen & ~self.shown, axis=1)

    def p_value(
        self, strangeness: Float[np.ndarray, " rows"], unseen: Bool[np.ndarray, "rows facts"]
    ) -> Float[np.ndarray, " rows"]:
        """How rarely held-out rows are as strange as each row."""
        among = len(self.usual) - np.searchsorted(self.usual, strangeness, side="left")
        among_alone = len(self.alone) - np.searchsorted(self.alone, strangeness, side="left")
        as_strange = np.where(self.is_alone(unseen), among_alone, len(self.alone) + among)
        return (1 + as_strange) / (1 + len(self))

    def limits(self, rank: int) -> tuple[float, float]:
        """Strangeness beyond which a row, or one alone, has fewer than `rank` as strange."""
        rest = rank - len(self.alone)
        usual = self.usual[-rest] if 1 <= rest <= len(self.usual) else math.inf
        alone = -math.inf if rest >= 1 else self.alone[-rank]
        return float(usual), float(alone)


def faded(strangeness: Float[np.ndarray, " n"], rate: float) -> float:
    r"""What a new row exceeds with probability `rate`, if strangeness fades exponentially.

    Beyond the largest but k of n rows lies a new one with probability $p_0 = (k+1)/(n+1)$. If what
    exceeds that has an exponential law of unknown mean, its mean among the k being m, then
    $P(S > s_{(n-k)} + k m\,((p_0/\alpha)^{1/k} - 1)) = \alpha$ exactly, whatever the law's mean:
    the ratio of a new excess to m is of Fisher's F. k is a quarter of n.
    """
    ordered = np.sort(np.asarray(strangeness, float))[::-1]
    n = len(ordered)
    k = min(max(n // 4, 1), n - 1)
    start = ordered[k]
    if k == 0 or not np.isfinite(ordered[0]):
        return float(ordered[0])
    mean = np.mean(ordered[:k] - start)
    share = (k + 1) / (n + 1)
    return float(start + k * mean * ((share / rate) ** (1 / k) - 1))


@dataclass(frozen=True)
class Threshold:
    """Refuse a row that is stranger than `limit`, or one that is alone beyond `limit_alone`.

    Attributes:
        limit: largest strangeness that is still answered.
        limit_alone: the same for rows that show what no other row has shown.
        rule: name of the rule that set them.
        ranks: of the held-out rows.
    """

    limit: float
    limit_alone: float
    rule: str
    ranks: Ranks

    def rejects(
        self, strangeness: Float[np.ndarray, " rows"], unseen: Bool[np.ndarray, "rows facts"]
    ) -> Bool[np.ndarray, " rows"]:
        """Whether each row is refused."""
        limits = np.where(self.ranks.is_alone(unseen), self.limit_alone, self.limit)
        return np.asarray(strangeness) > limits


@dataclass(frozen=True)
class Kinds:
    """A threshold for rows of each kind; rows of other kinds have that of all rows.

    Attributes:
        by: what kinds are: see `rules.kinds.KINDS`.
        names: numbers of the kinds.
        each: their thresholds.
    """

    by: str
    names: tuple[int, ...]
    each: tuple[Threshold, ...]
