"""Scores of classes: distance of features to the nearest class, and density given the class."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy import linalg

from diglm.parameters import Constraints, Real
from diglm.refusal.known import Known
from diglm.refusal.scores.answers import no_classes
from diglm.refusal.scores.base import AbstractScore, learned

MOST_WHITENED = 1_024  # features; of more, only variances are learned


@dataclass
class ClassDistance(AbstractScore):
    r"""$\min_k (z - \mu_k)^\top \Sigma^{-1} (z - \mu_k)$: distance to the nearest class.

    That of Mahalanobis. Means and the covariance around them are those of rows of training under
    the classes that the model gives them.

    Reference: Lee et al. (2018), https://arxiv.org/abs/1807.03888

    Args:
        shrinkage: of the covariance towards its diagonal.
    """

    shrinkage: float = 0.05
    means: Float[np.ndarray, "classes dim"] | None = learned()
    whitening: Float[np.ndarray, "..."] | None = learned()

    wants_training: ClassVar[int] = 4_000
    constraints: ClassVar[Constraints] = {"shrinkage": [Real(0.0, 1.0)]}

    def why_not(self, known: Known) -> str:
        return no_classes(known)

    def fit(self, training: Known, aside: Known) -> "ClassDistance":
        z = training.z.astype(float)
        classes = np.unique(_predicted(training), return_inverse=True)[1]
        counts = np.bincount(classes)
        means = np.stack([z[classes == k].mean(axis=0) for k in range(len(counts))])
        around = z - means[classes]
        variances = np.mean(around**2, axis=0)
        variances = variances + 1e-6 * np.mean(variances) + 1e-12
        if z.shape[1] > MOST_WHITENED:
            whitening = 1 / np.sqrt(variances)
        else:
            covariance = (1 - self.shrinkage) * (around.T @ around) / len(z)
            np.fill_diagonal(covariance, variances)
            lower = linalg.cholesky(covariance, lower=True)
            whitening = linalg.solve_triangular(lower, np.eye(len(lower)), lower=True)
        fitted = replace(self, whitening=whitening.astype(np.float32))
        return replace(fitted, means=fitted._white(means).astype(np.float32))

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.means is not None, "fit() comes first"
        white = self._white(known.z)
        squares = np.sum(self.means**2, axis=1) - 2 * white @ self.means.T
        return (np.sum(white**2, axis=1) + np.min(squares, axis=1)).astype(float)

    def _white(self, z: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "rows dim"]:
        assert self.whitening is not None, "fit() comes first"
        z = z.astype(np.float32)
        return z * self.whitening if self.whitening.ndim == 1 else z @ self.whitening.T


@dataclass
class ClassDensity(AbstractScore):
    r"""$-\max_k \log p(x \mid y_k)$, by Bayes' rule $p(x \mid y) = p(x)\, p(y \mid x) / p(y)$.

    Against the marginal $p(x)$ it raises rows that speak for a rare class.
    """

    marginal: Float[np.ndarray, " classes"] | None = learned()

    wants_training: ClassVar[int] = 4_000

    def why_not(self, known: Known) -> str:
        return no_classes(known)

    def fit(self, training: Known, aside: Known) -> "ClassDensity":
        shares = np.mean(training.expected, axis=0)
        return replace(self, marginal=np.maximum(shares, 1e-12))

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.marginal is not None, "fit() comes first"
        shares = np.maximum(known.expected, 1e-300)
        return -known.log_px - np.max(np.log(shares) - np.log(self.marginal), axis=1)


def _predicted(known: Known) -> np.ndarray:
    return np.argmax(known.expected, axis=1)
