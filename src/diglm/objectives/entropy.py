"""Entropy minimisation: rows without a label should be answered with confidence."""

from typing import cast

import equinox as eqx
import jax
from jaxtyping import Array

from diglm.hybrid import Hybrid, Outputs
from diglm.objectives.term import AbstractTerm, unlabelled_weights, weighted_mean
from diglm.types import Batch, Key, Scalar


class Entropy(AbstractTerm):
    r"""The entropy of $p(y \mid x)$, on rows without a label.

    Reference: Grandvalet and Bengio (2005), Semi-supervised learning by entropy minimization.
    """

    weight: float = eqx.field(static=True, default=1.0)

    def __call__(self, model: Hybrid, outputs: Outputs, batch: Batch, *, key: Key) -> Scalar:
        entropy = jax.vmap(lambda response: response.entropy())(outputs.response)
        return weighted_mean(entropy, unlabelled_weights(batch), cast(Array, batch.weight))
