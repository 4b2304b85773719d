r"""Mixtures of normals fitted to rows by expectation and maximisation.

Covariances are maximum a posteriori, $(\sum_n r_{nk} d_{nk} d_{nk}^\top + \tau \Sigma) / (n_k +
\tau)$ with $\Sigma$ a tenth of the covariance of all rows and $\tau$ as many rows as there are
columns: a component of few rows is round and not a needle. Rows set aside choose how many
components there are, and whether they have shapes of their own or lie along the axes.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from diglm.bases.clumps import Clumps

COMPONENTS = (2, 4, 8, 16)
MOST_ROWS = 4_000  # settle where clumps lie; training sees all rows
MOST_SHAPED = 48  # columns; above, components lie along the axes
MOST_NUMBERS = 2**21  # of a product of rows and components, held at a time
ROUNDS = 30
LEAST_GAIN = 1e-3  # nats a row, of a round of EM
FEWEST = 40  # rows


class _Mixture(NamedTuple):
    """Weights, whitenings W (or their diagonals), and W times the means."""

    weights: Float[np.ndarray, " components"]
    whitenings: Float[np.ndarray, "components dim *more"]
    offsets: Float[np.ndarray, "components dim"]

    @property
    def means(self) -> Float[np.ndarray, "components dim"]:
        if self.whitenings.ndim == 2:
            return self.offsets / self.whitenings
        return np.linalg.solve(self.whitenings, self.offsets[..., None])[..., 0]

    def expect(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each component's share in each row, (rows, components), and the rows' log-densities."""
        n, dim = self.offsets.shape
        if self.whitenings.ndim == 2:
            moved = rows[:, None, :] * self.whitenings - self.offsets
            log_dets = np.sum(np.log(self.whitenings), axis=1)
        else:
            moved = (rows @ self.whitenings.reshape(-1, dim).T).reshape(-1, n, dim) - self.offsets
            log_dets = np.sum(np.log(np.diagonal(self.whitenings, axis1=1, axis2=2)), axis=1)
        parts = np.log(self.weights) + log_dets - 0.5 * np.einsum("rkd,rkd->rk", moved, moved)
        highest = np.max(parts, axis=1, keepdims=True)
        shares = np.exp(parts - highest)
        totals = np.sum(shares, axis=1, keepdims=True)
        log_px = (highest + np.log(totals))[:, 0] - 0.5 * dim * np.log(2 * np.pi)
        return shares / totals, log_px


def fit_clumps(rows: Float[np.ndarray, "rows dim"], *, seed: int) -> Clumps | None:
    """The mixture that makes rows set aside most probable; None where one round normal does."""
    rng = np.random.default_rng(seed)
    n_rows, dim = min(len(rows), MOST_ROWS), rows.shape[1]
    rows = rows[rng.permutation(len(rows))[:n_rows]].astype(float)
    if n_rows < FEWEST:
        return None
    n_aside, shaped = n_rows // 5, dim <= MOST_SHAPED
    aside, learned = rows[:n_aside], rows[n_aside:]
    best = None
    best_score = np.mean(-0.5 * np.sum(aside**2, axis=1)) - 0.5 * dim * np.log(2 * np.pi)
    for n in COMPONENTS:
        if n * 10 > len(learned) or n * n_rows * dim > MOST_NUMBERS:
            break
        found = _improved(_spread_out(learned, n, rng), learned, shaped)
        score = np.mean(found.expect(aside)[1])
        if score <= best_score:
            break
        best, best_score = found, score
    if best is None:
        return None
    best = _improved(best, rows, shaped)
    return Clumps(best.means, best.weights, best.whitenings)


def _spread_out(rows: np.ndarray, n: int, rng: np.random.Generator) -> _Mixture:
    """Round components around rows far from one another (k-means++)."""
    centres = rows[rng.integers(len(rows))][None]
    nearest = np.sum((rows - centres) ** 2, axis=1)
    while len(centres) < n:
        total = np.sum(nearest)
        shares = nearest / total if total > 0 else None
        centres = np.concatenate([centres, rows[rng.choice(len(rows), p=shares)][None]])
        nearest = np.minimum(nearest, np.sum((rows - centres[-1]) ** 2, axis=1))
    scale = (np.mean(nearest) / rows.shape[1] + 1e-6) ** -0.5
    return _Mixture(np.full(n, 1 / n), np.full(centres.shape, scale), scale * centres)


def _improved(mixture: _Mixture, rows: np.ndarray, shaped: bool) -> _Mixture:
    before = -np.inf
    for _ in range(ROUNDS):
        shares, log_px = mixture.expect(rows)
        mixture = _maximised(rows, shares, shaped)
        if np.mean(log_px) - before < LEAST_GAIN:
            break
        before = np.mean(log_px)
    return mixture


def _maximised(rows: np.ndarray, shares: np.ndarray, shaped: bool) -> _Mixture:
    n_rows, dim = rows.shape
    counts = np.sum(shares, axis=0)
    means = (shares.T @ rows) / np.maximum(counts, 1e-12)[:, None]
    prior, weights = 0.1 * np.var(rows, axis=0) + 1e-6, (counts + 1) / (n_rows + len(counts))
    if not shaped:
        squares = shares.T @ rows**2 - counts[:, None] * means**2
        variances = (np.maximum(squares, 0) + 2 * prior) / (counts[:, None] + 2)
        return _Mixture(weights, variances**-0.5, means * variances**-0.5)
    # All components at once, and by NumPy alone: its BLAS and SciPy's have threads of their own,
    # which in turns wait for one another and take a hundred times as long.
    scatter = (shares.T[:, None, :] * rows.T) @ rows
    scatter -= counts[:, None, None] * means[:, :, None] * means[:, None, :]
    covariances = (scatter + dim * np.diag(prior)) / (counts[:, None, None] + dim)
    whitenings = np.tril(np.linalg.inv(np.linalg.cholesky(covariances)))
    return _Mixture(weights, whitenings, np.einsum("kij,kj->ki", whitenings, means))
