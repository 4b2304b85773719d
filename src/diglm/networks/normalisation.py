"""Batch normalisation of hidden units: batch statistics in training, fixed ones otherwise."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.networks.base import AbstractNetwork, row_keys
from diglm.rows import pool_statistics
from diglm.types import Buffer, Key

MOMENTUM = 0.9
EPSILON = 1e-5
ROWS = "rows"  # the name of the mapped batch axis, over which statistics are averaged


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
        self.gain, self.bias = jnp.ones(width), jnp.zeros(width)
        self.mean, self.var = Buffer(jnp.zeros(width)), Buffer(jnp.ones(width))

    def __call__(
        self, x: Float[Array, " width"], *, key: Key | None = None
    ) -> Float[Array, " width"]:
        return self._normalise(x, self.mean.value, self.var.value)

    def across_rows(
        self, x: Float[Array, " width"], *, start: bool
    ) -> tuple[Float[Array, " width"], "BatchNorm1d"]:
        """One row inside a `vmap` whose axis is named `ROWS`; the copy returned has no row axis."""
        mean = jax.lax.pmean(x, ROWS)
        var = jax.lax.pmean(jnp.square(x - mean), ROWS)
        mean, var = pool_statistics(mean, var)
        moved = eqx.tree_at(
            lambda norm: (norm.mean, norm.var),
            self,
            (blend(self.mean, mean, start=start), blend(self.var, var, start=start)),
        )
        return self._normalise(x, mean, var), moved

    def forward_batch(
        self, xs: Float[Array, "rows width"], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows width"], "BatchNorm1d"]:
        return map_with_statistics(lambda x, *, key: self.across_rows(x, start=start), xs, key=None)

    def _normalise(self, x: Array, mean: Array, var: Array) -> Array:
        return (x - mean) * (self.gain * jax.lax.rsqrt(var + EPSILON)) + self.bias


def blend(running: Buffer, batch: Array, *, start: bool) -> Buffer:
    """Running averages moved towards a batch's statistics, or set to them when `start` is True."""
    batch = jax.lax.stop_gradient(batch)
    return Buffer(batch if start else MOMENTUM * running.value + (1 - MOMENTUM) * batch)


def map_with_statistics(run: Callable, xs: Float[Array, "rows ..."], *, key: Key | None):
    """Map `run(x, key=...) -> (y, statistics)` over rows that see one another's statistics."""
    if key is None:
        return jax.vmap(lambda x: run(x, key=None), axis_name=ROWS, out_axes=(0, None))(xs)
    mapped = jax.vmap(lambda x, k: run(x, key=k), axis_name=ROWS, out_axes=(0, None))
    return mapped(xs, row_keys(key, xs.shape[0]))


class Normaliser:
    """How a network meets its norms on one pass: frozen, or moving with the rows of a batch.

    The norms met are collected in order, so that one body serves both ways through a network.
    """

    def __init__(self, norms: tuple[BatchNorm1d, ...], *, moving: bool, start: bool = False):
        self.waiting, self.met = list(norms), []
        self.moving, self.start = moving, start

    def __call__(self, x: Array) -> Array:
        if not self.waiting:  # a network without batch norm
            return x
        norm = self.waiting.pop(0)
        if not self.moving:
            return norm(x)
        x, moved = norm.across_rows(x, start=self.start)
        self.met.append(moved)
        return x
