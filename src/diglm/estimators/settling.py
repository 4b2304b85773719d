"""After training: the base fitted to the features, the head to the labels, and calibrated."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import linalg

from diglm.bases import AbstractBase, NormalMixture
from diglm.estimators import engine
from diglm.estimators.start import (
    FEWEST_TO_CALIBRATE,
    best_factor,
    calibrated,
    no_surer_than_seen,
)
from diglm.heads import AbstractHead, ConjugateHead, GLMHead, VariationalHead
from diglm.heads.bayesian.regression import Levels, Statistics, best_levels
from diglm.hybrid import Hybrid
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
    counted = known_weights(train)
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
        yield rows, engine.evaluate(engine.features_of_filled, model, beside, np.zeros(0))


class Settled(NamedTuple):
    """The head as it will answer; of a conjugate one also the sums its posterior is known by."""

    head: AbstractHead
    statistics: Statistics | None = None


def settle(
    head: AbstractHead,
    zs: np.ndarray,
    split: tuple[np.ndarray, np.ndarray],
    train: Batch,
    held_out: Batch,
    *,
    exact: bool,
) -> Settled:
    """The head made ready to answer.

    A point estimate is calibrated on the held-out rows. A posterior is found again from all
    labelled rows, held-out ones included. How far to trust it, the noise or the temperature, is
    judged by the held-out rows given the others, because a flow that was trained on a row knows it
    too well. `exact` says that nothing but the head was fitted, so that all rows are as good as
    held out and the evidence alone decides.
    """
    zs = zs.reshape(len(zs), -1)
    if isinstance(head, ConjugateHead):
        return _settle_conjugate(head, zs, split, train, held_out, exact=exact)
    if isinstance(head, VariationalHead):
        return _settle_variational(head, zs, split, train, held_out, exact=exact)
    if exact or not isinstance(head, GLMHead):
        return Settled(head)
    head = no_surer_than_seen(head, zs[split[0]])
    return Settled(calibrated(head, zs[split[1]], held_out))


def known_weights(rows: Batch) -> np.ndarray:
    """Weights of rows, zero where there is no label."""
    return np.asarray(rows.weight, float) * np.asarray(rows.labelled, float)


def _settle_conjugate(
    head: ConjugateHead,
    zs: np.ndarray,
    split: tuple[np.ndarray, np.ndarray],
    train: Batch,
    held_out: Batch,
    *,
    exact: bool,
) -> Settled:
    head = head.thawed()
    first, second = (
        head.statistics(zs[part], np.asarray(rows.y), known_weights(rows))
        for part, rows in zip(split, (train, held_out), strict=True)
    )
    everything = first.plus(second)
    if exact or np.sum(known_weights(held_out) > 0) < FEWEST_TO_CALIBRATE:
        levels = head.levels(everything)
    else:
        levels = _honest_levels(head, first, everything)
    head = reaching(head, levels).at(everything, levels)
    return Settled(head, everything)


def _honest_levels(head: ConjugateHead, first: Statistics, everything: Statistics) -> list[Levels]:
    """The precision by the evidence of the training rows, the noise by the rows held out."""
    chosen = []
    for t, level in enumerate(head.levels(first)):
        if not head.learns_noise:
            chosen.append(level)
            continue
        chosen.append(
            best_levels(everything, t, precision=level.precision, start=level, reference=first)
        )
    return chosen


def reaching(head: ConjugateHead, levels: list[Levels]) -> ConjugateHead:
    """The head with bounds on its noise that include these levels."""
    logs = np.log([level.noise for level in levels])
    low = np.minimum(np.asarray(head.noise_low.value), logs)
    high = np.maximum(np.asarray(head.noise_high.value), logs)
    dtype = head.weight.dtype
    return eqx.tree_at(
        lambda h: (h.noise_low.value, h.noise_high.value),
        head,
        (jnp.asarray(low, dtype), jnp.asarray(high, dtype)),
    )


def _settle_variational(
    head: VariationalHead,
    zs: np.ndarray,
    split: tuple[np.ndarray, np.ndarray],
    train: Batch,
    held_out: Batch,
    *,
    exact: bool,
) -> Settled:
    parts = list(zip(split, (train, held_out), strict=True))
    weights = np.concatenate([known_weights(rows) for _, rows in parts])
    ys = np.concatenate([np.asarray(rows.y) for _, rows in parts])
    places = np.concatenate([part for part, _ in parts])
    factor = None
    if not exact:
        n = len(train.weight)
        factor = best_factor(
            head.refit(zs[places[:n]], ys[:n], weights[:n]), zs[split[1]], held_out
        )
    head = head.refit(zs[places], ys, weights)
    return Settled(head if factor is None else head.calibrated(factor))
