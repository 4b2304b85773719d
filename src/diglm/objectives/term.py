"""Terms that an objective may add to the weighted joint likelihood."""

from abc import abstractmethod
from typing import cast

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.hybrid import Hybrid, Outputs
from diglm.types import Batch, Key, Scalar


class AbstractTerm(eqx.Module):
    """Something more to be minimised: `weight` times a weighted mean over rows of its own choice.

    Fields are static: they are settings, and part of the compiled program.
    """

    weight: eqx.AbstractVar[float]

    @abstractmethod
    def __call__(self, model: Hybrid, outputs: Outputs, batch: Batch, *, key: Key) -> Scalar:
        """The mean over some rows of the batch, before it is multiplied by `weight`."""


def weighted_mean(
    values: Float[Array, " rows"], weights: Float[Array, " rows"], total: Float[Array, " rows"]
) -> Scalar:
    """The sum of values times weights, over the sum of `total`; what weighs nothing is not read."""
    kept = jnp.where(weights > 0, values, 0.0)
    return jnp.sum(weights * kept) / jnp.maximum(jnp.sum(total), 1e-12)


def unlabelled_weights(batch: Batch) -> Float[Array, " rows"]:
    """What rows without a label count."""
    weights = cast(Array, batch.weight)
    return weights * (1 - batch.labelled.astype(weights.dtype))
