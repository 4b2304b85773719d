"""Distributions of classes and counts at one example.

As in `diglm.heads.responses` all work elementwise. Counts are computed as their largest
log-likelihood over all means, minus a deviance: see `diglm.heads.special`.
"""

from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int
from scipy import stats
from scipy.special import expit

from diglm.heads.base import AbstractResponse
from diglm.heads.special import (
    IMPOSSIBLE,
    LOG_2PI,
    entropy_of_counts,
    exp_excess,
    limit,
    stirling_error,
)
from diglm.types import Key, Scalar


class Bernoulli(AbstractResponse):
    r"""$\log p(y) = y \log \sigma(l) + (1 - y) \log \sigma(-l)$, $l$ the log-odds of one."""

    discrete: ClassVar[bool] = True
    logit: Float[Array, "*batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        y = jnp.asarray(y, self.logit.dtype)
        return y * jax.nn.log_sigmoid(self.logit) + (1 - y) * jax.nn.log_sigmoid(-self.logit)

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return jax.nn.sigmoid(self.logit)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        return jax.nn.sigmoid(self.logit) * jax.nn.sigmoid(-self.logit)

    def entropy(self) -> Float[Array, "*batch"]:
        size = jnp.abs(self.logit)  # the entropy is even in the logit
        return jax.nn.softplus(-size) + size * jax.nn.sigmoid(-size)

    def draw(self, key: Key) -> Int[Array, "*batch"]:
        noise = jax.random.logistic(key, self.logit.shape, self.logit.dtype)
        return (noise < self.logit).astype(jnp.int32)

    def divergence(self, other: AbstractResponse) -> Scalar:
        q = cast(Bernoulli, other)
        sure = jax.nn.log_sigmoid
        ones = self.mean * (sure(self.logit) - sure(q.logit))
        zeros = (1 - self.mean) * (sure(-self.logit) - sure(-q.logit))
        return jnp.sum(ones + zeros)

    def affinity(self, other: AbstractResponse) -> Float[Array, "..."]:
        q = cast(Bernoulli, other)
        log = jax.nn.log_sigmoid
        return sum(jnp.exp(0.5 * (log(a * self.logit) + log(a * q.logit))) for a in (1.0, -1.0))  # type: ignore

    def frozen(self, location: Any, scale: Any) -> Any:
        return stats.bernoulli(expit(np.asarray(self.logit, float)))


class Categorical(AbstractResponse):
    r"""$\log p(y) = l_y - \log \sum_k e^{l_k}$ for a class index $y$; classes on the last axis."""

    discrete: ClassVar[bool] = True
    logits: Float[Array, "*batch classes"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        y = jnp.broadcast_to(jnp.asarray(y).astype(jnp.int32), self.logits.shape[:-1])
        return jnp.take_along_axis(self.log_probs, y[..., None], axis=-1)[..., 0]

    @property
    def log_probs(self) -> Float[Array, "*batch classes"]:
        """The log-probability of every class."""
        return jax.nn.log_softmax(self.logits)

    @property
    def mean(self) -> Float[Array, "*batch classes"]:
        return jax.nn.softmax(self.logits)

    @property
    def variance(self) -> Float[Array, "*batch classes"]:
        return self.mean * (1 - self.mean)

    def entropy(self) -> Float[Array, "*batch"]:
        return -jnp.sum(self.mean * self.log_probs, axis=-1)

    def draw(self, key: Key) -> Int[Array, "*batch"]:
        return jax.random.categorical(key, self.logits).astype(jnp.int32)

    def averaged(self, log_shares: Float[Array, " parts *batch"]) -> "Categorical":
        shared = log_shares[..., None] + self.log_probs
        return Categorical(jax.nn.logsumexp(shared, axis=0))

    def skill(self, y: Array) -> Scalar:
        return is_right(self.logits, y)

    def affinity(self, other: AbstractResponse) -> Float[Array, "..."]:
        log_q = cast(Categorical, other).log_probs
        return jnp.sum(jnp.exp(0.5 * (self.log_probs + log_q)), axis=-1)

    def divergence(self, other: AbstractResponse) -> Scalar:
        log_p, log_q = self.log_probs, other.log_probs  # type: ignore[attr-defined]
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q))


