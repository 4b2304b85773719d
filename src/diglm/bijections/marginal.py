"""Each column to roughly normal shape: a fixed monotone map per column, fitted to quantiles."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from diglm.bijections.base import AbstractBijection
from diglm.bijections.spline import Knots, rational_quadratic, rational_quadratic_inverse
from diglm.types import Buffer, Key, Scalar, placed

FEWEST_ROWS = 10  # below, the map is the identity with logarithmic tails
REACH = 10.0  # the spline ends at most this far out; tails follow
LEAST_GAP = 1e-3  # between knots
LEAST_SLOPE, LARGEST_SLOPE = 1e-2, 1e2
LEAST_TAU, LARGEST_TAU = 0.3, 10.0
PLAIN_TAU = 3.0  # where the data do not say
LARGEST_GAIN = 10.0  # of slope times tau, where the least tau leaves a choice
LARGEST_EXPONENT = 80.0  # e^80 is finite in 32 bits


class MarginalMap(AbstractBijection):
    r"""$z_i = g_i(x_i)$ with $g_i$ monotone and fixed, so that columns become nearly normal.

    Between the outer knots $g_i$ is a rational-quadratic spline from empirical to normal
    quantiles. Beyond the last knot $(x_K, z_K)$, where the slope is $d_K$, it continues as
    $z = z_K + d_K \tau \log(1 + (x - x_K) / \tau)$, and alike below the first: values and slopes
    join. Since $d \tau \le 30$ and $\tau \ge 0.3$, $|z| \le 5 + 30 \log(1 + |x| / 0.3)$: even
    $x = 10^{30}$ gives a |z| of about two thousand at most, and a finite density.

    Build with `MarginalMap.fit`. Nothing in the map is trained.
    """

    x: Buffer
    width: Buffer
    z: Buffer
    height: Buffer
    slope: Buffer
    lower: "Tail"
    upper: "Tail"
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, columns: "list[Column]", n_knots: int):
        x, z, slope = (
            np.stack(rows) for rows in zip(*(_pad(c, n_knots) for c in columns), strict=True)
        )
        self.x, self.width = Buffer(placed(x[:, :-1])), Buffer(placed(np.diff(x)))
        self.z, self.height = Buffer(placed(z[:, :-1])), Buffer(placed(np.diff(z)))
        self.slope = Buffer(placed(slope))
        self.lower = Tail([(c.x[0], c.z[0], c.slope[0], c.lower_tau) for c in columns])
        self.upper = Tail([(c.x[-1], c.z[-1], c.slope[-1], c.upper_tau) for c in columns])
        self.in_shape = self.out_shape = (len(columns),)

    @classmethod
    def fit(cls, xs: np.ndarray, n_knots: int = 32) -> "MarginalMap":
        """The map that makes each column of `xs` nearly standard normal.

        Fewer rows get fewer knots, down to two, the plain line; fewer than ten rows, or a column
        with fewer than four values, get the identity with logarithmic tails.

        Args:
            xs: rows of finite numbers, each column scaled to a median near 0 and a spread near 1.
            n_knots: the most knots a column may have.
        """
        xs = np.asarray(xs, dtype=np.float64)
        if xs.ndim != 2 or xs.shape[1] < 1:
            raise ValueError(f"Expected xs of shape (rows, dim); got {xs.shape}.")
        if not np.isfinite(xs).all():
            raise ValueError("MarginalMap.fit needs finite values; fill missing ones first.")
        if n_knots < 2:
            raise ValueError(f"MarginalMap.fit needs n_knots >= 2; got {n_knots}.")
        return cls([_fit_column(np.sort(column), n_knots) for column in xs.T], n_knots)

    def forward_and_log_det(
        self, x: Float[Array, " dim"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim"], Scalar]:
        below, above = self.lower, self.upper
        inside = jnp.clip(x, below.x.value, above.x.value)
        z, log_slope = rational_quadratic(inside, self._knots())
        # At most one excess is positive; a zero adds nothing, so no branch is needed.
        low = jnp.log1p(jnp.maximum(below.x.value - x, 0.0) / below.tau.value)
        high = jnp.log1p(jnp.maximum(x - above.x.value, 0.0) / above.tau.value)
        z = z - below.gain.value * low + above.gain.value * high
        return z, jnp.sum(log_slope - low - high)

    def inverse_and_log_det(self, z: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Scalar]:
        below, above = self.lower, self.upper
        inside = jnp.clip(z, below.z.value, above.z.value)
        x, log_slope = rational_quadratic_inverse(inside, self._knots())
        low = _exponent(below.z.value - z, below.gain.value)
        high = _exponent(z - above.z.value, above.gain.value)
        x = x - below.tau.value * jnp.expm1(low) + above.tau.value * jnp.expm1(high)
        return x, -jnp.sum(log_slope - low - high)

    def _knots(self) -> Knots:
        fields = (self.x, self.width, self.z, self.height, self.slope)
        return Knots(*(field.value for field in fields))


class Tail(eqx.Module):
    """Where a side of each column's spline ends, and the scale `tau` and gain of its tail."""

    x: Buffer
    z: Buffer
    tau: Buffer
    gain: Buffer

    def __init__(self, rows: list[tuple[float, float, float, float]]):
        x, z, slope, tau = (
            np.array(values, dtype=np.float64) for values in zip(*rows, strict=True)
        )
        self.x, self.z = Buffer(placed(x)), Buffer(placed(z))
        self.tau, self.gain = Buffer(placed(tau)), Buffer(placed(slope * tau))


