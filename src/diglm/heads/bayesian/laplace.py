r"""Laplace's approximation: the posterior of the weights as a normal at its mode.

$\log p(y) \approx \log p(y \mid \hat b) + \log p(\hat b) + \tfrac{d}{2} \log 2\pi -
\tfrac12 \log|H|$, with $H$ the Hessian of the negative log joint at the mode $\hat b$.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.heads.bayesian.jaakkola import GaussianWeights
from diglm.heads.bayesian.regression import inverse_factor
from diglm.heads.discrete import Bernoulli, Categorical, Poisson

RESPONSES = {
    "bernoulli": lambda eta: Bernoulli(eta[0]),
    "binary": lambda eta: Bernoulli(eta[0]),
    "categorical": Categorical,
    "poisson": lambda eta: Poisson(eta[0]),
}


def laplace(
    kind: str,
    features: Float[np.ndarray, "rows p"],
    ys: np.ndarray,
    weights: Float[np.ndarray, " rows"],
    *,
    offset: Float[np.ndarray, " predictors"],
    precision: float | None = None,
    start: Float[np.ndarray, "predictors p"] | None = None,
    max_steps: int = 100,
    tolerance: float = 1e-9,
) -> GaussianWeights:
    """Mode and curvature of the weights, all predictors together, by Newton's method.

    Args:
        kind: "bernoulli" (or "binary"), "categorical" or "poisson".
        features: one row an example, with a column of ones where a bias is wanted.
        ys: zeros and ones, class numbers, or counts.
        weights: how often each row counts.
        offset: added to every predictor.
        precision: of the normal prior; None to choose it by the approximate evidence.
        start: where to begin.
        max_steps: at most so many Newton steps.
        tolerance: stop when a step promises less than this, in nats per row.
    """
    used = weights > 0
    phi, counts, ys = np.asarray(features, float)[used], np.asarray(weights, float)[used], ys[used]
    mean = np.zeros((len(offset), phi.shape[1])) if start is None else np.array(start, float)
    level = 1.0 if precision is None else float(precision)
    size, damping = mean.size, 0.0

    def joint(mean: np.ndarray) -> float:
        value, _, _ = _rows(kind, phi @ mean.T + offset, ys)
        return float(counts @ value - 0.5 * level * np.sum(mean**2))

    now = joint(mean)
    for _ in range(max_steps):
        _, slopes, curves = _rows(kind, phi @ mean.T + offset, ys)
        slope = (slopes * counts[:, None]).T @ phi - level * mean
        hessian = _assembled(phi, curves * counts[:, None, None])
        while True:
            diagonal = np.diag(np.diagonal(hessian)) + np.eye(size)
            factor, log_det = inverse_factor(hessian + level * np.eye(size) + damping * diagonal)
            move = (factor.T @ (factor @ slope.ravel())).reshape(mean.shape)
            new = joint(mean + move)
            if new >= now - 1e-9 * abs(now) or damping > 1e12:
                break
            damping = max(10 * damping, 1e-3)
        promise, damping = 0.5 * float(np.sum(slope * move)), 0.1 * damping
        mean, now = mean + move, new
        covariance = factor.T @ factor
        if precision is None:  # MacKay's update: as many well determined directions as curvature
            effective = size - level * np.trace(covariance)
            level = float(np.clip(effective / max(np.sum(mean**2), 1e-12), 1e-6, 1e6))
            now = joint(mean)
        if promise < tolerance * counts.sum() and damping < 1e-2:
            break
    evidence = now + 0.5 * (size * math.log(level) - log_det)
    blocks = covariance.reshape(len(mean), phi.shape[1], len(mean), phi.shape[1])
    marginal = np.stack([blocks[k, :, k, :] for k in range(len(mean))])
    return GaussianWeights(mean, marginal, evidence, level)


def _rows(kind: str, etas: np.ndarray, ys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-likelihood of each row, its slopes and its negative curvatures by the predictors."""
    # Few programs: rows are padded to a power of two.
    size = 2 ** max(7, math.ceil(math.log2(max(len(etas), 1))))
    padded = np.zeros((size, etas.shape[1]))
    padded[: len(etas)] = etas
    labels = np.zeros(size, ys.dtype)
    labels[: len(ys)] = ys
    found = _derivatives(kind, jnp.asarray(padded, float), jnp.asarray(labels))
    value, slopes, curves = (np.asarray(part, float)[: len(etas)] for part in found)
    return value, slopes, curves


@eqx.filter_jit
def _derivatives(kind: str, etas: Array, ys: Array) -> tuple[Array, Array, Array]:
    def log_prob(eta, y):
        return RESPONSES[kind](eta).log_prob(y)

    def one(eta, y):
        value, slope = jax.value_and_grad(log_prob)(eta, y)
        return value, slope, -jax.hessian(log_prob)(eta, y)

    return jax.vmap(one)(etas, ys)


def _assembled(phi: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """The Hessian of all weights from each row's curvature by the predictors."""
    n, p = curves.shape[1], phi.shape[1]
    full = np.zeros((n, p, n, p))
    for a in range(n):
        for b in range(a, n):
            full[a, :, b, :] = (phi * curves[:, a, b, None]).T @ phi
            full[b, :, a, :] = full[a, :, b, :].T
    return full.reshape(n * p, n * p)
