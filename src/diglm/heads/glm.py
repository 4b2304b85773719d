"""The generalised linear model that reads the target off the features."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.base import ROWS_FOR_START, AbstractHead, AbstractResponse, Features, Settled
from diglm.heads.calibration import (
    FEWEST_TO_CALIBRATE,
    Judged,
    calibrated,
    least_spreads,
    log_likelihood,
    padded_rows,
    widened,
)
from diglm.heads.family import AbstractFamily
from diglm.heads.newton import fit_head
from diglm.types import Buffer, Scalar, clamp, placed

LARGEST_EXACT_HEAD = 5_000  # weights; above, a Newton step would cost more than it gives
FOLDS = 4  # of the rows of a small table
PRECISIONS = (1.0, 3.0, 10.0, 30.0, 100.0)  # of the Gaussian prior on the weights of a start


class GLMHead(AbstractHead):
    r"""$y \sim p(\cdot\,; \eta)$ with $\eta = \mathrm{clip}(W z + b, \eta_{low}, \eta_{high})$.

    Weights start at zero, so an untrained head predicts the same for every `z`: what `start`
    reads off the marginal of y. `start` also sets the bounds, beyond which a far-out `z` cannot
    push a prediction:

    - location of Gaussian and Student-t: the range of y widened by one range on each side;
    - log-variance: from 1e-6 to 1e2 times the variance of y (log-scale: the square roots);
    - positive means: from a tenth of the smallest positive y (for counts also a thousandth of
      their mean) to ten times the largest;
    - logits: unbounded, since probabilities cannot be absurd.

    Bounds are buffers: saved, not trained. `penalty` is $\tfrac12 l_2 |W|^2$, the negative log
    prior up to a constant, beside a *sum* of negative log-likelihoods; the bias is free.
    """

    family: AbstractFamily
    weight: Float[Array, "predictors dim"]
    bias: Float[Array, " predictors"]
    eta_low: Buffer
    eta_high: Buffer
    l2: Buffer

    def __init__(
        self,
        family: AbstractFamily,
        dim: int,
        *,
        bias: ArrayLike | None = None,
        l2: ArrayLike = 0.0,
    ):
        if dim < 1:
            raise ValueError(f"A head reads dim >= 1 features; got dim = {dim}.")
        shape = (family.n_predictors,)
        bias = placed(np.zeros(shape) if bias is None else np.asarray(bias, float))
        if bias.shape != shape:
            raise ValueError(
                f"Expected bias of shape {shape}, one number per linear predictor; "
                f"got {bias.shape}."
            )
        self.family, self.bias = family, bias
        self.weight = placed(np.zeros((*shape, dim)))
        self.eta_low = Buffer(placed(np.full(shape, -np.inf)))
        self.eta_high = Buffer(placed(np.full(shape, np.inf)))
        self.l2 = Buffer(placed(np.asarray(l2, float)))

    @property
    def dim(self) -> int:
        """How many features the head reads."""
        return self.weight.shape[1]

    def linear_predictor(self, z: Float[Array, " dim"]) -> Float[Array, " predictors"]:
        if z.shape != (self.dim,):
            raise ValueError(
                f"Expected z of shape {(self.dim,)}; got {z.shape}. For a batch, use jax.vmap."
            )
        return clamp(self.weight @ z + self.bias, self.eta_low.value, self.eta_high.value)

    def __call__(self, z: Float[Array, " dim"]) -> AbstractResponse:
        return self.family.response(self.linear_predictor(z))

    def penalty(self) -> Scalar:
        return 0.5 * self.l2.value * jnp.sum(self.weight**2)

    def start(self, ys: ArrayLike, weights: ArrayLike | None = None) -> "GLMHead":
        """A copy that predicts the marginal of y: zero weights, bias, dispersion and bounds set.

        Args:
            ys: Targets, one per row; class indices for categorical heads.
            weights: How much each row counts; rows of weight zero may hold anything.
        """
        dtype = self.weight.dtype
        ys = jnp.asarray(ys)
        if ys.ndim != 1:
            raise ValueError(f"Expected ys of shape (rows,); got {ys.shape}.")
        weights = jnp.ones(ys.shape) if weights is None else jnp.asarray(weights)
        if weights.shape != ys.shape:
            raise ValueError(f"Expected weights of shape {ys.shape}; got {weights.shape}.")
        start = self.family.start(ys, weights.astype(dtype))
        return eqx.tree_at(
            lambda head: (head.family, head.weight, head.bias, head.eta_low, head.eta_high),
            self,
            (
                start.family,
                jnp.zeros_like(self.weight),
                start.bias.astype(dtype),
                Buffer(start.low.astype(dtype)),
                Buffer(start.high.astype(dtype)),
            ),
        )

    def calibrated(self, factor: ArrayLike) -> "GLMHead":
        """A copy whose predictions are wider by `factor`, means of regressions unmoved.

        - Gaussian, heteroscedastic, Student-t, Gamma: the standard deviation times `factor`.
        - Bernoulli, categorical: the temperature, weight and bias divided by `factor`.
        - Negative binomial: the dispersion times `factor` squared, so that the part of the
          standard deviation above Poisson's grows by `factor`.
        - Poisson: unchanged, having no dispersion.
        """
        if isinstance(factor, int | float) and factor <= 0:
            raise ValueError(f"Expected a positive factor; got {factor}. One changes nothing.")
        factor = jnp.asarray(factor, self.weight.dtype)
        family, gain, shift = self.family.calibration(factor)
        return eqx.tree_at(
            lambda head: (head.family, head.weight, head.bias, head.eta_low, head.eta_high),
            self,
            (
                family,
                self.weight * gain,
                self.bias * gain + shift,
                Buffer(self.eta_low.value * gain + shift),
                Buffer(self.eta_high.value * gain + shift),
            ),
        )

    def log_prob_bound(self, y: ArrayLike) -> Float[Array, "*batch"] | None:
        return self.family.log_prob_bound(y)

    @property
    def inverts_mean(self) -> bool:
        return self.family.inverts_mean

    def linear_gaussian(self) -> tuple[Array, Array, Array] | None:
        scale = self.family.constant_scale
        return None if scale is None else (self.weight[0], self.bias[0], scale)

    def eta_for_mean(self, mean: ArrayLike) -> Scalar:
        """The (first) linear predictor at which the mean is `mean`, whatever the bounds."""
        return self.family.eta_for_mean(jnp.asarray(mean, self.weight.dtype))

    # ------------------------------------------------------------------ a fit, step by step

    def rows_for_start(self, n_rows: int) -> int:
        # Newton's cost grows with rows times the square of the predictors of a spread-out family.
        return min(n_rows, ROWS_FOR_START // max(1, 2 * len(self.family.spreads)))

    def begin(self, rows: Features, judged: Features, *, exactly: bool) -> "GLMHead":
        """The head fitted by Newton's method to the features of the untrained flow.

        Training then sets out from a Gaussian copula and a GLM on its features instead of from a
        head that knows nothing. `exactly` gives the unpenalised GLM, to convergence. Otherwise the
        start has the prior precision, of a few, that suits the judged rows best, and training goes
        on with the weakest of them.
        """
        if self.weight.size > LARGEST_EXACT_HEAD or len(rows.weight) == 0:
            return self
        if exactly:
            return self._unless_astray(self._newton(rows, 0.0, max_steps=200, tolerance=1e-9))
        if len(judged.weight) < FEWEST_TO_CALIBRATE:
            best = self._newton(rows, self._precision_by_folds(rows))
        else:
            fitted = [self._newton(rows, precision) for precision in PRECISIONS]
            told = padded_rows(judged)
            scores = [float(log_likelihood(candidate, *told)) for candidate in fitted]
            best = fitted[int(np.nanargmax(scores))]
        return self._unless_astray(best._with_precision(PRECISIONS[0]))

    def _precision_by_folds(self, rows: Features) -> float:
        """The prior precision that suits rows left out of fits to the others, fold by fold.

        Rows of weight zero stand for those left out, so that all fits share a program.
        """
        folds = np.arange(len(rows.weight)) % FOLDS
        scores = np.zeros(len(PRECISIONS))
        for fold in range(min(FOLDS, len(folds))):
            others = rows._replace(weight=np.where(folds == fold, 0.0, rows.weight))
            left_out = padded_rows(rows._replace(weight=np.where(folds == fold, rows.weight, 0.0)))
            for i, precision in enumerate(PRECISIONS):
                fitted = self._newton(others, precision)
                scores[i] += float(log_likelihood(fitted, *left_out))
        return PRECISIONS[int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))]

    @property
    def only_held_out(self) -> bool:
        return not self.family.spreads

    def settle(self, train: Features, held_out: Features, *, exact: bool) -> Settled:
        """A point estimate is calibrated on the held-out rows, unless nothing else was fitted."""
        if exact:
            return Settled(self)
        return Settled(self.settle_together([self], [train], Judged.alone(held_out))[0])

    @property
    def pools(self) -> bool:
        return True

    def settle_together(
        self, heads: Sequence["GLMHead"], trains: Sequence[Features], judged: Judged
    ) -> list["GLMHead"]:
        bounded = [head._bounded(train) for head, train in zip(heads, trains, strict=True)]
        judge = calibrated if self.family.of_classes else widened
        return judge(bounded, judged)

    def _bounded(self, train: Features) -> "GLMHead":
        """The head with its spreads bounded by those of the rows it was trained on."""
        spreads = list(self.family.spreads)
        weight, bias = (
            np.asarray(self.weight, float)[spreads],
            np.asarray(self.bias, float)[spreads],
        )
        low, high = (np.array(bound.value) for bound in (self.eta_low, self.eta_high))
        least = least_spreads(train.z @ weight.T + bias, low[spreads], high[spreads])
        if least is None:
            return self
        low[spreads] = least
        return eqx.tree_at(lambda h: h.eta_low.value, self, placed(low))

    def _newton(self, rows: Features, l2: float, *, max_steps=30, tolerance=1e-5) -> "GLMHead":
        zs, ys, weights = padded_rows(rows)
        return fit_head(
            self._with_precision(l2),
            zs,
            ys,
            weights=weights,
            max_steps=max_steps,
            tolerance=tolerance,
            warm_start=True,
        )

    def _with_precision(self, l2: float) -> "GLMHead":
        return eqx.tree_at(lambda h: h.l2.value, self, placed(np.asarray(l2, float)))

    def _unless_astray(self, fitted: "GLMHead") -> "GLMHead":
        """The fitted head if it is finite, else this one."""
        finite = all(np.all(np.isfinite(leaf)) for leaf in (fitted.weight, fitted.bias))
        return fitted if finite else self
