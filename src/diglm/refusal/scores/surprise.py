"""Scores of every kind on one scale: how rarely familiar rows have as much."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

TAIL = 0.05  # of the rows, whose excesses are taken for exponential
FEWEST_IN_TAIL = 10
PLAIN = 30.0  # nats of a tail, beyond which more of it counts by its logarithm


@dataclass(frozen=True)
class Surprise:
    r"""$-\log P(S \ge s)$ for a score S of familiar rows, in nats.

    Up to the last twentieth of the rows it is counted, evenly between one row and the next, so that
    rows are tied only where their scores are. Beyond, little is left to count, and the
    excess is taken for exponential, as it is far out in most tails: with the threshold t of the
    last share q and the mean excess m there, $-\log q + (s - t) / m$. A row that is stranger
    than any that was seen is still compared with others that are. One score cannot drown all
    others: beyond 30 nats its logarithm counts.

    Attributes:
        usual: scores of familiar rows up to the tail, ascending.
        share: $q$, the tail's share of the rows.
        start: t.
        excess: m.
    """

    usual: Float[np.ndarray, " n"]
    share: float
    start: float
    excess: float

    @classmethod
    def of(cls, scores: Float[np.ndarray, " n"]) -> "Surprise":
        """From the scores of familiar rows."""
        ordered = np.sort(np.asarray(scores, float))
        n = len(ordered)
        n_tail = min(max(int(TAIL * n), FEWEST_IN_TAIL), max(1, n // 2))
        start, spread = ordered[-n_tail], ordered[-1] - ordered[0]
        excess = float(np.mean(ordered[-n_tail:] - start))
        least = 1e-6 * (spread + abs(start)) + 1e-12
        usual = ordered[: n - n_tail].astype(np.float32)
        return cls(usual, n_tail / n, float(start), max(excess, least))

    def __call__(self, scores: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        """Nats of surprise at each score, at least zero."""
        scores = np.asarray(scores, float)
        below = (1 - self.share) * np.linspace(0, 1, len(self.usual) + 1)  # up to the tail
        counted = np.interp(scores, np.append(self.usual, self.start), -np.log1p(-below))
        far = (scores - self.start) / self.excess
        far = np.minimum(far, PLAIN) + np.log1p(np.maximum(far - PLAIN, 0.0))
        return np.where(scores > self.start, far - np.log(self.share), counted)
