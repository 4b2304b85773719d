"""A head with random effects of groups, around the one that training knows."""

from typing import Any, ClassVar, NamedTuple, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.heads.base import AbstractBayesianHead, AbstractHead, AbstractResponse, Features, Settled
from diglm.heads.bayesian.averages import AverageBernoulli, AveragePoisson
from diglm.heads.bayesian.effects import MixedEffects, fit_mixed
from diglm.heads.calibration import FEWEST_TO_CALIBRATE
from diglm.heads.discrete import Categorical
from diglm.heads.responses import Gaussian
from diglm.types import Buffer, Scalar

WIDENINGS = np.exp(np.linspace(-1.2, 1.2, 61))


class MixedHead(AbstractHead):
    r"""$\eta = \beta^T (z, 1) + u^T a_g$ with $a_g \sim N(0, \Sigma)$.

    How they are found is said in `diglm.heads.bayesian.effects`. Training, samples and
    counterfactuals are about a group drawn from the population, for which `inner` answers;
    `of_groups` answers for rows of groups that are known.

    Args:
        inner: a Bayesian head without groups.
        kind: "gaussian", "binary" or "poisson".
        n_groups: how many groups there are.
        noise: variance of Gaussian noise, in units of the head; None to learn it.
    """

    learns_all: ClassVar[bool] = True

    inner: AbstractBayesianHead
    found: tuple[Buffer, ...] | None
    widening: Buffer
    kind: str = eqx.field(static=True)
    noise: float | None = eqx.field(static=True)
    n_groups: int = eqx.field(static=True)

    def __init__(
        self, inner: AbstractBayesianHead, kind: str, *, n_groups: int, noise: float | None = None
    ):
        self.inner, self.kind, self.noise, self.n_groups = inner, kind, noise, n_groups
        self.found, self.widening = None, Buffer(jnp.ones(()))

    @property
    def core(self) -> AbstractBayesianHead:
        return self.inner

    def around(self, core: AbstractHead) -> "MixedHead":
        return eqx.tree_at(lambda h: h.inner, self, core)

    # ------------------------------------------------------------------ as the inner head

    def linear_predictor(self, z: Float[Array, " dim"]) -> Float[Array, " predictors"]:
        return self.inner.linear_predictor(z)

    def __call__(self, z: Float[Array, " dim"]) -> AbstractResponse:
        return self.inner(z)

    def in_training(self, z: Float[Array, " dim"]) -> AbstractResponse:
        return self.inner.in_training(z)

    def penalty(self) -> Scalar:
        return self.inner.penalty()

    def start(self, ys: Array, weights: Array) -> "MixedHead":
        return self.around(self.inner.start(ys, weights))

    def begin(self, rows: Features, judged: Features, *, exactly: bool) -> "MixedHead":
        return self.around(self.inner.begin(rows, judged, exactly=exactly))

    def log_prob_bound(self, y: Any) -> Any:
        return self.inner.log_prob_bound(y)

    def eta_for_mean(self, mean: Any) -> Any:
        """The predictor at which the mean is `mean`, in the population."""
        return self.inner.eta_for_mean(mean)  # type: ignore[attr-defined]

    @property
    def weight(self) -> Float[Array, "predictors dim"]:
        """Expected weights that all groups share."""
        return self.inner.weight  # type: ignore[attr-defined]

    @property
    def bias(self) -> Float[Array, " predictors"]:
        """Expected bias, of the population."""
        return self.inner.bias  # type: ignore[attr-defined]

    @property
    def eta_low(self) -> Buffer:
        """Bounds of the predictors."""
        return self.inner.eta_low  # type: ignore[attr-defined]

    @property
    def eta_high(self) -> Buffer:
        """Bounds of the predictors."""
        return self.inner.eta_high  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ groups

    @property
    def effects(self) -> MixedEffects:
        """What was learned of the groups."""
        if self.found is None:
            raise ValueError("The effects of groups are known after a fit, not before.")
        found = MixedEffects(*(np.asarray(part.value, float) for part in self.found))  # type: ignore
        return found._replace(noise=float(found.noise), log_likelihood=float(found.log_likelihood))

    def explained(self, train: Features, rows: Features) -> Float[np.ndarray, " rows"] | None:
        """Expected effects: the first round of expectation maximisation.

        Effects on classes and counts do not add to the target, so the flow trains without them.
        """
        if self.kind != "gaussian":
            return None
        found, (design, codes) = self._fit(train, train.weight), _groups(rows)
        effects = np.where(codes[:, None] >= 0, found.effects[codes], 0.0)
        return np.sum(design * effects, axis=1)

    def settle(self, train: Features, held_out: Features, *, exact: bool) -> Settled:
        """Effects of all rows; how far to trust them is judged by the held-out rows."""
        inner = cast(AbstractBayesianHead, self.inner.settle(train, held_out, exact=exact).head)
        rows = train.plus(held_out)
        widening, judged = 1.0, held_out.known()
        if not exact and len(judged.weight) >= FEWEST_TO_CALIBRATE and self.kind != "poisson":
            n = len(train.weight)
            first = self._fit(rows, np.where(np.arange(len(rows.weight)) < n, rows.weight, 0.0))
            widening = self._best_widening(first, judged)
        found = self._fit(rows, rows.weight)
        if self.kind == "gaussian":
            found, widening = found._replace(noise=found.noise * widening**2), 1.0
        real = jnp.result_type(float)
        kept = tuple(Buffer(jnp.asarray(np.asarray(part), real)) for part in found)
        head = eqx.tree_at(
            lambda h: (h.inner, h.found, h.widening.value),
            self,
            (_population(inner, found).calibrated(widening), kept, jnp.asarray(widening, real)),
            is_leaf=lambda node: node is None,
        )
        return Settled(head)

    def of_groups(self, rows: Features) -> AbstractResponse:
        design, codes = _groups(rows)
        effects = self.effects
        mean, variance = effects.predictor(_with_one(rows.z), design, codes)
        low, high = (float(bound.value[0]) for bound in (self.eta_low, self.eta_high))
        if self.kind == "gaussian":
            mean = np.clip(mean, low, high)
        return _response(self.kind, mean, variance, effects.noise, float(self.widening.value))

    def _fit(self, rows: Features, weights: np.ndarray) -> MixedEffects:
        design, codes = _groups(rows)
        return fit_mixed(
            self.kind,
            _with_one(rows.z),
            design,
            codes,
            np.asarray(rows.y, float),
            weights,
            n_groups=self.n_groups,
            noise=self.noise,
        )

    def _best_widening(self, found: MixedEffects, rows: Features) -> float:
        """The factor on spread or log-odds under which the held-out rows are likeliest."""
        mean, variance = found.predictor(_with_one(rows.z), *_groups(rows))
        scores = []
        for factor in WIDENINGS:
            response = _response(self.kind, mean, variance, found.noise, float(factor))
            log_py = np.asarray(response.log_prob(jnp.asarray(rows.y)), float)
            scores.append(rows.weight @ log_py - 0.5 * (np.log(factor) / 0.2) ** 2)
        return float(WIDENINGS[int(np.argmax(scores))])


