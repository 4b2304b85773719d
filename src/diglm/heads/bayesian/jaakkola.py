r"""The bound of Jaakkola and Jordan: logistic regression with a Gaussian posterior, closed form.

$\log\sigma(a) \ge \log\sigma(\xi) + (a - \xi)/2 - \lambda(\xi)(a^2 - \xi^2)$ with
$\lambda(\xi) = \tanh(\xi/2) / 4\xi$: quadratic in $a$, so that the weights have
a normal posterior under it. Each row's $\xi_n^2 = \phi_n^T (V + m m^T) \phi_n$ tightens its bound,
in turn with the posterior; every turn raises a lower bound on the evidence.

Reference: Jaakkola and Jordan (2000), Bayesian parameter estimation via variational methods.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from diglm.heads.bayesian.regression import inverse_factor


class GaussianWeights(NamedTuple):
    """An approximate posterior of the weights of each predictor, and what it says of the evidence.

    Attributes:
        mean: one row a predictor.
        covariance: one matrix a predictor.
        log_evidence: a lower bound, or Laplace's approximation.
        precision: prior precision, as given or as chosen.
    """

    mean: Float[np.ndarray, "predictors p"]
    covariance: Float[np.ndarray, "predictors p p"]
    log_evidence: float
    precision: float


def jaakkola_jordan(
    features: Float[np.ndarray, "rows p"],
    ys: np.ndarray,
    weights: Float[np.ndarray, " rows"],
    *,
    offset: float = 0.0,
    precision: float | None = None,
    max_turns: int = 500,
    tolerance: float = 1e-10,
) -> GaussianWeights:
    """Posterior of the weights of a logistic regression of 0/1 targets.

    Args:
        features: one row an example, with a column of ones where a bias is wanted.
        ys: zeros and ones.
        weights: how often each row counts.
        offset: added to every predictor.
        precision: of the normal prior on the weights; None to choose the one of the best bound.
        max_turns: at most so many rounds.
        tolerance: stop when a round gains less than this, in nats per row.
    """
    used = weights > 0
    phi, counts = np.asarray(features, float)[used], np.asarray(weights, float)[used]
    sign = np.asarray(ys, float)[used] - 0.5
    size, level = phi.shape[1], 1.0 if precision is None else float(precision)
    xi, best = np.full(len(phi), 1.0), -np.inf
    for _ in range(max_turns):
        curve = _curvature(xi)
        factor, log_det = inverse_factor(
            level * np.eye(size) + 2 * (phi * (counts * curve)[:, None]).T @ phi
        )
        slope = phi.T @ (counts * (sign - 2 * curve * offset))
        mean = factor.T @ (factor @ slope)
        fixed = counts @ (
            -np.logaddexp(0, -xi) - 0.5 * xi + curve * xi**2 + sign * offset - curve * offset**2
        )
        bound = 0.5 * (slope @ mean - log_det + size * np.log(level)) + fixed
        spread = np.sum((phi @ factor.T) ** 2, axis=1)
        xi = np.sqrt(spread + (phi @ mean + offset) ** 2)
        if bound - best < tolerance * counts.sum():
            break
        best = bound
        if precision is None:
            level = float(np.clip(size / (mean @ mean + np.sum(factor**2)), 1e-6, 1e6))
    return GaussianWeights(mean[None], (factor.T @ factor)[None], float(bound), level)


def _curvature(xi: np.ndarray) -> np.ndarray:
    safe = np.maximum(np.abs(xi), 1e-6)
    return np.tanh(0.5 * safe) / (4 * safe)
