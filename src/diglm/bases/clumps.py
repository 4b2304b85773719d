"""A mixture of normals of their own shapes: the base that a density sets out from."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from diglm.bases.base import FARTHEST, AbstractBase
from diglm.types import Key, Scalar, clamp, placed


class Clumps(AbstractBase):
    r"""$p_u = \sum_k \pi_k |W_k|\, \mathcal N(W_k u - c_k; 0, I)$: normals of mean $W_k^{-1} c_k$.

    All of it trains. $W_k$ is lower triangular with diagonal $e^{s_k}$, so that $\log|W_k| = \sum
    s_k$ and no step of an optimiser can make it singular. A flow is continuous and has to stretch
    one normal thin between separate clumps of rows; with a normal for each it need not.

    Args:
        means: of the components.
        weights: of the components; they need not sum to one.
        whitenings: W, one a component, or their diagonals alone.
    """

    logits: Float[Array, " components"]
    offsets: Float[Array, "components dim"]
    log_scales: Float[Array, "components dim"]
    lower: Float[Array, "components dim dim"] | None
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        means: Float[np.ndarray, "components dim"],
        weights: Float[np.ndarray, "..."],
        whitenings: Float[np.ndarray, "..."],
    ):
        if not len(means) == len(weights) == len(whitenings):
            raise ValueError(
                "Clumps needs a mean, a weight and a whitening for each component; got "
                f"{len(means)}, {len(weights)} and {len(whitenings)}."
            )
        full = np.ndim(whitenings) == 3
        diagonals = np.diagonal(whitenings, axis1=1, axis2=2) if full else np.asarray(whitenings)
        if not np.all(diagonals > 0):
            raise ValueError("Clumps needs whitenings with a positive diagonal.")
        offsets = np.einsum("kij,kj->ki", whitenings, means) if full else whitenings * means
        self.logits = placed(np.log(np.asarray(weights, float)))
        self.offsets = placed(offsets)
        self.log_scales = placed(np.log(diagonals))
        self.lower = placed(np.tril(whitenings, -1)) if full else None
        self.shape = (np.shape(means)[1],)

    def log_prob(self, z: Float[Array, " dim"]) -> Scalar:
        constant = 0.5 * len(z) * math.log(2 * math.pi)
        return jax.nn.logsumexp(self._log_parts(self._noise(z))) - constant

    def located(
        self, z: Float[Array, " dim"]
    ) -> tuple[Float[Array, " components"], Float[Array, "components dim"]]:
        noise = self._noise(z)
        return jax.nn.log_softmax(self._log_parts(noise)), noise

    @property
    def log_weights(self) -> Float[Array, " components"]:
        return jax.nn.log_softmax(self.logits)

    def _noise(self, z: Float[Array, " dim"]) -> Float[Array, "components dim"]:
        z = clamp(z, -FARTHEST, FARTHEST)
        if self.lower is None:
            moved = jnp.exp(self.log_scales) * z[None, :]
        else:  # one product for all components: many rows then make one of matrices
            moved = (self._whitenings.reshape(-1, len(z)) @ z).reshape(self.offsets.shape)
        return clamp(moved - self.offsets, -FARTHEST, FARTHEST)

    def _log_parts(self, noise: Float[Array, "components dim"]) -> Float[Array, " components"]:
        squares = jnp.sum(jnp.square(noise), axis=1)
        return self.log_weights + (jnp.sum(self.log_scales, axis=1) - 0.5 * squares)

    def choose(self, key: Key, n: int) -> Int[Array, " n"]:
        return jax.random.categorical(key, self.logits, shape=(n,)).astype(jnp.int32)

    def at(self, part: Int[Array, ""], noise: Float[Array, " dim"]) -> Float[Array, " dim"]:
        moved = noise + self.offsets[part]
        if self.lower is None:
            return moved * jnp.exp(-self.log_scales[part])
        inverses = _inverses(self._whitenings)  # of all components, as in `_noise`
        return (inverses.reshape(-1, len(moved)) @ moved).reshape(self.offsets.shape)[part]

    def cooled(self, temperature: float) -> "Clumps":
        heat = 1 / temperature  # W and c grow alike, so that means stay where they are
        cooler = eqx.tree_at(
            lambda base: (base.log_scales, base.offsets),
            self,
            (self.log_scales - math.log(temperature), self.offsets * heat),
        )
        if self.lower is None:
            return cooler
        return eqx.tree_at(lambda base: base.lower, cooler, self.lower * heat)

    @property
    def _whitenings(self) -> Float[Array, "components dim dim"]:
        diagonal = jnp.exp(self.log_scales)[:, :, None] * jnp.eye(self.shape[0])[None]
        return diagonal if self.lower is None else diagonal + jnp.tril(self.lower, -1)


@jax.jit
def _inverses(lower: Float[Array, "components dim dim"]) -> Float[Array, "components dim dim"]:
    """The inverses of triangular matrices, by forward substitution.

    LAPACK's, of a batch, waits for threads of the pool that runs it: as many programs at a time as
    there are threads wait for one another for ever.
    """
    unit = jnp.eye(lower.shape[1], dtype=lower.dtype)

    def one_more(k: Array, rows: Array) -> Array:
        known = jnp.einsum("cj,cjd->cd", lower[:, k], rows)  # rows are zero from k on
        return rows.at[:, k].set((unit[None, k] - known) / lower[:, k, k, None])

    return jax.lax.fori_loop(0, lower.shape[1], one_more, jnp.zeros_like(lower))
