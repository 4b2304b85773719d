"""The generalised linear model that reads the target off the features."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.base import AbstractDiscreteFamily, AbstractFamily, AbstractHead, AbstractResponse
from diglm.types import Buffer, Scalar, clamp


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
        bias = jnp.zeros(shape) if bias is None else jnp.asarray(bias, dtype=float)
        if bias.shape != shape:
            raise ValueError(
                f"Expected bias of shape {shape}, one number per linear predictor; "
                f"got {bias.shape}."
            )
        self.family, self.bias = family, bias
        self.weight = jnp.zeros((*shape, dim))
        self.eta_low = Buffer(jnp.full(shape, -jnp.inf, dtype=float))
        self.eta_high = Buffer(jnp.full(shape, jnp.inf, dtype=float))
        self.l2 = Buffer(jnp.asarray(l2, dtype=float))

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

    @property
    def log_prob_bound(self) -> Callable[[ArrayLike], Scalar]:
        """`head.log_prob_bound(y)`: the largest log p(y|z) over every z, for discrete targets.

        With it z given y is drawn exactly: draw z from its base density and accept it with
        probability exp(log_prob(y) - log_prob_bound(y)). Heads of other targets lack it.
        """
        if not isinstance(self.family, AbstractDiscreteFamily):
            raise AttributeError(
                f"{type(self.family).__name__} is not discrete, so its density has no bound to "
                "reject against."
            )
        return self.family.log_prob_bound

    def eta_for_mean(self, mean: ArrayLike) -> Scalar:
        """The (first) linear predictor at which the mean is `mean`, whatever the bounds."""
        return self.family.eta_for_mean(jnp.asarray(mean, self.weight.dtype))