class Poisson(AbstractResponse):
    r"""$\log p(y) = y \log \mu - \mu - \log y!$, given $\log \mu$.

    Computed as $\log p_{\mu = y}(y) - y (e^u - 1 - u)$ with $u = \log \mu - \log y$.
    """

    discrete: ClassVar[bool] = True
    log_rate: Float[Array, "*batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        log_mu = limit(self.log_rate)
        y = jnp.asarray(y, log_mu.dtype)
        counted = jnp.where(y > 0, y, 1.0)
        positive = poisson_peak(counted) - counted * exp_excess(log_mu - jnp.log(counted))
        return on_counts(y, positive, at_zero=-jnp.exp(log_mu))

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return jnp.exp(limit(self.log_rate))

    @property
    def variance(self) -> Float[Array, "*batch"]:
        return self.mean

    def entropy(self) -> Float[Array, "*batch"]:
        """A sum and an integral, to about 1e-6: see `entropy_of_counts`."""
        rows = jax.tree.map(lambda field: field[..., None], self)
        return entropy_of_counts(rows.log_prob, self.mean, self.variance)

    def draw(self, key: Key) -> Array:
        return _draw_poisson(key, limit(self.log_rate))

    def divergence(self, other: AbstractResponse) -> Scalar:
        r"""$\mu (e^u - 1 - u)$ with $u = \log \mu_q - \log \mu$."""
        q = cast(Poisson, other)
        return jnp.sum(self.mean * exp_excess(limit(q.log_rate) - limit(self.log_rate)))

    def affinity(self, other: AbstractResponse) -> Float[Array, "..."]:
        r"""$e^{-(\sqrt\mu - \sqrt{\mu'})^2 / 2}$."""
        roots = (jnp.exp(0.5 * limit(one.log_rate)) for one in (self, cast(Poisson, other)))
        return jnp.exp(-0.5 * jnp.square(next(roots) - next(roots)))

    def frozen(self, location: Any, scale: Any) -> Any:
        return stats.poisson(np.exp(np.asarray(self.log_rate, float)))


class NegativeBinomial(AbstractResponse):
    r"""Poisson with a Gamma-distributed rate: mean $\mu$, variance $\mu + \alpha \mu^2$.

    With $r = 1/\alpha$, $p(y) = \frac{\Gamma(y + r)}{\Gamma(r)\, y!}
    \left(\frac{r}{r + \mu}\right)^r \left(\frac{\mu}{r + \mu}\right)^y$; computed, as for
    Poisson, from its value at $\mu = y$. Fields are $\log \mu$ and $\log \alpha$.
    """

    discrete: ClassVar[bool] = True
    log_mean: Float[Array, "*batch"]
    log_dispersion: Float[Array, "*batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        log_mu, log_alpha = limit(self.log_mean), limit(self.log_dispersion)
        y = jnp.asarray(y, log_mu.dtype)
        r = jnp.exp(-log_alpha)
        counted = jnp.where(y > 0, y, 1.0)
        total, u = counted + r, limit(log_mu - jnp.log(counted), 0.6)
        # The deviance y log[y (mu + r) / (mu (y + r))] + r log[(mu + r) / (y + r)]: near mu = y
        # through log1p, and by plain logarithms where a ratio falls towards zero.
        by_r, by_y = counted / total * jnp.expm1(u), r / total * jnp.expm1(-u)
        plain = jnp.logaddexp(log_mu, -log_alpha) - jnp.log(total)
        log_r = jnp.where(by_r < -0.5, plain, jnp.log1p(jnp.maximum(by_r, -0.5)))
        log_y = jnp.where(by_y < -0.5, plain - u, jnp.log1p(jnp.maximum(by_y, -0.5)))
        positive = negative_binomial_peak(counted, log_alpha) - counted * log_y - r * log_r
        return on_counts(y, positive, at_zero=-r * jnp.log1p(jnp.exp(log_mu + log_alpha)))

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return jnp.exp(limit(self.log_mean))

    @property
    def variance(self) -> Float[Array, "*batch"]:
        return self.mean + jnp.exp(limit(self.log_dispersion)) * self.mean**2

    def entropy(self) -> Float[Array, "*batch"]:
        """A sum and an integral, to about 1e-6: see `entropy_of_counts`."""
        rows = jax.tree.map(lambda field: field[..., None], self)
        return entropy_of_counts(rows.log_prob, self.mean, self.variance)

    def draw(self, key: Key) -> Array:
        key_rate, key_count = jax.random.split(key)
        log_mu, log_alpha = limit(self.log_mean), limit(self.log_dispersion)
        log_gamma = jax.random.loggamma(key_rate, jnp.exp(-log_alpha), dtype=log_mu.dtype)
        return _draw_poisson(key_count, log_mu + log_alpha + log_gamma)

    def frozen(self, location: Any, scale: Any) -> Any:
        mean = np.exp(np.asarray(self.log_mean, float))
        size = np.exp(-np.asarray(self.log_dispersion, float))
        return stats.nbinom(size, size / (size + mean))


def is_right(logits: Float[Array, " classes"], y: Array) -> Scalar:
    """One if the most probable class is y, else zero."""
    return (jnp.argmax(logits).astype(y.dtype) == y).astype(logits.dtype)


def poisson_peak(y: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    r"""$\max_\mu \log p(y) = -\tfrac12 \log 2\pi y - s(y)$ for $y > 0$, reached at $\mu = y$."""
    return -0.5 * (LOG_2PI + jnp.log(y)) - stirling_error(y)


def negative_binomial_peak(
    y: Float[Array, "..."], log_alpha: Float[Array, "..."]
) -> Float[Array, "..."]:
    r"""$-\tfrac12 \log(2\pi y (1 + \alpha y)) - s(y) - s(r) + s(y + r)$ for $y > 0$."""
    r = jnp.exp(-log_alpha)
    spread = jnp.log(y) + jnp.log1p(y / r)
    return -0.5 * (LOG_2PI + spread) - stirling_error(y) - stirling_error(r) + stirling_error(y + r)


def on_counts(y: Array, positive: Array, *, at_zero: Array) -> Array:
    """Join what was computed for positive counts with its value at zero; nothing elsewhere."""
    return jnp.where(y > 0, positive, jnp.where(y == 0, at_zero, IMPOSSIBLE))


def _draw_poisson(key: Key, log_rate: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    # Above 1e8 whole-number types run out; the Gaussian limit is then off by 1e-4 sd at most.
    key_count, key_normal = jax.random.split(key)
    rate = jnp.exp(limit(log_rate))
    count = jax.random.poisson(key_count, jnp.minimum(rate, 1e8)).astype(rate.dtype)
    normal = jax.random.normal(key_normal, rate.shape, rate.dtype)
    return jnp.where(rate > 1e8, jnp.round(rate + jnp.sqrt(rate) * normal), count)
