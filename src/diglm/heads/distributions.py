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


class WithZeros:
    """Zero with probability `share`, else drawn from `rest`, which is never negative.

    Args:
        share: of zeros, one a row.
        rest: a frozen SciPy distribution of that shape.
        discrete: whether the rest has masses, of which zero has one too.
    """

    def __init__(self, share: np.ndarray | float, rest: Any, discrete: bool = False):
        self.share, self.rest, self.discrete = np.asarray(share), rest, discrete

    def mean(self) -> np.ndarray | float:
        return (1 - self.share) * self.rest.mean()

    def var(self) -> np.ndarray | float:
        return (1 - self.share) * (self.rest.var() + self.share * self.rest.mean() ** 2)

    def std(self) -> np.ndarray | float:
        return np.sqrt(self.var())

    @property
    def log_zero(self) -> np.ndarray | float:
        """The log of the mass at zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.share + (1 - self.share) * self.rest.cdf(0.0))

    def logpdf(self, y: np.ndarray | float) -> np.ndarray | float:
        """The log of the density where y is not zero, of the mass where it is."""
        return self._log(y, self.rest.logpdf(np.where(np.equal(y, 0), 1.0, y)))

    def logpmf(self, y: np.ndarray | float) -> np.ndarray | float:
        return self._log(y, self.rest.logpmf(y))

    def cdf(self, y: np.ndarray | float) -> np.ndarray | float:
        return np.where(np.less(y, 0), 0.0, self.share + (1 - self.share) * self.rest.cdf(y))

    def ppf(self, q: np.ndarray | float) -> np.ndarray | float:
        above = (np.asarray(q) - self.share) / np.maximum(1 - self.share, 1e-300)
        found = self.rest.ppf(np.clip(above, 0.0, 1.0))
        return np.where(above <= 0, 0.0, np.maximum(found, 0.0))

    def rvs(self, size: Any, random_state: np.random.Generator) -> np.ndarray | float:
        zero = random_state.random(size) < self.share
        return np.where(zero, 0.0, self.rest.rvs(size=size, random_state=random_state))

    def _log(self, y: np.ndarray | float, rest: np.ndarray | float) -> np.ndarray | float:
        with np.errstate(divide="ignore"):
            other = np.log1p(-self.share) + rest
        return np.where(np.equal(y, 0), self.log_zero, other)
