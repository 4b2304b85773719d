r"""Mixed effects: weights shared by all rows, and effects that belong to groups of them.

$$\eta_n = \beta^T \phi_n + u_n^T a_{g(n)}, \qquad a_g \sim N(0, \Sigma),$$

with a flat prior on $\beta$. For Gaussian noise $s^2$ both are integrated in closed form, which for
a flat prior gives the restricted likelihood (REML); for classes and counts by Laplace's method at
the joint mode, found by penalised, iteratively reweighted least squares. Either way the linear
algebra is that of one small system a group and one for the shared weights. $\Sigma = s^2
\Lambda\Lambda^T$ is found by maximising the result over the triangular $\Lambda$, which may be
singular: an effect that is not there gets variance zero.

Reference: Bates et al. (2015), Fitting linear mixed-effects models using lme4.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import optimize
from scipy.special import expit, gammaln

from diglm.heads.bayesian.regression import LOG_2PI, inverse_factor

RIDGE = 1e-10  # of the shared weights' information: columns that repeat others do no harm
SETTLED = 1e-12  # relative gain below which a mode is found
MOST_POLISHED = 6


class MixedEffects(NamedTuple):
    r"""What was learned of the shared weights and of every group.

    Attributes:
        fixed: $\beta$.
        fixed_factor: F with Cov(beta) = F^T F.
        effects: $a_g$, expected.
        inner: covariance of $a_g$ given beta.
        carry: $-\partial a_g / \partial \beta$.
        covariance: $\Sigma$.
        noise: $s^2$; one where there is none.
        log_likelihood: restricted, or Laplace's.
    """

    fixed: Float[np.ndarray, " p"]
    fixed_factor: Float[np.ndarray, "p p"]
    effects: Float[np.ndarray, "groups q"]
    inner: Float[np.ndarray, "groups q q"]
    carry: Float[np.ndarray, "groups q p"]
    covariance: Float[np.ndarray, "q q"]
    noise: float
    log_likelihood: float

    def predictor(
        self,
        phi: Float[np.ndarray, "rows p"],
        u: Float[np.ndarray, "rows q"],
        codes: Int[np.ndarray, " rows"],
    ) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
        """Mean and variance of eta; a code of -1 is a group drawn from the population."""
        known = codes >= 0
        at = np.where(known, codes, 0)
        effects = np.where(known[:, None], self.effects[at], 0.0)
        mean = phi @ self.fixed + np.sum(u * effects, axis=1)
        carried = np.einsum("nq,nqp->np", u, self.carry[at])
        shared = phi - np.where(known[:, None], carried, 0.0)
        inner = np.where(known[:, None, None], self.inner[at], self.covariance)
        variance = np.sum((shared @ self.fixed_factor.T) ** 2, axis=1)
        return mean, variance + np.einsum("nq,nqr,nr->n", u, inner, u)


class _Sums(NamedTuple):
    r"""Weighted products of random designs u, features p and responses r; with u, by group.

    What u spans in a group is kept apart from the rest, by its coordinates in an orthonormal basis:
    $u = Q R$, $A = Q^T (p, r)$. For large $\Lambda$ next to nothing remains of what u spans; taken
    as a difference of sums it would be nothing but rounding, and could be negative.
    """

    up: np.ndarray
    ur: np.ndarray
    spans: np.ndarray  # R
    inside: np.ndarray  # A
    outside: np.ndarray  # products of (p, r) beyond what u spans


class _Solution(NamedTuple):
    beta: np.ndarray
    b: np.ndarray
    factor: np.ndarray
    precise: np.ndarray
    carried: np.ndarray
    log_det: float
    left: float


def fit_mixed(
    kind: str,
    phi: Float[np.ndarray, "rows p"],
    u: Float[np.ndarray, "rows q"],
    codes: Int[np.ndarray, " rows"],
    ys: Float[np.ndarray, " rows"],
    weights: Float[np.ndarray, " rows"],
    *,
    n_groups: int,
    noise: float | None = None,
) -> MixedEffects:
    """Shared weights, effects of groups and their covariance.

    Args:
        kind: "gaussian", "binary" (0/1 targets, logit) or "poisson" (log).
        phi: features of the shared weights, with a column of ones for the bias.
        u: columns that the effects multiply; ones for an intercept.
        codes: numbers of the groups, from 0.
        ys: targets.
        weights: what each row counts.
        n_groups: how many groups there are.
        noise: variance of Gaussian noise; None to learn it.
    """
    used = (weights > 0) & (codes >= 0)
    if not np.any(used):
        raise ValueError("No row has a label, a weight and a group, so there is nothing to fit.")
    order = np.argsort(codes[used], kind="stable")
    phi, u, ys, weights, codes = (
        np.asarray(a, float if a.dtype.kind == "f" else None)[used][order]
        for a in (phi, u, ys, weights, codes)
    )
    problem = _Problem(kind, phi, u, codes, ys.astype(float), weights, n_groups, noise)
    q = u.shape[1]
    rows, columns = np.tril_indices(q)

    def root(theta: np.ndarray) -> np.ndarray:
        matrix = np.zeros((q, q))
        matrix[rows, columns] = theta
        return matrix

    start = np.eye(q)[rows, columns] * (1.0 if kind == "gaussian" else 0.5)
    bounds = [(0.0, 1e4) if i == j else (-1e4, 1e4) for i, j in zip(rows, columns, strict=True)]

    def loss(theta: np.ndarray) -> float:
        return problem.deviance(root(theta))

    found: Any = optimize.minimize(
        loss, start, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-12, "maxiter": 300}
    )
    best = found.x
    if len(start) <= MOST_POLISHED:  # differences of the deviance leave the last digits open
        least = 10 * SETTLED * (abs(found.fun) + 1)  # closer, the deviance itself is not known
        polished: Any = optimize.minimize(
            loss,
            best,
            method="Nelder-Mead",
            bounds=bounds,
            options={"xatol": 1e-7, "fatol": least, "maxiter": 2000},
        )
        best = polished.x if polished.fun <= found.fun else best
    return problem.effects(root(best))


class _Problem:
    """The deviance as a function of Lambda; rows are sorted by group."""

    def __init__(
        self,
        kind: str,
        phi: np.ndarray,
        u: np.ndarray,
        codes: np.ndarray,
        ys: np.ndarray,
        weights: np.ndarray,
        n_groups: int,
        noise: float | None,
    ):
        self.kind, self.phi, self.u, self.codes = kind, phi, u, codes
        self.ys, self.weights, self.n_groups, self.noise = ys, weights, n_groups, noise
        present, self.starts = np.unique(codes, return_index=True)
        self.present = present
        self.beta, self.b = np.zeros(phi.shape[1]), np.zeros((n_groups, u.shape[1]))
        self.sums = self._add_up(weights, ys) if kind == "gaussian" else None

    def deviance(self, root: np.ndarray) -> float:
        """Minus twice the restricted or Laplace log-likelihood."""
        solved, sums, loglik = self._at(root)
        if self.kind == "gaussian":
            n, noise = self._freedom, self._noise(solved)
            return solved.log_det + n * (LOG_2PI + math.log(noise)) + solved.left / noise
        return solved.log_det - 2 * loglik + np.sum(self.b**2) - self.phi.shape[1] * LOG_2PI

    def effects(self, root: np.ndarray) -> MixedEffects:
        solved, _, _ = self._at(root)
        noise = self._noise(solved) if self.kind == "gaussian" else 1.0
        inner = noise * np.einsum("ij,gjk,lk->gil", root, solved.precise, root)
        return MixedEffects(
            solved.beta,
            math.sqrt(noise) * solved.factor,
            solved.b @ root.T,
            inner,
            np.einsum("ij,gjp->gip", root, solved.carried),
            noise * root @ root.T,
            noise,
            -0.5 * self.deviance(root),
        )

    @property
    def _freedom(self) -> float:
        return max(float(self.weights.sum()) - self.phi.shape[1], 1.0)

    def _noise(self, solved: _Solution) -> float:
        if self.noise is not None:
            return self.noise
        size = float(self.weights @ self.ys**2) / max(float(self.weights.sum()), 1e-300)
        return max(solved.left / self._freedom, 1e-12 * max(size, 1e-300))

    def _at(self, root: np.ndarray) -> tuple[_Solution, _Sums, float]:
        """The solution at Lambda; for classes and counts by reweighting until it stands still."""
        if self.sums is not None:
            return self._solve(self.sums, root), self.sums, 0.0
        joint, gained = self._joint(self.beta, self.b, root), math.inf
        for _ in range(50):
            eta = self._eta(self.beta, self.b, root)
            _, slope, curve = _derivatives(self.kind, eta, self.ys)
            curve = np.maximum(curve, 1e-8)
            sums = self._add_up(self.weights * curve, eta + slope / curve)
            solved = self._solve(sums, root)
            # Only here: the determinant is that of the mode, not of the place before it.
            if gained < SETTLED * (abs(joint) + 1):
                break
            step = 1.0
            while True:
                beta = self.beta + step * (solved.beta - self.beta)
                b = self.b + step * (solved.b - self.b)
                new = self._joint(beta, b, root)
                if new >= joint - 1e-10 * abs(joint) or step < 1e-4:
                    break
                step *= 0.5
            self.beta, self.b, gained, joint = beta, b, new - joint, new
        loglik = joint + 0.5 * np.sum(self.b**2)
        return solved, sums, loglik

    def _eta(self, beta: np.ndarray, b: np.ndarray, root: np.ndarray) -> np.ndarray:
        effects = (b @ root.T)[self.codes]
        return np.clip(self.phi @ beta + np.sum(self.u * effects, axis=1), -50.0, 50.0)

    def _joint(self, beta: np.ndarray, b: np.ndarray, root: np.ndarray) -> float:
        value, _, _ = _derivatives(self.kind, self._eta(beta, b, root), self.ys)
        return float(self.weights @ value - 0.5 * np.sum(b**2))

    def _add_up(self, weights: np.ndarray, response: np.ndarray) -> _Sums:
        both = np.column_stack([self.phi, response])

        def grouped(columns: np.ndarray) -> np.ndarray:
            """Weighted products of u with `columns`."""
            scaled = self.u * weights[:, None]
            products = scaled[:, :, None] * columns[:, None, :]
            out = np.zeros((self.n_groups, *products.shape[1:]))
            out[self.present] = np.add.reduceat(products, self.starts, axis=0)
            return out

        ub = grouped(both)
        values, vectors = np.linalg.eigh(grouped(self.u))
        spanned = values > len(both) * np.finfo(float).eps * values[:, -1:]
        length = np.sqrt(np.where(spanned, values, 1.0))[..., None]
        turned = np.where(spanned[..., None], np.swapaxes(vectors, 1, 2), 0.0)
        inside = turned @ ub / length
        nearest = np.swapaxes(turned, 1, 2) @ (inside / length)
        beyond = both - np.einsum("nq,nqb->nb", self.u, nearest[self.codes])
        return _Sums(
            ub[..., :-1],
            ub[..., -1],
            turned * length,
            inside,
            (beyond * weights[:, None]).T @ beyond,
        )

    def _solve(self, sums: _Sums, root: np.ndarray) -> _Solution:
        eye, within = np.eye(root.shape[1]), sums.spans @ root
        outer = np.linalg.cholesky(eye + within @ np.swapaxes(within, 1, 2))
        shrunk = np.linalg.solve(outer, sums.inside)
        products = sums.outside + np.einsum("gib,gic->bc", shrunk, shrunk)
        right = products[:-1, -1]
        shared = products[:-1, :-1]
        scale = np.maximum(np.diagonal(shared), 1e-300)
        factor, log_det = inverse_factor(shared + RIDGE * np.diag(scale))
        beta = factor.T @ (factor @ right)
        precise = np.linalg.inv(eye + np.swapaxes(within, 1, 2) @ within)
        carried = precise @ np.einsum("ji,gjp->gip", root, sums.up)
        b = np.einsum("gij,gj->gi", precise, sums.ur @ root) - carried @ beta
        left = max(float(products[-1, -1] - right @ beta), 0.0)
        log_det += 2 * float(np.sum(np.log(np.diagonal(outer, axis1=1, axis2=2))))
        return _Solution(beta, b, factor, precise, carried, float(log_det), left)


def _derivatives(
    kind: str, eta: np.ndarray, ys: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-likelihood of each row, its slope and its negative curvature by the predictor."""
    if kind == "binary":
        p = expit(eta)
        return ys * eta - np.logaddexp(0, eta), ys - p, p * (1 - p)
    rate = np.exp(eta)
    return ys * eta - rate - gammaln(ys + 1), ys - rate, rate
