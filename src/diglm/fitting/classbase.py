"""The base fitted to the features after training: a normal for each class."""

from collections.abc import Iterator, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import linalg

from diglm.bases import AbstractBase, NormalMixture
from diglm.hybrid import Hybrid
from diglm.predictor import evaluate
from diglm.types import Batch

FEWEST_FOR_BASE = 10_000  # rows that the base is fitted to, where there are as many
ROWS_A_FEATURE = 20  # and more, for a covariance
MOST_WHITENED = 4_096  # features; the covariance of more would not fit, and stays the identity
SHRINKAGES = (0.02, 0.1, 0.3)  # of covariances towards their diagonals, tried in turn
PIECE = 1_024  # rows whose features are held at a time


def with_base_of_classes(
    model: Hybrid, train: Batch, held_out: Batch, *, always: bool, seed: int
) -> Hybrid:
    """The base replaced by a normal for each class, around the mean of its features.

    Training draws features of the classes apart, which one normal around zero does not expect: what
    is drawn from it lies between the classes. And it leaves features of neighbouring pixels
    dependent. Where the features are and how they vary together is known in closed form once
    training is done, and p(y|x) does not depend on it. The held-out rows decide whether the
    covariance helps, how far it is shrunk, and unless `always` whether the new base is taken at
    all, which with few rows and many features it may not be.
    """
    rng = np.random.default_rng(seed)
    totals, means, covariance = _moments(model, train, rng)
    real = jnp.result_type(float)
    means, totals = means.astype(real), totals.astype(real)
    bases = [NormalMixture(means, totals)]
    if covariance is not None:
        for shrinkage in SHRINKAGES:
            whitening = _whitening(covariance, shrinkage).astype(real)
            bases.append(NormalMixture(means, totals, whitening))
    gains = _gains(model, bases, held_out, rng)
    best = int(np.argmax(gains))
    if not always and gains[best] <= 0:
        return model
    return eqx.tree_at(lambda m: m.flow.base, model, bases[best])


def _moments(
    model: Hybrid, train: Batch, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Weights and means of the classes' features, and the covariance around the means."""
    dim = model.flow.base.shape[0]
    counted = np.asarray(train.weight, float) * np.asarray(train.labelled, float)
    known = np.flatnonzero(counted > 0)
    most = max(FEWEST_FOR_BASE, ROWS_A_FEATURE * dim if dim <= MOST_WHITENED else 0)
    picked = known[np.linspace(0, len(known) - 1, min(len(known), most)).astype(int)]
    weights = counted[picked]
    classes, of_class = np.unique(np.asarray(train.y)[picked], return_inverse=True)
    shares = weights * (of_class == np.arange(len(classes))[:, None])
    sums, squares = np.zeros((len(classes), dim)), None
    if dim <= MOST_WHITENED:
        squares = np.zeros((dim, dim))
    for rows, zs in _features(model, np.asarray(train.x)[picked], rng):
        sums += shares[:, rows] @ zs
        if squares is not None:
            squares += (zs * weights[rows, None].astype(zs.dtype)).T @ zs
    totals = np.sum(shares, axis=1)
    means = sums / totals[:, None]
    if squares is not None:
        squares = (squares - (means * totals[:, None]).T @ means) / np.sum(totals)
    return totals, means, squares


def _whitening(covariance: np.ndarray, shrinkage: float) -> np.ndarray:
    r"""Lower triangular W with $W^\top W = \Sigma^{-1}$, the covariance shrunk to its diagonal."""
    variances = np.diagonal(covariance)
    variances = np.maximum(variances, 1e-6 * np.mean(variances) + 1e-12)
    shrunk = (1 - shrinkage) * covariance
    np.fill_diagonal(shrunk, variances)
    eye = np.eye(len(variances))
    return linalg.solve_triangular(linalg.cholesky(shrunk, lower=True), eye, lower=True)


def _gains(
    model: Hybrid, bases: Sequence[AbstractBase], held_out: Batch, rng: np.random.Generator
) -> np.ndarray:
    """By how much each of other bases raises log p(x) of the held-out rows, in all."""
    weights, gains = np.asarray(held_out.weight, float), np.zeros(len(bases))
    for rows, zs in _features(model, np.asarray(held_out.x), rng):
        for i, base in enumerate(bases):
            ratios = _log_ratio(base, model.flow.base, jnp.asarray(zs))
            gains[i] += weights[rows] @ np.asarray(ratios, float)
    return gains


@eqx.filter_jit
def _log_ratio(
    first: AbstractBase, second: AbstractBase, zs: Float[Array, "rows dim"]
) -> Float[Array, " rows"]:
    return jax.vmap(lambda z: first.log_prob(z) - second.log_prob(z))(zs)


def _features(
    model: Hybrid, xs: np.ndarray, rng: np.random.Generator
) -> Iterator[tuple[slice, Float[np.ndarray, "rows dim"]]]:
    """Features of some rows at a time, with noise of its own in each row's open parts.

    Not at the fixed places at which densities are looked at: means fitted there would know the
    very points that they are judged by, and a density would seem higher than it is.
    """
    for start in range(0, len(xs), PIECE):
        rows = slice(start, min(len(xs), start + PIECE))
        us = rng.uniform(1e-6, 1 - 1e-6, xs[rows].shape)
        beside = np.concatenate([xs[rows], us], axis=-1)
        yield rows, evaluate.evaluate(evaluate.features_of_filled, model, beside, np.zeros(0))
