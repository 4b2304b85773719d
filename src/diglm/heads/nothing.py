"""No target: the head of a model that learns a density alone."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.base import AbstractHead, AbstractResponse, Features, Settled
from diglm.types import Key, Scalar


class Silence(AbstractResponse):
    """The response to a question that was not asked: one empty answer, certain."""

    nothing: Float[Array, "*batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        return self.nothing

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return self.nothing

    @property
    def variance(self) -> Float[Array, "*batch"]:
        return self.nothing

    def entropy(self) -> Float[Array, "*batch"]:
        return self.nothing

    def draw(self, key: Key) -> Array:
        return self.nothing

    def averaged(self, log_shares: Float[Array, " parts *batch"]) -> "Silence":
        return Silence(self.nothing[0])


class NoHead(AbstractHead):
    """Predicts nothing."""

    def linear_predictor(self, z: Float[Array, " dim"]) -> Float[Array, " 0"]:
        return z[:0]

    def __call__(self, z: Float[Array, " dim"]) -> Silence:
        return Silence(jax.lax.stop_gradient(0 * jnp.sum(z[:0])))

    def penalty(self) -> Scalar:
        return jnp.zeros(())

    def start(self, ys: Array, weights: Array) -> "NoHead":
        return self

    def begin(self, rows: Features, judged: Features, *, exactly: bool) -> "NoHead":
        return self

    def settle(self, train: Features, held_out: Features, *, exact: bool) -> Settled:
        return Settled(self)

    @property
    def only_held_out(self) -> bool:
        return True
