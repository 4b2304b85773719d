r"""Completion: fill in what a recorded row leaves open, so that a density can speak about it.

A whole number or a category is a cell, not a point; a missing entry is a whole axis. Let $e$ be
what is open (the place inside each cell, the value of each missing entry) and $q(e \mid x)$ any
density for it. Then, for the recorded row,

$$\log p(x) = \log \int p(x, e)\, de \;\ge\; E_q[\log p(x, e) - \log q(e \mid x)].$$

Cells use the uniform $q$ (dequantisation). Missing entries use a normal whose mean is a learned
linear function of the entries that are present, trained with everything else: an imputation that
serves both the density and the prediction.
"""

import functools
import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.stats import qmc

from diglm.types import Buffer, Scalar, placed

STARTING_LOG_SCALE = -1.0


class AbstractCompletion(eqx.Module):
    """How rows are made whole."""

    @property
    def needed(self) -> bool:
        """Whether rows leave anything open; if not, one pass is exact."""
        return True

    @abstractmethod
    def draw(self, x: Array, u: Float[Array, "..."]) -> tuple[Float[Array, "..."], Scalar]:
        """The row completed with uniform noise `u`, and log q of what was filled in.

        Inside cells log q is left out: the density then stays one per unit of the column, which
        for cells of width one is the mass of the cell.
        """

    def centre(self, x: Array) -> Float[Array, "..."]:
        """The row at its cell centres, missing entries at their imputed mean."""
        return self.draw(x, jnp.full(x.shape, 0.5, jnp.result_type(float)))[0]


class PixelCells(AbstractCompletion):
    r"""$e = u$: a pixel of value k is the cell $[k, k + 1)$, so that masses are of unit bins."""

    def draw(self, x: Array, u: Float[Array, "..."]) -> tuple[Float[Array, "..."], Scalar]:
        return x.astype(u.dtype) + u, jnp.zeros((), u.dtype)


class Completion(AbstractCompletion):
    r"""$e = \mathrm{width} \odot (u - \tfrac12)$ in cells; $e = m(x) + s\,\Phi^{-1}(u)$ if missing.

    Args:
        widths: cell width per dimension; 0 where the dimension is continuous.
        missing: whether a dimension can be missing (NaN in `x`).
    """

    widths: Buffer
    missing: Buffer
    location: Float[Array, " dim"]
    from_present: Float[Array, "two_dim dim"]
    log_scale: Float[Array, " dim"]
    any_cells: bool = eqx.field(static=True)
    any_missing: bool = eqx.field(static=True)

    def __init__(self, widths: Float[np.ndarray, " dim"], missing: Bool[np.ndarray, " dim"]):
        self.widths = Buffer(placed(np.asarray(widths, float)))
        self.missing = Buffer(placed(missing))
        (dim,) = widths.shape
        self.any_cells, self.any_missing = bool(np.any(widths > 0)), bool(np.any(missing))
        self.location = placed(np.zeros(dim))
        self.log_scale = placed(np.full(dim, STARTING_LOG_SCALE))
        self.from_present = placed(np.zeros((2 * dim if self.any_missing else 0, dim)))

    @property
    def needed(self) -> bool:
        return self.any_cells or self.any_missing

    def starting_rows(
        self, rows: Float[np.ndarray, "rows dim"], rng: np.random.Generator
    ) -> Float[np.ndarray, "rows dim"]:
        """Rows completed as an untrained model would, in NumPy: what first layers start from."""
        noise = math.exp(STARTING_LOG_SCALE) * rng.normal(size=rows.shape)
        filled = np.where(np.isnan(rows), noise, rows)
        return filled + np.asarray(self.widths.value) * (rng.uniform(size=rows.shape) - 0.5)

    def draw(
        self, x: Float[Array, " dim"], u: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Scalar]:
        if self.any_cells:
            x = x + self.widths.value.astype(x.dtype) * (u - 0.5)
        if not self.any_missing:
            return x, jnp.zeros((), x.dtype)
        absent = jnp.isnan(x)
        present = jnp.where(absent, 0.0, x)
        seen = jnp.concatenate([jnp.clip(present, -8, 8), absent.astype(x.dtype)])
        log_scale = jnp.clip(self.log_scale, -5.0, 2.0)
        noise = jax.scipy.special.ndtri(u)
        filled = self.location + seen @ self.from_present + jnp.exp(log_scale) * noise
        log_q = jax.scipy.stats.norm.logpdf(noise) - log_scale
        return jnp.where(absent, filled, present), jnp.sum(jnp.where(absent, log_q, 0.0))


@functools.lru_cache(maxsize=64)
def fixed_offsets(shape: int | tuple[int, ...], n: int) -> Float[np.ndarray, "n ..."]:
    """`n` points that spread evenly over the unit cube, the same for every row and every call.

    Scrambled Sobol points, for images and very long rows a Latin hypercube, seeded and kept off
    the cube's faces. A point has the shape of a row or an image.
    """
    shape = (shape,) if isinstance(shape, int) else shape
    dim = math.prod(shape)
    if dim == 1:
        points = (np.arange(n)[:, None] + 0.5) / n
    elif dim > qmc.Sobol.MAXDIM or len(shape) > 1:
        rng = np.random.default_rng(0)
        cells = rng.permuted(np.tile(np.arange(n), (dim, 1)), axis=1).T
        points = (cells + rng.random((n, dim))) / n
    else:
        points = qmc.Sobol(dim, scramble=True, rng=np.random.default_rng(0)).random(n)
    points = np.clip(points, 1e-3, 1 - 1e-3).reshape(n, *shape)
    points.flags.writeable = False  # one array for all who ask
    return points
