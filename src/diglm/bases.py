"""Densities of the features z."""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
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
    r"""$p_z = \sum_k \pi_k\, \mathcal N(\mu_k, \Sigma)$ with given means, weights and covariance.

    A head of classes wants features of one class far from those of another, a single normal wants
    them all around zero: what is drawn from it then lies between the classes. With a component for
    each class, draws look like the data. $\Sigma$ holds what couplings leave behind: features of
    neighbouring pixels, which never met as channels, still depend on each other.

    With $\Sigma = v (W^\top W)^{-1}$, $u = W z$ and $m_k = W \mu_k$,
    $$\log p_z(z) = \log \mathcal N(u; 0, vI) + \log|W| + \log \sum_k \pi_k
    \exp((m_k^\top u - |m_k|^2 / 2) / v),$$
    which takes no difference of large squares.

    Args:
        means: of the components.
        weights: of the components; they need not sum to one.
        whitening: W, lower triangular with a positive diagonal; None for the identity.
        variance: v.
    """

    means: Float[Array, "components dim"]
    logits: Float[Array, " components"]
    whitening: Float[Array, "dim dim"] | None
    shape: tuple[int, ...] = eqx.field(static=True)
    variance: float = eqx.field(static=True)

    def __init__(
        self,
        means: Float[Array | np.ndarray, "components dim"],
        weights: Float[Array | np.ndarray, "..."],
        whitening: Float[Array | np.ndarray, "..."] | None = None,
        variance: float = 1.0,
    ):
        if len(means) != len(weights):
            raise ValueError(
                f"NormalMixture needs a weight for each mean; got {len(means)} means and "
                f"{len(weights)} weights."
            )
        self.means, self.logits = jnp.asarray(means), jnp.log(jnp.asarray(weights))
        self.shape, self.variance = (self.means.shape[1],), float(variance)
        self.whitening = None if whitening is None else jnp.asarray(whitening)
        if self.whitening is not None and self.whitening.shape != self.shape * 2:
            raise ValueError(
                f"NormalMixture of {self.shape[0]} features needs a whitening of shape "
                f"{self.shape * 2}; got {self.whitening.shape}."
            )

    def log_prob(self, z: Float[Array, "..."]) -> Scalar:
        u, means, log_det = clamp(z, -1e15, 1e15), self.means, 0.0
        if self.whitening is not None:
            u, means = self.whitening @ u, means @ self.whitening.T
            log_det = jnp.sum(jnp.log(jnp.diagonal(self.whitening)))
        u = clamp(u, -1e15, 1e15)
        tilts = means @ u - 0.5 * jnp.sum(jnp.square(means), axis=1)
        mixed = jax.nn.logsumexp(jax.nn.log_softmax(self.logits) + tilts / self.variance)
        return mixed + Normal(self.shape, self.variance).log_prob(u) + log_det

    def sample(self, key: Key, n: int) -> Float[Array, "n ..."]:
        key_which, key_where = jax.random.split(key)
        which = jax.random.categorical(key_which, self.logits, shape=(n,))
        noise = jax.random.normal(key_where, (n, *self.shape), self.means.dtype)
        if self.whitening is not None:
            noise = solve_triangular(self.whitening, noise.T, lower=True).T
        return self.means[which] + math.sqrt(self.variance) * noise

    def cooled(self, temperature: float) -> "NormalMixture":
        return NormalMixture(
            self.means, jnp.exp(self.logits), self.whitening, self.variance * temperature**2
        )
