"""Predictive distributions in the user's units, backed by SciPy."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import stats
from scipy.special import logsumexp, softmax

from diglm import heads
from diglm.heads import AbstractResponse


class PredictiveDistribution:
    """p(y|x) of many rows: `.mean`, `.std`, `.log_prob(y)`, `.cdf(y)`, `.quantile(q)`, `.sample`.

    Where rows have several targets, every answer has one more axis for them.

    Args:
        response: the head's responses, stacked along the rows.
        location: added to, after `scale` multiplied, the head's unit of y.
        scale: the user's units per unit of the head.
    """

    def __init__(self, response: AbstractResponse, location: Any = 0.0, scale: Any = 1.0):
        self._frozen, self._discrete = _frozen(response, location, scale)

    @property
    def mean(self) -> Float[np.ndarray, " rows *targets"]:
        """Expected y."""
        return np.asarray(self._frozen.mean())

    @property
    def std(self) -> Float[np.ndarray, " rows *targets"]:
        """Standard deviation of y."""
        return np.asarray(self._frozen.std())

    def log_prob(self, y: Any) -> Float[np.ndarray, " rows *targets"]:
        """Log density of y (log mass for counts), natural log, per the user's unit."""
        y = np.asarray(y, float)
        return self._frozen.logpmf(y) if self._discrete else self._frozen.logpdf(y)

    def cdf(self, y: Any) -> Float[np.ndarray, " rows *targets"]:
        """P(response <= y)."""
        return self._frozen.cdf(np.asarray(y, float))

    def quantile(self, q: Any) -> np.ndarray:
        """Quantiles: shape (rows,) for a number q, (rows, len(q)) for several."""
        q = np.asarray(q, float)
        if np.any((q < 0) | (q > 1)):
            raise ValueError(f"Quantile levels lie between 0 and 1; got {q!r}.")
        if q.ndim == 0:
            return self._frozen.ppf(q)
        return np.stack([self._frozen.ppf(level) for level in q.ravel()], axis=-1)

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central interval that holds y with probability `level`."""
        return self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2)

    def sample(self, key: Any = 0, n: int | None = None) -> np.ndarray:
        """Draws of y: (rows,) without `n`, else (n, rows). `key` is a seed or a JAX key."""
        rows = np.shape(self._frozen.mean())
        rng = np.random.default_rng(_seed(key))
        return self._frozen.rvs(size=rows if n is None else (n, *rows), random_state=rng)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.mean)


def _seed(key: Any) -> Any:
    if isinstance(key, jax.Array):
        data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        return np.asarray(data).ravel().tolist()
    return key


def _frozen(response: AbstractResponse, location: Any, scale: Any) -> tuple[Any, bool]:
    def units(values):
        return location + scale * np.asarray(values, float)

    match response:
        case heads.Gaussian() | heads.Gaussians():
            return stats.norm(units(response.loc), scale * np.asarray(response.scale, float)), False
        case heads.StudentT():
            spread = scale * np.asarray(response.scale, float)
            return stats.t(np.asarray(response.df, float), units(response.loc), spread), False
        case heads.GaussianMixture():
            shares = softmax(np.asarray(response.logits, float), axis=-1)
            spreads = scale * np.asarray(response.scales, float)
            return _Mixture(shares, units(response.locs), spreads), False
        case heads.Poisson():
            return stats.poisson(np.exp(np.asarray(response.log_rate, float))), True
        case heads.NegativeBinomial():
            mean = np.exp(np.asarray(response.log_mean, float))
            size = np.exp(-np.asarray(response.log_dispersion, float))
            return stats.nbinom(size, size / (size + mean)), True
        case heads.Gamma():
            shape = np.exp(np.asarray(response.log_shape, float))
            mean = np.exp(np.asarray(response.log_mean, float))
            return stats.gamma(shape, scale=scale * mean / shape), False
    raise TypeError(f"No distribution of numbers belongs to {type(response).__name__}.")


class _Mixture:
    """Gaussian mixtures, one a row, with the methods of a frozen SciPy distribution."""

    def __init__(self, shares: np.ndarray, locs: np.ndarray, scales: np.ndarray):
        self.shares, self.parts = shares, cast(Any, stats.norm(locs, scales))
        self.locs, self.scales = locs, scales

    def mean(self) -> np.ndarray:
        return np.sum(self.shares * self.locs, axis=-1)

    def std(self) -> np.ndarray:
        apart = self.locs - self.mean()[..., None]
        return np.sqrt(np.sum(self.shares * (self.scales**2 + apart**2), axis=-1))

    def logpdf(self, y: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            log_shares = np.log(self.shares)
        return np.asarray(logsumexp(log_shares + self.parts.logpdf(y[..., None]), axis=-1))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return np.sum(self.shares * self.parts.cdf(y[..., None]), axis=-1)

    def ppf(self, q: np.ndarray) -> np.ndarray:
        """By bisection between the least and the greatest of the components' quantiles."""
        ends = self.parts.ppf(np.clip(q, 0.0, 1.0))
        low, high = ends.min(axis=-1), ends.max(axis=-1)
        if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high))):
            return low  # at 0 and 1 all quantiles are the same infinity
        for _ in range(100):
            middle = 0.5 * (low + high)
            above = self.cdf(middle) >= q
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return 0.5 * (low + high)

    def rvs(self, size: Any, random_state: np.random.Generator) -> np.ndarray:
        uniform = random_state.random((*np.atleast_1d(size), 1))
        part = np.sum(uniform > np.cumsum(self.shares, axis=-1)[..., :-1], axis=-1)[..., None]
        locs, scales = (
            np.take_along_axis(np.broadcast_to(a, (*part.shape[:-1], a.shape[-1])), part, -1)[
                ..., 0
            ]
            for a in (self.locs, self.scales)
        )
        return random_state.normal(locs, scales)
