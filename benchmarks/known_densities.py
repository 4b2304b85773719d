"""Densities whose log p(x) and log p(y|x) are known exactly, to judge estimates of them by."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

NOISE = 0.1  # standard deviation of y given x, in every density


@dataclass(frozen=True)
class Rows:
    """Rows drawn from a density, their log p(x), their targets, and the targets' means.

    `x` is an array, or a frame where columns are of several kinds.
    """

    x: np.ndarray | pd.DataFrame
    log_px: np.ndarray
    y: np.ndarray
    mean: np.ndarray

    @property
    def log_py(self) -> np.ndarray:
        """log p(y|x)."""
        return stats.norm.logpdf(self.y, self.mean, NOISE)

    @property
    def numbers(self) -> np.ndarray:
        """The columns that are numbers."""
        frame = pd.DataFrame(self.x)
        return frame.select_dtypes("number").to_numpy(float)


Values = np.ndarray
Drawn = tuple[np.ndarray | pd.DataFrame, np.ndarray]  # x, and the mean of y


@dataclass(frozen=True)
class KnownDensity:
    """How to draw rows, with the mean of y, and what log p(x) is at any rows."""

    draw: Callable[[int, np.random.Generator], Drawn]
    log_px: Callable[[np.ndarray | pd.DataFrame], np.ndarray]

    def rows(self, n: int, rng: np.random.Generator) -> Rows:
        """`n` rows with targets."""
        x, mean = self.draw(n, rng)
        return Rows(x, self.log_px(x), mean + NOISE * rng.normal(size=n), mean)


def _banana_draw(n: int, rng: np.random.Generator) -> Drawn:
    a = rng.normal(size=n)
    b = a**2 + 0.5 * rng.normal(size=n)
    return np.stack([a, b], axis=1), np.sin(2 * a) + 0.3 * b


def _banana(x: Values) -> Values:
    a, b = x.T
    return stats.norm.logpdf(a) + stats.norm.logpdf(b, a**2, 0.5)


CENTRES, WIDTHS = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]]), np.array([0.5, 0.8, 0.3])


def _modes_draw(n: int, rng: np.random.Generator) -> Drawn:
    which = rng.integers(3, size=n)
    x = CENTRES[which] + WIDTHS[which, None] * rng.normal(size=(n, 2))
    return x, np.cos(x[:, 0]) + 0.5 * x[:, 1]


def _modes(x: Values) -> Values:
    each = stats.norm.logpdf(x[:, None, :], CENTRES, WIDTHS[:, None]).sum(axis=-1)
    return np.logaddexp.reduce(each, axis=1) - np.log(3)


def _link(before: Values) -> tuple[Values, Values]:
    """Mean and standard deviation of the next column."""
    return np.sin(2 * before), 0.2 + 0.3 * np.abs(before)


def _chain_draw(n: int, rng: np.random.Generator) -> Drawn:
    columns = [rng.normal(size=n)]
    for _ in range(5):
        mean, sd = _link(columns[-1])
        columns.append(mean + sd * rng.normal(size=n))
    return np.stack(columns, axis=1), columns[0] * columns[5]


def _chain(x: Values) -> Values:
    links = [stats.norm.logpdf(x[:, j], *_link(x[:, j - 1])) for j in range(1, 6)]
    return stats.norm.logpdf(x[:, 0]) + np.sum(links, axis=0)


def _skewed_draw(n: int, rng: np.random.Generator) -> Drawn:
    a = rng.gamma(1.5, size=n)
    b = np.exp(0.3 * a + 0.5 * rng.normal(size=n))
    return np.stack([a, b], axis=1), a * np.log(b)


def _skewed(x: Values) -> Values:
    a, b = x.T
    return stats.gamma.logpdf(a, 1.5) + stats.lognorm.logpdf(b, 0.5, scale=np.exp(0.3 * a))


RADIUS, SPREAD = 2.0, 0.2  # ten deviations from zero: a negative radius does not occur


def _ring_draw(n: int, rng: np.random.Generator) -> Drawn:
    radius, angle = RADIUS + SPREAD * rng.normal(size=n), rng.uniform(0, 2 * np.pi, size=n)
    x = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return x, np.sin(3 * angle) + radius


def _ring(x: Values) -> Values:
    radius = np.hypot(*x.T)
    return stats.norm.logpdf(radius, RADIUS, SPREAD) - np.log(2 * np.pi * radius)


def _checkers_draw(n: int, rng: np.random.Generator) -> Drawn:
    row = rng.integers(4, size=n)
    column = 2 * rng.integers(2, size=n) + row % 2
    x = np.stack([column, row], axis=1) + rng.uniform(size=(n, 2))
    return x, x[:, 0] - 0.5 * x[:, 1]


def _checkers(x: Values) -> Values:
    """Uniform on the eight dark squares of a board of four by four."""
    cell = np.floor(x).astype(int)
    dark = np.all((cell >= 0) & (cell < 4), axis=1) & (cell.sum(axis=1) % 2 == 0)
    return np.where(dark, -np.log(8), -np.inf)


KINDS, SHARES = np.array(["oak", "ash", "elm"]), np.array([0.5, 0.3, 0.2])
RATES, HEIGHTS = np.array([2.0, 6.0, 0.5]), np.array([0.0, 3.0, -2.0])


def _mixed_draw(n: int, rng: np.random.Generator) -> Drawn:
    kind = rng.choice(3, size=n, p=SHARES)
    count = rng.poisson(RATES[kind])
    height = HEIGHTS[kind] + 0.3 * count + 0.5 * rng.normal(size=n)
    x = pd.DataFrame({"kind": KINDS[kind], "count": count, "height": height})
    return x, 0.5 * height + np.sqrt(count) * (kind == 1)


def _mixed(x: pd.DataFrame) -> Values:
    """Probability of the category and of the count, times the density of the number."""
    kind = pd.Index(KINDS).get_indexer(x["kind"])
    count, height = x["count"].to_numpy(), x["height"].to_numpy()
    log_mass = np.log(SHARES[kind]) + stats.poisson.logpmf(count, RATES[kind])
    return log_mass + stats.norm.logpdf(height, HEIGHTS[kind] + 0.3 * count, 0.5)


DENSITIES = {
    "banana": KnownDensity(_banana_draw, _banana),
    "three modes": KnownDensity(_modes_draw, _modes),
    "chain of six": KnownDensity(_chain_draw, _chain),
    "skewed": KnownDensity(_skewed_draw, _skewed),
    "ring": KnownDensity(_ring_draw, _ring),
    "checkers": KnownDensity(_checkers_draw, _checkers),
    "mixed kinds": KnownDensity(_mixed_draw, _mixed),
}
