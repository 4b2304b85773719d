"""Sliced Wasserstein: features of a batch should lie as draws of the base do, from all sides."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.objectives.term import AbstractTerm, Pass, PerRow, all_weights
from diglm.rows import all_rows, own_rows
from diglm.types import Key, clamp

EDGE = 1e-6  # levels stay this far from zero and one


class Wasserstein(AbstractTerm):
    r"""$E_\theta\, W_2^2(\theta^\top u, \theta^\top b)$ of features u and draws b of the base.

    Along a direction $\theta$ of length one the squared distance is that of quantiles: with rows
    in the order of $t_n = \theta^\top u_n$ and $q_n$ the share of their weight that lies below
    (half of the row's own with it),
    $$W_2^2 = \sum_n w_n (t_n - F_\theta^{-1}(q_n))^2 \Big/ \sum_n w_n,$$
    a mean over all rows like other terms. Its unit is the squared unit of one feature, however
    many there are. Unlike the log-density it needs neither an inverse nor a determinant, and
    looks at where rows lie, not at how densely. A batch of n rows is at a distance of the order of
    $1 / n$ from what it is drawn from.

    Reference: Bonneel et al. (2015), https://doi.org/10.1007/s10851-014-0506-3; Kolouri et al.
    (2019), https://arxiv.org/abs/1804.01947

    Args:
        weight: of the mean, beside that of log p(y|x) over rows with a label.
        directions: drawn anew at each step.
    """

    weight: float = eqx.field(static=True, default=1.0)
    directions: int = eqx.field(static=True, default=32)

    def rows(self, seen: Pass, *, key: Key) -> PerRow:
        key_sides, key_base = jax.random.split(key)
        weights = all_weights(seen.batch)
        us = seen.outputs.u.reshape(len(weights), -1)
        us = jnp.where(weights[:, None] > 0, us, 0.0)
        sides = jax.random.normal(key_sides, (us.shape[1], self.directions), us.dtype)
        sides = sides / jnp.sqrt(jnp.sum(jnp.square(sides), axis=0, keepdims=True))
        along = us @ sides
        wanted = seen.model.flow.base.along(sides, levels_of(along, weights), key_base)
        return jnp.mean(jnp.square(along - wanted), axis=1), weights


def levels_of(
    values: Float[Array, "rows directions"], weights: Float[Array, " rows"]
) -> Float[Array, "rows directions"]:
    """What share of the weight of all rows lies below each value, half of its own counted."""
    everyones, all_weights = all_rows(jax.lax.stop_gradient(values)), all_rows(weights)
    order = jnp.argsort(everyones, axis=0)
    sorted_weights = all_weights[order]
    below = jnp.cumsum(sorted_weights, axis=0) - 0.5 * sorted_weights
    shares = below / jnp.maximum(jnp.sum(all_weights), 1e-12)
    unsorted = jnp.take_along_axis(shares, jnp.argsort(order, axis=0), axis=0)
    return own_rows(clamp(unsorted, EDGE, 1 - EDGE), len(values))
