"""Entropy minimisation: rows without a label should be answered with confidence."""

import equinox as eqx
import jax

from diglm.objectives.term import AbstractTerm, Pass, PerRow, rising, unlabelled_weights
from diglm.types import Key, Scalar


class Entropy(AbstractTerm):
    r"""The mean entropy of $p(y \mid x)$ over rows without a label.

    Reference: Grandvalet and Bengio (2005), Semi-supervised learning by entropy minimization.

    Args:
        weight: of the mean, beside that of log p(y|x) over rows with a label.
        ramp: share of training over which the weight rises.
    """

    weight: float = eqx.field(static=True, default=1.0)
    ramp: float = eqx.field(static=True, default=0.0)

    def rows(self, seen: Pass, *, key: Key) -> PerRow:
        entropy = jax.vmap(lambda response: response.entropy())(seen.outputs.response)
        return entropy.reshape(len(entropy), -1).sum(axis=1), unlabelled_weights(seen.batch)

    def strength(self, done: Scalar | float) -> Scalar | float:
        return rising(self.ramp, done)
