"""Compiled evaluation of many rows: fixed chunks, so that neither row count nor company matters.

Rows are evaluated `CHUNK` at a time inside one compiled loop whose number of turns is not part of
the program. A new number of rows therefore never recompiles, a row's answer does not depend on the
rows beside it, and a chunk's intermediates stay in cache.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from diglm.heads import AbstractResponse
from diglm.hybrid import Hybrid

CHUNK = 512
CAPACITY = 16 * CHUNK  # rows held by the compiled loop

_COMPILED: set[tuple] = set()


class Look(NamedTuple):
    """What is known of one row: features, log p(x) in encoded units, p(y|x); None if not asked."""

    z: Array | None
    log_px: Array | None
    response: AbstractResponse | None


def look(model: Hybrid, x: Float[Array, " dim"], offsets: Float[Array, "n dim"]) -> Look:
    """Everything about one row; for rows of points, from one pass through the flow."""
    outputs = model(x)
    log_px = outputs.log_px if model.completion is None else model.log_mass(x, offsets)
    return Look(outputs.z, log_px, outputs.response)


def respond(model: Hybrid, x: Float[Array, " dim"], _: Array) -> Look:
    """Features and p(y|x) of one row."""
    outputs = model(x)
    return Look(outputs.z, None, outputs.response)


def density(model: Hybrid, x: Float[Array, " dim"], offsets: Float[Array, "n dim"]) -> Look:
    """log p(x) of one row in encoded units."""
    return Look(None, model.log_mass(x, offsets), None)


def invert(model: Hybrid, z: Float[Array, " dim"], _: Array) -> Array:
    """The encoded row with features `z`."""
    return model.flow.bijection.inverse(z)


def read_off(model: Hybrid, z: Float[Array, " dim"], _: Array) -> AbstractResponse:
    """p(y|z)."""
    return model.head(z)


def evaluate(
    function: Callable[[Hybrid, Array, Array], Any],
    model: Hybrid,
    rows: Float[np.ndarray, "rows dim"],
    offsets: Float[np.ndarray, "n dim"],
) -> Any:
    """`function(model, row, offsets)` for every row, as NumPy arrays stacked along the rows."""
    rows = np.asarray(rows, jnp.result_type(float))
    shared = jnp.asarray(offsets, jnp.result_type(float))

    def run(start: int) -> Any:
        part = rows[start : start + CAPACITY]
        padded = np.zeros((CAPACITY, *rows.shape[1:]), rows.dtype)
        padded[: len(part)] = part
        n_chunks = jnp.asarray(-(-len(part) // CHUNK), jnp.int32)
        out = _loop(function, model, jnp.asarray(padded), n_chunks, shared)
        return jax.tree.map(lambda a: np.asarray(a)[: len(part)], out)

    starts = range(0, len(rows), CAPACITY)
    if len(starts) == 1:
        return run(0)
    done = []
    program = (function, jax.tree.structure(model), tuple(map(np.shape, jax.tree.leaves(model))))
    if program not in _COMPILED:  # once, before the threads set out to do it all at the same time
        done.append(run(0))
        _COMPILED.add(program)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a loop of small chunks keeps one core busy
        parts = [*done, *pool.map(run, starts[len(done) :])]
    return jax.tree.map(lambda *columns: np.concatenate(columns), *parts)


@eqx.filter_jit
def _loop(
    function: Callable,
    model: Hybrid,
    rows: Float[Array, "capacity dim"],
    n_chunks: Int[Array, ""],
    shared: Float[Array, "n dim"],
) -> Any:
    chunks = rows.reshape(-1, CHUNK, *rows.shape[1:])
    whole = jax.vmap(lambda row: function(model, row, shared))
    empty = jax.tree.map(
        lambda leaf: jnp.zeros((len(chunks), *leaf.shape), leaf.dtype),
        jax.eval_shape(whole, chunks[0]),
    )

    def turn(i, filled):
        return jax.tree.map(lambda out, new: out.at[i].set(new), filled, whole(chunks[i]))

    filled = jax.lax.fori_loop(0, n_chunks, turn, empty)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), filled)
