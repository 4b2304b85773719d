"""Predictive distributions in the user's units, backed by SciPy."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diglm.heads import AbstractResponse
from diglm.parameters import Real

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
else:
    ArrayLike = object

OPEN_UNIT = Real(0.0, 1.0, open_low=True, open_high=True)


class PredictiveDistribution:
    """p(y|x) of many rows: `.mean`, `.std`, `.log_prob(y)`, `.cdf(y)`, `.quantile(q)`, `.sample`.

    Where rows have several targets, every answer has one more axis for them.

    Args:
        response: the head's responses, stacked along the rows.
        location: added to, after `scale` multiplied, the head's unit of y.
        scale: the user's units per unit of the head.
    """

    def __init__(
        self,
        response: AbstractResponse,
        location: float | np.ndarray = 0.0,
        scale: float | np.ndarray = 1.0,
    ):
        self._frozen, self._discrete = response.frozen(location, scale), response.discrete

    @property
    def mean(self) -> Float[np.ndarray, " rows *targets"]:
        """Expected y."""
        return np.asarray(self._frozen.mean())

    @property
    def std(self) -> Float[np.ndarray, " rows *targets"]:
        """Standard deviation of y."""
        return np.asarray(self._frozen.std())

    def log_prob(self, y: ArrayLike) -> Float[np.ndarray, " rows *targets"]:
        """Log density of y (log mass for counts), natural log, per the user's unit."""
        y = np.asarray(y, float)
        return self._frozen.logpmf(y) if self._discrete else self._frozen.logpdf(y)

    def cdf(self, y: ArrayLike) -> Float[np.ndarray, " rows *targets"]:
        """P(response <= y)."""
        return self._frozen.cdf(np.asarray(y, float))

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles: shape (rows,) for a number q, (rows, len(q)) for several."""
        q = np.asarray(q, float)
        if np.any((q < 0) | (q > 1)):
            raise ValueError(f"Quantile levels lie between 0 and 1; got {q!r}.")
        if q.ndim == 0:
            return self._frozen.ppf(q)
        return np.stack([self._frozen.ppf(level) for level in q.ravel()], axis=-1)

    def interval(self, level: float | int = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central interval that holds y with probability `level`."""
        if not OPEN_UNIT.allows(level):
            percent = " Write 95 % as 0.95." if Real(1.0).allows(level) else ""
            raise ValueError(f"level must be a number between 0 and 1; got {level!r}.{percent}")
        return self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2)

    def agreement(self, y: ArrayLike) -> Float[np.ndarray, " rows *targets"]:
        r"""$2 \min(F(y), 1 - F(y^-))$: the probability of numbers as far out, on either side."""
        y = np.asarray(y, float)
        low, high = self.cdf(y), 1 - self.cdf(np.nextafter(y, -np.inf))
        return np.minimum(2 * np.minimum(low, high), 1.0)

    def agreeing(self, least: Float[np.ndarray, " targets"]) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the numbers whose agreement is at least so much, by target."""
        lows, highs = (
            [self.quantile(a / 2) for a in least],
            [self.quantile(1 - a / 2) for a in least],
        )
        if len(lows) == 1:
            return lows[0], highs[0]
        low, high = (
            np.stack([q[:, t] for t, q in enumerate(part)], axis=1) for part in (lows, highs)
        )
        return low, high

    def sample(self, key: int | jax.Array = 0, n: int | None = None) -> np.ndarray:
        """Draws of y: (rows,) without `n`, else (n, rows). `key` is a seed or a JAX key."""
        rows = np.shape(self._frozen.mean())
        rng = np.random.default_rng(_seed(key))
        return self._frozen.rvs(size=rows if n is None else (n, *rows), random_state=rng)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.mean)


def _seed(key: int | jax.Array) -> int | list[int]:
    if isinstance(key, jax.Array):
        data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        return np.asarray(data).ravel().tolist()
    return key
