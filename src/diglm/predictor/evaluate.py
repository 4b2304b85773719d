"""What a model says of many rows: the functions that are evaluated, in blocks of fixed size."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.blocks import in_blocks
from diglm.compiling import require_own_jax
from diglm.heads import AbstractResponse
from diglm.hybrid import Hybrid
from diglm.types import placed

# Many rows are fastest 512 at a time. Few, which are padded to a chunk, have a program of their own
# that takes a third of the time; its answers are the same to the last bit.
FEW, CHUNK, IMAGE_CHUNK = 16, 512, 64


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
    *,
    once: bool = False,
) -> Any:
    """`function(model, rows, offsets)` of all rows, as NumPy arrays stacked along them.

    With `once`, rows of tables are asked by a program that comes soon rather than runs fast.
    """
    require_own_jax()
    if rows.dtype != np.uint8:  # pixels
        rows = np.asarray(rows, jnp.result_type(float))
    is_row = len(model.flow.bijection.in_shape) == 1
    chunk, few = (CHUNK, FEW) if is_row else (IMAGE_CHUNK, 0)
    return in_blocks(function, model, rows, placed(offsets), chunk, few=few, once=once and is_row)
