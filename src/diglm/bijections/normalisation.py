"""Normalisation as bijections: actnorm is set from data once, batch norm follows the batch."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.bijections.base import AbstractBijection, along_first
from diglm.bijections.elementwise import as_shape
from diglm.networks.normalisation import EPSILON, blend
from diglm.rows import pool_statistics
from diglm.types import Buffer, Key, Scalar, placed


class ActNorm(AbstractBijection):
    r"""$z = (x + b) \odot e^s$ with $b, s$ trained, starting from the statistics of a batch.

    `forward_batch(xs, start=True)` sets $b$ and $s$ so that the batch leaves with mean 0 and
    variance 1; from then on the layer is an ordinary affine map. Images (channels, height, width)
    have one $b$ and $s$ a channel, and lie side by side along a last axis.

    Reference: Kingma and Dhariwal (2018), https://arxiv.org/abs/1807.03039
    """

    bias: Float[Array, " dim"]
    log_scale: Float[Array, " dim"]
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: int | tuple[int, ...]):
        self.in_shape = self.out_shape = as_shape(shape)
        self.bias, self.log_scale = (placed(np.zeros(self.in_shape[0])) for _ in range(2))

    def forward_and_log_det(
        self, x: Float[Array, "dim ..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "dim ..."], Float[Array, "*rows"]]:
        bias, scale = (along_first(part, x) for part in (self.bias, jnp.exp(self.log_scale)))
        return (x + bias) * scale, self._log_det(x)

    def inverse_and_log_det(
        self, z: Float[Array, "dim ..."]
    ) -> tuple[Float[Array, "dim ..."], Float[Array, "*rows"]]:
        bias, scale = (along_first(part, z) for part in (self.bias, jnp.exp(-self.log_scale)))
        return z * scale - bias, -self._log_det(z)

    def forward_batch(
        self, xs: Float[Array, "..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "..."], Float[Array, " rows"], "ActNorm"]:
        is_image = len(self.in_shape) > 1
        layer = self._fitted(xs, (1, 2, 3) if is_image else (0,)) if start else self
        return *(layer.forward_and_log_det if is_image else layer.forward_rows)(xs), layer

    def _log_det(self, x: Array) -> Array:
        places = math.prod(self.in_shape[1:])
        return jnp.broadcast_to(places * jnp.sum(self.log_scale), x.shape[len(self.in_shape) :])

    def _fitted(self, xs: Array, axes: tuple[int, ...]) -> "ActNorm":
        mean = jnp.mean(xs, axis=axes)
        std = jnp.std(xs, axis=axes)
        # A constant column shows rounding noise in place of a spread: leave its scale alone.
        noise = 100.0 * jnp.finfo(xs.dtype).eps * jnp.abs(mean) + jnp.finfo(xs.dtype).tiny
        log_scale = -jnp.log(jnp.where(std > noise, std, 1.0))
        return eqx.tree_at(
            lambda layer: (layer.bias, layer.log_scale),
            self,
            jax.lax.stop_gradient((-mean, log_scale)),
        )


class BatchNorm(AbstractBijection):
    r"""$z = e^g \odot (x - m) / \sqrt{v + \epsilon} + b$, with $m, v$ statistics of the rows.

    With its running averages frozen this is an affine map of one example, and densities are
    exact. A training batch is normalised with its own statistics, so its likelihoods are
    approximate; gradients pass through the statistics.

    Reference: Dinh et al. (2017), https://arxiv.org/abs/1605.08803
    """

    log_gain: Float[Array, " dim"]
    bias: Float[Array, " dim"]
    mean: Buffer
    var: Buffer
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, dim: int):
        self.log_gain, self.bias = placed(np.zeros(dim)), placed(np.zeros(dim))
        self.mean, self.var = Buffer(placed(np.zeros(dim))), Buffer(placed(np.ones(dim)))
        self.in_shape = self.out_shape = (dim,)

    def forward_and_log_det(
        self, x: Float[Array, " dim"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim"], Scalar]:
        log_scale = self._log_scale(self.var.value)
        return (x - self.mean.value) * jnp.exp(log_scale) + self.bias, jnp.sum(log_scale)

    def inverse_and_log_det(self, z: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Scalar]:
        log_scale = self._log_scale(self.var.value)
        return (z - self.bias) * jnp.exp(-log_scale) + self.mean.value, -jnp.sum(log_scale)

    def forward_batch(
        self, xs: Float[Array, "rows dim"], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows dim"], Float[Array, " rows"], "BatchNorm"]:
        mean, var = pool_statistics(jnp.mean(xs, axis=0), jnp.var(xs, axis=0))
        where = lambda layer: (layer.mean.value, layer.var.value)  # noqa: E731
        zs, log_dets = jax.vmap(eqx.tree_at(where, self, (mean, var)).forward_and_log_det)(xs)
        averages = (
            blend(self.mean, mean, start=start).value,
            blend(self.var, var, start=start).value,
        )
        return zs, log_dets, eqx.tree_at(where, self, averages)

    def _log_scale(self, var: Array) -> Array:
        return self.log_gain - 0.5 * jnp.log(var + EPSILON)
