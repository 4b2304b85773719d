"""Bijections made of bijections: a chain of layers, a scan over equal blocks, an inverted layer."""

from collections.abc import Callable, Sequence
from itertools import takewhile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.bijections.base import AbstractBijection, n_rows
from diglm.bijections.reversible import run_reversibly
from diglm.types import Key, placed, split_key


class Chain(AbstractBijection):
    r"""$f = f_L \circ \dots \circ f_1$: log-determinants add along the way."""

    layers: tuple[AbstractBijection, ...]
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, layers: Sequence[AbstractBijection]):
        if not layers:
            raise ValueError("Chain needs at least one layer; for no change use Identity(dim).")
        for i, (first, second) in enumerate(zip(layers[:-1], layers[1:], strict=True)):
            if first.out_shape != second.in_shape:
                raise ValueError(
                    f"Chain layer {i} gives shape {first.out_shape}, but layer {i + 1} "
                    f"takes {second.in_shape}."
                )
        self.layers = tuple(layers)
        self.in_shape, self.out_shape = layers[0].in_shape, layers[-1].out_shape

    def forward_and_log_det(
        self, x: Float[Array, "..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
        total = _no_change(x, self.in_shape)
        for layer, layer_key in zip(self.layers, _split(key, len(self.layers)), strict=True):
            x, log_det = layer.forward_and_log_det(x, key=layer_key)
            total = total + log_det
        return x, total

    def inverse_and_log_det(
        self, z: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
        total = _no_change(z, self.out_shape)
        for layer in reversed(self.layers):
            z, log_det = layer.inverse_and_log_det(z)
            total = total + log_det
        return z, total

    def forward_batch(
        self, xs: Float[Array, "rows ..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows ..."], Float[Array, " rows"], "Chain"]:
        total = jnp.zeros(n_rows(xs, self.in_shape), xs.dtype)
        layers = []
        for layer, layer_key in zip(self.layers, _split(key, len(self.layers)), strict=True):
            xs, log_dets, layer = layer.forward_batch(xs, key=layer_key, start=start)
            total = total + log_dets
            layers.append(layer)
        return xs, total, eqx.tree_at(lambda chain: chain.layers, self, tuple(layers))

    def entered(self, xs: Float[Array, "..."]) -> Float[Array, "..."]:
        for layer in self.layers[: self._n_units]:
            xs = _frozen(layer, xs)
        return xs

    def rows_entered(self, places: Float[Array, "..."]) -> Float[Array, "..."]:
        for layer in self.layers[self._n_units :]:
            places = _frozen(layer, places)
        return places

    def first_entered(self, places: Float[Array, "..."], n: int) -> Float[Array, "..."]:
        *before, last = self.layers[self._n_units :]
        for layer in before:
            places = _frozen(layer, places)
        return last.first_entered(places, n)

    @property
    def _n_units(self) -> int:
        """How many layers, the first ones, change units alone."""
        return sum(1 for _ in takewhile(lambda layer: layer.changes_units, self.layers))

    def retrace(
        self,
        z: Float[Array, "..."],
        grad_z: Float[Array, "..."],
        grad_log_det: Float[Array, "*rows"],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."], "Chain"]:
        gradients = []
        for layer in reversed(self.layers):
            z, grad_z, grad_layer = layer.retrace(z, grad_z, grad_log_det)
            gradients.append(grad_layer)
        grad_chain = eqx.tree_at(lambda chain: chain.layers, self, tuple(gradients[::-1]))
        return z, grad_z, grad_chain


def _frozen(layer: AbstractBijection, xs: Float[Array, "..."]) -> Float[Array, "..."]:
    """Many examples through a layer as it will answer; images lie side by side."""
    by_row = xs.shape[1:] == layer.in_shape
    return (layer.forward_rows if by_row else layer.forward_and_log_det)(xs)[0]


class Scan(AbstractBijection):
    r"""$f = f_L \circ \dots \circ f_1$ for blocks of one structure, stored stacked.

    The block is traced and compiled once instead of `n_blocks` times. `unroll` blocks are laid
    out per turn of the compiled loop: more compiling, less looping. With all of them laid out
    there is no loop, and `vmap` may keep rows along any axis.

    `reversible` blocks are inverted in the backward pass instead of kept: the memory of training
    does not grow with their number, for about a third more time. Such blocks can have neither
    dropout nor batch norm, whose passes cannot be repeated.
    """

    blocks: AbstractBijection
    n_blocks: int = eqx.field(static=True)
    unroll: int = eqx.field(static=True)
    reversible: bool = eqx.field(static=True)
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        make_block: Callable[[Key], AbstractBijection],
        n_blocks: int,
        *,
        unroll: int = 1,
        reversible: bool = False,
        key: Key,
    ):
        if n_blocks < 1:
            raise ValueError(f"Scan needs n_blocks >= 1; got {n_blocks}.")
        blocks = [make_block(block_key) for block_key in split_key(key, n_blocks)]
        self.blocks = jax.tree.map(
            lambda *leaves: placed(np.stack(leaves)) if eqx.is_array(leaves[0]) else leaves[0],
            *blocks,
        )
        if self.blocks.in_shape != self.blocks.out_shape:
            raise ValueError(
                f"Scan repeats its block, so shapes must agree; the block maps "
                f"{self.blocks.in_shape} to {self.blocks.out_shape}."
            )
        self.n_blocks, self.unroll, self.reversible = n_blocks, unroll, reversible
        self.in_shape = self.out_shape = self.blocks.in_shape

    def forward_and_log_det(
        self, x: Float[Array, "..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
        if self.reversible:
            return run_reversibly(self.blocks, x, _no_change(x, self.in_shape))

        def step(carry, block, block_key):
            x, total = carry
            x, log_det = block.forward_and_log_det(x, key=block_key)
            return (x, total + log_det), None

        carry, _ = self._scan(step, (x, _no_change(x, self.in_shape)), key=key)
        return carry

    def inverse_and_log_det(
        self, z: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
        def step(carry, block, _):
            z, total = carry
            z, log_det = block.inverse_and_log_det(z)
            return (z, total + log_det), None

        carry, _ = self._scan(step, (z, _no_change(z, self.in_shape)), reverse=True)
        return carry

    def forward_batch(
        self, xs: Float[Array, "rows ..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows ..."], Float[Array, " rows"], "Scan"]:
        if self.reversible and not start:
            side_by_side = len(self.in_shape) > 1  # images; rows of a table are mapped over
            zs, total = (self.forward_and_log_det if side_by_side else self.forward_rows)(xs)
            return zs, total, self

        def step(carry, block, block_key):
            xs, total = carry
            xs, log_dets, block = block.forward_batch(xs, key=block_key, start=start)
            return (xs, total + log_dets), eqx.filter(block, eqx.is_array)

        start_at = (xs, jnp.zeros(n_rows(xs, self.in_shape), xs.dtype))
        (zs, total), arrays = self._scan(step, start_at, key=key)
        blocks = eqx.combine(arrays, self.blocks)
        return zs, total, eqx.tree_at(lambda scan: scan.blocks, self, blocks)

    def _scan(self, step, carry, *, key: Key | None = None, reverse: bool = False):
        arrays, static = eqx.partition(self.blocks, eqx.is_array)
        keys = None if key is None else jax.random.split(key, self.n_blocks)

        def body(carry, sliced):
            block_arrays, block_key = sliced
            return step(carry, eqx.combine(block_arrays, static), block_key)

        if self.unroll >= self.n_blocks:
            return _laid_out(body, carry, (arrays, keys), self.n_blocks, reverse=reverse)
        return jax.lax.scan(
            body, carry, (arrays, keys), reverse=reverse, unroll=min(self.unroll, self.n_blocks)
        )


class Inverted(AbstractBijection):
    r"""$f^{-1}$ as a layer: forward and inverse exchanged."""

    bijection: AbstractBijection
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, bijection: AbstractBijection):
        self.bijection = bijection
        self.in_shape, self.out_shape = bijection.out_shape, bijection.in_shape

    def forward_and_log_det(
        self, x: Float[Array, "..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
        return self.bijection.inverse_and_log_det(x)

    def inverse_and_log_det(
        self, z: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
        return self.bijection.forward_and_log_det(z)


def _laid_out(body, carry, stacked, n: int, *, reverse: bool):
    """`jax.lax.scan` without the loop."""
    collected = []
    leaves, structure = jax.tree.flatten(stacked)
    parts = [_unstacked(leaf, n) for leaf in leaves]
    for i in range(n)[:: -1 if reverse else 1]:
        carry, out = body(carry, jax.tree.unflatten(structure, [part[i] for part in parts]))
        collected.append(out)
    ordered = collected[::-1] if reverse else collected
    return carry, jax.tree.map(lambda *leaves: jnp.stack(leaves), *ordered)


def _unstacked(leaf: Array, n: int) -> list[Array]:
    # Not by indices: the gradient of a split is one concatenation, that of n slices n sums of
    # arrays as large as the whole.
    if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):  # random keys, which know no split
        return list(leaf)
    return [part.reshape(leaf.shape[1:]) for part in jax.lax.split(leaf, [1] * n)]


def _no_change(x: Array, shape: tuple[int, ...]) -> Array:
    """The log-determinant before the first layer, for one example or for images side by side."""
    return jnp.zeros(x.shape[len(shape) :], x.dtype)


def _split(key: Key | None, n: int):
    return [None] * n if key is None else jax.random.split(key, n)
