"""Monotone rational-quadratic splines: the functions themselves, and a layer of free splines."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.bijections.base import AbstractBijection, sum_over
from diglm.bijections.elementwise import as_shape
from diglm.types import Key, placed

LEAST_SHARE = 1e-2  # of the whole interval, for the width and the height of a bin
LEAST_SLOPE = 1e-2


class Knots(NamedTuple):
    """One monotone spline per coordinate: left ends and sizes of its bins, slopes at its knots."""

    x: Float[Array, "dim bins"]
    width: Float[Array, "dim bins"]
    y: Float[Array, "dim bins"]
    height: Float[Array, "dim bins"]
    slope: Float[Array, "dim knots"]


class Spline(AbstractBijection):
    r"""$z_i = g_i(x_i)$: a trained monotone spline per coordinate, the identity outside $[-B, B]$.

    Starts as the identity. The whole of a flow for one-dimensional data. Images (channels, height,
    width) have one spline a channel, and lie side by side along a last axis.

    Reference: Durkan et al. (2019), https://arxiv.org/abs/1906.04032
    """

    raw: Float[Array, "dim parameters"]
    bound: float = eqx.field(static=True)
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: int | tuple[int, ...], n_bins: int = 8, bound: float = 5.0):
        self.in_shape = self.out_shape = as_shape(shape)
        self.raw = placed(np.zeros((self.in_shape[0], n_spline_parameters(n_bins))))
        self.bound = check_bound("Spline", bound)

    def forward_and_log_det(
        self, x: Float[Array, "dim ..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "dim ..."], Float[Array, "*rows"]]:
        if len(self.in_shape) == 1:
            z, log_slope = spline_forward(x, self.raw, self.bound)
        else:  # many pixels: a channel at a time, its bins found again rather than kept

            @jax.checkpoint
            def channel(parts: tuple[Array, Array]) -> tuple[Array, Array]:
                pixels, raw = parts
                z, log_slope = spline_forward(pixels[None], raw[None], self.bound)
                return z[0], log_slope[0]

            z, log_slope = jax.lax.map(channel, (x, self.raw))
        return z, sum_over(log_slope, self.in_shape)

    def inverse_and_log_det(
        self, z: Float[Array, "dim ..."]
    ) -> tuple[Float[Array, "dim ..."], Float[Array, "*rows"]]:
        x, log_slope = spline_inverse(z, self.raw, self.bound)
        return x, -sum_over(log_slope, self.in_shape)

    def forward_batch(
        self, xs: Float[Array, "..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "..."], Float[Array, " rows"], "Spline"]:
        is_image = len(self.in_shape) > 1
        return *(self.forward_and_log_det if is_image else self.forward_rows)(xs), self


def spline_forward(
    x: Float[Array, "dim ..."], raw: Float[Array, "dim parameters"], bound: float
) -> tuple[Float[Array, "dim ..."], Float[Array, "dim ..."]]:
    """Values and log-slopes of splines with free parameters `raw` and linear tails.

    The slope at the ends is one, so adding what the clip took away is the identity outside; no
    branch is taken that could hand back a NaN gradient.
    """
    inside = jnp.clip(x, -bound, bound)
    y, log_slope = rational_quadratic(inside, knots(raw, bound))
    return y + (x - inside), log_slope


def spline_inverse(
    y: Float[Array, "dim ..."], raw: Float[Array, "dim parameters"], bound: float
) -> tuple[Float[Array, "dim ..."], Float[Array, "dim ..."]]:
    """The inverse of `spline_forward`, with the log-slopes of the forward spline."""
    inside = jnp.clip(y, -bound, bound)
    x, log_slope = rational_quadratic_inverse(inside, knots(raw, bound))
    return x + (y - inside), log_slope


def knots(raw: Float[Array, "dim parameters"], bound: float) -> Knots:
    r"""Knots in $[-B, B]^2$ from free numbers: bin widths, bin heights, inner slopes.

    Zeros give the identity. Everything positive is made by $r + \sqrt{1 + r^2} = e^{asinh(r)}$:
    it is 1 at 0 like the exponential, but grows slowly and costs no transcendental function.
    """
    n_bins = (raw.shape[1] + 1) // 3
    positive = raw + jnp.sqrt(1.0 + jnp.square(raw))
    ones = jnp.ones((raw.shape[0], 1), raw.dtype)
    slope = LEAST_SLOPE + (1.0 - LEAST_SLOPE) * positive[:, 2 * n_bins :]
    width, x = _partition(positive[:, :n_bins], bound)
    height, y = _partition(positive[:, n_bins : 2 * n_bins], bound)
    return Knots(x, width, y, height, jnp.concatenate([ones, slope, ones], axis=1))


def rational_quadratic(
    x: Float[Array, "dim ..."], knots: Knots
) -> tuple[Float[Array, "dim ..."], Float[Array, "dim ..."]]:
    r"""$g(x)$ and $\log g'(x)$ for x between the outer knots.

    In a bin of slope $s = h / w$, with slopes $d_0, d_1$ at its ends and $\xi = (x - x_k) / w$:
    $g = y_k + h (s \xi^2 + d_0 \xi (1 - \xi)) / (s + (d_0 + d_1 - 2 s) \xi (1 - \xi))$.
    """
    left, width, bottom, height, slope_0, slope_1 = _bin_of(x, knots.x, knots)
    share = (x - left) / width
    mean = height / width
    cross = share * (1.0 - share)
    below = mean + (slope_0 + slope_1 - 2.0 * mean) * cross
    y = bottom + height * (mean * jnp.square(share) + slope_0 * cross) / below
    return y, _log_slope(share, mean, slope_0, slope_1, cross, below)


def rational_quadratic_inverse(
    y: Float[Array, "dim ..."], knots: Knots
) -> tuple[Float[Array, "dim ..."], Float[Array, "dim ..."]]:
    r"""$x$ with $g(x) = y$, and $\log g'(x)$: the root in $[0, 1]$ of a quadratic in $\xi$."""
    left, width, bottom, height, slope_0, slope_1 = _bin_of(y, knots.y, knots)
    rise = (y - bottom) / height
    mean = height / width
    bend = slope_0 + slope_1 - 2.0 * mean
    a = mean - slope_0 + rise * bend
    b = slope_0 - rise * bend
    c = -mean * rise
    # Positive for a monotone spline; the floor only meets rounding. This form of the root does
    # not cancel when a is near zero.
    root = jnp.sqrt(jnp.maximum(jnp.square(b) - 4.0 * a * c, jnp.finfo(y.dtype).tiny))
    share = -2.0 * c / (b + root)  # not clipped: at a knot that would halve the gradient
    cross = share * (1.0 - share)
    x = left + width * share
    return x, _log_slope(share, mean, slope_0, slope_1, cross, mean + bend * cross)


