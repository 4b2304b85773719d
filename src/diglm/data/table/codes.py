r"""Whole numbers that are codes, told from ordered numbers by how the target follows them.

A region number, the square of a board or a DNA base as 0..3 has no order that matters; rooms and
ratings have one. Where a target is known, its mean by level tells them apart. Let $m_l$ be these
means, less the grand mean. What an order can say of them is a fit in which neighbours are alike:

- monotone, rising or falling;
- of eight levels or more, three pieces in a row that are constant;
- a polynomial in the rank of the level, of a degree up to 3 and no more than half of the freedom
  that the levels have: a curve through every point says nothing of an order;
- the mean of the two neighbours, for waves.

The rest, $\sum_l n_l |m_l - f_l|^2$ less what noise adds to it, is left unsaid by the best of them.
Shuffled levels leave some of it unsaid too, and so tell what to expect of a code. The column is a
code if noise cannot explain the rest, and it is more than a third of that of shuffled levels, and
more than a tenth of all that the levels say.

Few levels fall into an order by chance. So columns with the same levels, such as the bases of a
piece of DNA, are also judged together, by the sums of what they leave.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression
from scipy.stats import f as f_distribution

from diglm.data.table.relation import CHANCE, Relation, relate

FEWEST_ROWS = 10  # of a level on average: fewer cannot tell a code from noise
MOST_LEVELS = 256
SHUFFLES = 12
UNSAID, AS_SHUFFLED = 0.1, 1 / 3  # least shares: of what levels say, of what shuffled ones leave
HIGHEST_DEGREE = 3
FEWEST_IN_PIECES = 8  # fewer levels lie in three pieces by chance too often


class Evidence(NamedTuple):
    """What an order leaves unsaid of a column, in squares of the standardised target.

    Attributes:
        levels: The whole numbers of the column.
        relation: Of the target to them, along the axes in which levels differ most.
        rest: What the best fit leaves.
        noise: What noise alone would leave of it.
        freedom: Degrees of freedom of the rest, and of the noise within levels.
    """

    levels: tuple[float, ...]
    relation: Relation
    rest: float
    noise: float
    freedom: tuple[float, float]

    @property
    def whole(self) -> float:
        """What the levels say, less the noise."""
        means, counts, within = self.relation
        found = counts @ np.square(means).sum(axis=1) - (counts.size - 1) * within.sum()
        return max(float(found), 0.0)

    @property
    def shuffled(self) -> float:
        """What is left, less the noise, of levels in random order."""
        rng, means, counts = np.random.default_rng(0), self.relation.means, self.relation.counts
        found = []
        for _ in range(SHUFFLES):
            order = rng.permutation(counts.size)
            found.append(_left(Relation(means[order], counts[order], self.relation.within)))
        return float(np.mean([max(rest - noise, 0.0) for rest, noise in found]))


def find_codes(
    columns: Sequence[Float[np.ndarray, " rows"] | None],
    target: Float[np.ndarray, "rows k"] | None,
    weights: Float[np.ndarray, " rows"] | None = None,
) -> list[bool]:
    """Which columns are codes: whole, recurring numbers with no order that y follows.

    Args:
        columns: Numbers, NaN where missing; None for a column that holds none.
        target: Standardised, NaN where unknown; without it numbers stay numbers.
        weights: Positive weights; a whole weight equals repeated rows.
    """
    codes = [False] * len(columns)
    if target is None:
        return codes
    alike: defaultdict[tuple[float, ...], dict[int, Evidence]] = defaultdict(dict)
    for j, x in enumerate(columns):
        found = None if x is None else _evidence(x, target, weights)
        if found is not None:
            alike[found.levels][j] = found
    for group in alike.values():
        together = list(group.values())
        strongest = max(together, key=lambda one: one.rest - one.noise)
        others = [one for one in together if one is not strongest]
        # No column decides alone for the others.
        all_of_them = bool(others) and _are_codes(together) and _are_codes(others)
        for j, one in group.items():
            codes[j] = all_of_them or _are_codes([one])
    return codes


def _are_codes(columns: list[Evidence]) -> bool:
    """Whether columns with the same levels are codes, by what an order leaves of all of them."""
    rest, noise = sum(one.rest for one in columns), sum(one.noise for one in columns)
    freedom = sum(one.freedom[0] for one in columns), min(one.freedom[1] for one in columns)
    if float(f_distribution.sf(rest / max(noise, 1e-300), *freedom)) > CHANCE:
        return False
    unsaid = sum(max(one.rest - one.noise, 0.0) for one in columns)
    if unsaid <= UNSAID * sum(one.whole for one in columns):
        return False
    return unsaid > AS_SHUFFLED * sum(one.shuffled for one in columns)


def _evidence(x: np.ndarray, target: np.ndarray, weights: np.ndarray | None) -> Evidence | None:
    """What an order leaves of a column; None if it cannot be a code."""
    rows = np.flatnonzero(np.isfinite(x) & np.all(np.isfinite(target), axis=1))
    x, target = x[rows], target[rows]
    weights = np.ones(rows.size) if weights is None else weights[rows]
    if x.size == 0 or np.any(x != np.rint(x)) or np.max(np.abs(x)) >= 2**53:
        return None
    levels, codes = np.unique(x, return_inverse=True)
    if not 3 <= levels.size <= min(MOST_LEVELS, weights.sum() / FEWEST_ROWS):
        return None  # two levels are always in order
    relation = relate(codes, target, weights, levels.size)
    rest, noise = _left(relation)
    total = max(float(relation.within.sum()), 1e-300)
    k = total**2 / max(float(np.square(relation.within).sum()), 1e-300)  # axes, if all were alike
    freedom = k * noise / total, k * (float(weights.sum()) - levels.size)
    return Evidence(tuple(levels.tolist()), relation, rest, noise, freedom)


def _left(relation: Relation) -> tuple[float, float]:
    """Squares that the best fit along each axis leaves, and how many of them noise would leave."""
    fits = _linear_fits(relation.counts)
    rest = noise = 0.0
    for mean, variance in zip(relation.means.T, relation.within.tolist(), strict=True):
        found = [_left_by(fit, mean, relation.counts) for fit in fits]
        found += [_left_by_monotone(mean, relation.counts, rising) for rising in (True, False)]
        if relation.counts.size >= FEWEST_IN_PIECES:
            found.append(_left_by_pieces(mean, relation.counts))
        best = min(found, key=lambda pair: pair[0] - variance * pair[1])
        rest, noise = rest + best[0], noise + variance * best[1]
    return rest, noise


def _linear_fits(counts: np.ndarray) -> list[np.ndarray]:
    """Matrices S of the fits S m that are linear: polynomials, and means of neighbours."""
    n, root = counts.size, np.sqrt(counts)[:, None]
    degree = min(HIGHEST_DEGREE, (n - 1) // 2)
    basis = np.linalg.qr(root * np.vander(np.linspace(-1, 1, n), degree + 1, increasing=True))[0]
    fits = [(b / root) @ (b * root).T for b in (basis[:, : d + 1] for d in range(1, degree + 1))]
    beside = (np.abs(np.subtract.outer(np.arange(n), np.arange(n))) == 1) * counts
    return [*fits, beside / beside.sum(axis=1, keepdims=True)]


def _left_by(fit: np.ndarray, mean: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Squares that a linear fit leaves, and how many unit variances of them noise would leave."""
    away = np.eye(counts.size) - fit
    freedom = float(counts @ (np.square(away) / counts).sum(axis=1))
    return float(counts @ np.square(away @ mean)), freedom


def _left_by_monotone(mean: np.ndarray, counts: np.ndarray, rising: bool) -> tuple[float, float]:
    """The same of a monotone fit, which is the mean of each of its blocks."""
    found = isotonic_regression(mean, weights=counts, increasing=rising)
    return float(counts @ np.square(mean - found.x)), counts.size - (len(found.blocks) - 1.0)


def _left_by_pieces(mean: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """The same of three pieces in a row with a mean each, the best of all."""
    n = counts.size
    sums, weights = (np.concatenate([[0.0], np.cumsum(a)]) for a in (counts * mean, counts))
    size = np.maximum(weights[None, :] - weights[:, None], 1e-300)
    said = np.triu(np.square(sums[None, :] - sums[:, None]) / size, 1)  # by a piece from i to j
    best = float(np.max(said[0][:, None] + said + said[:, n][None, :]))
    return max(float(counts @ np.square(mean)) - best, 0.0), n - 3.0
