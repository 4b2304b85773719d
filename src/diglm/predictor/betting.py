r"""Betting against "nothing has moved": capital that grows only if it is wrong.

A bettor starts with 1 and stakes on each p-value with odds that would be fair if it were uniform
and independent of the past: a bet pays $b(p) \ge 0$ with $\int_0^1 b = 1$. Under that hypothesis
the capital $E_t$ is a martingale, so that at any time, and at the time that looks worst as well,
$$P(\sup_t E_t \ge 1/\alpha) \le \alpha$$
(Ville's inequality): one may look after every row, and stop when one likes.

The bets are $b = 1 + \epsilon g(p)$ with $\int g = 0$. With $c = 2p - 1$, $g = c$ wins when scores
rise or fall, $g = (3c^2 - 1)/2$ when they spread or gather, and a step at either end when a few
rows are far out. Half of the capital lies still. At row t a share of $1/(t + 1)$ of all is dealt
out anew, which is fair too: whatever moves, and whenever, soon has all of the capital behind the
bet that suits it, and never having moved costs about half of $\log t$.

Reference: Vovk (2021), https://arxiv.org/abs/2102.09958; Herbster and Warmuth (1998).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

STAKES = (0.2, 0.5, 0.9)
TAIL, TAIL_STAKE = 0.02, 0.05
N_BETS = 4 * len(STAKES) + 3


def payoffs(p: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... bets"]:
    """What each bet pays at p-values, the first of which lies still."""
    c = 2 * np.asarray(p, float)[..., None] - 1
    stakes = np.array([sign * stake for stake in STAKES for sign in (1, -1)])
    line, bowl = 1 + stakes * c, 1 + stakes * (1.5 * c**2 - 0.5)
    ends = [1 + TAIL_STAKE * ((side > 1 - 2 * TAIL) / TAIL - 1) for side in (c, -c)]
    return np.concatenate([np.ones_like(c), line, bowl, *ends], axis=-1)


@dataclass
class Capital:
    """The capital of one bettor for each score, by bets, relative to its sum; and the log of that.

    Attributes:
        shares: (scores, bets), each row summing to one.
        log_total: log capital of each score now.
        seen: how many rows have been bet on.
    """

    shares: Float[np.ndarray, "scores bets"]
    log_total: Float[np.ndarray, " scores"]
    seen: int = 0

    @classmethod
    def at_start(cls, n_scores: int) -> "Capital":
        """One unit for each score."""
        return cls(np.tile(_prior(), (n_scores, 1)), np.zeros(n_scores))

    def update(self, p: Float[np.ndarray, "rows scores"]) -> Float[np.ndarray, "rows scores"]:
        """Log capital after each of the next p-values."""
        paid, prior = payoffs(p), _prior()
        logs = np.empty(p.shape)
        for t, pays in enumerate(paid):
            self.shares *= pays
            total = self.shares.sum(axis=1)
            self.log_total = self.log_total + np.log(total)
            logs[t] = self.log_total
            self.seen += 1
            dealt = 1 / (self.seen + 1)
            self.shares *= ((1 - dealt) / total)[:, None]
            self.shares += dealt * prior
        return logs


def _prior() -> Float[np.ndarray, " bets"]:
    return np.concatenate([[0.5], np.full(N_BETS - 1, 0.5 / (N_BETS - 1))])
