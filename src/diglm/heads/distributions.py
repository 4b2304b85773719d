"""Mixtures with the methods of SciPy's frozen distributions, of many rows at once."""

from typing import Any

import numpy as np
from scipy.special import logsumexp


class Mixture:
    """Shares of distributions, along the first axis of both.

    Args:
        shares: (parts, *rows), summing to one over the parts.
        parts: a frozen SciPy distribution of that shape.
        discrete: whether the parts have masses rather than densities.
    """

    def __init__(self, shares: np.ndarray, parts: Any, discrete: bool = False):
        self.shares, self.parts, self.discrete = shares, parts, discrete

    def mean(self) -> np.ndarray:
        return np.sum(self.shares * self.parts.mean(), axis=0)

    def std(self) -> np.ndarray:
        apart = self.parts.mean() - self.mean()
        return np.sqrt(np.sum(self.shares * (self.parts.var() + apart**2), axis=0))

    def var(self) -> np.ndarray:
        return self.std() ** 2

    def logpdf(self, y: np.ndarray | float) -> np.ndarray:
        return self._log(self.parts.logpdf(y))

    def logpmf(self, y: np.ndarray | float) -> np.ndarray:
        return self._log(self.parts.logpmf(y))

    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        return np.sum(self.shares * self.parts.cdf(y), axis=0)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        """By bisection between the least and the greatest of the parts' quantiles."""
        ends = self.parts.ppf(np.clip(q, 0.0, 1.0))
        alone = np.max(self.shares, axis=0) == 1  # a single part has its quantile in closed form
        only = np.take_along_axis(ends, np.argmax(self.shares, axis=0)[None], axis=0)[0]
        low, high = ends.min(axis=0), ends.max(axis=0)
        settled = low == high  # at 0 and 1 all quantiles may be the same infinity
        low, high = np.where(settled, 0.0, low), np.where(settled, 0.0, high)
        for _ in range(100):
            middle = 0.5 * (low + high)
            above = self.cdf(middle) >= q
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        found = np.rint(high) if self.discrete else 0.5 * (low + high)
        return np.where(alone | settled, only, found)

    def rvs(self, size: Any, random_state: np.random.Generator) -> np.ndarray:
        size = tuple(np.atleast_1d(size))
        uniform = random_state.random(size)
        shape = np.broadcast_shapes(self.shares.shape[1:], size[-(self.shares.ndim - 1) :])
        ends = np.cumsum(np.broadcast_to(self.shares, (len(self.shares), *shape)), axis=0)[:-1]
        draws = self.parts.rvs(size=(*size[: len(size) - len(shape)], len(self.shares), *shape),
                               random_state=random_state)  # fmt: skip
        axis = len(size) - len(shape)
        part = np.sum(np.expand_dims(uniform, axis) > ends, axis=axis, keepdims=True)
        return np.take_along_axis(draws, part, axis=axis).squeeze(axis)

    def _log(self, parts: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray(logsumexp(np.log(self.shares) + parts, axis=0))
