"""Densities of the features z."""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.types import Key, Scalar, clamp


class AbstractBase(eqx.Module):
    """A density on feature space with exact draws."""

    shape: eqx.AbstractVar[tuple[int, ...]]

    @abstractmethod
    def log_prob(self, z: Float[Array, "..."]) -> Scalar:
        """Log-density of one feature vector."""

    @abstractmethod
    def sample(self, key: Key, n: int) -> Float[Array, "n ..."]:
        """`n` independent draws."""


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
        # Capped so that features of far-out inputs cannot overflow float32 when squared and summed.
        return -0.5 / self.variance * jnp.sum(jnp.square(clamp(z, -1e15, 1e15))) - constant

    def sample(self, key: Key, n: int) -> Float[Array, "n ..."]:
        return math.sqrt(self.variance) * jax.random.normal(key, (n, *self.shape))
