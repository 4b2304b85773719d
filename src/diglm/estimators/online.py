"""Learning and unlearning rows exactly, and asking for the labels that would teach most."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from diglm.estimators import engine
from diglm.estimators.mixed import AbstractMixedEstimator
from diglm.estimators.seen import Seen, mark_rows
from diglm.estimators.settling import known_weights
from diglm.estimators.targets import NumberTarget
from diglm.heads import ConjugateHead
from diglm.heads.bayesian.regression import Levels, Posterior, Statistics, evidence_at, posterior
from diglm.types import Batch


class WeightPosterior(NamedTuple):
    """The normal posterior of the head's weights, in the units of y; the bias comes last.

    With several targets every array has one more axis for them, in front.

    Attributes:
        mean: such that E[y|x] = (f(x), 1) @ mean.
        covariance: of the weights.
        noise_variance: of y about its mean (times the noise's shape, where that varies).
        prior_precision: of each weight; their prior mean is zero, that of the bias `y_location_`.
    """

    mean: Float[np.ndarray, "*targets p"]
    covariance: Float[np.ndarray, "*targets p p"]
    noise_variance: Float[np.ndarray, "*targets"]
    prior_precision: Float[np.ndarray, "*targets"]


class AbstractOnlineRegressor(AbstractMixedEstimator):
    """What a regressor with a conjugate Bayesian head can do besides predicting."""

    head_: str
    y_location_: Any
    y_scale_: Any
    weight_unit_: float = 1.0
    statistics_: tuple
    seen_: tuple

    @property
    def posterior_(self) -> WeightPosterior:
        """Posterior of the weights on (f(x), 1), in the units of y."""
        head = self._conjugate("posterior_", AttributeError)
        found, levels = self._posteriors(head)
        scale, location = np.atleast_1d(self.y_scale_), np.atleast_1d(self.y_location_)
        mean = scale[:, None] * np.stack([one.mean for one in found])
        mean[:, -1] += location
        covariance = np.stack([one.covariance for one in found]) * (scale**2)[:, None, None]
        noise = np.array([level.noise for level in levels]) * scale**2
        precision = np.array([level.precision for level in levels]) / scale**2
        parts = (mean, covariance, noise, precision)
        return WeightPosterior(*(parts if head.n_targets > 1 else (part[0] for part in parts)))

    def log_evidence(self, X: Any, y: Any) -> float:
        r"""$\log p(y_1, \ldots, y_N \mid x_1, \ldots, x_N)$, the weights integrated out.

        Natural log, in the units of y, under the fitted flow, noise and prior. Rows whose target
        is NaN are left out.
        """
        head = self._conjugate("log_evidence()")
        known, weights, _ = self._read(head, X, y, None)
        total = 0.0
        for t, level in enumerate(self._levels(head)):
            total += evidence_at(known, posterior(known, *level, t), *level, t)
        return float(total - weights.sum() * np.sum(np.log(self.y_scale_)))

    def kernel(self, X1: Any, X2: Any = None) -> np.ndarray:
        r"""$k(x, x') = l^{-1} (f(x), 1)^T (f(x'), 1)$, in squared units of y.

        Gaussian process regression with this kernel, prior mean `y_location_` and noise
        `posterior_.noise_variance` is this model. With several targets there is a matrix for each.
        """
        head = self._conjugate("kernel()")
        first = self._design(X1)
        second = first if X2 is None else self._design(X2)
        size = np.atleast_1d(self.y_scale_) ** 2 / np.array([lv[1] for lv in self._levels(head)])
        kernels = size[:, None, None] * (first @ second.T)
        return kernels if head.n_targets > 1 else kernels[0]

    def update(self, X: Any, y: Any, sample_weight: Any = None) -> "AbstractOnlineRegressor":
        """Learn more rows: afterwards the posterior is that of a fit to all of them together.

        The flow, the noise and the prior stay. Order does not matter. NaN targets are passed over.
        """
        return self._change(X, y, sample_weight, 1)

    def downdate(self, X: Any, y: Any, sample_weight: Any = None) -> "AbstractOnlineRegressor":
        """Unlearn rows that were learned by `fit` or `update`, with the same targets and weights.

        Afterwards the posterior is that of a fit without them. Rows never learned are refused. The
        flow is not retrained, so it still carries what it had from them.
        """
        return self._change(X, y, sample_weight, -1)

    def information_gain(self, X: Any) -> Float[np.ndarray, " rows"]:
        r"""$\tfrac12 \log(1 + \phi^T A^{-1} \phi / s^2)$: nats that a row's label would teach."""
        head = self._conjugate("information_gain()")
        return np.sum(self._ratios(head, self._design(X))[0], axis=0)

    def most_informative(self, X: Any, n: int = 1) -> Int[np.ndarray, " chosen"]:
        """Numbers of the `n` rows whose labels together teach most, best first.

        Chosen one after the other, each given that the labels of those before it will be known, so
        that no two ask the same. Rows that the model would refuse are never asked about; there may
        be fewer than `n` others.
        """
        head = self._conjugate("most_informative()")
        phi = self._design(X)
        left = ~self.rejects(X)
        _, noise, variance, covariance = self._ratios(head, phi)
        chosen: list[int] = []
        while len(chosen) < min(n, len(phi)) and np.any(left):
            gain = np.where(left, 0.5 * np.sum(np.log1p(variance / noise), axis=0), -np.inf)
            best = int(np.argmax(gain))
            chosen.append(best)
            left[best] = False
            across = phi[best] @ covariance  # (targets, p)
            shrink = 1 / (noise[:, best] + variance[:, best])
            variance = np.maximum(variance - shrink[:, None] * (across @ phi.T) ** 2, 0.0)
            covariance = covariance - shrink[:, None, None] * np.einsum(
                "ti,tj->tij", across, across
            )
        return np.array(chosen, int)

    # ------------------------------------------------------------------ parts

    def _learn_streamed(self, pieces: Callable[[], Iterable[Batch]]) -> None:
        """The exact posterior of every labelled row of a file, in one pass over it."""
        head = self.model_.head
        if not isinstance(head, ConjugateHead):
            return
        known, marks = Statistics.zero(head.dim + 1, head.n_targets), []
        for batch in pieces():
            used = np.flatnonzero(known_weights(batch) > 0)
            if len(used) == 0:
                continue
            values, ys, _, weights = (np.asarray(column)[used] for column in batch)
            zs = engine.evaluate(engine.look, self.model_, values, self._offsets).z
            known = known.plus(head.statistics(zs.reshape(len(used), -1), ys, weights))
            marks.append(mark_rows(values, ys, weights))
        self.statistics_ = tuple(map(np.asarray, known))
        self.seen_ = tuple(Seen.of(np.concatenate(marks)))
        self._hold(head)

    def _change(self, X: Any, y: Any, sample_weight: Any, sign: int) -> "AbstractOnlineRegressor":
        head = self._conjugate("update()" if sign > 0 else "downdate()")
        added, _, marks = self._read(head, X, y, sample_weight)
        seen = Seen(*self.seen_).plus(Seen.of(marks), sign)
        known = Statistics(*self.statistics_).plus(added, sign)
        if len(seen.marks) == 0:  # nothing is left but rounding
            known = Statistics.zero(*np.shape(known.moment))
        self.statistics_, self.seen_ = tuple(map(np.asarray, known)), tuple(seen)
        if sign > 0:
            head = self._widened(head, y)
        self._hold(head)
        return self

    def _hold(self, head: ConjugateHead) -> None:
        """Put the posterior that belongs to the sums into the model."""
        found, levels = self._posteriors(head)
        self.model_ = eqx.tree_at(lambda m: m.head, self.model_, head.holding(found, levels))

    def _read(
        self, head: ConjugateHead, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Statistics, np.ndarray, np.ndarray]:
        """Sums over labelled rows, their weights and their marks."""
        encoded = self._encode(X)
        labels = self._number_target().read(np.asarray(y))
        if len(labels.labelled) != len(encoded.values):
            raise ValueError(f"X has {len(encoded.values)} rows, but y has {len(labels.labelled)}.")
        weights = _check_sample_weight(
            sample_weight, encoded.values, dtype=float, ensure_non_negative=True
        )
        batch = labels.batch(encoded.values, weights / self.weight_unit_)
        used = np.flatnonzero(labels.labelled & (weights > 0))
        zs = self._features(encoded._replace(values=encoded.values[used])) if len(used) else None
        counted = np.asarray(batch.weight, float)[used]
        ys = np.asarray(batch.y)[used]
        if zs is None:
            zs = np.zeros((0, head.dim))
        known = head.statistics(zs.reshape(len(used), head.dim), ys, counted)
        marks = mark_rows(np.asarray(batch.x)[used], ys, np.asarray(batch.weight)[used])
        return known, counted, marks

    def _number_target(self) -> NumberTarget:
        return NumberTarget(self.head_, self.y_location_, self.y_scale_, cast(Any, self).unlabelled)

    def _design(self, X: Any) -> Float[np.ndarray, "rows p"]:
        """(f(x), 1) of each row, in float64."""
        zs = self._features(self._encode(X)).astype(float)
        zs = zs.reshape(len(zs), -1)
        return np.concatenate([zs, np.ones((len(zs), 1))], axis=1)

    def _ratios(
        self, head: ConjugateHead, phi: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Gain, noise and variance of the predictor, (targets, rows), and the covariances."""
        found, levels = self._posteriors(head)
        shapes = np.ones(len(phi))
        if head.has_effects:
            shapes = 1 + phi[:, :-1] ** 2 @ np.exp(np.asarray(head.log_ratios, float))
        noise = np.array([level.noise for level in levels])[:, None] * shapes
        variance = np.stack([np.sum((phi @ one.factor.T) ** 2, axis=1) for one in found])
        covariance = np.stack([one.covariance for one in found])
        return 0.5 * np.log1p(variance / noise), noise, variance, covariance

    def _levels(self, head: ConjugateHead) -> list[Levels]:
        noise, precision = np.asarray(head.noise, float), np.asarray(head.precision, float)
        return [Levels(float(s), float(p)) for s, p in zip(noise, precision, strict=True)]

    def _posteriors(self, head: ConjugateHead) -> tuple[list[Posterior], list[Levels]]:
        known, levels = Statistics(*self.statistics_), self._levels(head)
        return [posterior(known, *level, t) for t, level in enumerate(levels)], levels

    def _conjugate(self, asked: str, error: type[Exception] = ValueError) -> ConjugateHead:
        """The model's head, or an error where what was asked needs another."""
        if error is AttributeError and "model_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} is not fitted, so it has no {asked}.")
        check_is_fitted(self, "model_")
        head = self.model_.head
        if not isinstance(head, ConjugateHead) or "statistics_" not in vars(self):
            raise error(
                f"{asked} needs the exact posterior of head='bayesian'; this model has "
                f"head={self.head_!r}."
            )
        return head

    def _widened(self, head: ConjugateHead, y: Any) -> ConjugateHead:
        """The head with bounds on its mean that suit new targets as well."""
        labels = self._number_target().read(np.asarray(y))
        ys = np.asarray(labels.ys, float).reshape(len(labels.ys), -1)[labels.labelled]
        if len(ys) == 0:
            return head
        low, high = np.asarray(head.eta_low.value), np.asarray(head.eta_high.value)
        least, most = ys.min(axis=0), ys.max(axis=0)
        # Bounds lie one range of the targets beyond them: recover that range, and widen it.
        extent = (high - low) / 3
        least, most = np.minimum(least, low + extent), np.maximum(most, high - extent)
        dtype = head.weight.dtype
        wider = 2 * least - most, 2 * most - least
        return eqx.tree_at(
            lambda h: (h.eta_low.value, h.eta_high.value),
            head,
            tuple(jnp.asarray(bound, dtype) for bound in wider),
        )
