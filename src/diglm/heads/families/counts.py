"""Targets that count: Poisson, and negative binomial for counts that scatter more."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.discrete import (
    NegativeBinomial,
    Poisson,
    negative_binomial_peak,
    on_counts,
    poisson_peak,
)
from diglm.heads.families.marginal import Marginal, marginal, mean_bounds
from diglm.heads.family import AbstractFamily, Bounded, Start
from diglm.heads.glm import GLMHead
from diglm.heads.links import get_link
from diglm.heads.special import limit

_LINKS = ("log", "softplus", "identity")
_LOG_DISPERSION = (-10.0, 7.0)  # from all but Poisson to nearly everything at zero


class PoissonFamily(AbstractFamily):
    r"""$y \sim \mathrm{Poisson}(g^{-1}(\eta))$."""

    link: str = eqx.field(static=True, default="log")
    links: ClassVar[tuple[str, ...]] = _LINKS
    n_predictors: ClassVar[int] = 1
    spreads: ClassVar[tuple[int, ...]] = ()

    def response(self, eta: Float[Array, " 1"]) -> Poisson:
        return Poisson(get_link(self.link).log_mean(eta[0]))

    def start(self, ys: Array, weights: Array) -> Start:
        return _count_start(self, marginal(ys.astype(weights.dtype), weights))

    @classmethod
    def check_support(cls, y: Float[np.ndarray, " rows"]) -> None:
        check_counts(y)

    @classmethod
    def unit(cls, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        return 0.0, 1.0

    def log_prob_bound(self, y: ArrayLike) -> Float[Array, "*batch"]:
        y = jnp.asarray(y, dtype=float)
        return on_counts(y, poisson_peak(jnp.where(y > 0, y, 1.0)), at_zero=jnp.zeros_like(y))

    def calibration(self, factor: ArrayLike) -> tuple["PoissonFamily", ArrayLike, ArrayLike]:
        return self, 1.0, 0.0


class NegativeBinomialFamily(AbstractFamily):
    r"""Mean $\mu = g^{-1}(\eta)$, variance $\mu + \alpha \mu^2$, one trained $\log \alpha$."""

    log_dispersion: Bounded
    link: str = eqx.field(static=True)
    links: ClassVar[tuple[str, ...]] = _LINKS
    n_predictors: ClassVar[int] = 1
    spreads: ClassVar[tuple[int, ...]] = ()

    def __init__(self, log_dispersion: Bounded | None = None, link: str = "log"):
        default = Bounded(0.0, *_LOG_DISPERSION)
        self.log_dispersion = default if log_dispersion is None else log_dispersion
        self.link = link

    def response(self, eta: Float[Array, " 1"]) -> NegativeBinomial:
        return NegativeBinomial(get_link(self.link).log_mean(eta[0]), self.log_dispersion())

    def start(self, ys: Array, weights: Array) -> Start:
        """The mean and, by matching the variance, the dispersion (at least a thousandth)."""
        y = marginal(ys.astype(weights.dtype), weights)
        excess = (y.sd**2 - y.mean) / jnp.where(y.mean > 0, y.mean, 1.0) ** 2
        log_dispersion = Bounded(jnp.log(jnp.clip(excess, 1e-3, 1e3)), *_LOG_DISPERSION)
        return _count_start(NegativeBinomialFamily(log_dispersion, self.link), y)

    @classmethod
    def check_support(cls, y: Float[np.ndarray, " rows"]) -> None:
        check_counts(y)

    @classmethod
    def unit(cls, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        return 0.0, 1.0

    def log_prob_bound(self, y: ArrayLike) -> Float[Array, "*batch"]:
        log_alpha = limit(self.log_dispersion())
        y = jnp.asarray(y, log_alpha.dtype)
        peak = negative_binomial_peak(jnp.where(y > 0, y, 1.0), log_alpha)
        return on_counts(y, peak, at_zero=jnp.zeros_like(y))

    def calibration(
        self, factor: ArrayLike
    ) -> tuple["NegativeBinomialFamily", ArrayLike, ArrayLike]:
        log_dispersion = self.log_dispersion.shifted(2 * jnp.log(factor))
        return NegativeBinomialFamily(log_dispersion, self.link), 1.0, 0.0


def check_counts(y: Float[np.ndarray, " rows"]) -> None:
    """Raise unless all are whole numbers, none of them negative."""
    wrong = (y < 0) | (y != np.round(y))
    if np.any(wrong):
        raise ValueError(f"Counts are whole numbers y >= 0; got {y[wrong][0]}.")


def _count_start(family: AbstractFamily, y: Marginal) -> Start:
    mean = jnp.maximum(y.mean, 0.5 / jnp.maximum(y.total, 1.0))  # half a count if there is none
    lowest = jnp.minimum(0.1 * y.smallest_positive, 1e-3 * mean)
    low, high = mean_bounds(family.link, lowest, 10 * jnp.maximum(y.high, 1.0))
    return Start(family, get_link(family.link).link(mean)[None], low, high)


def PoissonHead(
    dim: int, *, link: str = "log", bias: ArrayLike | None = None, l2: ArrayLike = 0.0
) -> GLMHead:
    """Regression of counts."""
    return GLMHead(PoissonFamily(link), dim, bias=bias, l2=l2)


def NegativeBinomialHead(
    dim: int, *, link: str = "log", bias: ArrayLike | None = None, l2: ArrayLike = 0.0
) -> GLMHead:
    """Regression of counts that scatter more than Poisson's."""
    return GLMHead(NegativeBinomialFamily(link=link), dim, bias=bias, l2=l2)
