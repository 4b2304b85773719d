"""What responses and heads offer: from features to a distribution of the target."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from diglm.heads.bayesian.regression import Statistics
from diglm.heads.special import normal_divergence
from diglm.types import Key, Scalar


class AbstractResponse(eqx.Module):
    """A distribution $p(y | z)$, the answer of a head to one example.

    `discrete` says whether `log_prob` is the log of a mass.
    """

    discrete: ClassVar[bool] = False

    @abstractmethod
    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        """The log density or log mass of `y`; -1e30 outside the support, never NaN."""

    @property
    @abstractmethod
    def mean(self) -> Float[Array, "*batch"]:
        """The expectation of y; for classes, their probabilities along the last axis."""

    @property
    @abstractmethod
    def variance(self) -> Float[Array, "*batch"]:
        """The variance of y; for classes, that of each class's indicator."""

    @abstractmethod
    def entropy(self) -> Float[Array, "*batch"]:
        """The expectation of -log p(y), in nats."""

    @abstractmethod
    def draw(self, key: Key) -> Array:
        """One draw per example: whole numbers for classes, floats otherwise."""

    @property
    def std(self) -> Float[Array, "*batch"]:
        """The standard deviation of y."""
        return jnp.sqrt(self.variance)

    def frozen(self, location: Any, scale: Any) -> Any:
        """SciPy's distribution of location + scale * y, with numbers and not traced arrays."""
        raise TypeError(f"No distribution of numbers belongs to {type(self).__name__}.")

    def log_cell(
        self, y: np.ndarray, width: float, location: Any, scale: Any
    ) -> Float[np.ndarray, " rows"]:
        r"""$\log P(|Y - y| < width / 2)$ in the user's units; where y has a mass, the log of that.

        On this footing counts, densities and mixtures of both can be compared.
        """
        known = self.frozen(location, scale)
        if self.discrete:
            return known.logpmf(y)
        mass = known.cdf(y + 0.5 * width) - known.cdf(y - 0.5 * width)
        small = mass < 1e-6  # the difference has lost its digits, and the density hardly changes
        return np.where(small, known.logpdf(y) + np.log(width), np.log(np.where(small, 1.0, mass)))

    def of_rows(self) -> "AbstractResponse":
        """One response for many rows, of what `jax.vmap` over them stacked."""
        return self

    def averaged(self, log_shares: Float[Array, " parts *batch"]) -> "AbstractResponse | None":
        """The average of responses stacked along a first axis, if it is of the same kind."""
        return None

    @property
    def trust(self) -> Float[Array, "*batch"] | None:
        """By what a row's log p(y) is multiplied in training; None where all count alike.

        Where a scale is learned, rows of a small one pull hardest on the location, and a location
        that is wrong is soon taken for noise. Multiplied by the scale, held still, they pull evenly
        (beta-NLL, Seitzer et al., 2022, https://arxiv.org/abs/2203.09168, beta = 1/2).
        """
        return None

    def skill(self, y: Array) -> Scalar:
        """What a person watches, of one example: the squared error; of classes, being right."""
        return jnp.mean(jnp.square(self.mean - y.astype(self.mean.dtype)))

    def divergence(self, other: "AbstractResponse") -> Scalar:
        r"""$D(p, q) = E_p[\log p(y) - \log q(y)]$ of one example to another response of its kind.

        Without a closed form, that of the normal distributions of their means and variances,
        $\tfrac12 (\log v_q / v_p + (v_p + (m_p - m_q)^2) / v_q - 1)$.
        """
        return normal_divergence(self.mean, self.variance, other.mean, other.variance)

    def affinity(self, other: "AbstractResponse") -> Float[Array, "..."] | None:
        r"""$\int \sqrt{p(y)\, q(y)}\, dy$ of two examples, by target; None if not closed."""
        return None

    def sample(self, key: Key, n: int | None = None) -> Array:
        """One draw per example or, with `n`, that many along a new leading axis."""
        if n is None:
            return self.draw(key)
        return jax.vmap(self.draw)(jax.random.split(key, n))


class Features(NamedTuple):
    """Rows as a head sees them, outside of compiled code.

    Attributes:
        z: features, flat.
        y: targets in the head's units; any finite number where a row has none.
        weight: what each row counts; zero where it has no target.
        design: what the effects of groups multiply; None without groups.
        codes: numbers of the rows' groups, -1 for one never seen; None without groups.
    """

    z: Float[np.ndarray, "rows dim"]
    y: np.ndarray
    weight: Float[np.ndarray, " rows"]
    design: Float[np.ndarray, "rows q"] | None = None
    codes: Int[np.ndarray, " rows"] | None = None

    def take(self, rows: Int[np.ndarray, " some"] | Bool[np.ndarray, " rows"]) -> "Features":
        """Some of the rows."""
        z, y, weight, design, codes = self
        extra = (None if column is None else column[rows] for column in (design, codes))
        return Features(z[rows], y[rows], weight[rows], *extra)

    def known(self) -> "Features":
        """The rows that have a target and count."""
        return self.take(np.flatnonzero(self.weight > 0))

    def plus(self, other: "Features") -> "Features":
        """The rows of both."""
        first, second = self[:3], other[:3]
        z, y, weight = (np.concatenate(pair) for pair in zip(first, second, strict=True))
        if self.design is None or other.design is None:
            return Features(z, y, weight)
        codes = [part.codes for part in (self, other) if part.codes is not None]
        return Features(
            z, y, weight, np.concatenate([self.design, other.design]), np.concatenate(codes)
        )


