"""Terms that an objective may add to the weighted joint likelihood."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.hybrid import Hybrid, Outputs
from diglm.rows import sum_over_devices
from diglm.types import Batch, Key, Scalar

PerRow = tuple[Float[Array, " rows"], Float[Array, " rows"]]


class Pass(NamedTuple):
    """What a term may look at: a pass of the model over a batch.

    Attributes:
        model: what is trained.
        outputs: of its pass over the batch: open parts filled with noise, dropout on.
        batch: the rows.
        teacher: the model with the running average of its weights, which has no gradient; the
            model itself where rows are judged and not learned from.
        augment: `augment(xs, key=)` changes rows and leaves their labels true; or None.
    """

    model: Hybrid
    outputs: Outputs
    batch: Batch
    teacher: Hybrid
    augment: Callable[..., Any] | None = None


class AbstractTerm(eqx.Module):
    """Something more to be minimised: `weight` times a weighted mean over rows of its own choice.

    Fields are static: they are settings, and part of the compiled program.
    """

    weight: eqx.AbstractVar[float]

    @abstractmethod
    def rows(self, seen: Pass, *, key: Key) -> PerRow:
        """What each row adds, and what it counts: the term is the mean of the one by the other.

        A row that counts nothing is not read. Counts are multiples of `seen.batch.weight`, so that
        padding counts nothing.
        """

    def __call__(self, seen: Pass, *, key: Key) -> Scalar:
        """The weighted mean over the rows that the term is about, before its own weight."""
        return weighted_mean(*self.rows(seen, key=key))

    def strength(self, done: Scalar | float) -> Scalar | float:
        """What multiplies `weight` when this share of training is done."""
        return 1.0


def weighted_mean(values: Float[Array, " rows"], weights: Float[Array, " rows"]) -> Scalar:
    """The sum of values times weights over the sum of weights; what weighs nothing is not read.

    Of rows that devices divide, each gives its part of the mean of all.
    """
    kept = jnp.where(weights > 0, values, 0.0)
    return jnp.sum(weights * kept) / jnp.maximum(sum_over_devices(jnp.sum(weights)), 1e-12)


def all_weights(batch: Batch) -> Float[Array, " rows"]:
    """What rows count, with a label or without."""
    return cast(Array, batch.weight)


def unlabelled_weights(batch: Batch) -> Float[Array, " rows"]:
    """What rows without a label count."""
    weights = cast(Array, batch.weight)
    return weights * (1 - batch.labelled.astype(weights.dtype))


def rising(ramp: float, done: Scalar | float) -> Scalar | float:
    r"""$e^{-5 (1 - t)^2}$ with $t$ the share of the ramp that is done; one where there is none.

    Reference: Laine and Aila (2017), https://arxiv.org/abs/1610.02242
    """
    if ramp == 0.0:
        return 1.0
    return jnp.exp(-5 * jnp.square(1 - jnp.clip(done / ramp, 0.0, 1.0)))


def divergences(first: Any, second: Any) -> Float[Array, " rows"]:
    """How far the second responses are from the first, row by row."""
    return jax.vmap(lambda p, q: p.divergence(q))(first, second)
