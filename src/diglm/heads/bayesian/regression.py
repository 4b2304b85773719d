r"""Bayesian linear regression from sums over rows: posterior, evidence and what maximises it.

With features $\phi_n$ (those of the flow, and a one for the bias), responses $y_n$, row weights
$w_n$ and noise shapes $c_n$ (one, unless the noise varies),

$$b \sim N(0, l^{-1} I), \qquad y_n \sim N(b^T \phi_n, s^2 c_n),$$

everything that is known of $b$ lies in $S = \sum_n \frac{w_n}{c_n} \phi_n \phi_n^T$,
$v = \sum_n \frac{w_n}{c_n} \phi_n y_n$, $q = \sum_n \frac{w_n}{c_n} y_n^2$ and the number of rows:

$$A = l I + S / s^2, \quad m = A^{-1} v / s^2, \quad b \mid y \sim N(m, A^{-1}),$$
$$-2 \log p(y) = N \log 2\pi s^2 + \sum_n w_n \log c_n + \log|A| - P \log l + (q - v^T m) / s^2.$$

A row of weight two is two rows. The sums add and subtract, so rows come and go in any order. The
functions take NumPy's arrays (float64, for answers) or JAX's (for training) alike. Several targets
share the features and have noise and precision of their own.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import optimize

LOG_2PI = math.log(2 * math.pi)
# Bounds of what the evidence may choose, in units of the targets' variance: a thousandth of their
# spread as for other heads, and precisions beyond which the prior says everything or nothing.
LEAST_NOISE, MOST_NOISE = 1e-6, 1e2
LEAST_PRECISION, MOST_PRECISION = 1e-8, 1e8

Numbers = Float[Array | np.ndarray, "..."]


class Statistics(NamedTuple):
    """Sums over rows of P features and T targets; see the module."""

    gram: Float[Array | np.ndarray, "p p"]
    moment: Float[Array | np.ndarray, "p t"]
    square: Float[Array | np.ndarray, " t"]
    count: Float[Array | np.ndarray, ""]
    log_shape: Float[Array | np.ndarray, ""]

    @classmethod
    def zero(cls, n_features: int, n_targets: int, like: Any = np) -> "Statistics":
        """The sums over no rows; `like` is `numpy` (float64) or `jax.numpy`."""
        shapes = (n_features, n_features), (n_features, n_targets), (n_targets,), (), ()
        return cls(*(like.zeros(shape) for shape in shapes))

    @classmethod
    def of(
        cls,
        features: Float[Array | np.ndarray, "n p"],
        ys: Float[Array | np.ndarray, "n t"],
        weights: Float[Array | np.ndarray, " n"],
        shapes: Float[Array | np.ndarray, " n"] | None = None,
    ) -> "Statistics":
        """The sums over these rows; a row of weight zero may hold anything."""
        xp = _namespace(features)
        used = weights > 0
        features, ys = xp.where(used[:, None], features, 0), xp.where(used[:, None], ys, 0)
        log_shape = xp.zeros((), features.dtype)
        counted = weights
        if shapes is not None:
            shape = xp.where(used, shapes, 1)
            log_shape, counted = xp.sum(weights * xp.log(shape)), weights / shape
        weighted = features * counted[:, None]
        return cls(
            xp.asarray(features.T @ weighted),
            xp.asarray(weighted.T @ ys),
            xp.sum(counted[:, None] * ys**2, axis=0),
            xp.sum(weights),
            log_shape,
        )

    def plus(self, other: "Statistics", sign: int = 1) -> "Statistics":
        """The sums over both sets of rows; with `sign=-1` over the rows that remain."""
        return Statistics(*(mine + sign * theirs for mine, theirs in zip(self, other, strict=True)))


class Posterior(NamedTuple):
    r"""$N(m, A^{-1})$ of one target's weights, the bias last.

    Attributes:
        mean: $m$.
        factor: $F$ with $A^{-1} = F^T F$, so that $\phi^T A^{-1} \phi = |F \phi|^2$.
        log_det: $\log|A|$.
    """

    mean: Float[Array | np.ndarray, " p"]
    factor: Float[Array | np.ndarray, "p p"]
    log_det: Float[Array | np.ndarray, ""]

    @property
    def covariance(self) -> Float[Array | np.ndarray, "p p"]:
        """$A^{-1}$."""
        return self.factor.T @ self.factor


def posterior(known: Statistics, noise: Any, precision: Any, target: int = 0) -> Posterior:
    """What the sums say of one target's weights; `noise` is a variance."""
    xp = _namespace(known.gram)
    size = known.gram.shape[0]
    eye = xp.eye(size, dtype=known.gram.dtype)
    factor, log_det = inverse_factor(precision * eye + known.gram / noise)
    mean = factor.T @ (factor @ (known.moment[:, target] / noise))
    return Posterior(mean, factor, log_det)


