"""After training: the base fitted to the features, the head to the labels, and calibrated."""

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.bases import AbstractBase, NormalMixture
from diglm.estimators import engine
from diglm.estimators.start import (
    FEWEST_TO_CALIBRATE,
    best_factor,
    calibrated,
    no_surer_than_seen,
)
from diglm.heads import AbstractHead, ConjugateHead, GLMHead, VariationalHead
from diglm.heads.evidence import Levels, Statistics, best_levels
from diglm.hybrid import Hybrid
from diglm.types import Batch

ROWS_FOR_MEANS = 10_000
PIECE = 1_024  # rows whose features are held at a time


def with_base_of_classes(
    model: Hybrid, train: Batch, held_out: Batch, *, always: bool, seed: int
) -> Hybrid:
    """The base replaced by a normal for each class, around the mean of its features.

    Training draws features of the classes apart, which one normal around zero does not expect: what
    is drawn from it lies between the classes. Where the features are is known in closed form once
    training is done, and p(y|x) does not depend on it. Unless `always`, the new base is taken only
    if it makes the held-out rows more probable, which with few rows and many features it may not.
    """
    rng = np.random.default_rng(seed)
    counted = known_weights(train)
    known = np.flatnonzero(counted > 0)
    picked = known[np.linspace(0, len(known) - 1, min(len(known), ROWS_FOR_MEANS)).astype(int)]
    classes, of_class = np.unique(np.asarray(train.y)[picked], return_inverse=True)
    shares = counted[picked] * (of_class == np.arange(len(classes))[:, None])
    sums = 0.0
    for rows, zs in _features(model, np.asarray(train.x)[picked], rng):
        sums = sums + shares[:, rows] @ zs.astype(float)
    totals = np.sum(shares, axis=1)
    real = jnp.result_type(float)
    base = NormalMixture((sums / totals[:, None]).astype(real), totals.astype(real))
    if not always and _gain(model, base, held_out, rng) <= 0:
        return model
    return eqx.tree_at(lambda m: m.flow.base, model, base)


def _gain(model: Hybrid, base: AbstractBase, held_out: Batch, rng: np.random.Generator) -> float:
    """By how much another base raises log p(x) of the held-out rows, in all."""
    weights, gain = np.asarray(held_out.weight, float), 0.0
    for rows, zs in _features(model, np.asarray(held_out.x), rng):
        gains = _log_ratio(base, model.flow.base, jnp.asarray(zs))
        gain += float(weights[rows] @ np.asarray(gains, float))
    return gain


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
