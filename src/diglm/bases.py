"""Densities of the features z."""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
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

    @abstractmethod
    def cooled(self, temperature: float) -> "AbstractBase":
        """The base with every standard deviation multiplied by `temperature`."""


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

    def cooled(self, temperature: float) -> "Normal":
        return Normal(self.shape, self.variance * temperature**2)


class NormalMixture(AbstractBase):
    r"""$p_z = \sum_k \pi_k\, \mathcal N(\mu_k, v I)$ with given means and weights.

    A head of classes wants features of one class far from those of another, a single normal wants
    them all around zero: what is drawn from it then lies between the classes. With a component for
    each class, draws look like the data.

    Written as $\log p_z(z) = \log \mathcal N(z; 0, vI) + \log \sum_k \pi_k
    \exp((\mu_k^\top z - |\mu_k|^2 / 2) / v)$: one product, and no difference of large squares.

    Args:
        means: of the components.
        weights: of the components; they need not sum to one.
        variance: v, of every component in every direction.
    """

    means: Float[Array, "components dim"]
    logits: Float[Array, " components"]
    shape: tuple[int, ...] = eqx.field(static=True)
    variance: float = eqx.field(static=True)

    def __init__(
        self,
        means: Float[Array | np.ndarray, "components dim"],
        weights: Float[Array | np.ndarray, "..."],
        variance: float = 1.0,
    ):
        if len(means) != len(weights):
            raise ValueError(
                f"NormalMixture needs a weight for each mean; got {len(means)} means and "
                f"{len(weights)} weights."
            )
        self.means, self.logits = jnp.asarray(means), jnp.log(jnp.asarray(weights))
        self.shape, self.variance = (self.means.shape[1],), float(variance)

    def log_prob(self, z: Float[Array, "..."]) -> Scalar:
        tilts = self.means @ clamp(z, -1e15, 1e15) - 0.5 * jnp.sum(jnp.square(self.means), axis=1)
        mixed = jax.nn.logsumexp(jax.nn.log_softmax(self.logits) + tilts / self.variance)
        return mixed + Normal(self.shape, self.variance).log_prob(z)

    def sample(self, key: Key, n: int) -> Float[Array, "n ..."]:
        key_which, key_where = jax.random.split(key)
        which = jax.random.categorical(key_which, self.logits, shape=(n,))
        noise = jax.random.normal(key_where, (n, *self.shape), self.means.dtype)
        return self.means[which] + math.sqrt(self.variance) * noise

    def cooled(self, temperature: float) -> "NormalMixture":
        return NormalMixture(self.means, jnp.exp(self.logits), self.variance * temperature**2)
