r"""The best Gaussian posterior of the weights for fixed features, by natural gradients.

With $e(\mu, v) = E_{N(\mu, v)}[\log p(y \mid \eta)]$, the slopes of the evidence lower bound are
those of $e$, and its maximum solves

$$V_k^{-1} = l I - 2 \sum_n w_n \frac{\partial e_n}{\partial v_k} \phi_n \phi_n^T, \qquad
\sum_n w_n \frac{\partial e_n}{\partial \mu_k} \phi_n = l m_k.$$

Each step moves the precision matrices towards the first and the means along the second, shortened
until the bound rises: Newton's method with curvatures averaged over the posterior.

Reference: Opper and Archambeau (2009), The variational Gaussian approximation revisited.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.heads.bayesian.averages import average
from diglm.heads.bayesian.jaakkola import GaussianWeights
from diglm.heads.bayesian.regression import inverse_factor


class _State(NamedTuple):
    """Means, precision matrices and their inverses, and the bound they give."""

    mean: np.ndarray
    precisions: np.ndarray
    covariance: np.ndarray
    log_det: float
    bound: float


def maximise_elbo(
    kind: str,
    features: Float[np.ndarray, "rows p"],
    ys: np.ndarray,
    weights: Float[np.ndarray, " rows"],
    *,
    offset: Float[np.ndarray, " predictors"],
    start: GaussianWeights,
    precision: float | None = None,
    diagonal: bool = False,
    max_steps: int = 60,
    tolerance: float = 1e-8,
) -> GaussianWeights:
    """Means and covariances of the weights at which the evidence lower bound is greatest.

    Args:
        kind: "bernoulli" (or "binary"), "categorical" or "poisson".
        features: one row an example, with a column of ones where a bias is wanted.
        ys: zeros and ones, class numbers, or counts.
        weights: how often each row counts.
        offset: added to every predictor.
        start: where to begin: Laplace's answer.
        precision: of the normal prior; None to choose it by the bound.
        diagonal: whether the weights are independent in the posterior.
        max_steps: at most so many steps.
        tolerance: stop when a step gains less than this, in nats per row.
    """
    used = weights > 0
    phi, counts, ys = np.asarray(features, float)[used], np.asarray(weights, float)[used], ys[used]
    level = start.precision if precision is None else float(precision)
    n, p = start.mean.shape

    def state(mean: np.ndarray, precisions: np.ndarray, level: float) -> _State:
        if diagonal:
            precisions = np.stack([np.diag(np.diagonal(one)) for one in precisions])
        factors = [inverse_factor(one) for one in precisions]
        covariance = np.stack([factor.T @ factor for factor, _ in factors])
        log_det = float(sum(one for _, one in factors))
        value, _, _ = _rows(kind, phi, mean, covariance, offset, ys)
        spread = np.sum(mean**2) + np.trace(covariance, axis1=1, axis2=2).sum()
        divergence = 0.5 * (level * spread - n * p * (1 + math.log(level)) + log_det)
        return _State(mean, precisions, covariance, log_det, float(counts @ value - divergence))

    now = state(start.mean, np.stack([np.linalg.inv(one) for one in start.covariance]), level)
    pace = 1.0
    for _ in range(max_steps):
        _, slopes, curves = _rows(kind, phi, now.mean, now.covariance, offset, ys)
        wanted = np.stack(
            [(phi * (counts * curves[:, k])[:, None]).T @ phi for k in range(n)]
        ) + level * np.eye(p)
        slope = (slopes * counts[:, None]).T @ phi - level * now.mean
        before = now
        while pace > 1e-3:
            precisions = (1 - pace) * now.precisions + pace * wanted
            move = np.stack(
                [np.linalg.solve(one, by) for one, by in zip(precisions, slope, strict=True)]
            )
            trial = state(now.mean + pace * move, precisions, level)
            if trial.bound >= now.bound - 1e-12 * abs(now.bound):
                now, pace = trial, min(1.0, 2 * pace)
                break
            pace *= 0.5
        else:
            break
        if precision is None:
            spread = np.sum(now.mean**2) + np.trace(now.covariance, axis1=1, axis2=2).sum()
            level = float(np.clip(n * p / spread, 1e-6, 1e6))
            now = state(now.mean, now.precisions, level)
        if now.bound - before.bound < tolerance * counts.sum():
            break
    return GaussianWeights(now.mean, now.covariance, now.bound, level)


def _rows(
    kind: str,
    phi: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    offset: np.ndarray,
    ys: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each row's averaged log-likelihood, its slopes in the means, its averaged curvatures."""
    etas = phi @ mean.T + offset
    spreads = np.stack([np.sum((phi @ one) * phi, axis=1) for one in covariance], axis=1)
    size = 2 ** max(7, math.ceil(math.log2(max(len(etas), 1))))

    def padded(values: np.ndarray) -> np.ndarray:
        out = np.zeros((size, *values.shape[1:]), values.dtype)
        out[: len(values)] = values
        return out

    found = _derivatives(
        kind,
        jnp.asarray(padded(etas), float),
        jnp.asarray(padded(np.maximum(spreads, 0.0)), float),
        jnp.asarray(padded(ys)),
    )
    value, slopes, in_variance = (np.asarray(part, float)[: len(etas)] for part in found)
    return value, slopes, np.maximum(-2 * in_variance, 0.0)


@eqx.filter_jit
def _derivatives(kind: str, etas: Array, spreads: Array, ys: Array) -> tuple[Array, Array, Array]:
    def one(eta, spread, y):
        def value(eta, spread):
            return average(kind, eta, spread).log_prob(y)

        slopes = jax.value_and_grad(value, argnums=(0, 1))(eta, spread)
        return slopes[0], *slopes[1]

    return jax.vmap(one)(etas, spreads, ys)
