"""Compiled evaluation of many rows: fixed chunks, so that neither row count nor company matters.

Rows are evaluated a chunk at a time inside one compiled loop whose number of turns is not part of
the program. A new number of rows therefore never recompiles, a row's answer does not depend on the
rows beside it, and a chunk's intermediates stay in cache.
"""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.compiling import jit_often, require_own_jax
from diglm.heads import AbstractResponse
from diglm.hybrid import Hybrid
from diglm.types import placed

# Many rows are fastest 512 at a time. Few, which are padded to a chunk, have a program of their own
# that takes a third of the time; its answers are the same to the last bit.
FEW, CHUNK, IMAGE_CHUNK = 16, 512, 64
LEAST_CHUNKS, MOST_CHUNKS = 8, 64  # held by the compiled loop: more where rows are short,
BYTES = 2**20  # as far as this goes

_COMPILED: set[tuple] = set()


class Look(NamedTuple):
    """What is known of rows; None if not asked.

    Attributes:
        z: features.
        log_px: log p(x), in encoded units.
        response: p(y|x).
        u: latents of the density, at the centres of cells.
    """

    z: Array | np.ndarray | None
    log_px: Array | np.ndarray | None
    response: AbstractResponse | None
    u: Array | np.ndarray | None = None


def look(model: Hybrid, xs: Array, offsets: Float[Array, "n ..."]) -> Look:
    """Everything about some rows; for rows of points, from one pass through the flow."""
    outputs = model.forward_rows(xs)
    log_px = outputs.log_px if model.completion is None else model.log_mass(xs, offsets)
    return Look(outputs.z, log_px, outputs.response, outputs.u)


def respond(model: Hybrid, xs: Array, _: Array) -> Look:
    """Features and p(y|x)."""
    outputs = model.forward_rows(xs)
    return Look(outputs.z, None, outputs.response)


def density(model: Hybrid, xs: Array, offsets: Float[Array, "n ..."]) -> Look:
    """log p(x) in encoded units."""
    return Look(None, model.log_mass(xs, offsets), None)


def look_filled(model: Hybrid, xs_and_us: Float[Array, "rows ..."], _: Array) -> Look:
    """Everything about rows filled as uniforms say, which lie beside the values.

    log p(x) is less the log density of what was filled in: one draw of an importance sample.
    """
    xs, us = jnp.split(xs_and_us, 2, axis=-1)
    outputs = model.filled_rows(xs, us)
    return Look(outputs.z.reshape(len(xs), -1), outputs.log_px, outputs.response)


def features_of_filled(
    model: Hybrid, xs_and_us: Float[Array, "rows ..."], _: Array
) -> Float[Array, "rows dim"]:
    """The features alone."""
    xs, us = jnp.split(xs_and_us, 2, axis=-1)
    return model.flow.forward_rows(model.fill(xs, us)[0])[0].reshape(len(xs), -1)


def invert(model: Hybrid, zs: Float[Array, "rows dim"], _: Array) -> Array:
    """The encoded rows with features `zs`."""
    return model.flow.bijection.inverse_rows(zs)[0]


def draw(model: Hybrid, us: Float[Array, "rows dim"], _: Array) -> Array:
    """The encoded rows at latents `us` of the density."""
    return model.source.flow.bijection.inverse_rows(us)[0]


def latents(model: Hybrid, xs: Array, _: Array) -> Float[Array, "rows dim"]:
    """Where rows lie under the base, at the centres of what they leave open."""
    source = model.source
    points = xs if source.completion is None else jax.vmap(source.completion.centre)(xs)
    return source.flow.forward_rows(points)[0].reshape(len(xs), -1)


def evaluate(
    function: Callable[[Hybrid, Array, Array], Any],
    model: Hybrid,
    rows: np.ndarray,
    offsets: Float[np.ndarray, "n ..."],
) -> Any:
    """`function(model, rows, offsets)` of all rows, as NumPy arrays stacked along them."""
    require_own_jax()
    if rows.dtype != np.uint8:  # pixels
        rows = np.asarray(rows, jnp.result_type(float))
    is_row = len(model.flow.bijection.in_shape) == 1
    chunk = CHUNK if is_row else IMAGE_CHUNK
    room = BYTES // (chunk * math.prod(rows.shape[1:]) * rows.itemsize)
    n_held = max(LEAST_CHUNKS, min(MOST_CHUNKS, room))
    if is_row and len(rows) <= FEW:
        chunk, n_held = FEW, 1
    # As many parts as threads, or a multiple, all of one size: no thread waits for another.
    n_parts, n_threads = max(1, -(-len(rows) // (n_held * chunk))), os.cpu_count() or 1
    if n_parts > 1:
        n_parts = n_threads * -(-n_parts // n_threads)
    size = chunk * max(1, -(-len(rows) // (n_parts * chunk)))
    shared = placed(offsets)

    def run(start: int) -> Any:
        part = rows[start : start + size]
        padded = np.zeros((n_held * chunk, *rows.shape[1:]), rows.dtype)
        padded[: len(part)] = part
        n_chunks = np.asarray(-(-len(part) // chunk), np.int32)
        chunks = padded.reshape(n_held, chunk, *rows.shape[1:])
        out = _LOOPS[is_row](function, model, chunks, n_chunks, shared)
        return jax.tree.map(lambda a: np.asarray(a)[: len(part)], out)

    starts = range(0, max(1, len(rows)), size)
    if len(starts) == 1:
        return run(0)
    done = []
    program = (function, jax.tree.structure(model), tuple(map(np.shape, jax.tree.leaves(model))))
    if program not in _COMPILED:  # once, before the threads set out to do it all at the same time
        done.append(run(0))
        _COMPILED.add(program)
    with ThreadPoolExecutor(n_threads) as pool:  # a loop of small chunks keeps one core busy
        parts = [*done, *pool.map(run, starts[len(done) :])]
    return jax.tree.map(lambda *columns: np.concatenate(columns), *parts)


def _loop(
    function: Callable,
    model: Hybrid,
    chunks: Any,
    n_chunks: Any,
    shared: Float[Array, "n ..."],
) -> Any:
    def whole(rows: Array) -> Any:
        return function(model, rows, shared)

    empty = jax.tree.map(
        lambda leaf: jnp.zeros((len(chunks), *leaf.shape), leaf.dtype),
        jax.eval_shape(whole, chunks[0]),
    )

    def turn(i, filled):
        return jax.tree.map(lambda out, new: out.at[i].set(new), filled, whole(chunks[i]))

    filled = jax.lax.fori_loop(0, n_chunks, turn, empty)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), filled)


_LOOPS = {is_row: jit_often(_loop, row_by_row=is_row) for is_row in (True, False)}
