"""What responses, families and heads offer: from features to a distribution of the target."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.links import get_link
from diglm.types import Buffer, Key, Scalar, clamp


class AbstractResponse(eqx.Module):
    """A distribution $p(y | z)$, the answer of a head to one example."""

    @abstractmethod
    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        """The log density or log mass of `y`; -1e30 outside the support, never NaN."""

    @property
    @abstractmethod
    def mean(self) -> Float[Array, "*batch"]:
        """The expectation of y; for classes, their probabilities along the last axis."""

    @property
    @abstractmethod
    def variance(self) -> Float[Array, "*batch"]:
        """The variance of y; for classes, that of each class's indicator."""

    @abstractmethod
    def entropy(self) -> Float[Array, "*batch"]:
        """The expectation of -log p(y), in nats."""

    @abstractmethod
    def draw(self, key: Key) -> Array:
        """One draw per example: whole numbers for classes, floats otherwise."""

    @property
    def std(self) -> Float[Array, "*batch"]:
        """The standard deviation of y."""
        return jnp.sqrt(self.variance)

    def sample(self, key: Key, n: int | None = None) -> Array:
        """One draw per example or, with `n`, that many along a new leading axis."""
        if n is None:
            return self.draw(key)
        return jax.vmap(self.draw)(jax.random.split(key, n))


class AbstractHead(eqx.Module):
    """A distribution of the target at features `z`: point, conjugate and variational alike."""

    @abstractmethod
    def linear_predictor(self, z: Float[Array, " dim"]) -> Float[Array, " predictors"]:
        """The numbers, linear in `z` within their bounds, from which the response is made."""

    @abstractmethod
    def __call__(self, z: Float[Array, " dim"]) -> AbstractResponse:
        """The response to one example's features; `jax.vmap` for many."""

    @abstractmethod
    def penalty(self) -> Scalar:
        """What the prior adds to the summed negative log-likelihood, or zero."""

    def in_training(self, z: Float[Array, " dim"]) -> AbstractResponse:
        """What training scores: the response, unless weights are random.

        A head with a distribution of weights gives a response whose `log_prob` is the average of
        log p(y|z, b) over them: with `penalty`, the evidence lower bound.
        """
        return self(z)


class AbstractBayesianHead(AbstractHead):
    """A head whose weights have a distribution, found again for any features by `refit`."""

    @abstractmethod
    def start(self, ys: Array, weights: Array) -> "AbstractBayesianHead":
        """A copy whose bounds and levels suit the marginal of `ys`."""

    @abstractmethod
    def refit(self, zs: np.ndarray, ys: np.ndarray, weights: np.ndarray) -> "AbstractBayesianHead":
        """A copy whose weights have the posterior given these rows, as exactly as possible."""

    @abstractmethod
    def calibrated(self, factor: ArrayLike) -> "AbstractBayesianHead":
        """A copy whose predictions are wider by `factor`."""


class Bounded(eqx.Module):
    """A trained number that is read within bounds, so that no likelihood drives it to infinity."""

    value: Scalar
    low: Buffer
    high: Buffer

    def __init__(self, value: ArrayLike, low: ArrayLike = -jnp.inf, high: ArrayLike = jnp.inf):
        self.value = value if isinstance(value, Array) else jnp.asarray(value, dtype=float)
        self.low = Buffer(jnp.asarray(low, self.value.dtype))
        self.high = Buffer(jnp.asarray(high, self.value.dtype))

    def __call__(self) -> Scalar:
        """The number, within its bounds."""
        return clamp(self.value, self.low.value, self.high.value)

    def shifted(self, by: ArrayLike) -> "Bounded":
        """Number and bounds moved together."""
        return Bounded(self() + by, self.low.value + by, self.high.value + by)


class Start(NamedTuple):
    """A family's answer to the marginal of y: itself with dispersion set, bias and bounds."""

    family: "AbstractFamily"
    bias: Float[Array, " predictors"]
    low: Float[Array, " predictors"]
    high: Float[Array, " predictors"]


class AbstractFamily(eqx.Module):
    """The kind of target: how many linear predictors, their link, and the dispersion if any.

    `link` is a name and static; the dispersion is trained and shared by all examples. `links`
    lists the links that make sense, and `spreads` the predictors that stand for a spread: only
    their bounds keep these finite, and `fit_head` applies the bounds of no others.
    """

    link: eqx.AbstractVar[str]
    links: eqx.AbstractClassVar[tuple[str, ...]]
    n_predictors: eqx.AbstractVar[int]
    spreads: eqx.AbstractVar[tuple[int, ...]]

    def __check_init__(self):
        if self.link not in self.links:
            raise ValueError(
                f"{type(self).__name__} takes a link among {self.links}; got {self.link!r}."
            )

    @abstractmethod
    def response(self, eta: Float[Array, " predictors"]) -> AbstractResponse:
        """The distribution of y at one example's linear predictors."""

    @abstractmethod
    def start(self, ys: Array, weights: Array) -> Start:
        """Bias, dispersion and bounds that fit the marginal of `ys`."""

    @abstractmethod
    def calibration(self, factor: ArrayLike) -> tuple["AbstractFamily", ArrayLike, ArrayLike]:
        """How to widen predictions: the family, then gain and shift of the predictors."""

    def eta_for_mean(self, mean: Scalar) -> Scalar:
        """The first linear predictor at which the response has this mean."""
        return get_link(self.link).link(mean)


class AbstractDiscreteFamily(AbstractFamily):
    """A family of classes or counts: the probability of a value has a known maximum."""

    @abstractmethod
    def log_prob_bound(self, y: ArrayLike) -> Float[Array, "*batch"]:
        """The largest log_prob of `y` over all linear predictors."""
