r"""Log-likelihoods and predictions averaged over a Gaussian linear predictor.

If the weights are $b \sim N(m, V)$ then $\eta = b^T \phi \sim N(\mu, v)$ with $\mu = m^T \phi$ and
$v = \phi^T V \phi$, so a head with random weights needs two averages over one normal number (or one
a class): that of $\log p(y \mid \eta)$, for the evidence lower bound, and that of $p(y \mid \eta)$,
for predictions. Counts have the first in closed form; classes are done by quadrature.

For classes with independent predictors both follow from Gumbel's trick: with standard Gumbel
noise $g_k$, the largest of $\eta_k + g_k$ has mean $E[\log\sum_k e^{\eta_k}] + \gamma$ and is that
of class $k$ with probability $E[\mathrm{softmax}_k]$. Its distribution function is a product over
classes, so K-dimensional averages become integrals over a line.
"""

from abc import abstractmethod
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.base import AbstractResponse
from diglm.heads.discrete import Bernoulli, Categorical, NegativeBinomial, Poisson, is_right
from diglm.heads.responses import Gaussian
from diglm.heads.special import limit
from diglm.types import Key, Scalar

EULER_GAMMA = 0.5772156649015329
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_FEW_NODES, _FEW_WEIGHTS = np.polynomial.hermite_e.hermegauss(12)
_LINE = 48  # places on the line of the largest utility
_LEAST_VARIANCE = 1e-7  # its root is still differentiable, its effect below rounding


