"""Numbers to a `Column`: robust location and spread, and the grid that rounded values lie on."""

import math
from typing import NamedTuple

import numpy as np

from diglm.data.table.columns import Column

# Rounding left by arithmetic, relative to the largest value of a column of that type.
TOLERANCES = {2: 1e-3, 4: 1e-6}
TOLERANCE = 1e-12
# Rounding finer than this share of the spread cannot be seen, so the column counts as continuous.
FINEST = 0.01
FEWEST_RUNNING, CHANCE = 20, 1e-4  # numbers that tell, and that they never repeat by luck
SMALLEST_SCALE, LARGEST_SCALE = 1e-290, 1e308


class Summary(NamedTuple):
    """Location and spread of a sample: `centre` for grids, `median` for continuous columns."""

    median: float
    centre: float
    spread: float


def fit_numbers(
    name: str | int, x: np.ndarray, weights: np.ndarray | None = None, *, itemsize: int = 8
) -> Column:
    """The column for the finite numbers `x`: a lattice if they lie on a visible grid.

    Everything is computed on x divided by a power of two near its largest magnitude. This is
    exact, so neither 1e300 nor denormal numbers overflow or vanish on the way, and the answer
    follows any change of unit.

    Args:
        name: The column's name.
        x: Its present values. None at all is treated as a constant 0.
        weights: Positive weights; a whole weight equals repeated rows.
        itemsize: Bytes of the user's float type, which tell how finely grids were rounded.
    """
    if x.size == 0:
        return _constant(name, 0.0, 0.0)
    order = np.argsort(x, kind="stable")
    x = x[order]
    exponent = int(np.frexp(np.max(np.abs(x)))[1])
    whole = exponent <= 53 and bool(np.all(x == np.rint(x)))
    tolerance = TOLERANCE if whole else TOLERANCES.get(itemsize, TOLERANCE)
    u = np.ldexp(x, -exponent)
    if u[-1] - u[0] <= tolerance / 256:  # a few units in the last place: one and the same number
        return _constant(name, float(x[0]), float(x[-1]))
    summary = summarise(u, None if weights is None else weights[order])
    step = find_step(u, tolerance, floor=FINEST * summary.spread, whole=whole)
    step = _unscaled(step, exponent)
    low, high = float(x[0]), float(x[-1])
    scale = _bounded(_unscaled(summary.spread, exponent))
    if step < FINEST * scale:
        return Column(
            name, "continuous", _unscaled(summary.median, exponent), scale, low=low, high=high
        )
    step, origin = _tidy(step, low, high, tolerance)
    location = _unscaled(summary.centre, exponent)
    scale = _bounded(math.hypot(scale, step / math.sqrt(12)))
    return Column(name, "lattice", location, scale, step, origin, low, high)


