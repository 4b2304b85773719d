"""What every base offers: a density of latents, and exact draws; the normal of the paper."""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from diglm.types import Key, Scalar, clamp

FARTHEST = 1e15  # features of far-out inputs are capped: squared and summed they fit float32


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
    def cooled(self, temperature: float) -> "AbstractBase":
        """The base with every standard deviation multiplied by `temperature`."""

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

    def cooled(self, temperature: float) -> "Normal":
        return Normal(self.shape, self.variance * temperature**2)