class _Groups(NamedTuple):
    design: np.ndarray
    codes: np.ndarray


def _groups(rows: Features) -> _Groups:
    if rows.design is None or rows.codes is None:
        raise ValueError("A head with effects of groups needs the group of each row.")
    return _Groups(rows.design, rows.codes)


def _population(head: AbstractBayesianHead, found: MixedEffects) -> AbstractBayesianHead:
    """The head for a group drawn from the population: its intercept is one more unknown.

    Slopes, which are not functions of the features, count as they are at the mean of their columns.
    """
    spread = found.fixed_factor.T @ found.fixed_factor
    spread[-1, -1] += found.covariance[0, 0]
    return head.knowing(found.fixed, spread, found.noise)


def _with_one(zs: np.ndarray) -> Float[np.ndarray, "rows p"]:
    return np.concatenate([zs.astype(float), np.ones((len(zs), 1))], axis=1)


def _response(
    kind: str, mean: np.ndarray, variance: np.ndarray, noise: float, widening: float
) -> AbstractResponse:
    """The distribution of y for predictors that are known up to a normal error."""
    if kind == "gaussian":
        spread = np.sqrt(noise * widening**2 + variance)
        return Gaussian(jnp.asarray(mean, float), jnp.asarray(spread, float))
    eta, spread = (jnp.asarray(a, float) for a in (mean / widening, variance / widening**2))
    if kind == "poisson":
        return AveragePoisson(eta, spread).predictive()
    logit = AverageBernoulli(eta, spread).predictive().logit
    return Categorical(jnp.stack([-logit, logit], axis=-1) / 2)
