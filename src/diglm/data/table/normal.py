r"""A normal distribution of encoded rows, for the values of cells that training gave no place to.

With precision $P = \Sigma^{-1}$, entries $m$ given the others $o$ are normal with covariance
$P_{mm}^{-1}$ and mean $\mu_m - P_{mm}^{-1} P_{mo} (x_o - \mu_o)$.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

from diglm.data.table.patterns import distinct_rows

MOST_ROWS = 1_000  # that are learned from
MOST_DIMS = 256  # with a full covariance; above, only its diagonal is kept
MOST_ITERATIONS, CLOSE = 20, 0.01  # of EM, and the largest change after which it has settled
FARTHEST = 8.0  # encoded values beyond are taken for this: one far value must not decide alone
SHRINKAGE = 0.05
SMALLEST_U = 1e-9


@dataclass(frozen=True)
class Normal:
    """Mean and covariance of encoded rows.

    Attributes:
        mean: One number per dimension.
        covariance: The rows of the matrix; or its diagonal as one row, if the dimensions are more
            than MOST_DIMS.
    """

    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]

    @classmethod
    def standard(cls, dim: int) -> "Normal":
        """Independent entries of mean 0 and variance 1."""
        return _made(np.zeros(dim), np.ones(dim) if dim > MOST_DIMS else np.eye(dim))

    @classmethod
    def fit(
        cls,
        values: Float[np.ndarray, "rows dim"],
        widths: Float[np.ndarray, " dim"],
        weights: Float[np.ndarray, " rows"],
    ) -> "Normal":
        """Learn from encoded rows, NaN where they are missing, by iterations of EM.

        Args:
            values: No more than MOST_ROWS rows, say.
            widths: Of cells; noise that fills a cell adds width^2 / 12 to its variance.
            weights: Positive weights of the rows.
        """
        values, missing = np.clip(values, -FARTHEST, FARTHEST), np.isnan(values)
        dim = values.shape[1]
        weights = weights / weights.sum()
        noise = np.square(widths) / 12
        present = weights[:, None] * ~missing
        total, counts = np.maximum(present.sum(axis=0), 1e-300), (~missing).sum(axis=0)
        filled = np.where(missing, 0.0, values)
        mean = (present * filled).sum(axis=0) / total
        variance = (present * np.square(filled - mean)).sum(axis=0) / total
        if dim > MOST_DIMS:
            return _made(mean, _prior(variance, counts) + noise)
        second = np.diag(variance)
        for _ in range(MOST_ITERATIONS):
            precision = np.linalg.inv(_regular(second, noise, counts, 0.0))
            before, (mean, second) = second, _moments(values, missing, weights, mean, precision)
            if not missing.any() or np.max(np.abs(second - before)) < CLOSE:
                break
        return _made(mean, _regular(second, noise, counts, SHRINKAGE))

    def draw(
        self,
        values: Float[np.ndarray, "rows dim"],
        lost: Bool[np.ndarray, "rows dim"],
        u: Float[np.ndarray, "rows dim"],
    ) -> tuple[Float[np.ndarray, "rows dim"], Float[np.ndarray, " rows"]]:
        """Rows with their lost entries drawn given the present ones, and log q of the draws.

        Other entries that are NaN stay so, and nothing is concluded from them.
        """
        log_q, rows = np.zeros(len(values)), np.flatnonzero(lost.any(axis=1))
        if rows.size == 0:
            return values, log_q
        out = values.copy()
        x = np.clip(values[rows].astype(np.float64), -FARTHEST, FARTHEST)
        z = ndtri(np.clip(u[rows].astype(np.float64), SMALLEST_U, 1 - SMALLEST_U))
        lost, missing, mean = lost[rows], lost[rows] | np.isnan(x), np.array(self.mean)
        if self._precision is None:
            scale = np.sqrt(np.array(self.covariance[0]))
            out[rows] = np.where(lost, mean + scale * z, values[rows])
            log_q[rows] = np.where(lost, _log_normal(z) - np.log(scale), 0.0).sum(axis=1)
            return out, log_q
        # Rows with the same cells to draw share one factorisation.
        kinds, place = distinct_rows(np.concatenate([lost, missing], axis=1))
        order = np.argsort(place, kind="stable")
        ends = np.cumsum(np.bincount(place))
        for marks, group in zip(kinds, np.split(order, ends[:-1]), strict=True):
            drawn, gone = marks[: mean.size], marks[mean.size :]
            centre, spread = _conditional(x[group], gone, mean, self._precision)
            keep = drawn[gone]
            factor = np.linalg.cholesky(spread[np.ix_(keep, keep)])
            noise = z[group][:, drawn]
            out[np.ix_(rows[group], drawn)] = centre[:, keep] + noise @ factor.T
            log_det = np.log(np.diag(factor)).sum()
            log_q[rows[group]] = _log_normal(noise).sum(axis=1) - log_det
        return out, log_q

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        return {"mean": list(self.mean), "covariance": [list(row) for row in self.covariance]}

    @classmethod
    def from_dict(cls, content: Any, dim: int) -> "Normal":
        """The distribution that `to_dict` described, of `dim` dimensions."""
        if not isinstance(content, dict) or set(content) != {"mean", "covariance"}:
            raise ValueError("normal must hold exactly ['covariance', 'mean'].")
        n_rows = 1 if dim > MOST_DIMS else dim
        mean = _matrix([content["mean"]], (1, dim), "mean")
        covariance = _matrix(content["covariance"], (n_rows, dim), "covariance")
        if dim > MOST_DIMS:
            positive = bool(np.all(covariance > 0))
        else:
            positive = np.array_equal(covariance, covariance.T) and _is_positive(covariance)
        if not positive:
            raise ValueError("normal: covariance must be symmetric and positive definite.")
        return _made(mean[0], covariance)

    @cached_property
    def _precision(self) -> np.ndarray | None:
        """The inverse covariance; None where only its diagonal is kept."""
        return None if len(self.mean) > MOST_DIMS else np.linalg.inv(np.array(self.covariance))


def _moments(
    values: np.ndarray, missing: np.ndarray, weights: np.ndarray, mean: np.ndarray, precision: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Expected mean and covariance of the rows, given what is present in each."""
    filled, extra = values.copy(), np.zeros_like(precision)
    kinds, place = distinct_rows(missing)
    for i, gone in enumerate(kinds):
        if gone.any():
            group = np.flatnonzero(place == i)
            centre, spread = _conditional(values[group], gone, mean, precision)
            filled[np.ix_(group, gone)] = centre
            extra[np.ix_(gone, gone)] += weights[group].sum() * spread
    mean = weights @ filled
    away = filled - mean
    return mean, (weights[:, None] * away).T @ away + extra


