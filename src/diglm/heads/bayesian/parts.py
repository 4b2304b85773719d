"""Small parts of heads with random weights."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.heads.bayesian.averages import Gaussians
from diglm.heads.bayesian.regression import Levels, Posterior
from diglm.heads.responses import Gaussian
from diglm.types import Buffer


def hold_posteriors(head: Any, found: list[Posterior], levels: list[Levels]) -> Any:
    """A conjugate head with these posteriors, one a target, and levels."""
    dtype = head.weight.dtype

    def put(values: Any, old: Any) -> Any:
        values = jnp.asarray(np.asarray(values), dtype)
        return Buffer(values) if isinstance(old, Buffer) else values

    return eqx.tree_at(
        lambda h: (h.mean, h.factor, h.log_noise, h.log_precision),
        head,
        (
            put(np.stack([one.mean for one in found], axis=1), head.mean),
            put(np.stack([one.factor for one in found]), head.factor),
            put([math.log(level.noise) for level in levels], head.log_noise),
            put([math.log(level.precision) for level in levels], head.log_precision),
        ),
        is_leaf=lambda node: isinstance(node, Buffer),
    )


def with_one(z: Float[Array, " dim"]) -> Float[Array, " p"]:
    r"""$\phi = (z, 1)$: the features and a one for the bias."""
    return jnp.concatenate([z, jnp.ones(1, z.dtype)])


def normal_response(
    loc: Float[Array, " targets"], variance: Float[Array, " targets"]
) -> Gaussian | Gaussians:
    """A normal response, or several for several targets."""
    scale = jnp.sqrt(variance)
    return Gaussian(loc[0], scale[0]) if len(loc) == 1 else Gaussians(loc, scale)


def value_of(number: Array | Buffer) -> Array:
    """The array, be it trained or not."""
    return number.value if isinstance(number, Buffer) else number
