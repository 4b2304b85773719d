r"""Ranks of a stream among reference rows: exactly uniform and independent while nothing moves.

Let $s_1, \dots, s_n$ be a score of n reference rows and $s_{n+1}, s_{n+2}, \dots$ that of the rows
that arrive, and suppose that all are exchangeable: nothing has moved. Ties are broken by a uniform
number drawn once for each row. Then the rank $R_t$ of row $n + t$ among the first $n + t$ rows is
uniform on $1, \dots, n + t$, *and the ranks are independent of each other*, because every order
of the first rows is equally probable whatever the rank of the next one. So with uniform $U_t$
$$p_t = \frac{R_t - 1 + U_t}{n + t}$$
are independent and uniform on [0, 1], exactly, however few reference rows there are. Ranks among
the reference rows alone would be uniform too, but not independent: the same finite reference would
judge all of them, and in the long run any of its chance features would look like drift.

The stream need not be kept. Within a gap between two neighbouring reference rows the order of new
rows is uniformly random as well, so it may be drawn afresh instead of remembered: what must be
known is how many rows fell into each of the $n + 1$ gaps. Memory does not grow with the stream.

Reference: Vovk, Gammerman and Shafer (2022), Algorithmic learning in a random world, chapter 8.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

BLOCK = 256  # rows whose ranks among each other are found at a time
PER_ROW = 2  # uniforms for each score of a row: one for ties, one for the place in a gap


@dataclass
class Ranking:
    """Ranks of several scores at once.

    Attributes:
        values: distinct values of the reference rows, ascending, an array for each score.
        keys: places of the reference rows among them, ties broken, ascending; (n, scores).
        counts: how many rows of the stream fell into each gap; (n + 1, scores).
        seed: of the uniform numbers.
        seen: how many rows have arrived.
    """

    values: list[np.ndarray]
    keys: Float[np.ndarray, "n scores"]
    counts: Int[np.ndarray, "gaps scores"]
    seed: int
    seen: int = 0

    @classmethod
    def of(cls, reference: Float[np.ndarray, "n scores"], seed: int) -> "Ranking":
        """Ready for a stream that is to be compared with these rows."""
        n, n_scores = reference.shape
        ties = np.random.Generator(np.random.PCG64([seed, 1])).random(reference.shape)
        values = [np.unique(column) for column in reference.T]
        keys = np.stack(
            [_keys(v, *parts) for v, *parts in zip(values, reference.T, ties.T, strict=True)],
            axis=1,
        ).reshape(n, n_scores)
        return cls(values, np.sort(keys, axis=0), np.zeros((n + 1, n_scores), np.int64), seed)

    def update(
        self, scores: Float[np.ndarray, "rows scores"]
    ) -> tuple[Float[np.ndarray, "rows scores"], Float[np.ndarray, "rows scores"]]:
        """The p-values of the next rows, which belong to the stream from now on.

        Beside them the shares of the reference rows that lie below each.
        """
        n_rows, n_scores = scores.shape
        uniforms = self._uniforms(n_rows, n_scores)
        gaps = np.empty(scores.shape, np.int64)
        for j, values in enumerate(self.values):
            keys = _keys(values, scores[:, j], uniforms[:, j, 0])
            gaps[:, j] = np.searchsorted(self.keys[:, j], keys)
        found = np.empty(scores.shape)
        for start in range(0, n_rows, BLOCK):
            some = slice(start, start + BLOCK)
            found[some] = self._ranked(gaps[some], uniforms[some, :, 1])
        return found, gaps / len(self.keys)

    def _ranked(
        self, gaps: Int[np.ndarray, "rows scores"], places: Float[np.ndarray, "rows scores"]
    ) -> Float[np.ndarray, "rows scores"]:
        before = np.tri(len(gaps), k=-1, dtype=bool)[:, :, None]  # earlier rows of this block
        below = np.sum(before & (gaps[None] < gaps[:, None]), axis=1)
        beside = np.sum(before & (gaps[None] == gaps[:, None]), axis=1)
        ends = np.cumsum(self.counts, axis=0)
        own = np.take_along_axis(self.counts, gaps, axis=0)
        below += gaps + np.take_along_axis(ends, gaps, axis=0) - own
        n_each = len(self.keys) + self.seen + np.arange(1, len(gaps) + 1)
        for j in range(gaps.shape[1]):
            np.add.at(self.counts[:, j], gaps[:, j], 1)
        self.seen += len(gaps)
        return (below + places * (own + beside + 1)) / n_each[:, None]

    def _uniforms(self, n_rows: int, n_scores: int) -> Float[np.ndarray, "rows scores 2"]:
        """The uniforms of the next rows: a function of their position, not of the pieces."""
        bits = np.random.PCG64([self.seed, 2])
        bits.advance(self.seen * n_scores * PER_ROW)
        return np.random.Generator(bits).random((n_rows, n_scores, PER_ROW))


def _keys(
    values: Float[np.ndarray, " distinct"],
    scores: Float[np.ndarray, " rows"],
    ties: Float[np.ndarray, " rows"],
) -> Float[np.ndarray, " rows"]:
    """Numbers in the order of (score, tie): i + tie at the i-th value, i just below it."""
    place = np.searchsorted(values, scores)
    inside = values[np.minimum(place, len(values) - 1)] == scores
    return place + np.where(inside, ties, 0.0)
