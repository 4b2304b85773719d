"""After training: the head's last fit, to every labelled row, and its calibration."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from diglm.estimators.start import (
    FEWEST_TO_CALIBRATE,
    best_factor,
    calibrated,
    no_surer_than_seen,
)
from diglm.heads import AbstractHead, ConjugateHead, GLMHead, VariationalHead
from diglm.heads.evidence import Levels, Statistics, best_levels
from diglm.types import Batch


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
