"""Random effects of groups behind the estimators: learning them, and answering with them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from sklearn.utils.validation import check_is_fitted, column_or_1d

from diglm.completion import fixed_offsets
from diglm.data.table.encoder import Encoded
from diglm.estimators import engine
from diglm.estimators.base import AbstractHybridEstimator, Prepared
from diglm.estimators.settling import reaching
from diglm.estimators.start import FEWEST_TO_CALIBRATE, SCORING_OFFSETS
from diglm.heads import (
    AbstractHead,
    AbstractResponse,
    AverageBernoulli,
    AveragePoisson,
    Categorical,
    ConjugateHead,
    Gaussian,
)
from diglm.heads.bayesian.effects import MixedEffects, fit_mixed
from diglm.heads.bayesian.jaakkola import GaussianWeights
from diglm.heads.bayesian.regression import Levels, Posterior, inverse_factor
from diglm.training import FitResult

KINDS = {"mixed": "gaussian", "mixed_poisson": "poisson"}
WIDENINGS = np.exp(np.linspace(-1.2, 1.2, 61))


class AbstractMixedEstimator(AbstractHybridEstimator):
    """What estimators with `head="mixed"` share."""

    head: Any
    random_effects: Any
    groups_: np.ndarray
    mixed_: dict[str, Any]

    # ------------------------------------------------------------------ what was learned

    @property
    def random_covariance_(self) -> Float[np.ndarray, "q q"]:
        """Covariance of a group's effects: intercept, then slopes, in units of y and columns."""
        turn = self._to_user_units()
        return turn @ self._effects("random_covariance_").covariance @ turn.T

    @property
    def random_effects_(self) -> Float[np.ndarray, "groups q"]:
        """Expected effects of each group of `groups_`, in units of y and columns."""
        return self._effects("random_effects_").effects @ self._to_user_units().T

    @property
    def fixed_effects_(self) -> Float[np.ndarray, " p"]:
        """Weights on (f(x), 1) that all groups share, in units of y."""
        fixed = self._y_scale * self._effects("fixed_effects_").fixed
        fixed[-1] += self._y_location
        return fixed

    @property
    def residual_variance_(self) -> float:
        """Variance of y within a group; one for classes and counts, whose mean decides it."""
        return float(self._y_scale**2 * self._effects("residual_variance_").noise)

    # ------------------------------------------------------------------ fitting

    @property
    def _effects_of_rows(self) -> bool:
        """Whether the effects asked for are those of single observations."""
        if self.head != "mixed":
            return False
        return self.random_effects == "observation" or (
            self.random_effects == "auto" and vars(self).get("_grouped") is None
        )

    @contextmanager
    def _grouping(self, groups: Any, X: Any) -> Iterator[None]:
        """While it lasts, a fit knows the groups of its rows."""
        mixed = isinstance(self.head, str) and self.head.startswith("mixed")
        if groups is not None and not mixed:
            raise ValueError(f"groups belong to head='mixed'; this model has head={self.head!r}.")
        wanted = self.random_effects
        if mixed and groups is None and (wanted not in ("auto", "observation") or self._needs):
            raise ValueError(
                f"head={self.head!r} with random_effects={wanted!r} needs the group of each row: "
                "fit(X, y, groups=...)."
            )
        if groups is not None:
            if isinstance(wanted, str) and wanted == "observation":
                raise ValueError(
                    "random_effects='observation' has no groups. Leave groups out, or choose "
                    "'intercept', 'slopes' or a list of columns."
                )
            groups = column_or_1d(groups)
            if len(groups) != len(X):
                raise ValueError(f"X has {len(X)} rows, but groups has {len(groups)}.")
            found, codes = np.unique(groups, return_inverse=True)
            self._grouped = found, codes
        try:
            yield
        finally:
            vars(self).pop("_grouped", None)
            vars(self).pop("_fitting_scale", None)

    @property
    def _needs(self) -> bool:
        """Whether this kind of mixed head has no meaning without groups."""
        return self.head != "mixed" or self._kind != "gaussian"

    def _prepared(self, X: Any, y: np.ndarray, target: Any, weights: np.ndarray) -> Prepared:
        """As without groups, but the flow trains on what the groups do not explain.

        Expected effects, found on the features of the untrained flow, are taken off the target:
        the first round of expectation maximisation. For classes and counts, whose effects do not
        add to the target, the flow trains without them.
        """
        ready = super()._prepared(X, y, target, weights)
        if vars(self).get("_grouped") is None or self._kind != "gaussian":
            return ready
        self._fitting_scale = target.scale
        _, codes = self._grouped
        model, split = ready.begun.model, ready.split
        names = self._slope_places(ready.encoder)
        offsets = fixed_offsets(ready.encoder.dim, SCORING_OFFSETS)
        zs = engine.evaluate(engine.look, model, ready.encoded.values, offsets).z
        phi, u = _with_one(zs), _random_design(ready.encoded.values, names)
        train = split[0]
        known = np.asarray(ready.train.weight, float) * ready.train.labelled
        found = fit_mixed(
            "gaussian", phi[train], u[train], codes[train], np.asarray(ready.train.y, float), known,
            n_groups=int(codes.max()) + 1,
        )  # fmt: skip
        expected = np.sum(u * found.effects[codes], axis=1)
        rows = [
            part._replace(y=(part.y - expected[places]).astype(part.y.dtype))
            for part, places in zip((ready.train, ready.held_out), split, strict=True)
        ]
        head = cast(Any, model.head).refit(zs[train].reshape(len(train), -1), rows[0].y, known)
        begun = ready.begun._replace(model=eqx.tree_at(lambda m: m.head, model, head))
        return ready._replace(train=rows[0], held_out=rows[1], begun=begun, expected=expected)

    def _finish(self, ready: Prepared, result: FitResult) -> None:
        super()._finish(ready, result)
        if vars(self).get("_grouped") is None:
            return
        groups, codes = self._grouped
        places = self._slope_places(ready.encoder)
        zs = self._features_of(ready.encoded)
        phi, u = _with_one(zs), _random_design(ready.encoded.values, places)
        ys, weights = np.zeros(len(codes)), np.zeros(len(codes))
        for part, rows in zip(ready.split, (ready.train, ready.held_out), strict=True):
            ys[part] = np.asarray(rows.y, float)
            weights[part] = np.asarray(rows.weight, float) * rows.labelled
        if ready.expected is not None:
            ys += ready.expected

        def fitted(counted: np.ndarray) -> MixedEffects:
            return fit_mixed(
                self._kind,
                phi,
                u,
                codes,
                ys,
                counted,
                n_groups=len(groups),
                noise=self._noise_asked,
            )

        held, widening = ready.split[1], 1.0
        if result.stopped != "exact" and np.sum(weights[held] > 0) >= FEWEST_TO_CALIBRATE:
            without = weights.copy()
            without[held] = 0
            judged = held[weights[held] > 0]
            first = fitted(without)
            mean, variance = first.predictor(phi[judged], u[judged], codes[judged])
            widening = self._best_widening(mean, variance, first.noise, ys[judged], weights[judged])
        found = fitted(weights)
        if self._kind == "gaussian":
            found = found._replace(noise=found.noise * widening**2)
        self.groups_, self.mixed_ = (
            groups,
            found._asdict()
            | {
                "columns": places,
                "widening": widening,
            },
        )
        vars(self).pop("statistics_", None)  # the posterior of a model without groups
        vars(self).pop("seen_", None)
        head = _population_head(self.model_.head, found, widening)
        self.model_ = eqx.tree_at(lambda m: m.head, self.model_, head)

    def _best_widening(
        self, mean: np.ndarray, variance: np.ndarray, noise: float, ys: np.ndarray, w: np.ndarray
    ) -> float:
        """The factor on spread or log-odds under which the held-out rows are likeliest."""
        if self._kind == "poisson":
            return 1.0
        scores = []
        for factor in WIDENINGS:
            response = _response(self._kind, mean, variance, noise, factor)
            log_py = np.asarray(response.log_prob(jnp.asarray(ys)), float)
            scores.append(w @ log_py - 0.5 * (np.log(factor) / 0.2) ** 2)
        return float(WIDENINGS[int(np.argmax(scores))])

    # ------------------------------------------------------------------ answering

    def _evaluate(self, part: Any, encoded: Encoded, codes: np.ndarray | None = None) -> Any:
        seen = super()._evaluate(part, encoded)
        if seen.response is None or "mixed_" not in vars(self):
            return seen
        codes = np.full(len(encoded.values), -1) if codes is None else codes
        phi = _with_one(seen.z)
        u = _random_design(encoded.values, self.mixed_["columns"])
        effects = self._effects("predictions")
        mean, variance = effects.predictor(phi, u, codes)
        if self._kind == "gaussian":
            head = cast(Any, self.model_.head)
            mean = np.clip(mean, float(head.eta_low.value[0]), float(head.eta_high.value[0]))
        widening = 1.0 if self._kind == "gaussian" else self.mixed_["widening"]
        response = _response(self._kind, mean, variance, effects.noise, widening)
        return seen._replace(response=response)

    def _responses(self, encoded: Encoded, codes: np.ndarray | None = None) -> Any:
        return self._evaluate(engine.respond, encoded, codes).response

    def _codes_of(self, groups: Any, n: int) -> Int[np.ndarray, " rows"] | None:
        """Numbers of the groups, -1 for those that training did not see."""
        if groups is None:
            return None
        check_is_fitted(self, "model_")
        if "mixed_" not in vars(self):
            raise ValueError("This model was fitted without groups, so it cannot answer for them.")
        groups = column_or_1d(groups)
        if len(groups) != n:
            raise ValueError(f"X has {n} rows, but groups has {len(groups)}.")
        place = {value: i for i, value in enumerate(self.groups_.tolist())}
        return np.array([place.get(value, -1) for value in groups.tolist()], int)

    # ------------------------------------------------------------------ parts

    @property
    def _kind(self) -> str:
        return KINDS[self.head]

    @property
    def _noise_asked(self) -> float | None:
        """The variance of the noise that was asked for, in units of the head; None to learn it."""
        noise = getattr(self, "noise", "auto")
        return None if noise == "auto" else (float(noise) / self._unit_in_fit) ** 2

    @property
    def _unit_in_fit(self) -> float:
        """What the target being learned is divided by."""
        return vars(self).get("_fitting_scale", 1.0)

    @property
    def _y_scale(self) -> float:
        return getattr(self, "y_scale_", 1.0)

    @property
    def _y_location(self) -> float:
        return getattr(self, "y_location_", 0.0)

    def _effects(self, asked: str) -> MixedEffects:
        if "mixed_" not in vars(self):
            raise AttributeError(
                f"{asked} belongs to a model fitted with head='mixed' and groups; this one is not."
            )
        return MixedEffects(*(self.mixed_[name] for name in MixedEffects._fields))

    def _slope_places(self, encoder: Any) -> list[int]:
        """Numbers of the encoded columns that have random slopes."""
        wanted = self.random_effects
        if isinstance(wanted, str):
            if wanted not in ("auto", "intercept", "slopes", "observation"):
                raise ValueError(
                    "random_effects must be 'auto', 'intercept', 'slopes', 'observation' or a list "
                    f"of columns; got {wanted!r}."
                )
            return list(range(len(encoder.columns))) if wanted == "slopes" else []
        names = [column.name for column in encoder.columns]
        places = []
        for name in wanted:
            if name in names:
                places.append(names.index(name))
            elif isinstance(name, int | np.integer) and 0 <= name < len(names):
                places.append(int(name))
            else:
                raise ValueError(
                    f"random_effects names the column {name!r}, but the table has {names}."
                )
        return places

    def _to_user_units(self) -> Float[np.ndarray, "q q"]:
        """From effects on encoded columns and targets to those on the user's."""
        places = self.mixed_["columns"]
        turn = np.eye(1 + len(places))
        for i, place in enumerate(places, start=1):
            column = self.encoder_.columns[place]
            turn[0, i] = -column.location / column.scale
            turn[i, i] = 1 / column.scale
        return self._y_scale * turn

    def _features_of(self, encoded: Encoded) -> np.ndarray:
        """Features as the rows will be seen when they are asked about."""
        return engine.evaluate(engine.look, self.model_, encoded.values, self._offsets).z