class Column(NamedTuple):
    """The map of one column: knots, slopes at them, and the scales of the tails."""

    x: np.ndarray
    z: np.ndarray
    slope: np.ndarray
    lower_tau: float
    upper_tau: float


def _exponent(excess: Array, gain: Array) -> Array:
    return jnp.clip(excess / gain, 0.0, LARGEST_EXPONENT)


def _pad(column: Column, n_knots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengthen a column by straight bins beyond its end, where values are clipped away anyway."""
    steps = np.arange(1.0, n_knots - column.x.size + 1)
    slope = column.slope[-1]
    return (
        np.concatenate([column.x, column.x[-1] + steps]),
        np.concatenate([column.z, column.z[-1] + slope * steps]),
        np.concatenate([column.slope, np.full(steps.size, slope)]),
    )


def _fit_column(xs: np.ndarray, n_knots: int) -> Column:
    n = xs.size
    values, counts = np.unique(xs, return_counts=True)
    if n < FEWEST_ROWS or values.size < 4:
        return _plain_column()
    # The middle of each step of the distribution function: fair to ties and to both ends.
    scores = ndtri((np.cumsum(counts) - 0.5 * counts) / n)
    outer = ndtri(np.clip(4.0 / n, 1e-3, 0.25))
    first = max(outer, scores[0], np.interp(-REACH, values, scores))
    last = min(-outer, scores[-1], np.interp(REACH, values, scores))
    if last - first < 0.1:
        return _plain_column()
    n_knots = int(min(n_knots, max(2.0, 2.0 * np.cbrt(n))))
    z = np.linspace(first, last, n_knots)
    x, z = _spaced(np.interp(z, scores, values), z)
    if x.size < 2:
        return _plain_column()
    slope = _slopes(x, z)
    return Column(
        x,
        z,
        slope,
        _tau(x[0] - xs[xs < x[0]], -z[0], slope[0]),
        _tau(xs[xs > x[-1]] - x[-1], z[-1], slope[-1]),
    )


def _plain_column() -> Column:
    """The identity with logarithmic tails, for columns that say too little about their shape."""
    ends = np.array([-3.0, 3.0])
    return Column(ends, ends, np.ones(2), PLAIN_TAU, PLAIN_TAU)


def _spaced(x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop knots so close to the last one kept that the slope between would be too steep.

    From the middle outwards: where values pile up at an end, the spline then stops short of the
    pile, which the tail crosses at its own, bounded slope.
    """
    middle = x.size // 2
    kept = [middle]
    for side in (range(middle + 1, x.size), range(middle - 1, -1, -1)):
        last = middle
        for k in side:
            gap = max(LEAST_GAP, abs(z[k] - z[last]) / LARGEST_SLOPE)
            if abs(x[k] - x[last]) >= gap:
                kept.append(k)
                last = k
    kept.sort()
    return x[kept], z[kept]


def _slopes(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Slopes at knots: between the slopes of the bins beside, nearer to the narrower bin's."""
    width, mean = np.diff(x), np.diff(z) / np.diff(x)
    inner = (width[1:] + width[:-1]) / (width[1:] / mean[:-1] + width[:-1] / mean[1:])
    slope = np.concatenate([mean[:1], inner, mean[-1:]])
    return np.clip(slope, LEAST_SLOPE, LARGEST_SLOPE)


def _tau(excess: np.ndarray, z: float, slope: float) -> float:
    """The tail's scale under which the values beyond the outer knot are most probable."""
    largest = np.clip(LARGEST_GAIN / slope, LEAST_TAU, LARGEST_TAU)
    taus = np.geomspace(LEAST_TAU, largest, 24)[:, None]
    if excess.size == 0:
        return float(min(largest, PLAIN_TAU))
    logs = np.log1p(excess[None, :] / taus)
    log_likelihood = np.sum(-0.5 * np.square(z + slope * taus * logs) - logs, axis=1)
    return float(taus[np.argmax(log_likelihood), 0])
