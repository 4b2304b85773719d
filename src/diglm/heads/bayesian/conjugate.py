"""The Bayesian linear head: Gaussian noise, Gaussian weights, everything in closed form."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diglm.heads.base import AbstractBayesianHead, Features, Settled
from diglm.heads.bayesian.averages import AverageGaussian, Gaussians
from diglm.heads.bayesian.parts import hold_posteriors, normal_response, value_of, with_one
from diglm.heads.bayesian.regression import (
    LEAST_NOISE,
    LEAST_PRECISION,
    MOST_NOISE,
    MOST_PRECISION,
    Levels,
    Posterior,
    Statistics,
    best_levels,
    divergence_from_prior,
    honest_levels,
    inverse_factor,
    posterior,
)
from diglm.heads.calibration import FEWEST_TO_CALIBRATE
from diglm.heads.families.gaussian import real_start
from diglm.heads.responses import Gaussian
from diglm.types import Buffer, Scalar, clamp, is_buffer

STARTING_RATIO = 1e-2  # variance of a per-observation effect, in units of the noise


class ConjugateHead(AbstractBayesianHead):
    r"""$b_t \sim N(0, l_t^{-1} I)$, $y_t \sim N(b_t^T \phi, s_t^2 c(z))$ with $\phi = (z, 1)$.

    The response integrates the posterior $N(m, V)$ of the weights: it has mean $m^T\phi$ and
    variance $s^2 c(z) + \phi^T V \phi$. `refit` finds the posterior exactly, and noise and
    precision by the evidence unless they were given. In between, in training by minibatches, $m$
    is trained and $V$ stays as it was: the objective is then the evidence lower bound, below the
    evidence by the divergence of $N(m, V)$ from the posterior, and the gradient of the evidence
    itself once that is zero (see `diglm.objectives.two_passes`).

    With `effects` every observation has random slopes of its own, $\sum_j u_j z_j a_j$ with
    $a \sim N(0, I)$ drawn afresh each time, so that $c(z) = 1 + \sum_j r_j z_j^2$: noise that
    varies with the input. The ratios $r_j = u_j^2 / s^2$ are trained.

    Args:
        dim: features of the flow; the bias is one more.
        n_targets: numbers predicted together.
        noise: standard deviation of the noise, one number or one a target, kept; None to learn it.
        precision: prior precision of the weights, kept; None to learn it.
        effects: whether observations have random effects of their own.
    """

    mean: Float[Array, "p targets"] | Buffer
    factor: Buffer
    log_noise: Float[Array, " targets"] | Buffer
    log_precision: Float[Array, " targets"] | Buffer
    log_ratios: Float[Array, " dim"] | Buffer
    eta_low: Buffer
    eta_high: Buffer
    noise_low: Buffer
    noise_high: Buffer
    n_targets: int = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        *,
        n_targets: int = 1,
        noise: float | np.ndarray | None = None,
        precision: float | None = None,
        effects: bool = False,
    ):
        if dim < 1 or n_targets < 1:
            raise ValueError(
                f"A head reads dim >= 1 features for n_targets >= 1; got {dim} and {n_targets}."
            )
        for name, value in (("noise", noise), ("precision", precision)):
            if value is not None and not np.all(np.isfinite(value) & (np.asarray(value) > 0)):
                raise ValueError(f"{name} must be a positive number, or None; got {value!r}.")
        real = jnp.result_type(float)
        self.n_targets = n_targets
        self.mean = jnp.zeros((dim + 1, n_targets))
        self.factor = Buffer(jnp.zeros((n_targets, dim + 1, dim + 1)) + jnp.eye(dim + 1)[None])
        each = jnp.zeros(n_targets)
        given = None if noise is None else Buffer(each + 2 * jnp.log(jnp.asarray(noise, real)))
        self.log_noise = each if given is None else given
        self.log_precision = each if precision is None else Buffer(each + math.log(precision))
        ratios = jnp.full(dim if effects else 0, math.log(STARTING_RATIO), real)
        self.log_ratios = ratios if effects else Buffer(ratios)
        self.eta_low, self.eta_high = Buffer(each - jnp.inf), Buffer(each + jnp.inf)
        self.noise_low, self.noise_high = Buffer(each - jnp.inf), Buffer(each + jnp.inf)

    # ------------------------------------------------------------------ reading z

    def linear_predictor(self, z: Float[Array, " dim"]) -> Float[Array, " targets"]:
        if z.shape != (self.dim,):
            raise ValueError(
                f"Expected z of shape {(self.dim,)}; got {z.shape}. For a batch, use jax.vmap."
            )
        return clamp(value_of(self.mean).T @ with_one(z), self.eta_low.value, self.eta_high.value)

    def __call__(self, z: Float[Array, " dim"]) -> Gaussian | Gaussians:
        variance = self.noise * self.noise_shape(z) + self.uncertainty(z)
        return normal_response(self.linear_predictor(z), variance)

    def in_training(self, z: Float[Array, " dim"]) -> AverageGaussian:
        noise = self.noise * self.noise_shape(z)
        loc = value_of(self.mean).T @ with_one(z)  # bounds would make the evidence inexact
        return AverageGaussian(
            normal_response(loc, noise), 0.5 * jnp.sum(self.uncertainty(z) / noise)
        )

    def uncertainty(self, z: Float[Array, " dim"]) -> Float[Array, " targets"]:
        r"""$\phi^T V \phi$, what is not known of the predictor."""
        return jnp.sum(jnp.square(self.factor.value @ with_one(z)), axis=-1)

    def noise_shape(self, z: Float[Array, " dim"]) -> Scalar:
        r"""$c(z)$, one unless observations have effects of their own."""
        ratios = value_of(self.log_ratios)
        if ratios.size == 0:
            return jnp.ones((), z.dtype)
        return 1 + jnp.sum(jnp.exp(clamp(ratios, -20.0, 5.0)) * z**2)

    def penalty(self) -> Scalar:
        r"""$KL[N(m, V) \,\|\, N(0, l^{-1} I)]$, summed over targets."""
        mean = value_of(self.mean)
        return jnp.sum(divergence_from_prior(mean, self.factor.value, self.precision))

    # ------------------------------------------------------------------ levels

    @property
    def learns_noise(self) -> bool:
        """Whether the noise is learned, rather than given."""
        return not isinstance(self.log_noise, Buffer)

    @property
    def has_effects(self) -> bool:
        """Whether observations have random effects of their own."""
        return value_of(self.log_ratios).size > 0

    @property
    def has_closed_form(self) -> bool:
        return not self.has_effects

    @property
    def inverts_mean(self) -> bool:
        return self.n_targets == 1

    @property
    def dim(self) -> int:
        """How many features the head reads."""
        return value_of(self.mean).shape[0] - 1

    @property
    def noise(self) -> Float[Array, " targets"]:
        """Variance of the noise."""
        return jnp.exp(clamp(value_of(self.log_noise), self.noise_low.value, self.noise_high.value))

    @property
    def precision(self) -> Float[Array, " targets"]:
        """Prior precision of the weights."""
        low, high = math.log(LEAST_PRECISION), math.log(MOST_PRECISION)
        return jnp.exp(clamp(value_of(self.log_precision), low, high))

    @property
    def weight(self) -> Float[Array, "targets dim"]:
        """Posterior means of the weights, without the bias."""
        return value_of(self.mean)[:-1].T

    @property
    def bias(self) -> Float[Array, " targets"]:
        """Posterior mean of the bias."""
        return value_of(self.mean)[-1]

    def eta_for_mean(self, mean: ArrayLike) -> Scalar:
        """The linear predictor at which the mean is `mean`: itself."""
        return jnp.asarray(mean, self.weight.dtype)

    def start(self, ys: Array, weights: Array) -> "ConjugateHead":
        dtype = self.weight.dtype
        columns = ys.astype(dtype).reshape(len(ys), -1)
        _, low, high, log_sd = jax.vmap(real_start, in_axes=(1, None))(columns, weights)
        variance = 2 * log_sd
        head = eqx.tree_at(
            lambda h: (h.eta_low.value, h.eta_high.value, h.noise_low.value, h.noise_high.value),
            self,
            (low, high, variance + math.log(LEAST_NOISE), variance + math.log(MOST_NOISE)),
        )
        if isinstance(head.log_noise, Buffer):  # what was asked for is kept, whatever the bounds
            given = head.log_noise.value
            return eqx.tree_at(
                lambda h: (h.noise_low.value, h.noise_high.value), head, (given, given)
            )
        return eqx.tree_at(lambda h: h.log_noise, head, variance)

    def statistics(
        self,
        zs: Float[np.ndarray, "rows dim"],
        ys: Float[np.ndarray, " rows *targets"],
        weights: Float[np.ndarray, " rows"],
    ) -> Statistics:
        """The sums over rows, in float64, by which the posterior is known."""
        zs = np.asarray(zs, float)
        ratios = np.clip(np.asarray(value_of(self.log_ratios), float), -20.0, 5.0)
        shapes = 1 + zs**2 @ np.exp(ratios) if ratios.size else None
        features = np.concatenate([zs, np.ones((len(zs), 1))], axis=1)
        ys = np.asarray(ys, float).reshape(len(zs), self.n_targets)
        return Statistics.of(features, ys, np.asarray(weights, float), shapes)

    def refit(self, zs: np.ndarray, ys: np.ndarray, weights: np.ndarray) -> "ConjugateHead":
        known = self.statistics(zs, ys, weights)
        return self.at(known, self.levels(known))

    def levels(self, known: Statistics) -> list[Levels]:
        """Noise and precision of each target by the evidence; those that were given stay."""
        noise, precision = np.asarray(self.noise, float), np.asarray(self.precision, float)
        keep_noise = isinstance(self.log_noise, Buffer)
        keep_precision = isinstance(self.log_precision, Buffer)
        return [
            best_levels(
                known,
                t,
                noise=float(noise[t]) if keep_noise else None,
                precision=float(precision[t]) if keep_precision else None,
                start=Levels(float(noise[t]), float(precision[t])),
            )
            for t in range(self.n_targets)
        ]

    def at(self, known: Statistics, levels: list[Levels] | None = None) -> "ConjugateHead":
        """A copy with the exact posterior given the sums; with its own levels unless given."""
        if levels is None:
            noise, precision = np.asarray(self.noise, float), np.asarray(self.precision, float)
            levels = [Levels(*pair) for pair in zip(noise, precision, strict=True)]
        found = [posterior(known, *level, t) for t, level in enumerate(levels)]
        return self.holding(found, levels)

    def holding(self, found: list[Posterior], levels: list[Levels]) -> "ConjugateHead":
        """A copy with these posteriors, one a target, and levels."""
        return hold_posteriors(self, found, levels)

    def knowing(
        self, mean: Float[np.ndarray, " p"], covariance: Float[np.ndarray, "p p"], noise: float
    ) -> "ConjugateHead":
        factor, log_det = inverse_factor(np.linalg.inv(covariance))
        level = Levels(noise, float(self.precision[0]))
        return self.reaching([level]).holding([Posterior(mean, factor, log_det)], [level])

    def frozen(self) -> "ConjugateHead":
        """A copy whose posterior mean is a buffer: set in closed form, not trained."""
        return self._with_mean(Buffer(value_of(self.mean)))

    def thawed(self) -> "ConjugateHead":
        """A copy whose posterior mean is trained, as minibatches need it."""
        return self._with_mean(value_of(self.mean))

    def _with_mean(self, mean: Array | Buffer) -> "ConjugateHead":
        return eqx.tree_at(lambda h: h.mean, self, mean, is_leaf=is_buffer)

    def calibrated(self, factor: ArrayLike) -> "ConjugateHead":
        """A copy whose noise is wider by `factor`; the posterior stays until the next `at`."""
        by = 2 * jnp.log(jnp.asarray(factor, self.weight.dtype))
        head = self._between(self.noise_low.value + by, self.noise_high.value + by)
        if isinstance(head.log_noise, Buffer):
            return eqx.tree_at(lambda h: h.log_noise.value, head, head.log_noise.value + by)
        return eqx.tree_at(lambda h: h.log_noise, head, head.log_noise + by)

    def settle(self, train: Features, held_out: Features, *, exact: bool) -> Settled:
        """The posterior of all labelled rows, those held out included.

        How far to trust it, the noise, is judged by the held-out rows given the others, because a
        flow that was trained on a row knows it too well. With `exact` nothing but the head was
        fitted: all rows are as good as held out, and the evidence alone decides.
        """
        head = self.thawed()
        first = head.statistics(*train[:3])
        everything = first.plus(head.statistics(*held_out[:3]))
        if exact or np.sum(held_out.weight > 0) < FEWEST_TO_CALIBRATE:
            levels = head.levels(everything)
        else:
            levels = honest_levels(
                head.levels(first), first, everything, learn_noise=head.learns_noise
            )
        return Settled(head.reaching(levels).at(everything, levels), everything)

    def reaching(self, levels: list[Levels]) -> "ConjugateHead":
        """A copy with bounds on its noise that include these levels."""
        logs = np.log([level.noise for level in levels])
        low = np.minimum(np.asarray(self.noise_low.value), logs)
        high = np.maximum(np.asarray(self.noise_high.value), logs)
        return self._between(*(jnp.asarray(bound, self.weight.dtype) for bound in (low, high)))

    def _between(self, low: Array, high: Array) -> "ConjugateHead":
        return eqx.tree_at(lambda h: (h.noise_low.value, h.noise_high.value), self, (low, high))