class Settled(NamedTuple):
    """A head as it will answer; of a conjugate one also the sums its posterior is known by."""

    head: "AbstractHead"
    sums: Statistics | None = None


class AbstractHead(eqx.Module):
    """A distribution of the target at features `z`: point, conjugate and variational alike."""

    learns_all: ClassVar[bool] = False  # whether `settle` learns from rows held out, too

    @abstractmethod
    def linear_predictor(self, z: Float[Array, " dim"]) -> Float[Array, " predictors"]:
        """The numbers, linear in `z` within their bounds, from which the response is made."""

    @abstractmethod
    def __call__(self, z: Float[Array, " dim"]) -> AbstractResponse:
        """The response to one example's features; `jax.vmap` for many."""

    @abstractmethod
    def penalty(self) -> Scalar:
        """What the prior adds to the summed negative log-likelihood, or zero."""

    def in_training(self, z: Float[Array, " dim"]) -> AbstractResponse:
        """What training scores: the response, unless weights are random.

        Then its `log_prob` is their average of log p(y|z, b), with `penalty` the evidence bound.
        """
        return self(z)

    def versions(self, z: Float[Array, " dim"], key: Key, n: int) -> AbstractResponse:
        """p(y|z, b) for `n` draws of what is not known of b, stacked first; one if all is known."""
        return jax.tree.map(lambda leaf: leaf[None], self(z))

    # ------------------------------------------------------------------ a fit, step by step

    @abstractmethod
    def start(self, ys: Array, weights: Array) -> "AbstractHead":
        """A copy at the marginal of `ys`: bias, dispersion, bounds and levels that suit it."""

    @abstractmethod
    def begin(self, rows: Features, judged: Features, *, exactly: bool) -> "AbstractHead":
        """A copy fitted to the features of a flow that has not been trained.

        `exactly` when there is nothing else to train, so that this is the fit; otherwise a start,
        of which `judged` may choose among several.
        """

    @abstractmethod
    def settle(self, train: Features, held_out: Features, *, exact: bool) -> Settled:
        """The head made ready to answer after training; see `diglm.heads.calibration`."""

    @property
    def pools(self) -> bool:
        """Whether several heads of this kind, each with features of its own, answer together."""
        return False

    def settle_together(
        self, heads: Sequence[Any], trains: Sequence[Features], judged: Any
    ) -> Sequence["AbstractHead"]:
        """`settle` for heads that answer together, by what each is judged by.

        Args:
            heads: of this kind.
            trains: features of the rows that each was trained on.
            judged: `diglm.heads.calibration.Judged`, rows that some were not trained on.
        """
        raise ValueError(f"Several heads of kind {type(self).__name__} cannot answer together.")

    def rows_for_start(self, n_rows: int) -> int:
        """How many rows settle a start."""
        return min(n_rows, ROWS_FOR_START)

    @property
    def only_held_out(self) -> bool:
        """Whether `settle` looks at held-out rows alone."""
        return False

    @property
    def has_closed_form(self) -> bool:
        """Whether a fit to given features needs no training."""
        return True

    @property
    def core(self) -> "AbstractHead":
        """The head that is trained: this one, unless it wraps another."""
        return self

    def around(self, core: "AbstractHead") -> "AbstractHead":
        """A copy with another core."""
        return core

    # ------------------------------------------------------------------ groups

    def explained(self, train: Features, rows: Features) -> Float[np.ndarray, " rows"] | None:
        """What effects of groups, learned of `train`, add to the targets of rows; None if nothing.

        A flow trains on what they leave.
        """
        return None

    def of_groups(self, rows: Features) -> AbstractResponse:
        """Responses to rows of known and unknown groups, for heads with effects of groups."""
        raise ValueError("This model was fitted without groups, so it cannot answer for them.")

    # ------------------------------------------------------------------ asked the other way round

    @property
    def inverts_mean(self) -> bool:
        """Whether a mean, or a class, can be asked for: it is reached by moving along weights."""
        return True

    def log_prob_bound(self, y: ArrayLike) -> Float[Array, "*batch"] | None:
        """The largest log p(y|z) over every z, of classes and counts; None where there is none.

        With it z given y is drawn exactly: draw z from its base density and accept it with
        probability exp(log_prob(y) - bound).
        """
        return None

    def linear_gaussian(self) -> tuple[Array, Array, Array] | None:
        """Weights, bias and scale if y is normal about a linear function with one scale."""
        return None


ROWS_FOR_START = 20_000


class AbstractBayesianHead(AbstractHead):
    """A head whose weights have a distribution, found again for any features by `refit`."""

    learns_all: ClassVar[bool] = True

    @abstractmethod
    def refit(self, zs: np.ndarray, ys: np.ndarray, weights: np.ndarray) -> "AbstractBayesianHead":
        """A copy whose weights have the posterior given these rows, as exactly as possible."""

    @abstractmethod
    def calibrated(self, factor: ArrayLike) -> "AbstractBayesianHead":
        """A copy whose predictions are wider by `factor`."""

    @abstractmethod
    def knowing(
        self, mean: Float[np.ndarray, " p"], covariance: Float[np.ndarray, "p p"], noise: float
    ) -> "AbstractBayesianHead":
        """A copy whose weights, the bias last, are normal with these; `noise` is a variance."""

    def begin(self, rows: Features, judged: Features, *, exactly: bool) -> "AbstractBayesianHead":
        return self.refit(rows.z, rows.y, rows.weight)
