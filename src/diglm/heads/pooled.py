"""Responses averaged: over what is not known of an input, or over the members of a committee."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from diglm.heads.base import AbstractResponse
from diglm.heads.distributions import Mixture
from diglm.types import Key

ENTROPY_DRAWS = 64


class Pooled(AbstractResponse):
    r"""$p(y) = \sum_k \pi_k\, p_k(y)$ for responses stacked along a first axis.

    Use `pool`: responses that stay in their kind when averaged, such as classes, do.
    """

    parts: AbstractResponse
    log_shares: Float[Array, " parts *batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        log_probs = self.parts.log_prob(jnp.asarray(y)[None])
        return jax.nn.logsumexp(self.log_shares + log_probs, axis=0)

    @property
    def mean(self) -> Float[Array, "..."]:
        return jnp.sum(self._shares(self.parts.mean) * self.parts.mean, axis=0)

    @property
    def variance(self) -> Float[Array, "..."]:
        means = self.parts.mean
        spread = self.parts.variance + jnp.square(means - self.mean[None])
        return jnp.sum(self._shares(means) * spread, axis=0)

    def entropy(self) -> Float[Array, "*batch"]:
        """From 64 draws with a fixed key."""
        draws = self.sample(jax.random.key(0), ENTROPY_DRAWS)
        return -jnp.mean(jax.vmap(self.log_prob)(draws), axis=0)

    def draw(self, key: Key) -> Array:
        key_part, key_value = jax.random.split(key)
        part = jax.random.categorical(key_part, self.log_shares, axis=0)
        draws = self.parts.draw(key_value)
        picked = part.reshape((1, *part.shape) + (1,) * (draws.ndim - part.ndim - 1))
        return jnp.take_along_axis(draws, picked, axis=0)[0]

    def frozen(self, location: ArrayLike, scale: ArrayLike) -> Mixture:
        parts = self.parts.frozen(location, scale)
        shares = np.exp(np.asarray(self.log_shares, float))
        shares = shares.reshape(shares.shape + (1,) * (np.ndim(parts.mean()) - shares.ndim))
        return Mixture(np.broadcast_to(shares, np.shape(parts.mean())), parts, self.discrete)

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """As the parts are."""
        return self.parts.discrete

    def of_rows(self) -> "Pooled":
        """Parts first, rows second; `jax.vmap` puts rows first."""
        return jax.tree.map(lambda leaf: np.moveaxis(np.asarray(leaf), 1, 0), self)

    def averaged(self, log_shares: Float[Array, " parts *batch"]) -> "Pooled":
        """An average of averages is one of all their parts."""
        shares = log_shares[:, None] + self.log_shares
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (self.parts, shares))
        return Pooled(*flat)

    def _shares(self, like: Array) -> Array:
        shares = jnp.exp(self.log_shares)
        return shares.reshape(shares.shape + (1,) * (like.ndim - shares.ndim))


def pool(
    responses: AbstractResponse, log_shares: Float[Array, " parts *batch"]
) -> AbstractResponse:
    """The average of responses that are stacked along a first axis."""
    same_kind = responses.averaged(log_shares)
    return Pooled(responses, log_shares) if same_kind is None else same_kind


def take_rows(responses: AbstractResponse, places: Int[np.ndarray, " some"]) -> AbstractResponse:
    """Some of responses stacked along rows, as NumPy's arrays."""
    rows = (slice(None), places) if isinstance(responses, Pooled) else places
    return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], responses)


def replace_rows(
    responses: AbstractResponse, others: AbstractResponse, places: Int[np.ndarray, " some"]
) -> AbstractResponse:
    """Responses stacked along rows, with others in some places; NumPy's arrays.

    Where the others are averages and these are not, these become averages of a single part, and
    where either has fewer parts than the other, parts without a share are added.
    """
    if isinstance(others, Pooled) and not isinstance(responses, Pooled):
        responses = _single(responses, len(others.log_shares))
    if isinstance(others, Pooled) and isinstance(responses, Pooled):
        most = max(len(responses.log_shares), len(others.log_shares))
        responses, others = _widened(responses, most), _widened(others, most)
    rows = (slice(None), places) if isinstance(others, Pooled) else places

    def put(whole: np.ndarray | Array, some: np.ndarray | Array) -> np.ndarray:
        whole = np.array(whole)
        whole[rows] = some
        return whole

    return jax.tree.map(put, responses, others)


def _widened(responses: AbstractResponse, n_parts: int) -> AbstractResponse:
    """Averages of as many parts; those that are added have no share."""
    if not isinstance(responses, Pooled) or len(responses.log_shares) == n_parts:
        return responses
    more = n_parts - len(responses.log_shares)
    parts = jax.tree.map(lambda a: np.concatenate([a, a[np.zeros(more, int)]]), responses.parts)
    none = np.full((more, *responses.log_shares.shape[1:]), -np.inf, responses.log_shares.dtype)
    shares = np.concatenate([np.asarray(responses.log_shares), none])
    return Pooled(parts, jnp.asarray(shares))


def _single(responses: AbstractResponse, n_parts: int) -> Pooled:
    parts = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * n_parts), responses)
    n_rows = len(jax.tree.leaves(responses)[0])
    shares = jnp.full((n_parts, n_rows), -jnp.inf, jnp.result_type(float)).at[0].set(0.0)
    return Pooled(parts, shares)
