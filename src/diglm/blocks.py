"""Compiled loops over many rows: fixed chunks, so that neither row count nor company matters.

Rows are taken a chunk at a time inside one compiled loop whose number of turns is not part of the
program. A new number of rows therefore never recompiles, a row's answer does not depend on the rows
beside it, and a chunk's intermediates stay in cache.
"""

import functools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from diglm.compiling import jit_often, jit_once
from diglm.types import bucket

LEAST_CHUNKS, MOST_CHUNKS = 8, 64  # held by the compiled loop: more where rows are short,
BYTES = 2**20  # as far as this goes
FEW_CHUNKS = 4  # held by a loop that is asked once about as many rows

_COMPILED: set[tuple] = set()


def in_blocks(
    function: Callable[[Any, Array, Any], Any],
    fixed: Any,
    rows: Shaped[np.ndarray, "n ..."],
    shared: Any,
    chunk: int,
    *,
    few: int = 0,
    once: bool = False,
) -> Any:
    """`function(fixed, rows, shared)` of all rows, as NumPy arrays stacked along them.

    Args:
        function: of a chunk of rows; each row's answer is its own.
        fixed: what the answers depend on, arrays and all.
        rows: in the type that they are computed in.
        shared: more of the same.
        chunk: rows at a time.
        few: up to so many rows have a program of their own, a single chunk of this size. A row's
            answer is then the same to the last bit whichever program gives it.
        once: the program is asked once or twice, and should come soon rather than run fast.
    """
    loop = _LOOP_ONCE if once else _LOOPS[few > 0]
    room = BYTES // (chunk * math.prod(rows.shape[1:]) * rows.itemsize)
    n_held = max(LEAST_CHUNKS, min(MOST_CHUNKS, room))
    if once:  # more room than there are rows would look like much to compute
        n_held = min(n_held, bucket(-(-len(rows) // chunk) or 1, smallest=FEW_CHUNKS))
    elif len(rows) <= few:
        chunk, n_held = few, 1
    # As many parts as threads, or a multiple, all of one size: no thread waits for another.
    n_parts, n_threads = max(1, -(-len(rows) // (n_held * chunk))), os.cpu_count() or 1
    if n_parts > 1:
        n_parts = n_threads * -(-n_parts // n_threads)
    size = chunk * max(1, -(-len(rows) // (n_parts * chunk)))

    def run(start: int) -> Any:
        part = rows[start : start + size]
        padded = np.zeros((n_held * chunk, *rows.shape[1:]), rows.dtype)
        padded[: len(part)] = part
        n_chunks = np.asarray(-(-len(part) // chunk), np.int32)
        chunks = padded.reshape(n_held, chunk, *rows.shape[1:])
        out = loop(function, fixed, chunks, n_chunks, shared)
        return jax.tree.map(lambda a: np.asarray(a)[: len(part)], out)

    starts = range(0, max(1, len(rows)), size)
    if len(starts) == 1:
        return run(0)
    done = []
    program = (function, jax.tree.structure(fixed), tuple(map(np.shape, jax.tree.leaves(fixed))))
    if program not in _COMPILED:  # once, before the threads set out to do it all at the same time
        done.append(run(0))
        _COMPILED.add(program)
    with ThreadPoolExecutor(n_threads) as pool:  # a loop of small chunks keeps one core busy
        parts = [*done, *pool.map(run, starts[len(done) :])]
    return jax.tree.map(lambda *columns: np.concatenate(columns), *parts)


def _loop(
    function: Callable,
    fixed: Any,
    chunks: Any,
    n_chunks: Any,
    shared: Any,
) -> Any:
    # Inlined, it leaves the program as it is; both uses below share what is traced once.
    @functools.partial(jax.jit, inline=True)
    def whole(rows: Array) -> Any:
        return function(fixed, rows, shared)

    empty = jax.tree.map(
        lambda leaf: jnp.zeros((len(chunks), *leaf.shape), leaf.dtype),
        jax.eval_shape(whole, chunks[0]),
    )

    def turn(i, filled):
        return jax.tree.map(lambda out, new: out.at[i].set(new), filled, whole(chunks[i]))

    filled = jax.lax.fori_loop(0, n_chunks, turn, empty)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), filled)


_LOOP_ONCE = jit_once(_loop)
_LOOPS = {exact: jit_often(_loop, row_by_row=exact) for exact in (True, False)}
