"""After training: how sure a head may be, judged by rows that were held out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import equinox as eqx
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


class Judged(NamedTuple):
    """Rows by which heads are judged that answer together, each by features of its own.

    Attributes:
        zs: features of the rows, for each head.
        log_shares: of each head in the answer to each row; minus infinity for one that learned
            from the row.
        ys: targets.
        weights: what each row counts.
    """

    zs: Float[np.ndarray, "heads rows dim"]
    log_shares: Float[np.ndarray, "heads rows"]
    ys: np.ndarray
    weights: Float[np.ndarray, " rows"]

    @classmethod
    def alone(cls, held_out: Features) -> "Judged":
        """Rows that a head by itself did not learn from."""
        rows = held_out.known()
        return cls(rows.z[None], np.zeros((1, len(rows.weight))), rows.y, rows.weight)

    def padded(self) -> tuple[Array, Array, Array, Array]:
        """On the device, padded: tables of similar size share a program."""
        columns = (self.zs.swapaxes(0, 1), self.log_shares.T, self.ys, self.weights)
        zs, shares, ys, weights = padded(columns, bucket(len(self.weights)))
        real = (zs.swapaxes(0, 1), shares.T, weights)
        zs, shares, weights = (placed(np.asarray(column, float)) for column in real)
        return zs, shares, placed(ys), weights


def calibrated(heads: Sequence[Head], judged: Judged) -> list[Head]:
    """Heads with their confidence scaled by the one number that suits the judged rows best."""
    if len(judged.weights) < FEWEST_TO_CALIBRATE:
        return list(heads)
    return _by(_best_calibration, heads, judged)


def best_factor(head: Calibrated, held_out: Features) -> Array | None:
    """The number by which `calibrated` should widen; None where too few rows could tell."""
    judged = Judged.alone(held_out)
    if len(judged.weights) < FEWEST_TO_CALIBRATE:
        return None
    return _best_factor(stacked([head]), *judged.padded())  # type: ignore[type-var]


def widened(heads: Sequence[Head], judged: Judged) -> list[Head]:
    r"""Heads of numbers whose spread is what judged rows say of it, and their doubt.

    A spread that was learned on the rows trained on is too small, the more so the fewer they are,
    and a few held-out rows leave much open. Its factor c has a prior that finds wider more likely
    than narrower: log c is normal about zero with standard deviation 1/2 above and 1/5 below. The
    factor taken is $\sqrt{E[c^2]}$ given the held-out rows, with which the variance is that of the
    posterior predictive distribution. With many rows it is the most likely factor; with twelve
    it is about a tenth more, as a Student-t of twelve degrees of freedom is wider than a normal.
    """
    if len(judged.weights) < FEWEST_TO_WIDEN:
        return list(heads)
    return _by(_expected_calibration, heads, judged)


def padded_rows(rows: Features) -> tuple[Array, Array, Array]:
    """Features, targets and weights, padded: tables of similar size share a program."""
    z, y, weight = padded((rows.z, rows.y, rows.weight), bucket(len(rows.weight)))
    return placed(np.asarray(z, float)), placed(y), placed(np.asarray(weight, float))


def stacked(heads: Sequence[Head]) -> Head:
    """Heads of one kind as one, with a leading axis on every array."""
    return jax.tree.map(lambda *leaves: placed(np.stack(jax.device_get(leaves))), *heads)


def _by(factor: Callable[..., Array], heads: Sequence[Head], judged: Judged) -> list[Head]:
    """The heads widened by the factor that rows tell."""
    wide = jax.device_get(_widen(factor, stacked(heads), *judged.padded()))  # type: ignore
    return [jax.tree.map(lambda leaf, i=i: placed(leaf[i]), wide) for i in range(len(heads))]


@jit_once
def _widen(factor: Callable[..., Array], heads: Calibrated, *judged: Array) -> AbstractHead:
    return _times(heads, factor(heads, *judged))


def _times(heads: Calibrated, factor: Array) -> AbstractHead:
    return eqx.filter_vmap(lambda head: head.calibrated(factor))(heads)


def _best_calibration(heads: Calibrated, *judged: Array) -> Array:
    """The confidence that maximises held-out likelihood, shrunk towards no change."""
    grid = jnp.exp(jnp.linspace(-1.2, 1.2, 61)).astype(judged[0].dtype)

    def likelihood(c):
        widened = jnp.sum(_row_likelihoods(_times(heads, c), *judged))
        return widened - 0.5 * jnp.square(jnp.log(c) / 0.2)

    values = jax.lax.map(likelihood, grid)
    return grid[jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))]


_best_factor = jit_once(_best_calibration)


def _expected_calibration(heads: Calibrated, *judged: Array) -> Array:
    """The root of the expected squared factor, by a sum over a grid of log-factors."""
    grid = jnp.linspace(-1.2, 2.0, 81).astype(judged[0].dtype)

    def posterior(log_c):
        likelihood = jnp.sum(_row_likelihoods(_times(heads, jnp.exp(log_c)), *judged))
        return likelihood - 0.5 * jnp.square(log_c / jnp.where(log_c > 0, WIDER, NARROWER))

    values = jax.lax.map(posterior, grid)
    shares = jax.nn.softmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))
    return jnp.sqrt(shares @ jnp.exp(2 * grid))


def _row_likelihoods(
    heads: AbstractHead,
    zs: Float[Array, "heads rows dim"],
    log_shares: Float[Array, "heads rows"],
    ys: Array,
    weights: Float[Array, " rows"],
) -> Float[Array, " rows"]:
    """Weights times log p(y|z), averaged over heads; rows of weight zero may hold anything."""

    def told(head, zs):
        return jax.vmap(lambda z, y: head(z).log_prob(y))(zs, ys)

    per_row = jax.nn.logsumexp(eqx.filter_vmap(told)(heads, zs) + log_shares, axis=0)
    return weights * jnp.where(weights > 0, per_row, 0.0)


_jit_row_likelihoods = jit_once(_row_likelihoods)


def row_likelihoods(heads: Sequence[AbstractHead], judged: Judged) -> Float[np.ndarray, " rows"]:
    """log p(y|z) of each row, averaged over heads, times its weight."""
    found = _jit_row_likelihoods(stacked(heads), *judged.padded())
    return np.asarray(found, float)[: len(judged.weights)]


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
