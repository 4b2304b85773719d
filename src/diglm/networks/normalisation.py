"""Batch normalisation of hidden units: batch statistics in training, fixed ones otherwise."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.networks.base import AbstractNetwork, beside
from diglm.rows import pool_statistics
from diglm.types import Buffer, Key, placed

MOMENTUM = 0.9
EPSILON = 1e-5


class BatchNorm1d(AbstractNetwork):
    r"""$y = g \odot (x - m) / \sqrt{v + \epsilon} + b$, with $m, v$ the mean and variance of rows.

    One example is normalised with running averages, which are not trained. A training batch is
    normalised with its own statistics, through which gradients pass.

    Reference: Ioffe and Szegedy (2015), https://arxiv.org/abs/1502.03167
    """

    gain: Float[Array, " width"]
    bias: Float[Array, " width"]
    mean: Buffer
    var: Buffer

    def __init__(self, width: int):
        if width < 1:
            raise ValueError(f"BatchNorm1d needs width >= 1; got {width}.")
        self.gain, self.bias = placed(np.ones(width)), placed(np.zeros(width))
        self.mean, self.var = Buffer(placed(np.zeros(width))), Buffer(placed(np.ones(width)))

    def __call__(
        self, x: Float[Array, " width"], *, key: Key | None = None
    ) -> Float[Array, " width"]:
        return self._normalise(x, self.mean.value, self.var.value)

    def forward_batch(
        self, xs: Float[Array, "rows width"], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows width"], "BatchNorm1d"]:
        mean = jnp.mean(xs, axis=0)
        var = jnp.mean(jnp.square(xs - beside(mean, xs)), axis=0)
        mean, var = pool_statistics(mean, var)
        moved = eqx.tree_at(
            lambda norm: (norm.mean, norm.var),
            self,
            (blend(self.mean, mean, start=start), blend(self.var, var, start=start)),
        )
        return self._normalise(xs, mean, var), moved

    def _normalise(self, xs: Array, mean: Array, var: Array) -> Array:
        scale = self.gain * jax.lax.rsqrt(var + EPSILON)
        return (xs - beside(mean, xs)) * beside(scale, xs) + beside(self.bias, xs)


def blend(running: Buffer, batch: Array, *, start: bool) -> Buffer:
    """Running averages moved towards a batch's statistics, or set to them when `start` is True."""
    batch = jax.lax.stop_gradient(batch)
    return Buffer(batch if start else MOMENTUM * running.value + (1 - MOMENTUM) * batch)


class Normaliser:
    """How a network meets its norms on one pass: frozen, or moving with the rows of a batch.

    The norms met are collected in order, so that one body serves both ways through a network.
    """

    def __init__(self, norms: tuple[BatchNorm1d, ...], *, moving: bool, start: bool = False):
        self.waiting, self.met = list(norms), []
        self.moving, self.start = moving, start

    def __call__(self, xs: Float[Array, "*rows width"]) -> Float[Array, "*rows width"]:
        if not self.waiting:  # a network without batch norm
            return xs
        norm = self.waiting.pop(0)
        if not self.moving:
            return norm(xs)
        xs, moved = norm.forward_batch(xs, start=self.start)
        self.met.append(moved)
        return xs
