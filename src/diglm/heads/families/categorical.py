"""Targets that are classes: Bernoulli for two, categorical for any number."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.discrete import Bernoulli, Categorical
from diglm.heads.family import AbstractFamily, Start
from diglm.heads.glm import GLMHead
from diglm.heads.links import get_link
from diglm.types import Scalar


class BernoulliFamily(AbstractFamily):
    r"""$P(y = 1) = g^{-1}(\eta)$, with $g$ logit, probit or complementary log-log."""

    link: str = eqx.field(static=True, default="logit")
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")
    n_predictors: ClassVar[int] = 1
    spreads: ClassVar[tuple[int, ...]] = ()
    of_classes: ClassVar[bool] = True

    def response(self, eta: Float[Array, " 1"]) -> Bernoulli:
        return Bernoulli(get_link(self.link).log_odds(eta[0]))

    def start(self, ys: Array, weights: Array) -> Start:
        positive = jnp.sum(jnp.where(weights > 0, weights * ys.astype(weights.dtype), 0))
        negative = jnp.sum(weights) - positive
        # At least half a row of each: with one class only, the best logit is infinite.
        positive, negative = jnp.maximum(positive, 0.5), jnp.maximum(negative, 0.5)
        bias = get_link(self.link).link(positive / (positive + negative))[None]
        return Start(self, bias, jnp.full_like(bias, -jnp.inf), jnp.full_like(bias, jnp.inf))

    def log_prob_bound(self, y: ArrayLike) -> Float[Array, "*batch"]:
        return jnp.zeros(jnp.shape(y))

    @classmethod
    def check_support(cls, y: Float[np.ndarray, " rows"]) -> None:
        wrong = (y != 0) & (y != 1)
        if np.any(wrong):
            raise ValueError(f"Bernoulli targets are 0 or 1; got {y[wrong][0]}.")

    @classmethod
    def unit(cls, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        return 0.0, 1.0

    def calibration(self, factor: ArrayLike) -> tuple["BernoulliFamily", ArrayLike, ArrayLike]:
        return self, 1 / factor, 0.0


class CategoricalFamily(AbstractFamily):
    r"""$P(y = k) = e^{\eta_k} / \sum_j e^{\eta_j}$."""

    n_predictors: int = eqx.field(static=True)
    link: str = eqx.field(static=True, default="softmax")
    links: ClassVar[tuple[str, ...]] = ("softmax",)
    spreads: ClassVar[tuple[int, ...]] = ()
    of_classes: ClassVar[bool] = True

    def response(self, eta: Float[Array, " classes"]) -> Categorical:
        return Categorical(eta)

    def start(self, ys: Array, weights: Array) -> Start:
        classes = jnp.arange(self.n_predictors)
        here = ys.astype(classes.dtype)[:, None] == classes[None, :]
        counts = jnp.maximum(jnp.sum(jnp.where(here, weights[:, None], 0), axis=0), 0.5)
        bias = jnp.log(counts / jnp.sum(counts))
        return Start(self, bias, jnp.full_like(bias, -jnp.inf), jnp.full_like(bias, jnp.inf))

    def log_prob_bound(self, y: ArrayLike) -> Float[Array, "*batch"]:
        return jnp.zeros(jnp.shape(y))

    def calibration(self, factor: ArrayLike) -> tuple["CategoricalFamily", ArrayLike, ArrayLike]:
        return self, 1 / factor, 0.0

    def eta_for_mean(self, mean: Scalar) -> Scalar:
        raise TypeError(
            "A categorical head has one linear predictor per class, so no single one gives a "
            "mean. Ask for a class and a margin instead."
        )


def BernoulliHead(
    dim: int, *, link: str = "logit", bias: ArrayLike | None = None, l2: ArrayLike = 0.0
) -> GLMHead:
    """Logistic (or probit, or complementary log-log) regression of 0/1 targets."""
    return GLMHead(BernoulliFamily(link), dim, bias=bias, l2=l2)


def CategoricalHead(
    dim: int, n_classes: int, *, bias: ArrayLike | None = None, l2: ArrayLike = 0.0
) -> GLMHead:
    """Softmax regression of class indices 0 to n_classes - 1."""
    if n_classes < 2:
        raise ValueError(f"Expected n_classes >= 2; got {n_classes}.")
    return GLMHead(CategoricalFamily(n_predictors=n_classes), dim, bias=bias, l2=l2)
