"""Distributions of numbers at one example: normal, Student-t and Gamma.

All work elementwise, so that what `jax.vmap(head)(zs)` returns is again a response: one for the
whole batch, with a leading axis on every field. Positive targets are computed as their
largest log-likelihood over all means, minus a deviance: see `diglm.heads.special`.
"""

import math
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from scipy import stats

from diglm.heads.base import AbstractResponse
from diglm.heads.special import (
    IMPOSSIBLE,
    LOG_2PI,
    exp_excess,
    limit,
    normal_divergence,
    stirling_error,
)
from diglm.types import Key, Scalar, clamp

__all__ = [
    "AbstractResponse",
    "Gamma",
    "Gaussian",
    "StudentT",
]


def in_units(values: ArrayLike, location: Any, scale: Any) -> np.ndarray:
    """The head's numbers in the user's units."""
    return location + scale * np.asarray(values, float)


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
    def trust(self) -> Float[Array, "*batch"]:
        return jax.lax.stop_gradient(self.scale) ** 0.5

    @property
    def variance(self) -> Float[Array, "*batch"]:
        return self.scale**2

    def entropy(self) -> Float[Array, "*batch"]:
        return jnp.log(self.scale) + 0.5 * (1 + LOG_2PI)

    def draw(self, key: Key) -> Array:
        return self.loc + self.scale * jax.random.normal(key, self.loc.shape, self.loc.dtype)

    def frozen(self, location: Any, scale: Any) -> Any:
        return stats.norm(
            in_units(self.loc, location, scale), scale * np.asarray(self.scale, float)
        )


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
    def trust(self) -> Float[Array, "*batch"]:
        return jax.lax.stop_gradient(self.scale) ** 0.5

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

    def frozen(self, location: Any, scale: Any) -> Any:
        spread = scale * np.asarray(self.scale, float)
        return stats.t(np.asarray(self.df, float), in_units(self.loc, location, scale), spread)

    def divergence(self, other: AbstractResponse) -> Scalar:
        """That of normal distributions with its locations and scales: its variance may be none."""
        q = cast(StudentT, other)
        return normal_divergence(self.loc, self.scale**2, q.loc, q.scale**2)

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

    def divergence(self, other: AbstractResponse) -> Scalar:
        r"""That of two Gamma distributions, with $t = \mu / k$.

        $(k - k_q) \psi(k) - \log \tfrac{\Gamma(k)}{\Gamma(k_q)} + k_q \log \tfrac{t_q}{t} +
        k (\tfrac{t}{t_q} - 1)$.
        """
        q = cast(Gamma, other)
        log_k, log_k_q = limit(self.log_shape), limit(q.log_shape)
        k, k_q = jnp.exp(log_k), jnp.exp(log_k_q)
        log_ratio = (limit(self.log_mean) - log_k) - (limit(q.log_mean) - log_k_q)
        gammas = jax.lax.lgamma(k) - jax.lax.lgamma(k_q)
        shapes = (k - k_q) * jax.lax.digamma(k) - gammas
        return jnp.sum(shapes - k_q * log_ratio + k * jnp.expm1(log_ratio))

    def frozen(self, location: Any, scale: Any) -> Any:
        shape = np.exp(np.asarray(self.log_shape, float))
        mean = np.exp(np.asarray(self.log_mean, float))
        return stats.gamma(shape, loc=location, scale=scale * mean / shape)


def _log_gamma_ratio(df: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    # log Gamma((df + 1) / 2) - log Gamma(df / 2)
    half = 0.5 * df
    smooth = half * jnp.log1p(0.5 / half) + 0.5 * jnp.log(half) - 0.5
    return smooth + stirling_error(half + 0.5) - stirling_error(half)


def gamma_peak(log_y: Float[Array, "..."], log_shape: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\max_\mu \log p(y)$, reached at $\mu = y$."""
    return 0.5 * (log_shape - LOG_2PI) - stirling_error(jnp.exp(log_shape)) - log_y
