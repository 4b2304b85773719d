"""What every base offers: a density of latents, and exact draws; the normal of the paper."""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from diglm.types import Key, Scalar, clamp

FARTHEST = 1e15  # features of far-out inputs are capped: squared and summed they fit float32

DRAWS_ALONG = 4_096  # from which quantiles are read


class AbstractBase(eqx.Module):
    """A density on latent space. A draw chooses a part, and puts normal noise in its place there.

    Saying it in these two steps serves samplers too: what they move is the noise, which is normal
    whatever the base.
    """

    shape: eqx.AbstractVar[tuple[int, ...]]

    @abstractmethod
    def log_prob(self, z: Float[Array, "..."]) -> Scalar:
        """Log-density of one vector of latents."""

    @abstractmethod
    def choose(self, key: Key, n: int) -> Int[Array, " n"]:
        """From which part each of `n` draws comes."""

    @abstractmethod
    def at(self, part: Int[Array, ""], noise: Float[Array, "..."]) -> Float[Array, "..."]:
        """The latents that standard normal noise becomes in a part."""

    @abstractmethod
    def located(
        self, z: Float[Array, "..."]
    ) -> tuple[Float[Array, " parts"], Float[Array, "parts dim"]]:
        """The log-probability of each part given latents, and the noise that `at` puts there."""

    @property
    def log_weights(self) -> Float[Array, " parts"]:
        """The log-probability of each part."""
        return jnp.zeros(1)

    def fisher_vector(self, z: Float[Array, "..."]) -> Float[Array, " scores"]:
        r"""Scores of $\log p_u$, each divided by the root of its own Fisher information.

        With $\gamma_k$ the probability of part k given z, and t the noise at which z lies in it,
        the scores by weights, means and log-scales of part k, in the coordinates of its noise, are
        $$\frac{\gamma_k - \pi_k}{\sqrt{\pi_k}}, \quad \frac{\gamma_k t_i}{\sqrt{\pi_k}}, \quad
        \frac{\gamma_k (t_i^2 - 1)}{\sqrt{2 \pi_k}} .$$
        Of one normal that is exact, and of several where parts hardly overlap (Sanchez et al.,
        2013, https://doi.org/10.1007/s11263-013-0636-x). Of a normal the first is always zero.
        """
        log_shares, noise = self.located(z)
        shares, weights = jnp.exp(log_shares), jnp.exp(self.log_weights.astype(noise.dtype))
        factor = (shares / jnp.sqrt(weights))[:, None]
        of_weights = (shares - weights) / jnp.sqrt(weights)
        of_scales = factor * (jnp.square(noise) - 1) / math.sqrt(2)
        return jnp.concatenate([of_weights, jnp.ravel(factor * noise), jnp.ravel(of_scales)])

    @abstractmethod
    def cooled(self, temperature: float) -> "AbstractBase":
        """The base with every standard deviation multiplied by `temperature`."""

    def along(
        self,
        directions: Float[Array, "dim directions"],
        levels: Float[Array, "n directions"],
        key: Key,
    ) -> Float[Array, "n directions"]:
        """Quantiles of draws along unit directions; of many draws where there is no closed form."""
        draws = self.sample(key, DRAWS_ALONG).reshape(DRAWS_ALONG, -1) @ directions
        at = (jnp.arange(DRAWS_ALONG, dtype=draws.dtype) + 0.5) / DRAWS_ALONG
        across = jax.vmap(lambda level, one: jnp.interp(level, at, one), 1, 1)
        return across(levels, jnp.sort(draws, axis=0))

    def sample(self, key: Key, n: int) -> Float[Array, "n ..."]:
        """`n` independent draws."""
        key_part, key_noise = jax.random.split(key)
        noise = jax.random.normal(key_noise, (n, *self.shape))
        return jax.vmap(self.at)(self.choose(key_part, n), noise)


class Normal(AbstractBase):
    r"""$p_z = \mathcal N(0, v I)$; the paper's base is $v = 1$.

    A variance other than one is the exact reading of the paper's Jacobian regulariser: see
    `diglm.objectives.joint`.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    variance: float = eqx.field(static=True)

    def __init__(self, shape: int | tuple[int, ...], variance: float = 1.0):
        if not variance > 0:
            raise ValueError(f"Normal needs variance > 0; got {variance}.")
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.variance = float(variance)

    def log_prob(self, z: Float[Array, "..."]) -> Scalar:
        constant = 0.5 * z.size * math.log(2 * math.pi * self.variance)
        squares = jnp.square(clamp(z, -FARTHEST, FARTHEST))
        return -0.5 / self.variance * jnp.sum(squares) - constant

    def choose(self, key: Key, n: int) -> Int[Array, " n"]:
        return jnp.zeros(n, jnp.int32)

    def at(self, part: Int[Array, ""], noise: Float[Array, "..."]) -> Float[Array, "..."]:
        return math.sqrt(self.variance) * noise

    def located(
        self, z: Float[Array, "..."]
    ) -> tuple[Float[Array, " parts"], Float[Array, "parts dim"]]:
        noise = jnp.ravel(clamp(z, -FARTHEST, FARTHEST)) / math.sqrt(self.variance)
        return jnp.zeros(1, noise.dtype), noise[None]

    def along(
        self,
        directions: Float[Array, "dim directions"],
        levels: Float[Array, "n directions"],
        key: Key,
    ) -> Float[Array, "n directions"]:
        return math.sqrt(self.variance) * jax.scipy.special.ndtri(levels)

    def cooled(self, temperature: float) -> "Normal":
        return Normal(self.shape, self.variance * temperature**2)
