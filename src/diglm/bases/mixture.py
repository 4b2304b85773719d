"""One normal a class: the base of features that a head draws apart."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int

from diglm.bases.base import FARTHEST, AbstractBase, Normal
from diglm.types import Key, Scalar, clamp


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
        u, means, log_det = clamp(z, -FARTHEST, FARTHEST), self.means, 0.0
        if self.whitening is not None:
            u, means = self.whitening @ u, means @ self.whitening.T
            log_det = jnp.sum(jnp.log(jnp.diagonal(self.whitening)))
        u = clamp(u, -FARTHEST, FARTHEST)
        tilts = means @ u - 0.5 * jnp.sum(jnp.square(means), axis=1)
        mixed = jax.nn.logsumexp(jax.nn.log_softmax(self.logits) + tilts / self.variance)
        return mixed + Normal(self.shape, self.variance).log_prob(u) + log_det

    def located(
        self, z: Float[Array, "..."]
    ) -> tuple[Float[Array, " parts"], Float[Array, "parts dim"]]:
        apart = clamp(z, -FARTHEST, FARTHEST)[None] - self.means
        if self.whitening is not None:
            apart = apart @ self.whitening.T
        noise = apart / math.sqrt(self.variance)
        log_parts = self.log_weights - 0.5 * jnp.sum(jnp.square(noise), axis=1)
        return jax.nn.log_softmax(log_parts), noise

    @property
    def log_weights(self) -> Float[Array, " components"]:
        return jax.nn.log_softmax(self.logits)

    def choose(self, key: Key, n: int) -> Int[Array, " n"]:
        return jax.random.categorical(key, self.logits, shape=(n,)).astype(jnp.int32)

    def at(self, part: Int[Array, ""], noise: Float[Array, "..."]) -> Float[Array, "..."]:
        if self.whitening is not None:
            noise = solve_triangular(self.whitening, noise, lower=True)
        return self.means[part] + math.sqrt(self.variance) * noise

    def cooled(self, temperature: float) -> "NormalMixture":
        return NormalMixture(
            self.means, jnp.exp(self.logits), self.whitening, self.variance * temperature**2
        )