class Gaussians(AbstractResponse):
    r"""Independent $N(\mu_t, \sigma_t^2)$ for several targets, along the last axis."""

    loc: Float[Array, "*batch targets"]
    scale: Float[Array, "*batch targets"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        return jnp.sum(Gaussian(self.loc, self.scale).log_prob(y), axis=-1)

    @property
    def mean(self) -> Float[Array, "*batch targets"]:
        return self.loc

    @property
    def variance(self) -> Float[Array, "*batch targets"]:
        return self.scale**2

    def entropy(self) -> Float[Array, "*batch"]:
        return jnp.sum(Gaussian(self.loc, self.scale).entropy(), axis=-1)

    def draw(self, key: Key) -> Array:
        return Gaussian(self.loc, self.scale).draw(key)

    def affinity(self, other: AbstractResponse) -> Float[Array, "..."]:
        q = cast(Gaussians, other)
        return Gaussian(self.loc, self.scale).affinity(Gaussian(q.loc, q.scale))

    def frozen(self, location: Any, scale: Any) -> Any:
        return Gaussian(jnp.asarray(self.loc), jnp.asarray(self.scale)).frozen(location, scale)


class AverageGaussian(AbstractResponse):
    r"""$E_q[\log N(y; b^T\phi, \sigma^2)] = \log N(y; m^T\phi, \sigma^2) - \phi^T V\phi/2\sigma^2$.

    The response of a random predictor in training; `cost` is the last term.
    """

    response: Gaussian | Gaussians
    cost: Float[Array, "*batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        return self.response.log_prob(y) - self.cost

    @property
    def mean(self) -> Float[Array, "..."]:
        return self.response.mean

    @property
    def variance(self) -> Float[Array, "..."]:
        return self.response.variance

    def entropy(self) -> Float[Array, "*batch"]:
        return self.response.entropy()

    def draw(self, key: Key) -> Array:
        return self.response.draw(key)


class AbstractAverage(AbstractResponse):
    """A response whose predictor is random: trained by the average of its log-likelihood.

    All else is asked of `predictive`, the response with the predictor integrated out.
    """

    @abstractmethod
    def predictive(self) -> AbstractResponse:
        """The response with the predictor integrated out."""

    @property
    def mean(self) -> Float[Array, "..."]:
        return self.predictive().mean

    @property
    def variance(self) -> Float[Array, "..."]:
        return self.predictive().variance

    def entropy(self) -> Float[Array, "*batch"]:
        return self.predictive().entropy()

    def draw(self, key: Key) -> Array:
        return self.predictive().draw(key)


class AverageBernoulli(AbstractAverage):
    r"""$E[\log p(y \mid \eta)]$ for log-odds $\eta \sim N(\mu, v)$, by Gauss-Hermite quadrature."""

    logit: Float[Array, "*batch"]
    uncertainty: Float[Array, "*batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        weights, etas = self._places()
        y = jnp.asarray(y, self.logit.dtype)[..., None]
        return Bernoulli(etas).log_prob(y) @ weights

    def predictive(self) -> Bernoulli:
        weights, etas = self._places()
        weights = jnp.broadcast_to(weights.reshape((1,) * self.logit.ndim + (-1,)), etas.shape)
        log_one = jax.nn.logsumexp(jax.nn.log_sigmoid(etas), axis=-1, b=weights)
        log_zero = jax.nn.logsumexp(jax.nn.log_sigmoid(-etas), axis=-1, b=weights)
        return Bernoulli(log_one - log_zero)

    def _places(self) -> tuple[Array, Array]:
        weights, nodes = _rule(_NODES, _WEIGHTS, self.logit)
        scale = jnp.sqrt(self.uncertainty + _LEAST_VARIANCE)
        return weights, self.logit[..., None] + scale[..., None] * nodes


class AverageCategorical(AbstractAverage):
    r"""$\mu_y - E[\log\sum_k e^{\eta_k}]$ for independent $\eta_k \sim N(\mu_k, v_k)$."""

    logits: Float[Array, "*batch classes"]
    uncertainty: Float[Array, "*batch classes"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        y = jnp.broadcast_to(jnp.asarray(y).astype(jnp.int32), self.logits.shape[:-1])
        chosen = jnp.take_along_axis(self.logits, y[..., None], axis=-1)[..., 0]
        line, step, below, _ = self._largest()
        expected = line[..., 0] + step * _trapezoid(1 - jnp.prod(below, axis=-1)) - EULER_GAMMA
        return chosen - expected

    def predictive(self) -> Categorical:
        _, _, below, slope = self._largest()
        log_below = jnp.log(jnp.maximum(below, jnp.finfo(below.dtype).tiny))
        others = jnp.sum(log_below, axis=-1, keepdims=True) - log_below
        shares = jnp.sum(jnp.exp(others) * slope, axis=-2)
        return Categorical(jnp.log(jnp.maximum(shares, jnp.finfo(shares.dtype).tiny)))

    def skill(self, y: Array) -> Scalar:
        return is_right(self.logits, y)

    def _largest(self) -> tuple[Array, Array, Array, Array]:
        """Places t on a line, their distance, P(eta_k + g_k < t) and its slope in t."""
        weights, nodes = _rule(_FEW_NODES, _FEW_WEIGHTS, self.logits)
        scale = jnp.sqrt(self.uncertainty + _LEAST_VARIANCE)
        etas = self.logits[..., None] + scale[..., None] * nodes
        # Below `low` the largest all but never lies, above `high` with probability 1e-7.
        low = jnp.max(self.logits - 5 * scale, axis=-1) - 4
        high = jax.nn.logsumexp(self.logits + 0.5 * jnp.square(scale), axis=-1) + 16
        low, high = jax.lax.stop_gradient((low, high))
        share = jnp.linspace(0.0, 1.0, _LINE, dtype=low.dtype)
        share = share.reshape((1,) * low.ndim + (-1,))
        line = low[..., None] + (high - low)[..., None] * share
        gap = limit(etas[..., None, :, :] - line[..., :, None, None], 0.9)
        hazard = jnp.exp(gap)
        alive = jnp.exp(-hazard)
        return line, (high - low) / (_LINE - 1), alive @ weights, (alive * hazard) @ weights


class AveragePoisson(AbstractAverage):
    r"""$y\mu - e^{\mu + v/2} - \log y!$ for a log-rate $\eta \sim N(\mu, v)$.

    Integrating the rate gives a Poisson-lognormal count; `predictive` is the negative binomial
    of the same mean $e^{\mu + v/2}$ and variance, its rate Gamma instead of log-normal.
    """

    log_rate: Float[Array, "*batch"]
    uncertainty: Float[Array, "*batch"]

    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        y = jnp.asarray(y, self.log_rate.dtype)
        at_mean = Poisson(self.log_rate).log_prob(y)
        half = 0.5 * jnp.minimum(self.uncertainty, 50.0)
        return at_mean - jnp.exp(limit(self.log_rate)) * jnp.expm1(half)

    def predictive(self) -> NegativeBinomial:
        spread = jnp.clip(self.uncertainty, 1e-6, 10.0)
        return NegativeBinomial(self.log_rate + 0.5 * spread, jnp.log(jnp.expm1(spread)))


AVERAGES = {
    "bernoulli": AverageBernoulli,
    "binary": AverageBernoulli,
    "categorical": AverageCategorical,
    "poisson": AveragePoisson,
}


def average(
    kind: str, mean: Float[Array, " predictors"], uncertainty: Float[Array, " predictors"]
) -> AbstractAverage:
    """The averaged response at one example's predictors; all but classes have a single one."""
    if kind == "categorical":
        return AverageCategorical(mean, uncertainty)
    return AVERAGES[kind](mean[0], uncertainty[0])


def _rule(nodes: np.ndarray, weights: np.ndarray, like: Array) -> tuple[Array, Array]:
    shaped = jnp.asarray(nodes, like.dtype).reshape((1,) * like.ndim + (-1,))
    return jnp.asarray(weights / weights.sum(), like.dtype), shaped


def _trapezoid(values: Array) -> Array:
    return jnp.sum(values, axis=-1) - 0.5 * (values[..., 0] + values[..., -1])
