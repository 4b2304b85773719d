"""Whether the latents of a row could be a sample of the base, and densities of such statistics."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy import linalg
from scipy.special import ndtr

from diglm.parameters import Constraints, Real
from diglm.refusal.known import Known
from diglm.refusal.scores.base import AbstractScore, learned

FEWEST_LATENTS = 4  # of which there are moments


def statistics(u: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "rows 6"]:
    r"""Of each row's numbers: mean, log variance, skewness, excess, Kolmogorov-Smirnov, dependence.

    With $\bar u$ and $s^2$ the row's moments and $v = (u - \bar u) / s$: $\sqrt D\, \bar u$,
    $\sqrt{D/2} \log s^2$, $\operatorname{mean}(v^3)$, $\operatorname{mean}(v^4) - 3$,
    $\sqrt D \max |F(u) - \Phi(u)|$ and $\sqrt D \operatorname{mean}(v_i v_{i+1})$.
    """
    u = np.clip(u.astype(float), -1e6, 1e6)
    dim = u.shape[1]
    mean = u.mean(axis=1)
    spread = np.sqrt(np.maximum(u.var(axis=1), 1e-12))
    v = (u - mean[:, None]) / spread[:, None]
    steps, normal = np.arange(1, dim + 1) / dim, ndtr(np.sort(u, axis=1))
    apart = np.maximum(np.abs(steps - normal), np.abs(normal - steps + 1 / dim)).max(axis=1)
    return np.stack(
        [
            np.sqrt(dim) * mean,
            np.sqrt(2 * dim) * np.log(spread),
            np.mean(v**3, axis=1),
            np.mean(v**4, axis=1) - 3,
            np.sqrt(dim) * apart,
            np.sqrt(dim) * np.mean(v[:, 1:] * v[:, :-1], axis=1),
        ],
        axis=1,
    )


@dataclass
class GoodnessOfFit(AbstractScore):
    r"""$(t - m)^\top S^{-1} (t - m)$ with t the `statistics` of $(u - \mu) / \sigma$.

    Are these numbers a sample of the base? $\mu, \sigma$ are those of the latents of training rows,
    m and S those of the statistics of familiar rows, S shrunk towards its diagonal. A Gaussian
    density of states over statistics of u.

    References: Nalisnick et al. (2019), https://arxiv.org/abs/1906.02994, and Morningstar et al.
    (2021), https://arxiv.org/abs/2006.09273

    Args:
        shrinkage: of S.
    """

    shrinkage: float = 0.1
    location: Float[np.ndarray, " dim"] | None = learned()
    scale: Float[np.ndarray, " dim"] | None = learned()
    usual: Float[np.ndarray, " statistics"] | None = learned()
    whitening: Float[np.ndarray, "statistics statistics"] | None = learned()

    wants_training: ClassVar[int] = 4_000
    constraints: ClassVar[Constraints] = {"shrinkage": [Real(0.0, 1.0)]}

    def why_not(self, known: Known) -> str:
        if known.u.shape[1] >= FEWEST_LATENTS:
            return ""
        return f"rows of {known.u.shape[1]} numbers have no sample to test. Use score='auto'."

    def fit(self, training: Known, aside: Known) -> "GoodnessOfFit":
        u = training.u.astype(float)
        scale = np.maximum(u.std(axis=0), 1e-6)
        fitted = replace(self, location=u.mean(axis=0), scale=scale)
        usual, whitening = gaussian_of(fitted._told(aside), self.shrinkage)
        return replace(fitted, usual=usual, whitening=whitening)

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.usual is not None and self.whitening is not None, "fit() comes first"
        return np.sum(((self._told(known) - self.usual) @ self.whitening.T) ** 2, axis=1)

    def _told(self, known: Known) -> Float[np.ndarray, "rows statistics"]:
        assert self.location is not None and self.scale is not None, "fit() comes first"
        return statistics((known.u - self.location) / self.scale)


@dataclass
class DensityOfStates(AbstractScore):
    r"""$(t - m)^\top S^{-1} (t - m)$ with $t = (\log p(x), \log |u|^2, \log|\det|)$.

    Familiar rows share a place in the space of what a density is made of; log p(x), the base's and
    the volume's part of it may each be as usual and yet never together.

    Reference: Morningstar et al. (2021), https://arxiv.org/abs/2006.09273

    Args:
        shrinkage: of S towards its diagonal.
    """

    shrinkage: float = 0.1
    usual: Float[np.ndarray, " states"] | None = learned()
    whitening: Float[np.ndarray, "states states"] | None = learned()

    wants_training: ClassVar[int] = 4_000
    constraints: ClassVar[Constraints] = {"shrinkage": [Real(0.0, 1.0)]}

    def fit(self, training: Known, aside: Known) -> "DensityOfStates":
        usual, whitening = gaussian_of(_states(aside), self.shrinkage)
        return replace(self, usual=usual, whitening=whitening)

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.usual is not None and self.whitening is not None, "fit() comes first"
        return np.sum(((_states(known) - self.usual) @ self.whitening.T) ** 2, axis=1)


def gaussian_of(
    points: Float[np.ndarray, "rows dim"], shrinkage: float
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
    r"""Mean of points and W with $W^\top W = S^{-1}$, S shrunk towards its diagonal."""
    middle = np.mean(points, axis=0)
    around = points - middle
    covariance = (1 - shrinkage) * (around.T @ around) / len(points)
    variances = np.mean(around**2, axis=0)
    np.fill_diagonal(covariance, np.maximum(variances, 1e-6 * np.mean(variances) + 1e-12))
    lower = linalg.cholesky(covariance, lower=True)
    return middle, linalg.solve_triangular(lower, np.eye(len(lower)), lower=True)


def _states(known: Known) -> Float[np.ndarray, "rows 3"]:
    """log p(x), the length of u, and what is left of log p(x) without it: the volume."""
    squares = np.sum(np.clip(known.u.astype(float), -1e6, 1e6) ** 2, axis=1)
    volume = known.log_px + 0.5 * squares
    return np.stack([known.log_px, np.log1p(squares), volume], axis=1)
