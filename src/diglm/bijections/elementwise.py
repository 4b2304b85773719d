"""Bijections that treat every coordinate alone: identity, affine, logit and sigmoid."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.bijections.base import AbstractBijection, sum_over
from diglm.types import Buffer, Key, Scalar, placed


class Identity(AbstractBijection):
    r"""$z = x$."""

    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: int | tuple[int, ...]):
        self.in_shape = self.out_shape = as_shape(shape)

    def forward_and_log_det(
        self, x: Float[Array, "..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "..."], Scalar]:
        return x, jnp.zeros((), x.dtype)

    def inverse_and_log_det(self, z: Float[Array, "..."]) -> tuple[Float[Array, "..."], Scalar]:
        return z, jnp.zeros((), z.dtype)


class Affine(AbstractBijection):
    r"""$z = x \odot e^s + t$ with $s, t$ trained."""

    shift: Float[Array, "..."]
    log_scale: Float[Array, "..."]
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shift: ArrayLike, log_scale: ArrayLike):
        self.shift, self.log_scale = jnp.asarray(shift, float), jnp.asarray(log_scale, float)
        if self.shift.shape != self.log_scale.shape:
            raise ValueError(
                f"Affine needs shift and log_scale of one shape; got {self.shift.shape} and "
                f"{self.log_scale.shape}."
            )
        self.in_shape = self.out_shape = self.shift.shape

    def forward_and_log_det(
        self, x: Float[Array, "..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "..."], Scalar]:
        return x * jnp.exp(self.log_scale) + self.shift, jnp.sum(self.log_scale)

    def inverse_and_log_det(self, z: Float[Array, "..."]) -> tuple[Float[Array, "..."], Scalar]:
        return (z - self.shift) * jnp.exp(-self.log_scale), -jnp.sum(self.log_scale)


class Standardise(AbstractBijection):
    r"""$z = (x - m) / c$ with $m, c$ fixed statistics of the data.

    The log-determinant $-\sum \log c$ keeps densities in the units of the data.
    """

    mean: Buffer
    scale: Buffer
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, mean: ArrayLike, scale: ArrayLike):
        mean, scale = np.asarray(mean, float), np.asarray(scale, float)
        if mean.shape != scale.shape:
            raise ValueError(
                f"Standardise needs mean and scale of one shape; got {mean.shape} and "
                f"{scale.shape}."
            )
        if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError(
                "Standardise needs finite means and positive, finite scales; use scale 1 for a "
                "constant column."
            )
        self.mean, self.scale = Buffer(placed(mean)), Buffer(placed(scale))
        self.in_shape = self.out_shape = mean.shape

    def forward_and_log_det(
        self, x: Float[Array, "..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "..."], Scalar]:
        scale = self.scale.value
        return (x - self.mean.value) / scale, -jnp.sum(jnp.log(scale))

    def inverse_and_log_det(self, z: Float[Array, "..."]) -> tuple[Float[Array, "..."], Scalar]:
        scale = self.scale.value
        return z * scale + self.mean.value, jnp.sum(jnp.log(scale))


class Logit(AbstractBijection):
    r"""$z = \log y - \log(1 - y)$, $y = \alpha + (1 - 2\alpha) x / h$: an interval to the line.

    The interval is $[0, h]$: 1 unless given, 256 for pixels of a byte. Squeezing by $\alpha$ keeps
    its ends finite. A value outside has no image; it is read as the nearer end, so that it costs
    likelihood instead of giving NaN.

    Reference: Dinh et al. (2017), https://arxiv.org/abs/1605.08803
    """

    changes_units: ClassVar[bool] = True
    alpha: float = eqx.field(static=True)
    high: float = eqx.field(static=True)
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: int | tuple[int, ...], *, alpha: float = 1e-6, high: float = 1.0):
        if not 0.0 < alpha < 0.5:
            raise ValueError(f"Logit needs 0 < alpha < 0.5; got {alpha}.")
        if not high > 0.0:
            raise ValueError(f"Logit needs high > 0, the upper end of its interval; got {high}.")
        self.alpha, self.high = alpha, float(high)
        self.in_shape = self.out_shape = as_shape(shape)

    def forward_and_log_det(
        self, x: Float[Array, "..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
        x = jnp.clip(x / self.high, 0.0, 1.0)
        factor = 1.0 - 2.0 * self.alpha
        # 1 - y is formed from 1 - x: from y it would lose its digits near the upper end.
        log_y, log_rest = (jnp.log(self.alpha + factor * part) for part in (x, 1.0 - x))
        log_det = self._constant() - sum_over(log_y + log_rest, self.in_shape)
        return log_y - log_rest, log_det

    def inverse_and_log_det(
        self, z: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
        factor = 1.0 - 2.0 * self.alpha
        log_det = -sum_over(jax.nn.softplus(z) + jax.nn.softplus(-z), self.in_shape)
        return self.high * (jax.nn.sigmoid(z) - self.alpha) / factor, log_det - self._constant()

    def forward_batch(
        self, xs: Float[Array, "..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "..."], Float[Array, " rows"], "Logit"]:
        if len(self.in_shape) == 3:  # images lie side by side along the last axis
            return *self.forward_and_log_det(xs), self
        return *self.forward_rows(xs), self

    def _constant(self) -> float:
        return math.prod(self.in_shape) * math.log((1.0 - 2.0 * self.alpha) / self.high)


class Sigmoid(AbstractBijection):
    r"""$z = 1 / (1 + e^{-x})$: the line to the unit interval."""

    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: int | tuple[int, ...]):
        self.in_shape = self.out_shape = as_shape(shape)

    def forward_and_log_det(
        self, x: Float[Array, "..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "..."], Scalar]:
        return jax.nn.sigmoid(x), -jnp.sum(jax.nn.softplus(x) + jax.nn.softplus(-x))

    def inverse_and_log_det(self, z: Float[Array, "..."]) -> tuple[Float[Array, "..."], Scalar]:
        # The ends themselves belong to infinite x; one step inside keeps them finite.
        info = jnp.finfo(z.dtype)
        z = jnp.clip(z, info.tiny, 1.0 - info.epsneg)
        log_z, log_rest = jnp.log(z), jnp.log1p(-z)
        return log_z - log_rest, -jnp.sum(log_z + log_rest)


def as_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """A shape from a shape, or from the length of a vector."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size < 1 for size in shape):
        raise ValueError(f"Expected a shape of positive sizes; got {shape}.")
    return shape
