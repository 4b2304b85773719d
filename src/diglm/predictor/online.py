"""Learning and unlearning rows exactly, and asking for the labels that would teach most.

All of it is about predictors with a conjugate head, whose posterior lives in sums over rows.
"""

from dataclasses import replace
from typing import NamedTuple, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from diglm.data.encoder import Encoded
from diglm.heads import ConjugateHead
from diglm.heads.bayesian.regression import Levels, Posterior, Statistics, evidence_at, posterior
from diglm.predictor.memory import Memory
from diglm.predictor.predictor import Predictor
from diglm.predictor.seen import Seen, mark_rows
from diglm.targets.base import Column
from diglm.targets.numbers import NumberTarget


class WeightPosterior(NamedTuple):
    """The normal posterior of the head's weights, in the units of y; the bias comes last.

    With several targets every array has one more axis for them, in front.

    Attributes:
        mean: such that E[y|x] = (f(x), 1) @ mean.
        covariance: of the weights.
        noise_variance: of y about its mean (times the noise's shape, where that varies).
        prior_precision: of each weight; their prior mean is zero, that of the bias `y_location_`.
    """

    mean: Float[np.ndarray, "*targets p"]
    covariance: Float[np.ndarray, "*targets p p"]
    noise_variance: Float[np.ndarray, "*targets"]
    prior_precision: Float[np.ndarray, "*targets"]


class Posteriors(NamedTuple):
    """Of a predictor with an exact posterior: its head, sums, target, posteriors and levels."""

    head: ConjugateHead
    memory: Memory
    target: NumberTarget
    found: list[Posterior]
    levels: list[Levels]

    @classmethod
    def of(cls, predictor: Predictor) -> "Posteriors":
        """Found anew from the sums."""
        head = cast(ConjugateHead, predictor.model.head)
        memory, target = cast(Memory, predictor.memory), cast(NumberTarget, predictor.target)
        noise, precision = np.asarray(head.noise, float), np.asarray(head.precision, float)
        levels = [Levels(float(s), float(p)) for s, p in zip(noise, precision, strict=True)]
        found = [posterior(memory.sums, *level, t) for t, level in enumerate(levels)]
        return cls(head, memory, target, found, levels)

    @property
    def scales(self) -> np.ndarray:
        """Units of the targets."""
        return np.atleast_1d(self.target.scale)


def weight_posterior(predictor: Predictor) -> WeightPosterior:
    """Posterior of the weights on (f(x), 1), in the units of y."""
    now = Posteriors.of(predictor)
    mean = now.scales[:, None] * np.stack([one.mean for one in now.found])
    mean[:, -1] += np.atleast_1d(now.target.location)
    squared = now.scales**2
    covariance = np.stack([one.covariance for one in now.found]) * squared[:, None, None]
    noise = np.array([level.noise for level in now.levels]) * squared
    precision = np.array([level.precision for level in now.levels]) / squared
    parts = (mean, covariance, noise, precision)
    return WeightPosterior(*(parts if now.head.n_targets > 1 else (part[0] for part in parts)))


def log_evidence(predictor: Predictor, encoded: Encoded, y: Column) -> float:
    """log p(all targets | all rows), the weights integrated out, in the units of y."""
    now = Posteriors.of(predictor)
    known, weights, _ = _read(predictor, encoded, y, np.ones(len(encoded)))
    total = 0.0
    for t, level in enumerate(now.levels):
        total += evidence_at(known, posterior(known, *level, t), *level, t)
    return float(total - weights.sum() * np.sum(np.log(now.scales)))


def kernel(
    predictor: Predictor, first: Encoded, second: Encoded
) -> Float[np.ndarray, "*targets n m"]:
    r"""$k(x, x') = l^{-1} (f(x), 1)^T (f(x'), 1)$, in squared units of y."""
    now = Posteriors.of(predictor)
    size = now.scales**2 / np.array([level.precision for level in now.levels])
    kernels = size[:, None, None] * (design(predictor, first) @ design(predictor, second).T)
    return kernels if now.head.n_targets > 1 else kernels[0]


def changed(
    predictor: Predictor, encoded: Encoded, y: Column, weights: np.ndarray, sign: int
) -> Predictor:
    """The predictor after learning (`sign=1`) or unlearning rows; an error changes nothing."""
    now = Posteriors.of(predictor)
    added, _, marks = _read(predictor, encoded, y, weights)
    seen = now.memory.seen.plus(Seen.of(marks), sign)
    known = now.memory.sums.plus(added, sign)
    if len(seen.marks) == 0:  # nothing is left but rounding
        known = Statistics.zero(*np.shape(known.moment))
    known = Statistics(*map(np.asarray, known))
    head = _widened(now, y) if sign > 0 else now.head
    return remembering(predictor, head, now.memory._replace(sums=known, seen=seen))


