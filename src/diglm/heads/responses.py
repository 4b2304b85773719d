"""Distributions of the target at one example: real, positive, counts and classes.

All work elementwise, so that what `jax.vmap(head)(zs)` returns is again a response: one for the
whole batch, with a leading axis on every field. Counts and positive targets are computed as their
largest log-likelihood over all means, minus a deviance: see `diglm.heads.special`.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from diglm.heads.base import AbstractResponse
from diglm.heads.special import (
    IMPOSSIBLE,
    LOG_2PI,
    entropy_of_counts,
    exp_excess,
    limit,
    stirling_error,
)
from diglm.types import Key, clamp

__all__ = [
    "AbstractResponse",
    "Bernoulli",
    "Categorical",
    "Gamma",
    "Gaussian",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
]


class Gaussian(AbstractResponse):
    r"""$\log p(y) = -\tfrac12 (y - \mu)^2 / \sigma^2 - \log \sigma - \tfrac12 \log 2\pi$."""

    loc: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        t = (jnp.asarray(y, self.loc.dtype) - self.loc) / self.scale
        # Billions of standard deviations are far enough; squares and slopes beyond overflow.
        far = math.exp(0.25 * math.log(float(jnp.finfo(t.dtype).max)))
        t = clamp(t, -far, far)
        return -0.5 * t * t - jnp.log(self.scale) - 0.5 * LOG_2PI

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return self.loc

    @property
    def variance(self) -> Float[Array, "*batch"]:
        return self.scale**2

    def entropy(self) -> Float[Array, "*batch"]:
        return jnp.log(self.scale) + 0.5 * (1 + LOG_2PI)

    def draw(self, key: Key) -> Array:
        return self.loc + self.scale * jax.random.normal(key, self.loc.shape, self.loc.dtype)


class StudentT(AbstractResponse):
    r"""$p(y) \propto (1 + t^2/\nu)^{-(\nu + 1)/2}$ with $t = (y - \mu)/\sigma$.

    The variance is $\sigma^2 \nu / (\nu - 2)$, infinite for $\nu \le 2$.
    """

    df: Float[Array, "*batch"]
    loc: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        t = (jnp.asarray(y, self.loc.dtype) - self.loc) / (self.scale * jnp.sqrt(self.df))
        # log(1 + t^2); far out as 2 log|t|, because the square would overflow.
        far = jnp.abs(t) > 1e8
        near_t, far_t = jnp.where(far, 1.0, t), jnp.where(far, jnp.abs(t), 1.0)
        log_tail = jnp.where(far, 2 * jnp.log(far_t), jnp.log1p(near_t * near_t))
        return self._log_peak() - jnp.log(self.scale) - 0.5 * (self.df + 1) * log_tail

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return self.loc

    @property
    def variance(self) -> Float[Array, "*batch"]:
        above = self.df > 2
        excess = jnp.where(above, self.df - 2, 1.0)
        return jnp.where(above, self.scale**2 * self.df / excess, jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        r"""$\tfrac{\nu + 1}{2} [\psi(\tfrac{\nu + 1}{2}) - \psi(\tfrac\nu2)] - \log p(\mu)$."""
        _, gap = jax.jvp(_log_gamma_ratio, (self.df,), (jnp.full_like(self.df, 2.0),))
        return 0.5 * (self.df + 1) * gap - self._log_peak() + jnp.log(self.scale)

    def draw(self, key: Key) -> Array:
        return self.loc + self.scale * jax.random.t(key, self.df, self.loc.shape, self.loc.dtype)

    def _log_peak(self) -> Float[Array, "*batch"]:
        return _log_gamma_ratio(self.df) - 0.5 * jnp.log(self.df * jnp.pi)


class Gamma(AbstractResponse):
    r"""Mean $\mu$ and shape $k$: $p(y) \propto y^{k - 1} e^{-k y / \mu}$, variance $\mu^2 / k$.

    Computed as $\log p(y) = \tfrac12 \log \tfrac{k}{2\pi} - s(k) - \log y - k (e^v - 1 - v)$ with
    $v = \log y - \log \mu$. Fields are $\log \mu$ and $\log k$.
    """

    log_mean: Float[Array, "*batch"]
    log_shape: Float[Array, "*batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        y = jnp.asarray(y, self.log_mean.dtype)
        log_k = limit(self.log_shape)
        log_y = jnp.log(jnp.where(y > 0, y, 1.0))
        deviance = jnp.exp(log_k) * exp_excess(log_y - limit(self.log_mean))
        return jnp.where(y > 0, gamma_peak(log_y, log_k) - deviance, IMPOSSIBLE)

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return jnp.exp(limit(self.log_mean))

    @property
    def variance(self) -> Float[Array, "*batch"]:
        return self.mean**2 * jnp.exp(-limit(self.log_shape))

    def entropy(self) -> Float[Array, "*batch"]:
        r"""$k + \log(\mu / k) + \log\Gamma(k) + (1 - k)\psi(k)$, in terms of $s$ and $s'$."""
        k = jnp.exp(limit(self.log_shape))
        error, slope = jax.jvp(stirling_error, (k,), (jnp.ones_like(k),))
        start = limit(self.log_mean) - 0.5 * limit(self.log_shape) + 0.5 * LOG_2PI
        return start + error + (1 - k) * (slope - 0.5 / k)

    def draw(self, key: Key) -> Array:
        log_k = limit(self.log_shape)
        log_gamma = jax.random.loggamma(key, jnp.exp(log_k), dtype=log_k.dtype)
        return jnp.exp(limit(self.log_mean) - log_k + log_gamma)


class Bernoulli(AbstractResponse):
    r"""$\log p(y) = y \log \sigma(l) + (1 - y) \log \sigma(-l)$, $l$ the log-odds of one."""

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


class Categorical(AbstractResponse):
    r"""$\log p(y) = l_y - \log \sum_k e^{l_k}$ for a class index $y$; classes on the last axis."""

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


class Poisson(AbstractResponse):
    r"""$\log p(y) = y \log \mu - \mu - \log y!$, given $\log \mu$.

    Computed as $\log p_{\mu = y}(y) - y (e^u - 1 - u)$ with $u = \log \mu - \log y$.
    """

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


class NegativeBinomial(AbstractResponse):
    r"""Poisson with a Gamma-distributed rate: mean $\mu$, variance $\mu + \alpha \mu^2$.

    With $r = 1/\alpha$, $p(y) = \frac{\Gamma(y + r)}{\Gamma(r)\, y!}
    \left(\frac{r}{r + \mu}\right)^r \left(\frac{\mu}{r + \mu}\right)^y$; computed, as for
    Poisson, from its value at $\mu = y$. Fields are $\log \mu$ and $\log \alpha$.
    """

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


def _log_gamma_ratio(df: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    # log Gamma((df + 1) / 2) - log Gamma(df / 2)
    half = 0.5 * df
    smooth = half * jnp.log1p(0.5 / half) + 0.5 * jnp.log(half) - 0.5
    return smooth + stirling_error(half + 0.5) - stirling_error(half)


def gamma_peak(
    log_y: Float[Array, "*batch"], log_shape: Float[Array, "*batch"]
) -> Float[Array, "*batch"]:
    r"""$\max_\mu \log p(y)$, reached at $\mu = y$."""
    return 0.5 * (log_shape - LOG_2PI) - stirling_error(jnp.exp(log_shape)) - log_y


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
