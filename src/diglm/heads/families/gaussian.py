"""Targets on the real line: Gaussian with one or its own noise per example, and Student-t."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from scipy import special

from diglm.heads.families.marginal import marginal
from diglm.heads.family import AbstractFamily, Bounded, Start
from diglm.heads.glm import GLMHead
from diglm.heads.responses import Gaussian, StudentT
from diglm.heads.special import limit
from diglm.types import Scalar, placed

# Spreads within [sd / 1000, 10 sd] of the target's own: variances within [1e-6, 1e2] times.
LOG_SD_BELOW, LOG_SD_ABOVE = 6.907755278982137, 2.302585092994046
_DF_LOW, _DF_HIGH = 2.1, 200.0  # above two the variance exists; at 200 it is all but Gaussian


class GaussianFamily(AbstractFamily):
    r"""$y \sim N(\eta, \sigma^2)$, one trained $\log \sigma$ for all examples."""

    log_scale: Bounded
    link: str = eqx.field(static=True)
    links: ClassVar[tuple[str, ...]] = ("identity",)
    n_predictors: ClassVar[int] = 1
    spreads: ClassVar[tuple[int, ...]] = ()

    def __init__(self, log_scale: Bounded | None = None, link: str = "identity"):
        self.log_scale = Bounded(0.0) if log_scale is None else log_scale
        self.link = link

    def response(self, eta: Float[Array, " 1"]) -> Gaussian:
        return Gaussian(eta[0], self.constant_scale)

    @property
    def constant_scale(self) -> Scalar:
        return jnp.exp(limit(self.log_scale()))

    def start(self, ys: Array, weights: Array) -> Start:
        loc, low, high, log_sd = real_start(ys, weights)
        log_scale = Bounded(log_sd, log_sd - LOG_SD_BELOW, log_sd + LOG_SD_ABOVE)
        return Start(GaussianFamily(log_scale), loc[None], low[None], high[None])

    def calibration(self, factor: ArrayLike) -> tuple["GaussianFamily", ArrayLike, ArrayLike]:
        return GaussianFamily(self.log_scale.shifted(jnp.log(factor))), 1.0, 0.0


class HeteroscedasticFamily(AbstractFamily):
    r"""$y \sim N(\eta_0, e^{\eta_1})$: mean and log-variance are both linear in z."""

    link: str = eqx.field(static=True, default="identity")
    links: ClassVar[tuple[str, ...]] = ("identity",)
    n_predictors: ClassVar[int] = 2
    spreads: ClassVar[tuple[int, ...]] = (1,)

    def response(self, eta: Float[Array, " 2"]) -> Gaussian:
        return Gaussian(eta[0], jnp.exp(limit(0.5 * eta[1])))

    def start(self, ys: Array, weights: Array) -> Start:
        loc, low, high, log_sd = real_start(ys, weights)
        return Start(
            self,
            jnp.stack([loc, 2 * log_sd]),
            jnp.stack([low, 2 * (log_sd - LOG_SD_BELOW)]),
            jnp.stack([high, 2 * (log_sd + LOG_SD_ABOVE)]),
        )

    def calibration(
        self, factor: ArrayLike
    ) -> tuple["HeteroscedasticFamily", ArrayLike, ArrayLike]:
        return self, 1.0, 2 * jnp.log(jnp.stack([jnp.ones_like(factor), factor]))


class StudentTFamily(AbstractFamily):
    r"""$y \sim t_\nu(\eta_0, e^{\eta_1})$: location and log-scale are linear in z.

    One $\nu \in (2.1, 200)$ serves all examples, a logistic function of the trained number.
    """

    raw_df: Scalar
    link: str = eqx.field(static=True)
    links: ClassVar[tuple[str, ...]] = ("identity",)
    n_predictors: ClassVar[int] = 2
    spreads: ClassVar[tuple[int, ...]] = (1,)

    def __init__(self, df: float = 10.0, link: str = "identity"):
        if not _DF_LOW < df < _DF_HIGH:
            raise ValueError(f"Expected df within ({_DF_LOW}, {_DF_HIGH}); got {df}.")
        share = (df - _DF_LOW) / (_DF_HIGH - _DF_LOW)
        self.raw_df = placed(np.asarray(special.logit(share)))
        self.link = link

    @property
    def df(self) -> Scalar:
        """The degrees of freedom."""
        return _DF_LOW + (_DF_HIGH - _DF_LOW) * jax.nn.sigmoid(self.raw_df)

    def response(self, eta: Float[Array, " 2"]) -> StudentT:
        return StudentT(self.df, eta[0], jnp.exp(limit(eta[1])))

    def start(self, ys: Array, weights: Array) -> Start:
        loc, low, high, log_sd = real_start(ys, weights)
        log_scale = log_sd + 0.5 * jnp.log1p(-2 / self.df)  # the variance is that of y
        return Start(
            self,
            jnp.stack([loc, log_scale]),
            jnp.stack([low, log_sd - LOG_SD_BELOW]),
            jnp.stack([high, log_sd + LOG_SD_ABOVE]),
        )

    def calibration(self, factor: ArrayLike) -> tuple["StudentTFamily", ArrayLike, ArrayLike]:
        return self, 1.0, jnp.log(jnp.stack([jnp.ones_like(factor), factor]))


def real_start(ys: Array, weights: Array) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Mean, bounds one range beyond the targets, and log standard deviation."""
    y = marginal(ys.astype(weights.dtype), weights)
    extent = jnp.where(y.high > y.low, y.high - y.low, y.sd)
    return y.mean, y.low - extent, y.high + extent, jnp.log(y.sd)


def GaussianHead(dim: int, *, bias: ArrayLike | None = None, l2: ArrayLike = 0.0) -> GLMHead:
    """Linear regression with one noise level; with `l2`, ridge regression."""
    return GLMHead(GaussianFamily(), dim, bias=bias, l2=l2)


def HeteroscedasticHead(dim: int, *, bias: ArrayLike | None = None, l2: ArrayLike = 0.0) -> GLMHead:
    """Linear regression whose log-variance is linear too."""
    return GLMHead(HeteroscedasticFamily(), dim, bias=bias, l2=l2)


def StudentTHead(
    dim: int, *, df: float = 10.0, bias: ArrayLike | None = None, l2: ArrayLike = 0.0
) -> GLMHead:
    """Regression that outliers do not drag along; `df` is where training starts from."""
    return GLMHead(StudentTFamily(df), dim, bias=bias, l2=l2)
