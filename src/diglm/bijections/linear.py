"""Invertible matrix in LU form: mixes all coordinates at the price of one matrix product."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float
from scipy.linalg import lu

from diglm.bijections.base import AbstractBijection
from diglm.types import Buffer, Key, Scalar, generator, placed, seeded_key

LOG_SCALE_BOUND = 5.0
RIDGE = 1e-3


class LULinear(AbstractBijection):
    r"""$z = P L U x + b$: P a fixed permutation, L unit lower, U upper with diagonal $\pm e^s$.

    L and U are stored times `dim`: an optimiser that moves every number by its learning rate, as
    Adam does, then moves the matrix by about that much whatever its size. Unscaled, large matrices
    are thrown about by rates that suit small ones.

    The log-determinant is $\sum s$ whatever x is, and $|s| < 5$ by a soft bound, so the matrix
    can never become singular. The matrix does not depend on x: over a batch it is formed once.

    `LULinear(dim, key=key)` starts as a random rotation. `identity`, `permutation` and
    `whitening` are other starting points.

    Reference: Kingma and Dhariwal (2018), https://arxiv.org/abs/1807.03039
    """

    lower: Float[Array, "dim dim"]  # the rows of L in the order P puts them: no gather is needed
    upper: Float[Array, "dim dim"]
    raw_log_scale: Float[Array, " dim"]
    bias: Float[Array, " dim"]
    sign: Buffer
    rows: Buffer  # row i of P L is row rows[i] of L
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, dim: int, *, key: Key):
        if dim < 1:
            raise ValueError(f"LULinear needs dim >= 1; got {dim}.")
        rotation, _ = np.linalg.qr(generator(key).normal(size=(dim, dim)))
        p, lower, upper = lu(rotation)  # pyright: ignore[reportAssignmentType]
        diagonal = np.diag(upper)
        self.rows = Buffer(placed(np.argmax(p, axis=1)))
        self.lower = placed(dim * (p @ lower))
        self.upper = placed(dim * upper)
        self.raw_log_scale = placed(_unbound(np.log(np.abs(diagonal))))
        self.sign = Buffer(placed(np.sign(diagonal)))
        self.bias = placed(np.zeros(dim))
        self.in_shape = self.out_shape = (dim,)

    @classmethod
    def identity(cls, dim: int) -> "LULinear":
        """Start as $z = x$."""
        return cls._from_parts(np.eye(dim), np.zeros(dim), np.zeros(dim), np.arange(dim))

    @classmethod
    def permutation(cls, dim: int, *, key: Key) -> "LULinear":
        """Start as a random permutation, which keeps the meaning of each coordinate."""
        rows = generator(key).permutation(dim)
        return cls._from_parts(np.eye(dim)[rows], np.zeros(dim), np.zeros(dim), rows)

    @classmethod
    def whitening(cls, xs: np.ndarray | Float[Array, "rows dim"]) -> "LULinear":
        r"""Start so that the outputs on `xs` have mean 0, variance 1 and no correlation.

        $W = C^{-1}$ for the Cholesky factor C of a shrunk covariance. The correlations are
        shrunk by the Ledoit-Wolf rule, and a little more, so that fewer rows than columns,
        constant and duplicate columns all give a matrix of moderate size. Columns should be
        roughly standardised.
        """
        xs = np.asarray(xs, dtype=np.float64)
        if xs.ndim != 2 or xs.shape[0] < 1 or xs.shape[1] < 1:
            raise ValueError(f"Expected xs of shape (rows, dim); got {xs.shape}.")
        if not np.isfinite(xs).all():
            raise ValueError("whitening needs finite values; fill missing ones first.")
        mean, scale = xs.mean(axis=0), xs.std(axis=0)
        constant = scale <= 1e-6 * (1.0 + np.abs(mean))
        scale = np.where(constant, 1.0, scale)
        centred = np.where(constant, 0.0, (xs - mean) / scale)
        factor = np.linalg.cholesky(_shrunk_correlation(centred))
        matrix = np.linalg.inv(factor) / scale
        diagonal = np.diag(matrix)
        log_scale = np.clip(np.log(diagonal), -0.99 * LOG_SCALE_BOUND, 0.99 * LOG_SCALE_BOUND)
        return cls._from_parts(matrix / diagonal, log_scale, -matrix @ mean, np.arange(xs.shape[1]))

    @classmethod
    def _from_parts(
        cls, lower: np.ndarray, log_scale: np.ndarray, bias: np.ndarray, rows: np.ndarray
    ) -> "LULinear":
        dim = bias.shape[0]
        blank = cls(dim, key=seeded_key(0))
        floats = [placed(part) for part in (dim * lower, np.zeros((dim, dim)))]
        floats += [placed(part) for part in (_unbound(log_scale), bias, np.ones(dim))]
        return eqx.tree_at(
            lambda layer: (
                layer.lower,
                layer.upper,
                layer.raw_log_scale,
                layer.bias,
                layer.sign.value,
                layer.rows.value,
            ),
            blank,
            (*floats, placed(rows)),
        )

    def forward_and_log_det(
        self, x: Float[Array, " dim"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim"], Scalar]:
        lower, upper, log_scale = self.factors()
        return (lower @ upper) @ x + self.bias, jnp.sum(log_scale)

    def inverse_and_log_det(self, z: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Scalar]:
        lower, upper, log_scale = self.factors()
        order = jnp.argsort(self.rows.value)
        inner = solve_triangular(
            lower[order], (z - self.bias)[order], lower=True, unit_diagonal=True
        )
        return solve_triangular(upper, inner), -jnp.sum(log_scale)

    def factors(self) -> tuple[Array, Array, Array]:
        """P L, U and the log of U's diagonal, without its signs."""
        log_scale = LOG_SCALE_BOUND * jnp.tanh(self.raw_log_scale / LOG_SCALE_BOUND)
        row, column = self.rows.value[:, None], jnp.arange(self.in_shape[0])[None, :]
        unit = (row == column).astype(self.lower.dtype)
        lower = jnp.where(row > column, self.lower / self.in_shape[0], unit)
        upper = jnp.triu(self.upper / self.in_shape[0], 1) + jnp.diag(
            self.sign.value * jnp.exp(log_scale)
        )
        return lower, upper, log_scale


def _unbound(log_scale: np.ndarray) -> np.ndarray:
    limit = 0.999
    return LOG_SCALE_BOUND * np.arctanh(np.clip(log_scale / LOG_SCALE_BOUND, -limit, limit))


def _shrunk_correlation(xs: np.ndarray) -> np.ndarray:
    """Correlations of standardised columns, pulled towards none as far as their noise demands.

    Reference: Ledoit and Wolf (2004), https://doi.org/10.1016/S0047-259X(03)00096-4
    """
    n, dim = xs.shape
    correlation = xs.T @ xs / n
    np.fill_diagonal(correlation, 1.0)  # a constant column counts as one of unit variance
    signal = np.sum(np.square(correlation - np.eye(dim)))
    noise = (np.sum(np.square(np.sum(np.square(xs), axis=1))) / n - np.sum(correlation**2)) / n
    weight = 1.0 if signal <= 0.0 else float(np.clip(noise / signal, 0.0, 1.0))
    weight = RIDGE + (1.0 - RIDGE) * weight
    return (1.0 - weight) * correlation + weight * np.eye(dim)
