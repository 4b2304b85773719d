"""The summary of y from which heads start."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.heads.links import get_link
from diglm.types import Scalar


class Marginal(NamedTuple):
    """Summary of the targets that carry weight, safe for no rows, one row or a constant."""

    mean: Scalar
    sd: Scalar
    low: Scalar
    high: Scalar
    smallest_positive: Scalar
    total: Scalar


def marginal(ys: Float[Array, " rows"], weights: Float[Array, " rows"]) -> Marginal:
    """Summarise `ys`. A constant target has no spread: its size, or else one, stands in."""
    used = weights > 0
    ys = jnp.where(used, ys, 0)  # rows without weight may hold anything, even NaN
    total = jnp.sum(weights)
    share = weights / jnp.where(total > 0, total, 1)
    mean = jnp.sum(share * ys)
    sd = jnp.sqrt(jnp.sum(share * (ys - mean) ** 2))
    size = jnp.max(jnp.abs(ys), initial=0)
    constant = sd <= 8 * jnp.finfo(ys.dtype).eps * size
    sd = jnp.where(constant, jnp.where(size > 0, size, 1), sd)
    low = jnp.min(jnp.where(used, ys, jnp.inf), initial=jnp.inf)
    high = jnp.max(jnp.where(used, ys, -jnp.inf), initial=-jnp.inf)
    positive = jnp.min(jnp.where(ys > 0, ys, jnp.inf), initial=jnp.inf)
    return Marginal(
        mean=mean,
        sd=sd,
        low=jnp.where(total > 0, low, mean),
        high=jnp.where(total > 0, high, mean),
        smallest_positive=jnp.where(jnp.isfinite(positive), positive, 1),
        total=total,
    )


def mean_bounds(link: str, low: Scalar, high: Scalar) -> tuple[Array, Array]:
    """Bounds of the linear predictor for a mean within [low, high]; some links decrease."""
    ends = jnp.stack([get_link(link).link(low), get_link(link).link(high)])
    return jnp.min(ends, keepdims=True), jnp.max(ends, keepdims=True)
