"""After training: how sure a head may be, judged by rows that were held out."""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.compiling import jit_once
from diglm.heads.base import AbstractHead, Features
from diglm.types import bucket, padded, placed

FEWEST_TO_CALIBRATE = 30
FEWEST_TO_WIDEN = 5
WIDER, NARROWER = 0.5, 0.2  # standard deviations of the prior of a log-factor, either way
FEWEST_FOR_SPREADS, LEAST_SPREAD = 200, 0.005


@runtime_checkable
class Calibrated(Protocol):
    """A head whose predictions can be widened."""

    def calibrated(self, factor: ArrayLike) -> AbstractHead:
        """A copy whose predictions are wider by `factor`."""
        ...


Head = TypeVar("Head", bound=AbstractHead)


def calibrated(head: Calibrated, held_out: Features) -> AbstractHead:
    """The head with its confidence scaled by the one number that suits the held-out rows best."""
    rows = held_out.known()
    if len(rows.weight) < FEWEST_TO_CALIBRATE:
        return head  # type: ignore[return-value]
    return _by(_best_calibration, head, *padded_rows(rows))


def best_factor(head: Calibrated, held_out: Features) -> Array | None:
    """The number by which `calibrated` should widen; None where too few rows could tell."""
    rows = held_out.known()
    if len(rows.weight) < FEWEST_TO_CALIBRATE:
        return None
    return _best_factor(head, *padded_rows(rows))


def widened(head: Calibrated, held_out: Features) -> AbstractHead:
    r"""A head of numbers whose spread is what held-out rows say of it, and their doubt.

    A spread that was learned on the rows trained on is too small, the more so the fewer they are,
    and a few held-out rows leave much open. Its factor c has a prior that finds wider more likely
    than narrower: log c is normal about zero with standard deviation 1/2 above and 1/5 below. The
    factor taken is $\sqrt{E[c^2]}$ given the held-out rows, with which the variance is that of the
    posterior predictive distribution. With many rows it is the most likely factor; with twelve
    it is about a tenth more, as a Student-t of twelve degrees of freedom is wider than a normal.
    """
    rows = held_out.known()
    if len(rows.weight) < FEWEST_TO_WIDEN:
        return head  # type: ignore[return-value]
    return _by(_expected_calibration, head, *padded_rows(rows))


def padded_rows(rows: Features) -> tuple[Array, Array, Array]:
    """Features, targets and weights, padded: tables of similar size share a program."""
    z, y, weight = padded((rows.z, rows.y, rows.weight), bucket(len(rows.weight)))
    return placed(np.asarray(z, float)), placed(y), placed(np.asarray(weight, float))


@jit_once
def _by(
    factor: Callable[..., Array], head: Calibrated, zs: Array, ys: Array, weights: Array
) -> AbstractHead:
    """The head widened by a factor that rows tell."""
    return head.calibrated(factor(head, zs, ys, weights))


def _best_calibration(head: Calibrated, zs: Array, ys: Array, weights: Array) -> Array:
    """The confidence that maximises held-out likelihood, shrunk towards no change."""
    grid = jnp.exp(jnp.linspace(-1.2, 1.2, 61)).astype(zs.dtype)

    def likelihood(c):
        widened = _log_likelihood(head.calibrated(c), zs, ys, weights)
        return widened - 0.5 * jnp.square(jnp.log(c) / 0.2)

    values = jax.lax.map(likelihood, grid)
    return grid[jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))]


_best_factor = jit_once(_best_calibration)


def _expected_calibration(head: Calibrated, zs: Array, ys: Array, weights: Array) -> Array:
    """The root of the expected squared factor, by a sum over a grid of log-factors."""
    grid = jnp.linspace(-1.2, 2.0, 81).astype(zs.dtype)

    def posterior(log_c):
        likelihood = _log_likelihood(head.calibrated(jnp.exp(log_c)), zs, ys, weights)
        return likelihood - 0.5 * jnp.square(log_c / jnp.where(log_c > 0, WIDER, NARROWER))

    values = jax.lax.map(posterior, grid)
    shares = jax.nn.softmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))
    return jnp.sqrt(shares @ jnp.exp(2 * grid))


def _log_likelihood(
    head: AbstractHead,
    zs: Float[Array, "rows dim"],
    ys: Array,
    weights: Float[Array, " rows"],
) -> Array:
    """Weighted sum of log p(y|z); rows of weight zero may hold anything."""
    per_row = jax.vmap(lambda z, y: head(z).log_prob(y))(zs, ys)
    return jnp.sum(weights * jnp.where(weights > 0, per_row, 0.0))


log_likelihood = jit_once(_log_likelihood)


def least_spreads(
    etas: Float[np.ndarray, "rows spreads"], low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """Bounds for predictors of spreads: what one training row in 200 has; None for few rows.

    Features beyond the training rows could otherwise push a spread to its bound, a thousandth of
    the target's own, and one such row would outweigh all others in a likelihood.
    """
    if len(etas) < FEWEST_FOR_SPREADS or etas.shape[1] == 0:
        return None
    return np.clip(np.quantile(etas, LEAST_SPREAD, axis=0), low, high)
