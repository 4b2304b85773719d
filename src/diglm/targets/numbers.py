"""Numbers to be predicted, one or several a row."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from diglm.heads import AbstractHead, AbstractHeadChoice, AbstractResponse
from diglm.parameters import check_whole
from diglm.targets.base import AbstractTarget, Column, Labels
from diglm.targets.distribution import PredictiveDistribution
from diglm.targets.nearest import nearest_at_predictor

REACHED = 0.01  # of the targets' standard deviation: as near as a counterfactual should come
Unit = float | np.ndarray


@dataclass(frozen=True)
class NumberTarget(AbstractTarget):
    """Numbers in the unit that suits the head: y = location + scale * (the head's y).

    All are arrays where a row has several targets.

    Attributes:
        choice: the head that was asked for.
        location: what is subtracted.
        scale: what is divided by.
        unlabelled: a value that is no label, besides NaN.
        mean: of the targets, which answers for rows that are refused.
        std: their standard deviation.
    """

    choice: AbstractHeadChoice | None
    location: Unit
    scale: Unit
    unlabelled: object = None
    mean: Unit = float("nan")
    std: Unit = float("nan")

    metric: ClassVar[str] = "rmse"
    higher_is_better: ClassVar[bool] = False
    squared: ClassVar[bool] = True

    @classmethod
    def learn(
        cls,
        y: Column,
        choice: AbstractHeadChoice,
        *,
        unlabelled: object = None,
        weights: np.ndarray | None = None,
    ) -> "NumberTarget":
        """Choose the unit from the labelled rows of positive weight."""
        y = _numbers(y, choice.several)
        labelled = _labelled(y, unlabelled)
        choice.check_support(y[labelled].ravel())
        used = labelled if weights is None else labelled & (weights > 0)
        if not np.any(used):
            raise ValueError(f"No target to learn from: none of {len(y)} rows has one that counts.")
        if y.ndim == 1:
            return cls(choice, *choice.unit(y[used]), unlabelled)
        units = np.array([choice.unit(column[used]) for column in y.T]).T
        return cls(choice, units[0], units[1], unlabelled)

    @property
    def unit(self) -> tuple[float, float]:
        return self.location, self.scale  # type: ignore[return-value]

    @property
    def n_targets(self) -> int:
        """How many numbers a row has."""
        return np.size(self.location)

    def read(self, y: Column) -> Labels:
        y = _numbers(y, self.n_targets > 1)
        if y.size != len(y) * self.n_targets:
            raise ValueError(f"Each row has {self.n_targets} targets; got y of shape {y.shape}.")
        labelled = _labelled(y, self.unlabelled)
        self._check_support(y[labelled])
        known = labelled if y.ndim == 1 else labelled[:, None]
        ys = np.where(known, (y - self.location) / self.scale, 0.0)
        return Labels(ys.astype(jnp.result_type(float)), labelled)

    def relation(self, labels: Labels) -> Float[np.ndarray, "rows k"]:
        ys = labels.ys.astype(float).reshape(len(labels.ys), self.n_targets)
        return np.where(labels.labelled[:, None], ys, np.nan)

    def strata(self, labels: Labels) -> np.ndarray | None:
        return None

    def head(self, dim: int, n_groups: int) -> AbstractHead:
        if self.choice is None:
            raise ValueError("This target was read from a file and has no head to build.")
        return self.choice.for_numbers(
            dim, n_targets=self.n_targets, scale=self.scale, n_groups=n_groups
        )

    def candidates(
        self, y: Column, weights: Float[np.ndarray, " rows"]
    ) -> tuple[AbstractTarget, ...]:
        if self.choice is None:
            return (self,)
        numbers = _numbers(y, self.n_targets > 1)
        labelled = _labelled(numbers, self.unlabelled)
        known = numbers[labelled & (weights > 0)]
        # Rows that do not count are read as well, so they too must be possible.
        offered = tuple(
            one for one in self.choice.candidates(known) if _takes(one, numbers[labelled])
        )
        if offered == (self.choice,):
            return (self,)
        units = (one.unit(known) for one in offered)
        return tuple(
            replace(self, choice=one, location=location, scale=scale)
            for one, (location, scale) in zip(offered, units, strict=True)
        )

    def judged(
        self, response: AbstractResponse, y: Column, width: float
    ) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
        y = _numbers(y, False)
        cells = response.log_cell(y, width, self.location, self.scale)
        return cells, np.square(self.distribution(response).mean - y)

    def with_marginal(self, y: Column, weights: Float[np.ndarray, " rows"]) -> "NumberTarget":
        y = _numbers(y, self.n_targets > 1)
        known = _labelled(y, self.unlabelled) & (weights > 0)
        mean = np.average(y[known], weights=weights[known], axis=0)
        spread = np.sqrt(np.average((y[known] - mean) ** 2, weights=weights[known], axis=0))
        if self.n_targets == 1:
            return replace(self, mean=float(mean), std=float(spread))
        return replace(self, mean=mean, std=spread)

    # ------------------------------------------------------------------ answering

    def distribution(self, response: AbstractResponse) -> PredictiveDistribution:
        """p(y|x) of each row, in the user's units."""
        return PredictiveDistribution(response, self.location, self.scale)

    def columns(self, response: AbstractResponse) -> dict[str, np.ndarray]:
        dist = self.distribution(response)
        parts = zip(*(np.atleast_2d(part.T) for part in (dist.mean, dist.std)), strict=True)
        values = [part for pair in parts for part in pair]
        return dict(zip(self.column_names, values, strict=True))

    @property
    def column_names(self) -> tuple[str, ...]:
        if self.n_targets == 1:
            return "prediction", "sd"
        return tuple(f"{what}_{t}" for t in range(self.n_targets) for what in ("prediction", "sd"))

    @property
    def column_types(self) -> Mapping[str, np.dtype]:
        return {}

    def log_prob(self, response: AbstractResponse, y: Column) -> Float[np.ndarray, " rows"]:
        y = _numbers(y, self.n_targets > 1)
        known = _labelled(y, self.unlabelled)
        self._check_support(y[known])
        filled = np.where(np.isnan(y), self.location, y)
        log_py = self.distribution(response).log_prob(filled)
        return np.where(known, log_py.reshape(len(y), self.n_targets).sum(axis=1), np.nan)

    def places(
        self, response: AbstractResponse, y: Column, u: Float[np.ndarray, " rows"]
    ) -> Float[np.ndarray, "rows targets"]:
        """P(Y < y) and, where y has a mass, a share of that: the probability integral transform."""
        y = _numbers(y, self.n_targets > 1)
        dist = self.distribution(response)
        below, up_to = dist.cdf(np.nextafter(y, -np.inf)), dist.cdf(y)
        share = u if y.ndim == 1 else u[:, None]
        return (below + share * (up_to - below)).reshape(len(y), self.n_targets)

    def agreement(self, response: AbstractResponse, y: Column) -> Float[np.ndarray, "rows k"]:
        found = self.distribution(response).agreement(_numbers(y, self.n_targets > 1))
        return found.reshape(len(y), self.n_targets)

    def losses(
        self, response: AbstractResponse, y: Column
    ) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
        """Squared errors of the means, averaged over several targets, and minus deviations."""
        dist, n = self.distribution(response), self.n_targets
        error = np.square(dist.mean - _numbers(y, n > 1)).reshape(-1, n).mean(axis=1)
        return error, -dist.std.reshape(-1, n).mean(axis=1)

    def answers(self, response: AbstractResponse) -> Float[np.ndarray, "rows targets"]:
        mean = self.distribution(response).mean
        return mean.reshape(len(mean), self.n_targets)

    def asked_of(
        self, answers: Float[np.ndarray, "rows targets"], target: object
    ) -> Int[np.ndarray, " rows"]:
        """The position of one of several targets; the first if none is named."""
        place = 0 if target is None else check_whole("target", target, low=0)
        if place >= self.n_targets:
            raise ValueError(f"target is a position among {self.n_targets} targets; got {place}.")
        return np.full(len(answers), place)

    def skill(
        self, response: AbstractResponse, y: Column, weights: Float[np.ndarray, " rows"]
    ) -> float:
        errors = np.square(self.distribution(response).mean - _numbers(y, self.n_targets > 1))
        each = errors.reshape(len(y), self.n_targets).mean(axis=1)
        return float(np.sqrt(np.average(each, weights=weights)))

    def in_user_terms(self, drawn: np.ndarray) -> Column:
        return self.location + self.scale * np.asarray(drawn, float)

    def in_head_terms(self, wanted: Column) -> np.ndarray:
        wanted = _numbers(wanted, False)
        self._check_support(wanted)
        return (wanted - self.location) / self.scale

    # ------------------------------------------------------------------ counterfactuals

    def nearest(
        self,
        head: AbstractHead,
        z: Float[np.ndarray, "rows dim"],
        wanted: Column,
        margin: Float[np.ndarray, " rows"],
    ) -> Float[np.ndarray, "rows dim"]:
        """The nearest features at which the predicted mean is as wanted; there is no margin."""
        if self.n_targets > 1:
            raise ValueError("counterfactual() asks for one target; this model has several.")
        linear: object = head
        low, high = (float(getattr(linear, name).value[0]) for name in ("eta_low", "eta_high"))
        means = self.in_head_terms(wanted)
        at_mean = linear.eta_for_mean  # type: ignore[attr-defined]
        eta = np.asarray([at_mean(jnp.asarray(mean)) for mean in means], float)
        if np.any((eta < low) | (eta > high)):
            raise ValueError(
                "target lies beyond what this model can predict: the training range of y widened "
                "by one range on either side."
            )
        weight, bias = (np.asarray(getattr(linear, name), float)[0] for name in ("weight", "bias"))
        return nearest_at_predictor(z, weight, z @ weight + bias, eta)

    def lead(self, response: AbstractResponse, wanted: Column) -> Float[np.ndarray, " rows"]:
        """How far predicted means lie above the wanted ones, in deviations of the targets."""
        return (self.distribution(response).mean - np.asarray(wanted, float)) / self.std

    def shortfall(self, lead: Float[np.ndarray, "..."], margin: float) -> Float[np.ndarray, "..."]:
        return np.maximum(np.abs(lead) - REACHED, 0.0)

    def aim(self, margin: float) -> float:
        return 0.0

    def reached(self, prediction: Column, wanted: Column) -> Bool[np.ndarray, " rows"]:
        return np.abs(prediction - np.asarray(wanted, float)) <= REACHED * self.std

    def _check_support(self, y: np.ndarray) -> None:
        if self.choice is not None:
            self.choice.check_support(y[~np.isnan(y)])


def _numbers(y: Column, several: bool) -> np.ndarray:
    """float64, NaN allowed: a column, or several where a row may have several targets."""
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 and not (several and y.ndim == 2):
        raise ValueError(f"y should be a 1d array, got an array of shape {y.shape} instead.")
    try:
        if np.iscomplexobj(y):
            raise TypeError
        numbers = y.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"HybridRegressor predicts numbers; y holds {y.dtype.name} values such as "
            f"{y.ravel()[0]!r}. For classes use HybridClassifier."
        ) from error
    if np.any(np.isinf(numbers)):
        raise ValueError("Input y contains infinity or a value too large for float64.")
    if numbers.ndim == 2:
        missing = np.isnan(numbers)
        partly = missing.any(axis=1) & ~missing.all(axis=1)
        if np.any(partly):
            raise ValueError(
                f"{partly.sum()} of {len(numbers)} rows of y have some targets and lack others. "
                "Give each row all of them, or NaN for all."
            )
    return numbers


def _takes(choice: AbstractHeadChoice, y: np.ndarray) -> bool:
    try:
        choice.check_support(y.ravel())
    except ValueError:
        return False
    return True


def _labelled(y: np.ndarray, unlabelled: object) -> Bool[np.ndarray, " rows"]:
    first = y if y.ndim == 1 else y[:, 0]
    labelled = ~np.isnan(first)
    return labelled if unlabelled is None else labelled & (first != unlabelled)