def n_spline_parameters(n_bins: int) -> int:
    """Free parameters of one spline: widths and heights of bins, slopes at inner knots."""
    if n_bins < 2:
        raise ValueError(f"A spline needs n_bins >= 2; got {n_bins}.")
    if n_bins * LEAST_SHARE >= 0.5:
        raise ValueError(f"A spline takes n_bins < {math.ceil(0.5 / LEAST_SHARE)}; got {n_bins}.")
    return 3 * n_bins - 1


def check_bound(name: str, bound: float) -> float:
    """The bound, if it is a positive number."""
    if not bound > 0.0:
        raise ValueError(f"{name} needs bound > 0, the half-width of its interval; got {bound}.")
    return float(bound)


def _partition(parts: Array, bound: float) -> tuple[Array, Array]:
    """Sizes in proportion to `parts` that fill $[-B, B]$, and the left end of each bin."""
    n_bins = parts.shape[1]
    share = parts / jnp.sum(parts, axis=1, keepdims=True)
    size = 2.0 * bound * (LEAST_SHARE + (1.0 - n_bins * LEAST_SHARE) * share)
    # For so few bins a product with a triangle of ones is faster than cumsum.
    before = jnp.asarray(np.triu(np.ones((n_bins, n_bins)), 1), parts.dtype)
    return size, size @ before - bound


def _bin_of(v: Array, left: Array, knots: Knots) -> tuple[Array, ...]:
    """The numbers of the bin that holds each value: counting comparisons always finds one."""
    slopes = (knots.slope[:, :-1], knots.slope[:, 1:])
    if v.ndim > 1:
        return _chosen(v, left, (*knots[:4], *slopes))
    index = jnp.sum(v[:, None] >= left[:, 1:], axis=1)[:, None]
    return tuple(
        jnp.take_along_axis(table, index, axis=1, mode="promise_in_bounds")[:, 0]
        for table in (*knots[:4], *slopes)
    )


def _chosen(v: Array, left: Array, tables: tuple[Array, ...]) -> tuple[Array, ...]:
    """The same for many values of few splines: products vectorise both ways, gathers do not."""
    values = v.reshape(v.shape[0], 1, -1)
    index = jnp.sum(values >= left[:, 1:, None], axis=1, keepdims=True)
    is_in = (index == jnp.arange(left.shape[1])[None, :, None]).astype(v.dtype)
    found = jnp.stack(tables, axis=1) @ is_in
    return tuple(numbers.reshape(v.shape) for numbers in jnp.moveaxis(found, 1, 0))


def _log_slope(
    share: Array, mean: Array, slope_0: Array, slope_1: Array, cross: Array, below: Array
) -> Array:
    above = slope_1 * jnp.square(share) + 2.0 * mean * cross + slope_0 * jnp.square(1.0 - share)
    return jnp.log(above * jnp.square(mean / below))
