"""Full-batch fit of a GLM head on fixed features: damped Newton, compiled once per shape."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float

from diglm.compiling import jit_once
from diglm.heads.base import AbstractHead
from diglm.types import Scalar, partition, placed

Head = TypeVar("Head", bound=AbstractHead)  # a GLM's, which itself is fitted by this

_DENSE_PARAMETERS = 200  # above, conjugate gradients instead of a factorised Hessian


def fit_head(
    head: Head,
    zs: ArrayLike,
    ys: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    labelled: ArrayLike | None = None,
    l2: ArrayLike | None = None,
    max_steps: int = 100,
    tolerance: float = 1e-10,
    warm_start: bool = False,
) -> Head:
    r"""The head that minimises $-\sum_n w_n \log p(y_n | z_n) + \tfrac12 l_2 |W|^2$.

    Weights, bias and dispersion are found together; the bias is not penalised. The likelihood is
    *summed*, so scikit-learn's logistic `C` is $1 / l_2$, its ridge `alpha` is $l_2 \sigma^2$
    with the fitted $\sigma$, and its Poisson `alpha` is $l_2 / N$.

    Newton steps with Levenberg-Marquardt damping: a step is taken only if the objective falls, so
    collinear columns, fewer rows than columns, separable classes and the families that are not
    convex (heteroscedastic, Student-t, negative binomial) all give finite answers. Bounds on
    means are not applied during the fit, which keeps it convex; those on spreads are.

    Args:
        head: Tells family, link and number of features.
        zs: Features, one row per example.
        ys: Targets; class indices for categorical heads.
        weights: How much each row counts; one by default.
        labelled: Rows to use, as booleans; all by default. Others may hold any target.
        l2: Precision of the Gaussian prior on the weights; the head's own by default.
        max_steps: Limit of Newton steps, taken and refused.
        tolerance: Stop once the next step promises less than this many nats per row, or less
            than the precision of the numbers allows.
        warm_start: Begin at `head` and keep its bounds instead of at `head.start(ys)`.
    """
    glm: Any = head
    dtype = glm.weight.dtype
    zs, ys = jnp.asarray(zs, dtype), jnp.asarray(ys)
    if zs.ndim != 2 or zs.shape[1] != glm.dim or ys.shape != zs.shape[:1]:
        raise ValueError(
            f"Expected zs of shape (rows, {glm.dim}) and ys of shape (rows,); "
            f"got {zs.shape} and {ys.shape}."
        )
    weights = jnp.ones(ys.shape, dtype) if weights is None else jnp.asarray(weights, dtype)
    if labelled is not None:
        weights = jnp.where(jnp.asarray(labelled, bool), weights, 0)
    if weights.shape != ys.shape:
        raise ValueError(f"Expected weights of shape {ys.shape}; got {weights.shape}.")
    l2 = glm.l2.value if l2 is None else jnp.asarray(l2, dtype)
    limits = placed(np.asarray(max_steps, np.int32)), placed(np.asarray(tolerance, dtype))
    return _fit(head, zs, ys, weights, l2, *limits, warm_start)


@jit_once
def _fit(head, zs, ys, weights, l2, max_steps, tolerance, warm_start):
    used = weights > 0
    # A row that does not count may hold NaN, which would survive being multiplied by zero.
    ys = jnp.where(used, ys, jnp.nan_to_num(ys[jnp.argmax(used)]))
    zs = jnp.where(used[:, None], zs, 0)
    head = head if warm_start else head.start(ys, weights)
    problem = _Problem(head, zs, ys, weights, l2)
    return problem.head(_minimise(problem, max_steps, tolerance))


class _Problem:
    """The objective as a function of one matrix: a row per linear predictor and dispersion.

    Dispersions are predictors without features: the columns of the matrix are the features and a
    constant, and `free` marks the entries that may move.
    """

    def __init__(self, head: Any, zs: Array, ys: Array, weights: Array, l2: Scalar):
        self.template, self.ys, self.weights = head, ys, weights
        dispersion, self.fixed = partition(head.family)
        flat, unravel = ravel_pytree(dispersion)
        self.unravel = unravel if flat.size else lambda _: dispersion
        dtype, (n_eta, dim) = head.weight.dtype, head.weight.shape
        rows = n_eta + flat.size
        is_eta, is_weight = jnp.arange(rows) < n_eta, jnp.arange(dim + 1) < dim
        self.features = jnp.concatenate([zs, jnp.ones((len(zs), 1), dtype)], axis=1)
        self.free = is_eta[:, None] | ~is_weight[None, :]
        self.ridge = jnp.where(is_eta[:, None] & is_weight[None, :], l2, 0)
        spread = jnp.zeros(n_eta, bool).at[jnp.asarray(head.family.spreads, int)].set(True)
        self.low = jnp.where(spread, head.eta_low.value, -jnp.inf)
        self.high = jnp.where(spread, head.eta_high.value, jnp.inf)
        start = jnp.concatenate([head.weight, head.bias[:, None]], axis=1)
        constant = jnp.zeros((flat.size, dim + 1), dtype).at[:, -1].set(flat.astype(dtype))
        self.start = jnp.concatenate([start, constant])

    def row_loss(self, outputs: Float[Array, " outputs"], y: Array) -> Scalar:
        n_eta = self.low.size
        eta = jnp.clip(outputs[:n_eta], self.low, self.high)
        family = eqx.combine(self.unravel(outputs[n_eta:]), self.fixed)
        return -family.response(eta).log_prob(y)

    def value(self, matrix: Float[Array, "outputs columns"]) -> Scalar:
        losses = jax.vmap(self.row_loss)(self.features @ matrix.T, self.ys)
        return self.weights @ losses + 0.5 * jnp.sum(self.ridge * matrix**2)

    def gradient(self, matrix: Float[Array, "outputs columns"]) -> Float[Array, "outputs columns"]:
        return jnp.where(self.free, jax.grad(self.value)(matrix), 0)

    def gradient_and_hessian(
        self, matrix: Float[Array, "outputs columns"]
    ) -> tuple[Float[Array, "outputs columns"], Float[Array, "size size"]]:
        """Both, of the flattened matrix; the Hessian is one on the diagonal where not free."""

        def slope(outputs, y):
            slope = jax.grad(self.row_loss)(outputs, y)
            return slope, slope

        rows, (outputs, columns) = len(self.ys), matrix.shape
        etas = self.features @ matrix.T
        curvatures, slopes = jax.vmap(jax.jacfwd(slope, has_aux=True))(etas, self.ys)
        gradient = (slopes * self.weights[:, None]).T @ self.features + self.ridge * matrix
        # One pair of outputs after the other: all at once would hold rows x pairs x columns.
        blocks = jax.lax.map(
            lambda c: (self.features * c[:, None]).T @ self.features,
            (curvatures * self.weights[:, None, None]).reshape(rows, -1).T,
        ).reshape(outputs, outputs, columns, columns)
        full = blocks.transpose(0, 2, 1, 3).reshape(matrix.size, matrix.size)
        free = self.free.ravel()
        full = jnp.where(free[:, None] & free[None, :], full, 0)
        full = full + jnp.diag(jnp.where(free, self.ridge.ravel(), 1))
        return jnp.where(self.free, gradient, 0), full

    def head(self, matrix: Float[Array, "outputs columns"]) -> Any:
        n_eta = self.low.size
        family = eqx.combine(self.unravel(matrix[n_eta:, -1]), self.fixed)
        return eqx.tree_at(
            lambda head: (head.family, head.weight, head.bias),
            self.template,
            (family, matrix[:n_eta, :-1], matrix[:n_eta, -1]),
        )


def _minimise(problem: _Problem, max_steps: Array, tolerance: Scalar) -> Array:
    dtype = problem.start.dtype
    eps = jnp.finfo(dtype).eps
    enough = jnp.maximum(tolerance, eps) * jnp.maximum(jnp.sum(problem.weights), 1)
    newton_step = _dense_step if problem.start.size <= _DENSE_PARAMETERS else _iterative_step

    def keep_going(state):
        _, _, _, step, done = state
        return (step < max_steps) & ~done

    def step(state):
        matrix, value, damping, n, _ = state
        move, gradient = newton_step(problem, matrix, damping)
        trial = matrix - move
        new = problem.value(trial)
        # Rounding of the sum must not refuse the last, tiny steps. NaN compares as refused.
        better = new <= value + 4 * eps * jnp.abs(value)
        promise = 0.5 * jnp.sum(gradient * move)
        # Where the Hessian is indefinite the promise may be negative, which promises nothing.
        converged = (promise >= 0) & (promise <= enough) & (damping <= 1e-2)
        damping = jnp.where(better, jnp.maximum(0.1 * damping, 8 * eps), 10 * damping)
        matrix, value = jnp.where(better, trial, matrix), jnp.where(better, new, value)
        return matrix, value, damping, n + 1, converged | (damping > 1e12)

    x = problem.start
    start = x, problem.value(x), jnp.asarray(1e-3, dtype), jnp.asarray(0, jnp.int32)
    return jax.lax.while_loop(keep_going, step, (*start, jnp.asarray(False)))[0]


def _dense_step(problem: _Problem, matrix: Array, damping: Scalar) -> tuple[Array, Array]:
    gradient, hessian = problem.gradient_and_hessian(matrix)
    diagonal = jnp.abs(jnp.diag(hessian))
    diagonal = jnp.maximum(diagonal, jnp.finfo(matrix.dtype).eps * jnp.max(diagonal))
    factor = jax.scipy.linalg.cho_factor(hessian + jnp.diag(damping * diagonal))
    move = jax.scipy.linalg.cho_solve(factor, gradient.ravel())
    return move.reshape(matrix.shape), gradient


def _iterative_step(problem: _Problem, matrix: Array, damping: Scalar) -> tuple[Array, Array]:
    moments = jnp.broadcast_to((problem.weights @ problem.features**2)[None, :], matrix.shape)
    diagonal = moments + problem.ridge + jnp.finfo(matrix.dtype).eps * jnp.max(moments)
    gradient, curve = jax.linearize(problem.gradient, matrix)

    def product(v):
        return curve(jnp.where(problem.free, v, 0)) + damping * diagonal * v

    move, _ = jax.scipy.sparse.linalg.cg(
        product, gradient, tol=1e-4, maxiter=200, M=lambda v: v / diagonal
    )
    return move, gradient