def remembering(predictor: Predictor, head: ConjugateHead, memory: Memory) -> Predictor:
    """The predictor with the posterior that belongs to these sums."""
    predictor = replace(predictor, memory=memory)
    now = Posteriors.of(
        replace(predictor, model=eqx.tree_at(lambda m: m.head, predictor.model, head))
    )
    held = head.holding(now.found, now.levels)
    return replace(predictor, model=eqx.tree_at(lambda m: m.head, predictor.model, held))


def information_gain(predictor: Predictor, encoded: Encoded) -> Float[np.ndarray, " rows"]:
    r"""$\tfrac12 \log(1 + \phi^T A^{-1} \phi / s^2)$: nats that a row's label would teach."""
    noise, variance, _ = _ratios(Posteriors.of(predictor), design(predictor, encoded))
    return np.sum(0.5 * np.log1p(variance / noise), axis=0)


def most_informative(predictor: Predictor, encoded: Encoded, n: int) -> Int[np.ndarray, " chosen"]:
    """Numbers of the `n` rows whose labels together teach most; see `HybridRegressor`."""
    phi = design(predictor, encoded)
    left = ~predictor.refusal.rejects(predictor.known(encoded))
    noise, variance, covariance = _ratios(Posteriors.of(predictor), phi)
    chosen: list[int] = []
    while len(chosen) < min(n, len(phi)) and np.any(left):
        gain = np.where(left, 0.5 * np.sum(np.log1p(variance / noise), axis=0), -np.inf)
        best = int(np.argmax(gain))
        chosen.append(best)
        left[best] = False
        across = phi[best] @ covariance  # (targets, p)
        shrink = 1 / (noise[:, best] + variance[:, best])
        variance = np.maximum(variance - shrink[:, None] * (across @ phi.T) ** 2, 0.0)
        covariance = covariance - shrink[:, None, None] * np.einsum("ti,tj->tij", across, across)
    return np.array(chosen, int)


def design(predictor: Predictor, encoded: Encoded) -> Float[np.ndarray, "rows p"]:
    """(f(x), 1) of each row, in float64."""
    zs = predictor.features(encoded).astype(float)
    return np.concatenate([zs, np.ones((len(zs), 1))], axis=1)


def _read(
    predictor: Predictor, encoded: Encoded, y: Column, weights: np.ndarray
) -> tuple[Statistics, np.ndarray, np.ndarray]:
    """Sums over labelled rows, their weights and their marks."""
    now = Posteriors.of(predictor)
    labels = now.target.read(np.asarray(y))
    if len(labels.labelled) != len(encoded):
        raise ValueError(f"X has {len(encoded)} rows, but y has {len(labels.labelled)}.")
    batch = labels.batch(encoded.values, weights / now.memory.weight_unit)
    used = np.flatnonzero(labels.labelled & (weights > 0))
    counted, ys = np.asarray(batch.weight, float)[used], np.asarray(batch.y)[used]
    zs = np.zeros((0, now.head.dim))
    if len(used):
        zs = predictor.features(encoded.take(used))
    known = now.head.statistics(zs, ys, counted)
    marks = mark_rows(np.asarray(batch.x)[used], ys, np.asarray(batch.weight)[used])
    return known, counted, marks


def _ratios(now: Posteriors, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noise and variance of the predictor, (targets, rows), and the covariances."""
    shapes = np.ones(len(phi))
    if now.head.has_effects:
        shapes = 1 + phi[:, :-1] ** 2 @ np.exp(np.asarray(now.head.log_ratios, float))
    noise = np.array([level.noise for level in now.levels])[:, None] * shapes
    variance = np.stack([np.sum((phi @ one.factor.T) ** 2, axis=1) for one in now.found])
    return noise, variance, np.stack([one.covariance for one in now.found])


def _widened(now: Posteriors, y: Column) -> ConjugateHead:
    """The head with bounds on its mean that suit new targets as well."""
    labels = now.target.read(np.asarray(y))
    ys = np.asarray(labels.ys, float).reshape(len(labels.ys), -1)[labels.labelled]
    if len(ys) == 0:
        return now.head
    low, high = (np.asarray(b.value) for b in (now.head.eta_low, now.head.eta_high))
    least, most = ys.min(axis=0), ys.max(axis=0)
    # Bounds lie one range of the targets beyond them: recover that range, and widen it.
    extent = (high - low) / 3
    least, most = np.minimum(least, low + extent), np.maximum(most, high - extent)
    dtype = now.head.weight.dtype
    wider = 2 * least - most, 2 * most - least
    return eqx.tree_at(
        lambda h: (h.eta_low.value, h.eta_high.value),
        now.head,
        tuple(jnp.asarray(bound, dtype) for bound in wider),
    )
