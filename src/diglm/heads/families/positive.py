"""Targets that are positive: Gamma."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.families.marginal import marginal, mean_bounds
from diglm.heads.family import AbstractFamily, Bounded, Start
from diglm.heads.glm import GLMHead
from diglm.heads.links import get_link
from diglm.heads.responses import Gamma
from diglm.heads.special import stirling_error
from diglm.types import Scalar

_LOG_SHAPE = (-4.605170185988091, 13.815510557964274)  # sd from a thousandth to ten of the mean


class GammaFamily(AbstractFamily):
    r"""Mean $\mu = g^{-1}(\eta)$, variance $\mu^2 / k$, one trained $\log k$ for all examples."""

    log_shape: Bounded
    link: str = eqx.field(static=True)
    links: ClassVar[tuple[str, ...]] = ("log", "softplus", "identity", "reciprocal")
    n_predictors: ClassVar[int] = 1
    spreads: ClassVar[tuple[int, ...]] = ()

    def __init__(self, log_shape: Bounded | None = None, link: str = "log"):
        self.log_shape = Bounded(0.0, *_LOG_SHAPE) if log_shape is None else log_shape
        self.link = link

    def response(self, eta: Float[Array, " 1"]) -> Gamma:
        return Gamma(get_link(self.link).log_mean(eta[0]), self.log_shape())

    def start(self, ys: Array, weights: Array) -> Start:
        y = marginal(ys.astype(weights.dtype), weights)
        mean = jnp.where(y.mean > 0, y.mean, 1.0)
        ends = 0.1 * y.smallest_positive, 10 * jnp.maximum(y.high, mean)
        low, high = mean_bounds(self.link, *ends)
        family = GammaFamily(Bounded(_log_shape(ys, weights), *_LOG_SHAPE), self.link)
        return Start(family, get_link(self.link).link(mean)[None], low, high)

    def calibration(self, factor: ArrayLike) -> tuple["GammaFamily", ArrayLike, ArrayLike]:
        return GammaFamily(self.log_shape.shifted(-2 * jnp.log(factor)), self.link), 1.0, 0.0

    @classmethod
    def check_support(cls, y: Float[np.ndarray, " rows"]) -> None:
        check_positive(y)

    @classmethod
    def unit(cls, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        """The mean: positive numbers stay positive."""
        return 0.0, float(np.mean(y)) if len(y) else 1.0


def check_positive(y: Float[np.ndarray, " rows"]) -> None:
    """Raise unless all are above zero."""
    if np.any(y <= 0):
        raise ValueError(f"Positive targets are y > 0; got {y[y <= 0][0]}.")


def _log_shape(ys: Array, weights: Array) -> Scalar:
    r"""The most likely shape: $\log k - \psi(k) = \log \bar y - \overline{\log y}$.

    Newton's method on $1/k$ from a start good to 1.5%: Minka (2002), "Estimating a Gamma
    distribution".
    """
    used = (weights > 0) & (ys > 0)
    weights = jnp.where(used, weights, 0)
    ys = jnp.where(used, ys.astype(weights.dtype), 1)
    total = jnp.sum(weights)
    share = weights / jnp.where(total > 0, total, 1)
    gap = jnp.log(jnp.where(total > 0, jnp.sum(share * ys), 1)) - jnp.sum(share * jnp.log(ys))
    spread = gap > 1e-6  # one row, or a constant, tells nothing of the shape
    gap = jnp.where(spread, gap, 1.0)
    k = (3 - gap + jnp.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)

    def excess(k):  # log k - psi(k) - gap
        return 0.5 / k - jax.jvp(stirling_error, (k,), (jnp.ones_like(k),))[1] - gap

    for _ in range(4):
        value, slope = jax.jvp(excess, (k,), (jnp.ones_like(k),))
        k = 1 / (1 / k + value / (k**2 * slope))
    return jnp.where(spread, jnp.log(k), 0.0)


def GammaHead(
    dim: int, *, link: str = "log", bias: ArrayLike | None = None, l2: ArrayLike = 0.0
) -> GLMHead:
    """Regression of positive targets whose standard deviation is proportional to the mean."""
    return GLMHead(GammaFamily(link=link), dim, bias=bias, l2=l2)
