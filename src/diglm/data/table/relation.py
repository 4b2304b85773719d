"""How a target follows the levels of a column: means by level, and how far they can be trusted."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import f as f_distribution

CHANCE = 1e-4  # that noise alone is taken for a relation
MOST_NUMBERS = 32  # of a target that are looked at
SECOND = 0.1  # least share of what levels say that a second order must say


class Relation(NamedTuple):
    r"""Means $\bar y_l$ of a standardised target in the rows of each level.

    Attributes:
        means: Less the grand mean, (levels, k), along the axes in which levels differ, the one
            they differ most in first; 0 for a level without a known target.
        counts: Weights of the rows of each level, (levels,).
        within: Variance of the k numbers among rows of the same level; infinite where no level has
            a second row.
    """

    means: Float[np.ndarray, "levels k"]
    counts: Float[np.ndarray, " levels"]
    within: Float[np.ndarray, " k"]

    @property
    def rows_that_count(self) -> float:
        r"""Rows that tell as much of a level as all the other levels do: $m = \sigma^2 / \tau^2$.

        Of a level's mean $n / (n + m)$ is its own. With $F$ the mean square between levels over
        that within, $\tau^2 = (F - 1) \sigma^2 / \tilde n$. One standard error is taken off F, so
        that the levels of an identifier do not follow the noise of y: they have m infinite.
        """
        counts = self.counts[self.counts > 0]
        n, n_levels = counts.sum(), counts.size
        noise = float(self.within.sum())
        if n_levels < 2 or n <= n_levels or not math.isfinite(noise):
            return math.inf
        between = float(self.counts @ np.square(self.means).sum(axis=1)) / (n_levels - 1)
        k = noise**2 / max(float(np.square(self.within).sum()), 1e-300)  # numbers, if all alike
        ratio = between / max(noise, 1e-12 * between, 1e-300)
        ratio /= 1 + math.sqrt((2 / (n_levels - 1) + 2 / (n - n_levels)) / max(k, 1.0))
        usual = (n - np.square(counts).sum() / n) / (n_levels - 1)
        return usual / (ratio - 1) if ratio > 1 else math.inf

    @property
    def needs_two_orders(self) -> bool:
        """Whether levels differ beside the first axis too, beyond noise and by more than a little.

        One class more or less than another is one order; three classes may set levels apart in
        two ways.
        """
        n_levels, freedom = np.sum(self.counts > 0), self.counts.sum() - np.sum(self.counts > 0)
        if self.within.size < 2 or n_levels < 3 or freedom <= 0:
            return False
        squares, noise = self.counts @ np.square(self.means), self.within
        said = squares.sum() - (n_levels - 1) * noise.sum()
        # The first axis has taken as much of the noise as it could: the others have less.
        beside = squares[1:].sum() / (n_levels - 2), noise[1:].sum()
        if (beside[0] - beside[1]) * (n_levels - 2) <= SECOND * said:
            return False
        k = beside[1] ** 2 / max(np.square(noise[1:]).sum(), 1e-300)  # axes, if all were alike
        ratio = beside[0] / max(beside[1], 1e-300)
        return bool(f_distribution.sf(ratio, k * (n_levels - 2), k * freedom) < CHANCE)


def standardised(
    target: Float[np.ndarray, "rows k"], weights: Float[np.ndarray, " rows"] | None
) -> Float[np.ndarray, "rows k"]:
    """Targets of mean 0 and variance 1, all NaN in rows where one is unknown.

    More than MOST_NUMBERS of them, such as very many classes, are cast upon as many random
    directions, which keeps the distances between levels nearly as they are.
    """
    known = np.all(np.isfinite(target), axis=1)
    found, w = target[known], None if weights is None else weights[known]
    out, k = np.full(target.shape, np.nan), len(target.T)
    if len(found) == 0:
        return out
    found = found / np.maximum(np.max(np.abs(found), axis=0), 1e-300)  # squares stay finite
    found = found - np.average(found, axis=0, weights=w)
    spread = np.sqrt(np.average(np.square(found), axis=0, weights=w))
    out[known] = found / np.where(spread > 1e-12, spread, np.inf)
    if k > MOST_NUMBERS:
        directions = np.random.default_rng(0).normal(size=(k, MOST_NUMBERS))
        out = out @ (directions / np.sqrt(MOST_NUMBERS))
    return out


def relate(
    codes: Int[np.ndarray, " rows"],
    target: Float[np.ndarray, "rows k"],
    weights: Float[np.ndarray, " rows"] | None,
    n_levels: int,
) -> Relation:
    """The relation of a standardised target, NaN where a row has none, to the levels of a column.

    The target is turned to the axes in which levels differ, the one they differ most in first.
    Classes that have an order, such as grades, then show it along the first axis.
    """
    known = np.all(np.isfinite(target), axis=1)
    weights = np.ones(codes.size) if weights is None else weights
    codes, target, weights = codes[known], target[known], weights[known]
    counts = np.bincount(codes, weights, minlength=n_levels)
    if codes.size == 0:
        none = np.zeros((n_levels, target.shape[1]))
        return Relation(none, counts, np.full(target.shape[1], np.inf))
    target = target - np.average(target, axis=0, weights=weights)
    means = _means(codes, target, weights, counts)
    axes = np.linalg.svd(np.sqrt(counts)[:, None] * means)[2]
    axes *= np.sign(axes[np.arange(len(axes)), np.argmax(np.abs(axes), axis=1)])[:, None]
    target, means = target @ axes.T, means @ axes.T
    freedom = counts.sum() - np.sum(counts > 0)
    squares = weights @ np.square(target - means[codes])
    within = squares / freedom if freedom > 0 else np.full(target.shape[1], np.inf)
    return Relation(means, counts, within)


def _means(
    codes: np.ndarray, target: np.ndarray, weights: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    sums = [np.bincount(codes, weights * column, minlength=counts.size) for column in target.T]
    return np.stack(sums, axis=1) / np.where(counts > 0, counts, 1.0)[:, None]