def _conditional(
    x: np.ndarray, gone: np.ndarray, mean: np.ndarray, precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means, by row, and the covariance of the entries that are gone, given the others."""
    spread = np.linalg.inv(precision[np.ix_(gone, gone)])
    pull = precision[np.ix_(gone, ~gone)] @ (x[:, ~gone] - mean[~gone]).T
    return mean[gone] - (spread @ pull).T, (spread + spread.T) / 2


def _regular(second: np.ndarray, noise: np.ndarray, counts: np.ndarray, least: float) -> np.ndarray:
    """A covariance that can be inverted: with the noise of cells, drawn towards the diagonal.

    Few rows say little of how many columns go together, so they count for less: what is between
    columns loses a share of dim / (dim + rows), or the `least` share.
    """
    dim = len(second)
    share = max(least, dim / (dim + np.max(counts)))
    covariance = (1 - share) * (second + second.T) / 2
    np.fill_diagonal(covariance, _prior(np.diag(second), counts) + noise)
    return covariance


def _prior(variance: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Variances as if one value more had been seen, at the unit distance that encoding aims at."""
    return (counts * variance + 1) / (counts + 1)


def _log_normal(z: np.ndarray) -> np.ndarray:
    return -0.5 * (np.square(z) + math.log(2 * math.pi))


def _made(mean: np.ndarray, covariance: np.ndarray) -> Normal:
    rows = np.atleast_2d(covariance).tolist()
    return Normal(tuple(mean.tolist()), tuple(tuple(row) for row in rows))


def _matrix(rows: Any, shape: tuple[int, int], name: str) -> np.ndarray:
    """Lists of finite floats as an array of this shape; ValueError for anything else."""
    fits = isinstance(rows, list) and len(rows) == shape[0]
    fits = fits and all(isinstance(row, list) and len(row) == shape[1] for row in rows)
    if not fits or not all(type(a) in (int, float) for row in rows for a in row):
        raise ValueError(f"normal: {name} must be numbers, of shape {shape}.")
    try:
        matrix = np.array(rows, dtype=np.float64)
    except OverflowError:
        matrix = np.full(shape, np.inf)
    if not np.all(np.isfinite(matrix)):
        raise ValueError(f"normal: {name} must be finite numbers.")
    return matrix


def _is_positive(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