def log_evidence(known: Statistics, noise: Any, precision: Any, target: int = 0) -> Any:
    """log p(y) of one target of all rows together, its weights integrated out."""
    found = posterior(known, noise, precision, target)
    return evidence_at(known, found, noise, precision, target)


def evidence_at(known: Statistics, found: Posterior, noise: Any, precision: Any, target: int = 0):
    """`log_evidence`, with the posterior at hand."""
    xp = _namespace(known.gram)
    left = known.square[target] - known.moment[:, target] @ found.mean
    if xp is np:  # rounding must not make a perfect fit better than perfect
        left = max(left, 0.0)
    terms = known.count * (LOG_2PI + xp.log(noise)) + known.log_shape + found.log_det
    return -0.5 * (terms - known.gram.shape[0] * xp.log(precision) + left / noise)


def inverse_factor(matrix: Any) -> tuple[Any, Any]:
    r"""$F$ with $M^{-1} = F^T F$, and $\log|M|$, of a positive definite matrix of any scaling.

    Columns are brought to one scale first, which makes the factorisation indifferent to their
    units. Where rounding has cost definiteness NumPy's path falls back on eigenvalues, none below
    what rounding can tell from zero; JAX's adds that much beforehand.
    """
    xp = _namespace(matrix)
    scale = 1 / xp.sqrt(xp.diagonal(matrix))
    scaled = matrix * scale[:, None] * scale[None, :]
    least = 4 * len(matrix) * float(jnp.finfo(matrix.dtype).eps)
    log_scale = xp.sum(xp.log(scale))
    if xp is np:
        try:
            root = np.linalg.cholesky(scaled)
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(scaled)
            values = np.maximum(values, least)
            factor = (vectors / np.sqrt(values)).T * scale[None, :]
            return factor, np.sum(np.log(values)) - 2 * log_scale
    else:
        root = jnp.linalg.cholesky(scaled + least * jnp.eye(len(matrix), dtype=matrix.dtype))
    eye = xp.eye(len(matrix), dtype=matrix.dtype)
    if xp is np:
        factor = np.linalg.solve(root, eye)
    else:
        factor = jax.scipy.linalg.solve_triangular(root, eye, lower=True)
    return factor * scale[None, :], 2 * xp.sum(xp.log(xp.diagonal(root))) - 2 * log_scale


class Levels(NamedTuple):
    """Noise variance and prior precision of one target."""

    noise: float
    precision: float


