"""A response that is exactly zero with some probability, and otherwise like another response."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from scipy.special import expit

from diglm.heads.base import AbstractResponse
from diglm.heads.distributions import WithZeros
from diglm.types import Key


class ZeroInflated(AbstractResponse):
    r"""$p(y) = \pi\,[y = 0] + (1 - \pi)\, p_{rest}(y)$, $\pi$ the logistic function of `logit`.

    Where the rest is a density of positive numbers this is a hurdle: `log_prob` is the log of a
    mass at zero and of a density elsewhere. Where the rest counts, it is a mass everywhere, and
    the rest has zeros of its own.
    """

    logit: Float[Array, "*batch"]
    rest: AbstractResponse

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        y = jnp.asarray(y, self.logit.dtype)
        # A density of positive numbers answers -1e30 at zero, which leaves the mass alone.
        other = jax.nn.log_sigmoid(-self.logit) + self.rest.log_prob(y)
        at_zero = jnp.logaddexp(jax.nn.log_sigmoid(self.logit), other)
        return jnp.where(y == 0, at_zero, other)

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return jax.nn.sigmoid(-self.logit) * self.rest.mean

    @property
    def variance(self) -> Float[Array, "*batch"]:
        share = jax.nn.sigmoid(-self.logit)
        between = jax.nn.sigmoid(self.logit) * jnp.square(self.rest.mean)
        return share * (self.rest.variance + between)

    def entropy(self) -> Float[Array, "*batch"]:
        r"""$-p_0 \log p_0 + (1 - \pi)(H_{rest} + r_0 \log r_0 - (1 - r_0) \log(1 - \pi))$.

        Here $r_0$ is the rest's own mass at zero, and $p_0 = \pi + (1 - \pi) r_0$. As in
        `log_prob`, the part of a hurdle is the logarithm of a density.
        """
        log_share = jax.nn.log_sigmoid(-self.logit)
        log_r0 = self.rest.log_prob(jnp.zeros_like(self.logit))
        r0 = jnp.exp(log_r0)
        log_p0 = jnp.logaddexp(jax.nn.log_sigmoid(self.logit), log_share + log_r0)
        own = self.rest.entropy() + r0 * log_r0 - (1 - r0) * log_share
        return jnp.exp(log_share) * own - jnp.exp(log_p0) * log_p0

    def draw(self, key: Key) -> Array:
        key_zero, key_rest = jax.random.split(key)
        noise = jax.random.logistic(key_zero, self.logit.shape, self.logit.dtype)
        return jnp.where(noise < self.logit, 0.0, self.rest.draw(key_rest))

    def frozen(self, location: Any, scale: Any) -> WithZeros:
        share = expit(np.asarray(self.logit, float))
        return WithZeros(share, self.rest.frozen(location, scale), self.discrete)

    def log_cell(
        self, y: np.ndarray, width: float, location: Any, scale: Any
    ) -> Float[np.ndarray, " rows"]:
        rest = self.rest.log_cell(y, width, location, scale)
        other = -np.logaddexp(0.0, np.asarray(self.logit, float)) + rest
        return np.where(y == 0, self.frozen(location, scale).log_zero, other)

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """As the rest is."""
        return self.rest.discrete
