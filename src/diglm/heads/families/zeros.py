"""Targets of which many are exactly zero: hurdles, and counts with zeros of another origin."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.families.counts import NegativeBinomialFamily, check_counts
from diglm.heads.families.positive import GammaFamily
from diglm.heads.family import AbstractFamily, Start
from diglm.heads.glm import GLMHead
from diglm.heads.inflated import ZeroInflated
from diglm.types import Scalar

_LOGIT_BOUND = 15.0  # a share of zeros of 3e-7 is as good as none


class HurdleFamily(AbstractFamily):
    r"""$P(y = 0) = \sigma(\eta_0)$; positive y are Gamma with mean $e^{\eta_1}$ and one shape.

    The mean, $\sigma(-\eta_0)\, e^{\eta_1}$, is that of the whole distribution, zeros and all.

    Reference: Cragg (1971), https://doi.org/10.2307/1909582
    """

    positive: GammaFamily
    link: str = eqx.field(static=True)
    links: ClassVar[tuple[str, ...]] = ("log",)
    n_predictors: ClassVar[int] = 2
    spreads: ClassVar[tuple[int, ...]] = ()
    inverts_mean: ClassVar[bool] = False

    def __init__(self, positive: GammaFamily | None = None, link: str = "log"):
        self.positive = GammaFamily() if positive is None else positive
        self.link = link

    def response(self, eta: Float[Array, " 2"]) -> ZeroInflated:
        return ZeroInflated(eta[0], self.positive.response(eta[1:]))

    def start(self, ys: Array, weights: Array) -> Start:
        rest = self.positive.start(ys, jnp.where(ys > 0, weights, 0))
        return _with_zeros(HurdleFamily(rest.family), rest, ys, weights, 0.0)  # type: ignore

    def calibration(self, factor: ArrayLike) -> tuple["HurdleFamily", ArrayLike, ArrayLike]:
        positive, gain, shift = self.positive.calibration(factor)
        return HurdleFamily(positive), gain, shift

    @classmethod
    def check_support(cls, y: Float[np.ndarray, " rows"]) -> None:
        if np.any(y < 0):
            raise ValueError(f"Targets of a hurdle are y >= 0; got {y[y < 0][0]}.")

    @classmethod
    def unit(cls, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        """The mean of what is not zero: zero stays zero."""
        return 0.0, float(np.mean(y[y > 0])) if np.any(y > 0) else 1.0

    def eta_for_mean(self, mean: Scalar) -> Scalar:
        raise ValueError(_NO_INVERSE)


class ZeroInflatedFamily(AbstractFamily):
    r"""Zero with probability $\sigma(\eta_0)$, else negative binomial with mean $e^{\eta_1}$.

    Reference: Lambert (1992), https://doi.org/10.2307/1269547
    """

    counts: NegativeBinomialFamily
    link: str = eqx.field(static=True)
    links: ClassVar[tuple[str, ...]] = ("log",)
    n_predictors: ClassVar[int] = 2
    spreads: ClassVar[tuple[int, ...]] = ()
    inverts_mean: ClassVar[bool] = False

    def __init__(self, counts: NegativeBinomialFamily | None = None, link: str = "log"):
        self.counts = NegativeBinomialFamily() if counts is None else counts
        self.link = link

    def response(self, eta: Float[Array, " 2"]) -> ZeroInflated:
        return ZeroInflated(eta[0], self.counts.response(eta[1:]))

    def start(self, ys: Array, weights: Array) -> Start:
        """Half of the zeros are taken for zeros of their own; the rest is that of positive y."""
        rest = self.counts.start(ys, jnp.where(ys > 0, weights, 0))
        return _with_zeros(ZeroInflatedFamily(rest.family), rest, ys, weights, 0.5)  # type: ignore

    def log_prob_bound(self, y: ArrayLike) -> Float[Array, "*batch"]:
        return self.counts.log_prob_bound(y)  # reached without zeros of their own

    def calibration(self, factor: ArrayLike) -> tuple["ZeroInflatedFamily", ArrayLike, ArrayLike]:
        counts, gain, shift = self.counts.calibration(factor)
        return ZeroInflatedFamily(counts), gain, shift  # type: ignore[arg-type]

    @classmethod
    def check_support(cls, y: Float[np.ndarray, " rows"]) -> None:
        check_counts(y)

    @classmethod
    def unit(cls, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        return 0.0, 1.0

    def eta_for_mean(self, mean: Scalar) -> Scalar:
        raise ValueError(_NO_INVERSE)


_NO_INVERSE = (
    "The mean of a target with many zeros hangs on two linear predictors, so no single one gives "
    "it. Use head='student_t', 'negative_binomial' or 'gamma' for counterfactuals."
)


def _with_zeros(
    family: AbstractFamily, rest: Start, ys: Array, weights: Array, spared: float
) -> Start:
    """The start of the rest with a predictor of zeros before it, of which some are spared."""
    zeros = (1 - spared) * jnp.sum(jnp.where((weights > 0) & (ys == 0), weights, 0))
    others = jnp.sum(weights) - zeros
    # At least half a row of each: with one kind only, the best logit is infinite.
    logit = jnp.log(jnp.maximum(zeros, 0.5)) - jnp.log(jnp.maximum(others, 0.5))
    bound = jnp.full_like(logit, _LOGIT_BOUND)[None]
    return Start(
        family,
        jnp.concatenate([logit[None], rest.bias]),
        jnp.concatenate([-bound, rest.low]),
        jnp.concatenate([bound, rest.high]),
    )


def HurdleHead(dim: int, *, bias: ArrayLike | None = None, l2: ArrayLike = 0.0) -> GLMHead:
    """Regression of targets that are zero or positive."""
    return GLMHead(HurdleFamily(), dim, bias=bias, l2=l2)


def ZeroInflatedHead(dim: int, *, bias: ArrayLike | None = None, l2: ArrayLike = 0.0) -> GLMHead:
    """Regression of counts with more zeros than counting explains."""
    return GLMHead(ZeroInflatedFamily(), dim, bias=bias, l2=l2)