def best_levels(
    known: Statistics,
    target: int = 0,
    *,
    noise: float | None = None,
    precision: float | None = None,
    start: Levels | None = None,
    reference: Statistics | None = None,
) -> Levels:
    r"""The noise and precision at which the evidence is greatest; numbers given are kept.

    In the eigenbasis of $S$ an evaluation costs as much as reading it. With `reference`, the sums
    of some of the rows, it is the evidence of the remaining rows given those: the likelihood of
    predictions, which a flow that has learned its training rows by heart cannot flatter.
    """
    start = Levels(0.5, 1.0) if start is None else start
    if noise is not None and precision is not None:
        return Levels(noise, precision)
    parts = [_in_eigenbasis(known, target)]
    if reference is not None:
        parts.append(_in_eigenbasis(reference, target))
    variance = known.square[target] / max(float(known.count), 1e-300)
    variance = float(variance) if variance > 0 else 1.0
    fixed = [noise, precision]
    bounds = [
        (math.log(LEAST_NOISE * variance), math.log(MOST_NOISE * variance)),
        (math.log(LEAST_PRECISION), math.log(MOST_PRECISION)),
    ]
    free = [i for i in range(2) if fixed[i] is None]

    def levels(chosen: np.ndarray) -> tuple[float, float]:
        numbers = iter(chosen)
        return tuple(math.exp(next(numbers)) if f is None else f for f in fixed)  # type: ignore

    def loss(chosen: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = 0.0, np.zeros(2)
        for part, sign in zip(parts, (-1.0, 1.0), strict=False):
            evidence, slopes = part(*levels(chosen))
            value, slope = value + sign * evidence, slope + sign * slopes
        return value, slope[free]

    best, best_value = None, math.inf
    # From a good fit and from a poor one: with few rows the evidence can have two summits.
    for share in (start.noise / variance, 0.9, 0.01):
        begin = [math.log(share * variance), math.log(start.precision)]
        at = np.clip([begin[i] for i in free], *np.array([bounds[i] for i in free]).T)
        found = optimize.minimize(
            loss,
            at,
            jac=True,
            method="L-BFGS-B",
            bounds=[bounds[i] for i in free],
            options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500},
        )
        if found.fun < best_value:
            best, best_value = found.x, found.fun
    return Levels(*levels(at if best is None else best))


def honest_levels(
    levels: list[Levels], first: Statistics, everything: Statistics, *, learn_noise: bool
) -> list[Levels]:
    """Precisions by the evidence of the first rows, `levels`; the noise by the rows after them."""
    if not learn_noise:
        return levels
    return [
        best_levels(everything, t, precision=level.precision, start=level, reference=first)
        for t, level in enumerate(levels)
    ]


def divergence_from_prior(mean: Any, factor: Any, precision: Any) -> Any:
    r"""$KL[N(m, F^T F) \,\|\, N(0, l^{-1} I)]$ of each target; mean (p, t), factors (t, p, p)."""
    # |det F| is the product of the diagonal up to an orthogonal factor.
    log_det = 2 * jnp.linalg.slogdet(factor)[1]
    spread = jnp.sum(jnp.square(factor), axis=(1, 2)) + jnp.sum(jnp.square(mean), axis=0)
    return 0.5 * (precision * spread - mean.shape[0] * (1 + jnp.log(precision)) - log_det)


def _in_eigenbasis(known: Statistics, target: int):
    """Evidence and its slopes in log noise and log precision, as a cheap function of the two."""
    gram = np.asarray(known.gram, float)
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    values = np.maximum(values, 0.0)
    moment = vectors.T @ np.asarray(known.moment, float)[:, target]
    square, count = float(known.square[target]), float(known.count)
    size, log_shape = len(gram), float(known.log_shape)

    def evidence(noise: float, precision: float) -> tuple[float, np.ndarray]:
        precise = precision + values / noise
        mean = moment / noise / precise
        # The residual itself rather than a difference of large numbers where both are known.
        left = max(square - moment @ mean, 0.0)
        terms = count * (LOG_2PI + math.log(noise)) + log_shape + np.sum(np.log(precise))
        value = -0.5 * (terms - size * math.log(precision) + left / noise)
        fitted = max(square - 2 * moment @ mean + values @ mean**2, 0.0)
        in_noise = -0.5 * (count - np.sum(values / noise / precise) - fitted / noise)
        in_precision = -0.5 * (precision * np.sum(1 / precise) - size + precision * mean @ mean)
        return value, np.array([in_noise, in_precision])

    return evidence


def _namespace(array: Any) -> Any:
    return np if isinstance(array, np.ndarray | np.generic) else jnp
