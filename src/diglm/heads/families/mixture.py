"""Targets on the real line whose distribution is skewed, heavy-tailed or has several peaks."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from scipy import stats

from diglm.heads.base import AbstractResponse
from diglm.heads.distributions import Mixture
from diglm.heads.families.gaussian import LOG_SD_ABOVE, LOG_SD_BELOW, real_start
from diglm.heads.family import AbstractFamily, Start
from diglm.heads.glm import GLMHead
from diglm.heads.responses import LOG_2PI
from diglm.heads.special import limit
from diglm.types import Key, clamp

_FAR = 1e9  # standard deviations; squares beyond overflow float32
_LOGIT_BOUND = 15.0  # a component of share 1e-6 is as good as none
_QUADRATURE = 24  # nodes a component for the entropy


class GaussianMixture(AbstractResponse):
    r"""$p(y) = \sum_k \pi_k N(y; \mu_k, \sigma_k^2)$, $\pi = \mathrm{softmax}$ of the logits."""

    logits: Float[Array, "*batch components"]
    locs: Float[Array, "*batch components"]
    scales: Float[Array, "*batch components"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        y = jnp.asarray(y, self.locs.dtype)[..., None]
        t = clamp((y - self.locs) / self.scales, -_FAR, _FAR)
        parts = -0.5 * t * t - jnp.log(self.scales) - 0.5 * LOG_2PI
        return jax.nn.logsumexp(jax.nn.log_softmax(self.logits, axis=-1) + parts, axis=-1)

    @property
    def mean(self) -> Float[Array, "*batch"]:
        return jnp.sum(self._shares * self.locs, axis=-1)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        apart = self.locs - self.mean[..., None]
        return jnp.sum(self._shares * (jnp.square(self.scales) + jnp.square(apart)), axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        """By Gauss-Hermite quadrature in each component; to about 1e-4 nats."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(_QUADRATURE)
        nodes = jnp.asarray(nodes, self.locs.dtype).reshape((1,) * self.locs.ndim + (-1,))
        weights = jnp.asarray(weights / weights.sum(), self.locs.dtype)
        places = jnp.moveaxis(
            self.locs[..., None] + self.scales[..., None] * nodes, (-2, -1), (0, 1)
        )
        log_probs = jax.vmap(jax.vmap(self.log_prob))(places)
        per_component = jnp.moveaxis(jnp.tensordot(weights, log_probs, axes=(0, 1)), 0, -1)
        return -jnp.sum(self._shares * per_component, axis=-1)

    def draw(self, key: Key) -> Array:
        key_part, key_noise = jax.random.split(key)
        part = jax.random.categorical(key_part, self.logits)[..., None]
        loc, scale = (
            jnp.take_along_axis(values, part, axis=-1)[..., 0]
            for values in (self.locs, self.scales)
        )
        return loc + scale * jax.random.normal(key_noise, loc.shape, loc.dtype)

    def frozen(self, location: Any, scale: Any) -> Mixture:
        shares, locs, scales = (
            np.moveaxis(np.asarray(part, float), -1, 0)
            for part in (self._shares, self.locs, self.scales)
        )
        return Mixture(
            shares / shares.sum(axis=0), stats.norm(location + scale * locs, scale * scales)
        )

    @property
    def _shares(self) -> Float[Array, "*batch components"]:
        return jax.nn.softmax(self.logits, axis=-1)


class MixtureFamily(AbstractFamily):
    r"""$y \sim \sum_k \pi_k N(\mu_k, \sigma_k^2)$; logits, locations and log-scales linear in z.

    The density may be skewed, so its mean need not be where its peak is: where a symmetric head
    must choose between a good likelihood and a good mean, this one has both.

    Reference: Bishop (1994), Mixture density networks.
    """

    n_components: int = eqx.field(static=True)
    n_predictors: int = eqx.field(static=True)
    spreads: tuple[int, ...] = eqx.field(static=True)
    link: str = eqx.field(static=True)
    links: ClassVar[tuple[str, ...]] = ("identity",)
    inverts_mean: ClassVar[bool] = False

    def __init__(self, n_components: int = 4, link: str = "identity"):
        if n_components < 2:
            raise ValueError(f"A mixture has at least 2 components; got {n_components}.")
        self.n_components, self.n_predictors, self.link = n_components, 3 * n_components, link
        self.spreads = tuple(range(2 * n_components, 3 * n_components))

    def response(self, eta: Float[Array, " predictors"]) -> GaussianMixture:
        logits, locs, log_scales = jnp.split(eta, 3)
        return GaussianMixture(clamp(logits, -40.0, 40.0), locs, jnp.exp(limit(log_scales)))

    def start(self, ys: Array, weights: Array) -> Start:
        """Components at the middles of equal shares of the targets, each as wide as its share."""
        ys = jnp.where(weights > 0, ys.astype(weights.dtype), 0)
        _, low, high, log_sd = real_start(ys, weights)
        k = self.n_components
        share, spread = _shares(ys, weights, k)
        sd = jnp.exp(log_sd)
        log_scales = jnp.log(jnp.clip(spread, 0.05 * sd, 2 * sd))
        ones = jnp.ones(k, ys.dtype)
        return Start(
            self,
            jnp.concatenate([0 * ones, share, log_scales]),
            jnp.concatenate([-_LOGIT_BOUND * ones, low * ones, (log_sd - LOG_SD_BELOW) * ones]),
            jnp.concatenate([_LOGIT_BOUND * ones, high * ones, (log_sd + LOG_SD_ABOVE) * ones]),
        )

    def calibration(self, factor: ArrayLike) -> tuple["MixtureFamily", ArrayLike, ArrayLike]:
        still = jnp.zeros(2 * self.n_components, jnp.result_type(factor))
        wider = jnp.full(self.n_components, jnp.log(factor), jnp.result_type(factor))
        return self, 1.0, jnp.concatenate([still, wider])

    def eta_for_mean(self, mean: Array) -> Array:
        raise ValueError(
            "The mean of a mixture is not a linear predictor, so no single one gives it. Use "
            "head='student_t', 'heteroscedastic' or 'gaussian' for counterfactuals."
        )


def _shares(
    ys: Float[Array, " rows"], weights: Float[Array, " rows"], k: int
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Means and standard deviations of the targets in each k-th of their weight."""
    order = jnp.argsort(ys)
    ys, weights = ys[order], weights[order]
    total = jnp.sum(weights)
    below = (jnp.cumsum(weights) - 0.5 * weights) / jnp.where(total > 0, total, 1)
    part = jnp.clip((below * k).astype(jnp.int32), 0, k - 1)
    here = jnp.where(part[None, :] == jnp.arange(k, dtype=part.dtype)[:, None], weights[None, :], 0)
    held = jnp.maximum(jnp.sum(here, axis=1), jnp.finfo(ys.dtype).tiny)
    means = here @ ys / held
    apart = jnp.square(ys[None, :] - means[:, None])
    return means, jnp.sqrt(jnp.sum(here * apart, axis=1) / held)


def MixtureHead(
    dim: int, *, n_components: int = 4, bias: ArrayLike | None = None, l2: ArrayLike = 0.0
) -> GLMHead:
    """Regression with a distribution of any shape: `n_components` Gaussians."""
    return GLMHead(MixtureFamily(n_components), dim, bias=bias, l2=l2)
