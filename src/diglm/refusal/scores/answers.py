"""Scores of p(y|x): how undecided the answer is, and how far from every class."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from diglm.refusal.known import Known
from diglm.refusal.scores.base import AbstractScore

NO_CLASSES = "it compares classes, and this model predicts none. Use it with HybridClassifier."


def no_classes(known: Known) -> str:
    """Why a model has no scores of classes; empty where it has."""
    return "" if known.expected.ndim == 2 else NO_CLASSES


@dataclass
class PredictiveEntropy(AbstractScore):
    r"""$H[y \mid x]$, of classes: how undecided the answer is.

    Rows between two classes are undecided and may be quite familiar.
    """

    def why_not(self, known: Known) -> str:
        return no_classes(known)

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        return np.asarray(known.answers.entropy(), float)


@dataclass
class Undecided(AbstractScore):
    r"""$1 - \max_k p(y_k \mid x)$: what maximum-softmax rules refuse by."""

    def why_not(self, known: Known) -> str:
        return no_classes(known)

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        return 1 - np.max(known.expected, axis=1)


@dataclass
class Margin(AbstractScore):
    r"""$p(y_{(2)} \mid x) - p(y_{(1)} \mid x)$: how near the second class is to the first."""

    def why_not(self, known: Known) -> str:
        return no_classes(known)

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        best = np.sort(known.expected, axis=1)
        return best[:, -2] - best[:, -1]


@dataclass
class Energy(AbstractScore):
    r"""$-\log \sum_k e^{\eta_k(x)}$: features that no class claims.

    Reference: Liu et al. (2020), https://arxiv.org/abs/2010.03759
    """

    def why_not(self, known: Known) -> str:
        if getattr(known.response, "logits", None) is not None:
            return ""
        return no_classes(known) or "its classes have probabilities, but no linear predictors."

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        logits = np.asarray(known.response.logits, float)  # type: ignore[attr-defined]
        return -np.asarray(logsumexp(logits, axis=1))


@dataclass
class PredictiveVariance(AbstractScore):
    r"""$\operatorname{Var}[y \mid x]$, of numbers.

    Under a Bayesian head it is $\sigma^2 + z^\top A^{-1} z$. With one noise for all rows it orders
    them by the epistemic part alone: how little the labelled rows say about this direction of z.
    """

    def why_not(self, known: Known) -> str:
        if known.expected.ndim == 1 and np.any(np.asarray(known.answers.variance) > 0):
            return ""
        return "it compares variances of numbers, and this model predicts none. Use 'entropy'."

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        return np.asarray(known.answers.variance, float)


@dataclass
class Unseen(AbstractScore):
    """How many facts of a row no training row prepared for, and how many values are missing.

    Log p(x), by which rows with as many are ordered, is squeezed into the unit between them.
    """

    def reads_head(self, layout: str) -> bool:
        return False

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        missing = np.sum(np.isnan(known.flat), axis=1)
        squeezed = 0.5 - np.arctan(known.log_px) / np.pi
        return np.sum(known.unseen, axis=1) + missing + 0.999 * squeezed
