"""One side of a monitor: scores of rows that arrive, bets on their ranks, and sums of nats."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from diglm.predictor.betting import Capital
from diglm.predictor.drift import ColumnShift, Movement, in_deviations
from diglm.predictor.ranking import Ranking

MOST_REFERENCE = 10_000  # rows that are ranked against; their means are over all


@dataclass
class Stream:
    """What is remembered of a stream; nothing in it grows with the number of rows.

    Attributes:
        ranking: of the scores among those of the reference.
        capital: of the bets on them.
        weights: of the scores in the capital of all; they sum to one.
        needed: log capital that is evidence enough.
        reference: mean, variance and number of the reference's nats.
        sums: of the stream's nats and of their squares, about the reference's mean.
        below: sum over rows of the share of the reference below each score.
        recent_nats: those of the last rows, at most `window`.
        recent_below: their shares.
        window: how many rows are recent.
        since: number of the row at which the evidence was enough.
    """

    ranking: Ranking
    capital: Capital
    weights: Float[np.ndarray, " scores"]
    needed: float
    reference: tuple[float, float, int]
    sums: Float[np.ndarray, " 2"]
    below: Float[np.ndarray, " scores"]
    recent_nats: Float[np.ndarray, " recent"]
    recent_below: Float[np.ndarray, "recent scores"]
    window: int
    since: int | None = None

    @classmethod
    def of(
        cls,
        nats: Float[np.ndarray, " n"],
        scores: Float[np.ndarray, "n scores"],
        weights: Float[np.ndarray, " scores"],
        *,
        level: float,
        window: int,
        seed: int,
    ) -> "Stream":
        """Ready for rows to be compared with these."""
        n, n_scores = scores.shape
        kept = scores
        if n > MOST_REFERENCE:
            kept = scores[np.random.default_rng(seed).choice(n, MOST_REFERENCE, replace=False)]
        return cls(
            Ranking.of(kept, seed),
            Capital.at_start(n_scores),
            weights,
            math.log(1 / level),
            (float(np.mean(nats)), float(np.var(nats, ddof=1)) if n > 1 else math.inf, n),
            np.zeros(2),
            np.zeros(n_scores),
            np.zeros(0),
            np.zeros((0, n_scores)),
            window,
        )

    @property
    def n_rows(self) -> int:
        """Rows of the stream so far."""
        return self.ranking.seen

    def update(
        self, nats: Float[np.ndarray, " rows"], scores: Float[np.ndarray, "rows scores"]
    ) -> None:
        """Let rows arrive: their -log p, and scores whose ranks are bet on."""
        first = self.n_rows + 1
        p, below = self.ranking.update(scores)
        evidence = np.asarray(logsumexp(self.capital.update(p), b=self.weights, axis=1))
        enough = np.flatnonzero(evidence >= self.needed)
        if self.since is None and len(enough):
            self.since = first + int(enough[0])
        with np.errstate(invalid="ignore", over="ignore"):
            away = nats - self.reference[0]
            self.sums = _added(self.sums, np.stack([away, away**2], axis=1))
        self.below = _added(self.below, below)
        self.recent_nats = np.concatenate([self.recent_nats, nats])[-self.window :]
        self.recent_below = np.concatenate([self.recent_below, below])[-self.window :]

    def movement(self) -> Movement:
        """How far it has moved."""
        mean, variance, n = self.reference
        evidence = float(np.asarray(logsumexp(self.capital.log_total, b=self.weights)))
        t = self.n_rows
        if t == 0:
            return Movement(0.0, math.inf, 0.0, evidence, self.since, 0)
        with np.errstate(invalid="ignore"):
            change = float(self.sums[0] / t)
            own = float(self.sums[1] / t) - change**2
            error = math.sqrt(max(own, 0.0) / t + variance / n) if math.isfinite(own) else math.inf
            recent = float(np.mean(self.recent_nats) - mean)
        return Movement(change, error, recent, evidence, self.since, t)

    def columns(self, names: tuple[str | int, ...], first: int) -> tuple[ColumnShift, ...]:
        """How far scores from the first on have moved, by evidence."""
        n, t = len(self.ranking.keys), max(self.n_rows, 1)
        shares = self.below[first:] / t if self.n_rows else np.full(len(names), 0.5)
        recent = self.recent_below[:, first:].mean(axis=0) if self.n_rows else shares
        log_capital = self.capital.log_total[first:]
        found = [
            ColumnShift(name, float(log_capital[j]), float(all_rows), float(last))
            for j, (name, all_rows, last) in enumerate(
                zip(names, in_deviations(shares, n), in_deviations(recent, n), strict=True)
            )
        ]
        return tuple(sorted(found, key=lambda column: -column.evidence))


def _added(total: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Row by row, so that the last bit does not hang on the pieces in which rows arrive."""
    return np.add.accumulate(np.concatenate([total[None], rows]), axis=0)[-1]
