"""Rows of a batch that devices divide among them, and what must still be that of all rows.

In training on several devices each sees its own rows only. What it draws for them and what it
learns from them as a batch has to be what one device would have drawn and learned with all rows.
Everywhere else these functions do nothing, and leave nothing in the compiled program.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Shaped

DEVICES = "devices"  # the axis of the mesh over which rows are divided, in their order


def n_parts() -> int:
    """Into how many parts the rows of a batch are divided where this is traced; 1 if all are here.

    The answer is JAX's own: whether the axis `DEVICES` is one that collectives may name here.
    """
    try:
        return jax.lax.axis_size(DEVICES)
    except NameError:
        return 1


def draw_rows(
    draw: Callable[[int], Shaped[Array, "rows ..."]], n_rows: int
) -> Shaped[Array, "own ..."]:
    """`draw(n_rows)`; of divided rows this device's part of what is drawn for all of them.

    Every device draws for all rows: a generator gives no access to a part of what it would draw,
    and noise is cheap beside the network.
    """
    return own_rows(draw(n_parts() * n_rows), n_rows)


def all_rows(own: Shaped[Array, "own ..."]) -> Shaped[Array, "rows ..."]:
    """The rows of all devices, in their order, from those that are here."""
    return own if n_parts() == 1 else jax.lax.all_gather(own, DEVICES, tiled=True)


def own_rows(everyones: Shaped[Array, "rows ..."], n_rows: int) -> Shaped[Array, "own ..."]:
    """This device's `n_rows` of all rows."""
    if n_parts() == 1:
        return everyones
    return jax.lax.dynamic_slice_in_dim(everyones, jax.lax.axis_index(DEVICES) * n_rows, n_rows)


def pool_statistics(mean: Array, var: Array) -> tuple[Array, Array]:
    r"""Mean and variance of all rows, from those of the rows that are here.

    $m = \overline{m_d}$ and $v = \overline{v_d + (m_d - m)^2}$ over devices d with equally many
    rows: one exchange for both, and no difference of large numbers.
    """
    if n_parts() == 1:
        return mean, var
    means, variances = jnp.moveaxis(jax.lax.all_gather(jnp.stack([mean, var]), DEVICES), 1, 0)
    mean = jnp.mean(means, axis=0)
    return mean, jnp.mean(variances + jnp.square(means - mean[None]), axis=0)


def sum_over_devices(tree: Any) -> Any:
    """The arrays of a tree summed over devices, as one vector: each exchange has its price."""
    if n_parts() == 1:
        return tree
    flat, unravel = ravel_pytree(tree)
    return unravel(jax.lax.psum(flat, DEVICES))