def _population_head(head: Any, found: MixedEffects, widening: float) -> AbstractHead:
    """The head for a group drawn from the population: its intercept is one more unknown.

    Samples and counterfactuals are about it. Slopes, which are not functions of the features, count
    as they are at the mean of their columns.
    """
    spread = found.fixed_factor.T @ found.fixed_factor
    spread[-1, -1] += found.covariance[0, 0]
    if isinstance(head, ConjugateHead):
        factor, log_det = inverse_factor(np.linalg.inv(spread))
        level = Levels(found.noise, float(head.precision[0]))
        return reaching(head, [level]).holding([Posterior(found.fixed, factor, log_det)], [level])
    mean = found.fixed.copy()
    mean[-1] -= float(head.offset.value[0])
    weights = GaussianWeights(mean[None], spread[None], 0.0, float(head.precision))
    return head.holding(weights).calibrated(widening)


def _with_one(zs: np.ndarray) -> Float[np.ndarray, "rows p"]:
    flat = zs.reshape(len(zs), -1).astype(float)
    return np.concatenate([flat, np.ones((len(flat), 1))], axis=1)


def _random_design(values: np.ndarray, places: list[int]) -> Float[np.ndarray, "rows q"]:
    """A one, and the encoded columns with slopes; what is missing has no slope."""
    return np.concatenate([np.ones((len(values), 1)), np.nan_to_num(values[:, places])], axis=1)


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
