"""What a family offers: how the distribution of the target hangs on linear predictors."""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.base import AbstractResponse
from diglm.heads.links import get_link
from diglm.types import Buffer, Scalar, clamp


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
    their bounds keep these finite, and `fit_head` applies the bounds of no others. `inverts_mean`
    says whether one predictor decides the mean, `of_classes` that to widen is to temper
    probabilities of classes.
    """

    link: eqx.AbstractVar[str]
    links: eqx.AbstractClassVar[tuple[str, ...]]
    n_predictors: eqx.AbstractVar[int]
    spreads: eqx.AbstractVar[tuple[int, ...]]
    inverts_mean: ClassVar[bool] = True
    of_classes: ClassVar[bool] = False

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

    @classmethod
    def check_support(cls, y: Float[np.ndarray, " rows"]) -> None:
        """Raise for targets that the family cannot have; any number will do here."""

    @classmethod
    def unit(cls, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        """Location and scale of the head's unit of y; standardised where any number will do."""
        return standard_unit(y)

    def log_prob_bound(self, y: ArrayLike) -> Float[Array, "*batch"] | None:
        """The largest log_prob of `y` over all linear predictors; None where there is none."""
        return None

    @property
    def constant_scale(self) -> Scalar | None:
        """The standard deviation, if y is normal about its one predictor with the same for all."""
        return None

    def eta_for_mean(self, mean: Scalar) -> Scalar:
        """The first linear predictor at which the response has this mean."""
        return get_link(self.link).link(mean)


def standard_unit(y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
    """Mean and standard deviation of the targets; of a constant one its value and one."""
    if len(y) == 0:
        return 0.0, 1.0
    mean, scale = float(np.mean(y)), float(np.std(y))
    return mean, scale if scale > 1e-12 * max(1.0, abs(mean)) else 1.0
