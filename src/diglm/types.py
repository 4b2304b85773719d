"""Names shared by every layer: array aliases, the training batch, arrays that do not train."""

import math
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray, Shaped

Scalar = Float[Array, ""]
Key = PRNGKeyArray
Tree = TypeVar("Tree")


class Buffer(eqx.Module):
    """An array that belongs to a model but is not trained: statistics, permutations, knots.

    Marking the array where it is made keeps the optimiser ignorant of layers: see `partition`.
    """

    value: Array


class Batch(NamedTuple):
    """Rows given to an objective. `y` holds any finite number where `labelled` is False.

    `x` holds numbers, or the bytes of images, which become numbers at each step.
    The fields are NumPy's arrays while rows are chosen and padded, JAX's in compiled code.
    """

    x: Shaped[Array | np.ndarray, " rows *shape"]
    y: Array | np.ndarray
    labelled: Bool[Array | np.ndarray, " rows"]
    weight: Float[Array | np.ndarray, " rows"]


def bucket(n: int, smallest: int = 128) -> int:
    """The padded size for `n` rows, a power of two: tables of similar size share a program."""
    return max(smallest, 2 ** math.ceil(math.log2(n)))


def padded(columns: tuple[np.ndarray | Array, ...], size: int) -> tuple[np.ndarray, ...]:
    """Columns padded to `size` rows with copies of the first row; the last, weights, with zeros."""
    n = len(columns[-1])
    index = np.concatenate([np.arange(n), np.zeros(size - n, int)])
    *others, weight = (np.asarray(column)[index] for column in columns)
    weight = np.array(weight)
    weight[n:] = 0
    return *others, weight


def pad(rows: Batch, size: int) -> Batch:
    """Rows padded to `size` with copies of the first row, at weight zero."""
    return Batch(*padded(tuple(rows), size))


def placed(values: Any) -> Array:
    """NumPy's numbers as an array of JAX's, floats in its precision, for the parts of models.

    As `jnp.asarray`, which compiles a program for each shape that it meets; so does `jnp.zeros`.
    """
    return jax.device_put(np.asarray(values))


def entry(stacked: Tree, place: int) -> Tree:
    """One of the trees whose arrays were stacked, through NumPy: JAX would compile each slice."""

    def one(leaf: Array) -> Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            words = one(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
        return placed(np.asarray(leaf)[place])

    return jax.tree.map(one, stacked)


def seeded_key(seed: int) -> Key:
    """`jax.random.key(seed)`, without compiling."""
    words = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(placed(words), impl="threefry2x32")


def generator(key: Key) -> np.random.Generator:
    """NumPy's generator seeded by a JAX key, for the starting weights of layers.

    Models are built outside compiled code. Drawn with JAX, each shape of weight would compile a
    program of its own, and building a small flow would take longer than training it.
    """
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())


def split_key(key: Key, n: int) -> list[Key]:
    """`n` independent keys for building, as `jax.random.split` but without compiling."""
    seeds = np.random.SeedSequence(np.asarray(jax.random.key_data(key)).ravel().tolist())
    states = [child.generate_state(2, np.uint32) for child in seeds.spawn(n)]
    return [jax.random.wrap_key_data(placed(state)) for state in states]


def clamp(x: Array, low: ArrayLike, high: ArrayLike) -> Array:
    """`x` within `[low, high]`; slope one up to the bounds, zero beyond.

    As `jnp.clip`, whose slope at a tie is shared out between its arguments: several operations in
    the backward pass where this takes one.
    """
    return jnp.where(x < low, low, jnp.where(x > high, high, x))


def is_buffer(leaf: Any) -> bool:
    """Whether a node of a pytree is a `Buffer`; the `is_leaf` of every trainable/fixed split."""
    return isinstance(leaf, Buffer)


def partition(model: Tree) -> tuple[Tree, Tree]:
    """Split a model into its trainable arrays and everything else; `eqx.combine` rejoins them."""
    trainable = jax.tree.map(
        lambda leaf: not is_buffer(leaf) and eqx.is_inexact_array(leaf), model, is_leaf=is_buffer
    )
    return eqx.partition(model, trainable, is_leaf=is_buffer)