def fit_codes(codes: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Mean and sd of whole-number codes, the noise in their unit cells counted.

    Codes are bounded, so that robust statistics are not needed.
    """
    codes = codes.astype(np.float64)
    mean = float(np.average(codes, weights=weights))
    if np.all(codes == codes[0]):
        return float(codes[0]), 1.0
    variance = float(np.average(np.square(codes - mean), weights=weights))
    return mean, math.sqrt(variance + 1 / 12)


def are_running(x: np.ndarray) -> bool:
    r"""Whether whole numbers never repeat and lie evenly, as row numbers and identifiers do.

    Of n numbers drawn from R possible ones none repeats with probability $e^{-n^2 / 2R}$; that
    must be unlikely. They lie evenly if Kolmogorov's test does not tell them from uniform ones.
    """
    n = x.size
    if n < FEWEST_RUNNING or np.max(np.abs(x)) >= 2**53 or np.any(x != np.rint(x)):
        return False
    x = np.sort(x)
    gaps = np.diff(x)
    if gaps.min() == 0:
        return False
    span = x[-1] - x[0]
    possible = span / float(np.gcd.reduce(gaps.astype(np.int64))) + 1
    distance = np.max(np.abs((x - x[0]) / span - np.arange(n) / (n - 1)))
    return bool(n**2 / (2 * possible) > -math.log(CHANCE) and distance < 1.63 / math.sqrt(n))


def summarise(x: np.ndarray, weights: np.ndarray | None) -> Summary:
    r"""Robust statistics of a sorted sample.

    The spread is $\min(\mathrm{IQR} / 1.349, \mathrm{sd})$. Where more than half of the values
    are equal or nearly so, the quartiles say nothing; then the middle nine tenths count instead,
    and the standard deviation if even these are equal. The centre is the mean, kept within the
    quartiles so that far values cannot drag it away.
    """
    weights = np.ones(x.size) if weights is None else weights
    q05, q25, q50, q75, q95 = _quantiles(x, weights, (0.05, 0.25, 0.5, 0.75, 0.95))
    mean = float(np.average(x, weights=weights))
    sd = math.sqrt(np.average(np.square(x - mean), weights=weights))
    quartiles, tails = (q75 - q25) / 1.349, (q95 - q05) / 3.290
    spread = quartiles if quartiles >= 0.1 * tails else tails
    spread = min(spread, sd) if spread > 0 else sd
    return Summary(median=q50, centre=min(max(mean, q25), q75), spread=spread)


def find_step(x: np.ndarray, tolerance: float, *, floor: float, whole: bool = False) -> float:
    r"""The largest step of which all differences of `x` are multiples; 0 if none reaches `floor`.

    Euclid's algorithm on all neighbouring differences at once: the smallest nonzero remainder
    becomes the next divisor. Random numbers have no common divisor above the floor; to be safe a
    grid must also be unlikely by chance. Differences $d_i$ known to within $t_i$ are all multiples
    of a step by chance with probability about $K \prod_i (2 t_i / \text{step})$, where $K$ counts
    the cells and the product leaves one difference out.

    Args:
        x: Sorted numbers of magnitude at most one.
        tolerance: Relative rounding error of the numbers.
        floor: The smallest step of interest.
        whole: Whether the numbers are whole in the user's unit, and so free of rounding.
    """
    distinct = x[np.concatenate([[True], np.diff(x) > 0])]
    # Small numbers may be differences of usual ones, whose rounding they inherit; far outliers
    # tell nothing of the others' rounding.
    usual = float(np.median(np.abs(x)))
    rounding = tolerance * np.maximum(_largest_of_pair(distinct), usual)
    apart = np.diff(distinct) > (0 if whole else rounding)
    points = distinct[np.concatenate([[True], apart])]
    gaps = np.diff(points)
    if gaps.size == 0:
        return 0.0
    rounding = tolerance * np.maximum(_largest_of_pair(points), usual)
    step = float(gaps.min())
    while step >= max(floor, 100 * tolerance * usual):
        cells = np.rint(gaps / step)
        # A divisor's own rounding error is multiplied by the number of cells it is laid off.
        allowed = np.minimum(rounding * (1 + cells / 500), step / 100)
        remainders = np.abs(gaps - cells * step)
        left_over = remainders[remainders > allowed]
        if left_over.size == 0:
            break
        step = float(left_over.min())
    else:
        return 0.0
    step = float((points[-1] - points[0]) / cells.sum())
    position = (distinct - distinct[0]) / step
    if np.max(np.abs(position - np.rint(position))) > 0.01:
        return 0.0
    # Two values always span a grid, and few do so by luck: they need ties or whole numbers.
    luck = np.sort(np.log(2 * allowed / step))[1:].sum() + np.log(cells.sum())
    tied = x.size >= 2 * points.size or (points.size == 2 and x.size > 2)
    return step if whole or tied or luck < np.log(1e-6) else 0.0


def _largest_of_pair(x: np.ndarray) -> np.ndarray:
    """The larger magnitude of each pair of neighbours."""
    return np.maximum(np.abs(x[1:]), np.abs(x[:-1]))


def _quantiles(x: np.ndarray, weights: np.ndarray, levels: tuple[float, ...]) -> list[float]:
    """Weighted quantiles of a sorted sample, the two middle values averaged on a tie."""
    total = np.cumsum(weights)
    target = np.asarray(levels) * total[-1]
    left = np.searchsorted(total, target, side="left").clip(max=x.size - 1)
    right = np.searchsorted(total, target, side="right").clip(max=x.size - 1)
    return ((x[left] + x[right]) / 2).tolist()


def _constant(name: str | int, low: float, high: float) -> Column:
    step = max(abs(low), SMALLEST_SCALE) if low != 0 else 1.0
    step = _bounded(step)
    return Column(name, "lattice", low, step, step, low, low, high)


def _tidy(step: float, low: float, high: float, tolerance: float) -> tuple[float, float]:
    """Step and origin in as few decimals as the data allow: 0.1, not 0.09999999999999998."""
    cells, rounding = high / step - low / step, tolerance * max(abs(low), abs(high))
    for places in range(10):
        tidy_step, origin = round(step, places), round(low, places)
        drift = abs(tidy_step - step)
        near = drift <= tolerance * step and drift * cells <= step / 100
        if tidy_step > 0 and near and abs(origin - low) <= rounding:
            return tidy_step, origin
    return step, low


def _bounded(scale: float) -> float:
    return min(max(scale, SMALLEST_SCALE), LARGEST_SCALE)


def _unscaled(number: float, exponent: int) -> float:
    with np.errstate(over="ignore", under="ignore"):
        largest = np.finfo(np.float64).max
        return float(np.clip(np.ldexp(number, exponent), -largest, largest))
