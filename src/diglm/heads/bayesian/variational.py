"""Heads of classes and counts with random weights: a Gaussian posterior that is not exact."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.base import AbstractBayesianHead, AbstractResponse, Features, Settled
from diglm.heads.bayesian.averages import average
from diglm.heads.bayesian.jaakkola import GaussianWeights, jaakkola_jordan
from diglm.heads.bayesian.laplace import RESPONSES, laplace
from diglm.heads.bayesian.natural import maximise_elbo
from diglm.heads.bayesian.parts import with_one
from diglm.heads.bayesian.regression import LEAST_PRECISION, MOST_PRECISION
from diglm.heads.calibration import best_factor
from diglm.heads.discrete import Categorical
from diglm.heads.discrete import poisson_peak as _poisson_peak
from diglm.heads.families.categorical import BernoulliFamily, CategoricalFamily
from diglm.heads.families.counts import PoissonFamily
from diglm.heads.family import AbstractFamily
from diglm.types import Buffer, Key, Scalar, clamp

KINDS = ("bernoulli", "binary", "categorical", "poisson")
METHODS = ("elbo", "laplace", "jaakkola")


class VariationalHead(AbstractBayesianHead):
    r"""$\eta_k = b_k^T (z, 1) + o_k$, $b_k \sim N(0, l^{-1} I)$, posterior $q(b_k) = N(m_k, V_k)$.

    Training raises the evidence lower bound $\sum_n E_q[\log p(y_n \mid z_n, b)] - KL[q \| p]$;
    predictions average $p(y \mid z, b)$ over q. The expectations are in closed form or by
    quadrature (`diglm.heads.bayesian.averages`), never by sampling. $V_k = C_k C_k^T$ with
    $C_k = \mathrm{diag}(e^{s_k}) (I + L_k)$, $L_k$ strictly lower triangular ("full") or absent
    ("diagonal"). Predictors of different classes are independent under q.

    Args:
        kind: "bernoulli" (0/1 targets), "binary" (the same, answered as two classes),
            "categorical" or "poisson".
        dim: features of the flow; the bias is one more.
        n_classes: of "categorical".
        covariance: "full" or "diagonal".
        precision: prior precision of the weights, kept; None to learn it.
        method: how `refit` finds q: "elbo" (the best bound), "laplace", or "jaakkola" (the bound
            of Jaakkola and Jordan, for two classes).
    """

    mean: Float[Array, "predictors p"]
    log_scale: Float[Array, "predictors p"]
    tilt: Float[Array, "predictors p columns"]
    log_precision: Scalar | Buffer
    offset: Buffer
    eta_low: Buffer
    eta_high: Buffer
    kind: str = eqx.field(static=True)
    method: str = eqx.field(static=True)

    def __init__(
        self,
        kind: str,
        dim: int,
        *,
        n_classes: int = 2,
        covariance: str = "full",
        precision: float | None = None,
        method: str = "elbo",
    ):
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}; got {kind!r}.")
        if covariance not in ("full", "diagonal"):
            raise ValueError(f"covariance must be 'full' or 'diagonal'; got {covariance!r}.")
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}; got {method!r}.")
        if method == "jaakkola" and kind not in ("bernoulli", "binary"):
            raise ValueError(
                f"The bound of Jaakkola and Jordan is for two classes; got kind {kind!r}. Use "
                "method='elbo'."
            )
        if precision is not None and not (math.isfinite(precision) and precision > 0):
            raise ValueError(f"precision must be a positive number, or None; got {precision!r}.")
        n, p = n_classes if kind == "categorical" else 1, dim + 1
        self.kind, self.method = kind, method
        self.mean = jnp.zeros((n, p))
        self.log_scale = jnp.full((n, p), -2.0, jnp.result_type(float))
        self.tilt = jnp.zeros((n, p, p if covariance == "full" else 0))
        level = jnp.asarray(0.0 if precision is None else math.log(precision), float)
        self.log_precision = level if precision is None else Buffer(level)
        self.offset = Buffer(jnp.zeros(n))
        self.eta_low = Buffer(jnp.full(n, -jnp.inf, jnp.result_type(float)))
        self.eta_high = Buffer(jnp.full(n, jnp.inf, jnp.result_type(float)))

    # ------------------------------------------------------------------ reading z

    def linear_predictor(self, z: Float[Array, " dim"]) -> Float[Array, " predictors"]:
        if z.shape != (self.dim,):
            raise ValueError(
                f"Expected z of shape {(self.dim,)}; got {z.shape}. For a batch, use jax.vmap."
            )
        eta = self.mean @ with_one(z) + self.offset.value
        return clamp(eta, self.eta_low.value, self.eta_high.value)

    def uncertainty(self, z: Float[Array, " dim"]) -> Float[Array, " predictors"]:
        r"""$\phi^T V_k \phi$, what is not known of each predictor."""
        scaled = jnp.exp(clamp(self.log_scale, -20.0, 10.0)) * with_one(z)[None, :]
        if self.tilt.shape[-1] > 0:
            scaled = scaled + jnp.einsum("kij,ki->kj", jnp.tril(self.tilt, -1), scaled)
        return jnp.sum(jnp.square(scaled), axis=1)

    def in_training(self, z: Float[Array, " dim"]) -> AbstractResponse:
        return average(self.kind, self.linear_predictor(z), self.uncertainty(z))

    def __call__(self, z: Float[Array, " dim"]) -> AbstractResponse:
        response = average(self.kind, self.linear_predictor(z), self.uncertainty(z)).predictive()
        if self.kind == "binary":
            logit = response.logit  # type: ignore[union-attr]
            return Categorical(jax.nn.log_sigmoid(jnp.stack([-logit, logit], axis=-1)))
        return response

    def versions(self, z: Float[Array, " dim"], key: Key, n: int) -> AbstractResponse:
        """The response at `n` draws of the weights, the same draws whatever z."""
        noise = jax.random.normal(key, (n, *self.mean.shape), self.mean.dtype)
        scaled = jnp.exp(clamp(self.log_scale, -20.0, 10.0)) * with_one(z)[None, :]
        if self.tilt.shape[-1] > 0:
            scaled = scaled + jnp.einsum("kij,ki->kj", jnp.tril(self.tilt, -1), scaled)
        etas = self.linear_predictor(z)[None] + jnp.einsum("nkj,kj->nk", noise, scaled)
        if self._binary:
            return Categorical(jnp.concatenate([jnp.zeros_like(etas), etas], axis=-1))
        return jax.vmap(RESPONSES[self.kind])(etas)

    def penalty(self) -> Scalar:
        r"""$KL[q \,\|\, N(0, l^{-1} I)]$."""
        precision, scale = self.precision, jnp.exp(clamp(self.log_scale, -20.0, 10.0))
        spread = jnp.sum(jnp.square(scale)) + jnp.sum(jnp.square(self.mean))
        if self.tilt.shape[-1] > 0:
            tilted = scale[:, :, None] * jnp.tril(self.tilt, -1)
            spread = spread + jnp.sum(jnp.square(tilted))
        log_det = 2 * jnp.sum(clamp(self.log_scale, -20.0, 10.0))
        return 0.5 * (precision * spread - self.mean.size * (1 + jnp.log(precision)) - log_det)

    # ------------------------------------------------------------------ parts

    @property
    def dim(self) -> int:
        """How many features the head reads."""
        return self.mean.shape[1] - 1

    @property
    def precision(self) -> Scalar:
        """Prior precision of the weights."""
        level = self.log_precision
        level = level.value if isinstance(level, Buffer) else level
        return jnp.exp(clamp(level, math.log(LEAST_PRECISION), math.log(MOST_PRECISION)))

    @property
    def weight(self) -> Float[Array, "rows dim"]:
        """Posterior means of the weights; of two classes the first has none."""
        weight = self.mean[:, :-1]
        return jnp.concatenate([jnp.zeros_like(weight), weight]) if self._binary else weight

    @property
    def bias(self) -> Float[Array, " rows"]:
        """Posterior means of the biases."""
        bias = self.mean[:, -1] + self.offset.value
        return jnp.concatenate([jnp.zeros_like(bias), bias]) if self._binary else bias

    @property
    def covariance(self) -> Float[Array, "predictors p p"]:
        """$V_k$ of each predictor."""
        size = self.mean.shape[1]
        root = jnp.eye(size, dtype=self.mean.dtype)[None] + jnp.zeros((len(self.mean), 1, 1))
        if self.tilt.shape[-1] > 0:
            root = root + jnp.tril(self.tilt, -1)
        root = jnp.exp(clamp(self.log_scale, -20.0, 10.0))[:, :, None] * root
        return root @ jnp.swapaxes(root, 1, 2)

    def log_prob_bound(self, y: ArrayLike) -> Float[Array, "*batch"]:
        """The largest log p(y|z) over every z: a mixture of rates beats no single one."""
        if self.kind != "poisson":
            return jnp.zeros(jnp.shape(y))
        y = jnp.asarray(y, dtype=float)
        return jnp.where(y > 0, _poisson_peak(jnp.where(y > 0, y, 1.0)), 0.0)

    def eta_for_mean(self, mean: ArrayLike) -> Scalar:
        """The predictor at which a count's mean is `mean`, leaving the uncertainty out."""
        return self._family.eta_for_mean(jnp.asarray(mean, self.mean.dtype))

    # ------------------------------------------------------------------ copies

    def start(self, ys: Array, weights: Array) -> "VariationalHead":
        begun = self._family.start(ys, weights.astype(self.mean.dtype))
        return eqx.tree_at(
            lambda h: (h.offset.value, h.eta_low.value, h.eta_high.value),
            self,
            tuple(part.astype(self.mean.dtype) for part in (begun.bias, begun.low, begun.high)),
        )

    def refit(self, zs: np.ndarray, ys: np.ndarray, weights: np.ndarray) -> "VariationalHead":
        return self.holding(self.found(zs, ys, weights))

    def found(self, zs: np.ndarray, ys: np.ndarray, weights: np.ndarray) -> GaussianWeights:
        """The posterior of the weights by the head's method, and its evidence."""
        zs = np.asarray(zs, float)
        features = np.concatenate([zs, np.ones((len(zs), 1))], axis=1)
        offset = np.asarray(self.offset.value, float)
        kept = isinstance(self.log_precision, Buffer)
        precision = float(self.precision) if kept else None
        if self.method == "jaakkola":
            return jaakkola_jordan(
                features, ys, weights, offset=float(offset[0]), precision=precision
            )
        at_mode = laplace(self.kind, features, ys, weights, offset=offset, precision=precision)
        if self.method == "laplace":
            return at_mode
        full = self.tilt.shape[-1] > 0
        return maximise_elbo(
            self.kind, features, ys, weights, offset=offset, precision=precision, start=at_mode,
            diagonal=not full,
        )  # fmt: skip

    def holding(self, found: GaussianWeights) -> "VariationalHead":
        """A copy with this posterior; only variances are kept where the head is diagonal."""
        dtype, full = self.mean.dtype, self.tilt.shape[-1] > 0
        scales, tilts = [], []
        for covariance in found.covariance:
            variances = np.diagonal(covariance)
            size = np.sqrt(variances)
            root = np.diag(size)
            if full:
                scaled = covariance / np.outer(size, size)
                jitter = 1e-12 * np.eye(len(size))
                root = size[:, None] * np.linalg.cholesky(scaled + jitter)
            scales.append(np.log(np.diagonal(root)))
            tilts.append(np.tril(root / np.diagonal(root)[:, None], -1)[:, : self.tilt.shape[-1]])
        level: Any = jnp.asarray(math.log(found.precision), dtype)
        if isinstance(self.log_precision, Buffer):
            level = Buffer(level)
        return eqx.tree_at(
            lambda h: (h.mean, h.log_scale, h.tilt, h.log_precision),
            self,
            (
                jnp.asarray(found.mean, dtype),
                jnp.asarray(np.stack(scales), dtype),
                jnp.asarray(np.stack(tilts), dtype),
                level,
            ),
            is_leaf=lambda node: isinstance(node, Buffer),
        )

    def knowing(
        self, mean: Float[np.ndarray, " p"], covariance: Float[np.ndarray, "p p"], noise: float
    ) -> "VariationalHead":
        mean = np.append(mean[:-1], mean[-1] - float(self.offset.value[0]))
        return self.holding(
            GaussianWeights(mean[None], covariance[None], 0.0, float(self.precision))
        )

    def calibrated(self, factor: ArrayLike) -> "VariationalHead":
        """A copy whose log-odds are divided by `factor`; counts are unchanged."""
        if self.kind == "poisson":
            return self
        factor = jnp.asarray(factor, self.mean.dtype)
        return eqx.tree_at(
            lambda h: (h.mean, h.log_scale, h.offset.value),
            self,
            (self.mean / factor, self.log_scale - jnp.log(factor), self.offset.value / factor),
        )

    def settle(self, train: Features, held_out: Features, *, exact: bool) -> Settled:
        """The posterior of all labelled rows, its temperature judged by those held out."""
        factor = None
        if not exact:
            factor = best_factor(self.refit(*train[:3]), held_out)
        head = self.refit(*train.plus(held_out)[:3])
        return Settled(head if factor is None else head.calibrated(factor))

    @property
    def _binary(self) -> bool:
        return self.kind == "binary"

    @property
    def _family(self) -> AbstractFamily:
        if self.kind == "poisson":
            return PoissonFamily()
        if self.kind == "categorical":
            return CategoricalFamily(n_predictors=len(self.mean))
        return BernoulliFamily()
