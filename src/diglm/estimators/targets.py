"""The column to predict: its meaning learned once, then read off any further rows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from diglm.heads import AbstractHead, ConjugateHead, VariationalHead, make_head
from diglm.types import Batch


@dataclass(frozen=True)
class Labels:
    """Targets as the head takes them; `ys` holds zero where `labelled` is False.

    `factors` multiply the weights of the rows; None leaves them.
    """

    ys: np.ndarray
    labelled: np.ndarray
    factors: np.ndarray | None = None

    def batch(self, values: np.ndarray, weights: np.ndarray) -> Batch:
        """Encoded rows with these targets, in the precision of training."""
        real = jnp.result_type(float)
        weights = self.weighted(weights).astype(real)
        if values.dtype != np.uint8:  # pixels stay as they are
            values = values.astype(real)
        return Batch(values, self.ys, self.labelled, weights)

    def weighted(self, weights: np.ndarray) -> np.ndarray:
        """Row weights with those of the classes."""
        return weights if self.factors is None else weights * self.factors


@dataclass(frozen=True)
class WeightPrior:
    """How the weights of a Bayesian head are treated.

    Attributes:
        precision: of their normal prior, in units of the features; None to learn it.
        noise: standard deviation of the noise, in units of y; None to learn it.
        method: "elbo", "elbo-diagonal", "laplace" or "jaakkola", where there is no closed form.
        effects: whether every observation has random effects of its own.
    """

    precision: float | None = None
    noise: float | None = None
    method: str = "elbo"
    effects: bool = False

    def head(self, kind: str, dim: int, n_classes: int = 2) -> VariationalHead:
        """A head of classes or counts with random weights."""
        method, _, form = self.method.partition("-")
        small = dim <= LARGEST_FULL_COVARIANCE
        return VariationalHead(
            kind,
            dim,
            n_classes=n_classes,
            covariance="full" if small and not form else "diagonal",
            precision=self.precision,
            method=method,
        )


COUNTS = ("poisson", "negative_binomial", "bayesian_poisson", "mixed_poisson")
LARGEST_FULL_COVARIANCE = 256  # features; above, the posterior of the weights is diagonal


class AbstractTarget(ABC):
    """What was learned of a target; a value equal to `unlabelled` is no label."""

    metric: str
    unlabelled: Any

    @abstractmethod
    def read(self, y: np.ndarray) -> Labels:
        """Targets of rows, by what was learned."""

    @abstractmethod
    def relation(self, labels: Labels) -> np.ndarray:
        """Numbers by which an encoder orders categories, NaN where there is no label."""

    @abstractmethod
    def strata(self, labels: Labels) -> np.ndarray | None:
        """Groups whose shares a split should keep; None for numbers."""

    @abstractmethod
    def head(self, dim: int) -> AbstractHead:
        """The head for this target, not yet started."""


@dataclass(frozen=True)
class ClassTarget(AbstractTarget):
    """Classes, in sorted order.

    Attributes:
        classes: what there is to tell apart.
        unlabelled: the value that is no label, or None.
        nulls: whether None and NaN are no labels either, rather than an error.
        class_weights: what rows of each class count, or None.
        weight_prior: how random weights of the head are treated; None for a head without.
    """

    classes: np.ndarray
    unlabelled: Any = None
    nulls: bool = False
    class_weights: np.ndarray | None = None
    weight_prior: WeightPrior | None = None
    metric: str = "accuracy"

    @classmethod
    def learn(
        cls,
        y: Any,
        unlabelled: Any,
        *,
        nulls: bool = False,
        class_weight: Any = None,
        weight_prior: WeightPrior | None = None,
    ) -> "ClassTarget":
        """Find the classes among `y`; `class_weight` is None, "balanced" or a dictionary."""
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f" and np.any(np.isinf(y)):
            raise ValueError("Input y contains infinity, which names no class.")
        target = cls(np.zeros(0), unlabelled, nulls)
        known = y[target._labelled(y)]
        if nulls and known.dtype.kind == "O":
            known = np.array(known.tolist())  # text and numbers by their own type, without nulls
        check_classification_targets(known)
        classes = np.unique(known)
        if len(classes) < 2:
            raise ValueError(
                "HybridClassifier needs at least two classes to tell apart; y has "
                f"{len(classes)} class{'es' if len(classes) != 1 else ''}"
                + (f" ({classes[0]!r})." if len(classes) else ".")
            )
        weights = None
        if class_weight is not None:
            weights = compute_class_weight(class_weight, classes=classes, y=known)
        return cls(classes, unlabelled, nulls, weights, weight_prior)

    def read(self, y: np.ndarray) -> Labels:
        labelled = self._labelled(y)
        codes = np.zeros(len(y), np.int32)
        codes[labelled] = self.codes(y[labelled])
        if self.class_weights is None:
            return Labels(codes, labelled)
        return Labels(codes, labelled, np.where(labelled, self.class_weights[codes], 1.0))

    def _labelled(self, y: np.ndarray) -> np.ndarray:
        missing = _missing(y)
        if np.any(missing) and not self.nulls:
            raise ValueError(
                f"Input y contains NaN or None in {missing.sum()} of {len(y)} rows. Mark rows "
                "without a label by a value of your own and pass it as unlabelled=..."
            )
        return ~missing if self.unlabelled is None else ~missing & (y != self.unlabelled)

    def codes(self, y: Any) -> np.ndarray:
        """Positions of the classes `y`; an unknown one is an error."""
        y = column_or_1d(y)
        if y.dtype.kind == "O":  # mixed types have no order; nulls are gone by now
            y = np.array(y.tolist())
        values, inverse = np.unique(y, return_inverse=True)
        position = {value: i for i, value in enumerate(self.classes.tolist())}
        unknown = [value for value in values.tolist() if value not in position]
        if unknown:
            raise ValueError(f"Unknown class {unknown[0]!r}; the model knows {list(position)}.")
        return np.array([position[value] for value in values.tolist()], np.int32)[inverse]

    def relation(self, labels: Labels) -> np.ndarray:
        return np.where(labels.labelled[:, None], np.eye(len(self.classes))[labels.ys], np.nan)

    def strata(self, labels: Labels) -> np.ndarray | None:
        return np.where(labels.labelled, labels.ys, -1)

    def head(self, dim: int) -> AbstractHead:
        n_classes = len(self.classes)
        if self.weight_prior is not None:
            kind = "binary" if n_classes == 2 else "categorical"
            return self.weight_prior.head(kind, dim, n_classes)
        return make_head("categorical", dim, n_classes=n_classes)


@dataclass(frozen=True)
class NumberTarget(AbstractTarget):
    """Numbers in the unit that suits the head: y = location + scale * (the head's y).

    Location and scale are arrays where a row has several targets.
    """

    head_name: str
    location: Any
    scale: Any
    unlabelled: Any = None
    weight_prior: WeightPrior = field(default_factory=WeightPrior)
    metric: str = "rmse"

    @classmethod
    def learn(
        cls,
        y: Any,
        head_name: str,
        unlabelled: Any,
        weights: np.ndarray | None = None,
        weight_prior: WeightPrior | None = None,
    ) -> "NumberTarget":
        """Choose the unit from the labelled rows of positive weight."""
        y = numbers_of(y, head_name)
        labelled = _labelled(y, unlabelled)
        check_support(head_name, y[labelled])
        used = labelled if weights is None else labelled & (weights > 0)
        location, scale = (
            _units(head_name, y[used])
            if y.ndim == 1
            else np.array([_units(head_name, column[used]) for column in y.T]).T
        )
        prior = WeightPrior() if weight_prior is None else weight_prior
        return cls(head_name, location, scale, unlabelled, prior)

    @property
    def n_targets(self) -> int:
        """How many numbers a row has."""
        return np.size(self.location)

    def read(self, y: np.ndarray) -> Labels:
        y = numbers_of(y, self.head_name)
        labelled = _labelled(y, self.unlabelled)
        check_support(self.head_name, y[labelled])
        known = labelled if y.ndim == 1 else labelled[:, None]
        ys = np.where(known, (y - self.location) / self.scale, 0.0)
        return Labels(ys.astype(jnp.result_type(float)), labelled)

    def relation(self, labels: Labels) -> np.ndarray:
        ys = labels.ys.astype(float).reshape(len(labels.ys), -1)
        return np.where(labels.labelled[:, None], ys, np.nan)

    def strata(self, labels: Labels) -> np.ndarray | None:
        return None

    def head(self, dim: int) -> AbstractHead:
        prior = self.weight_prior
        if self.head_name in ("bayesian_poisson", "mixed_poisson"):
            return prior.head("poisson", dim)
        if self.head_name in ("bayesian", "mixed"):
            return ConjugateHead(
                dim,
                n_targets=self.n_targets,
                noise=None if prior.noise is None else prior.noise / self.scale,
                precision=prior.precision,
                effects=prior.effects,
            )
        return make_head(self.head_name, dim)


def numeric(y: Any) -> np.ndarray:
    """A column of float64, NaN allowed; an error for text, complex numbers and infinity."""
    y = column_or_1d(y, warn=True)
    try:
        if np.iscomplexobj(y):
            raise TypeError
        numbers = y.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"HybridRegressor predicts numbers; y holds {y.dtype.name} values such as "
            f"{y[0]!r}. For classes use HybridClassifier."
        ) from error
    if np.any(np.isinf(numbers)):
        raise ValueError("Input y contains infinity or a value too large for float64.")
    return numbers


def numbers_of(y: Any, head: str) -> np.ndarray:
    """As `numeric`; a Bayesian head takes several columns, each row with all of them or none."""
    shape = np.asarray(y).shape
    if head != "bayesian" or len(shape) != 2 or shape[1] < 2:
        return numeric(y)
    numbers = np.stack([numeric(column) for column in np.asarray(y).T], axis=1)
    missing = np.isnan(numbers)
    partly = missing.any(axis=1) & ~missing.all(axis=1)
    if np.any(partly):
        raise ValueError(
            f"{partly.sum()} of {len(numbers)} rows of y have some targets and lack others. Give "
            "each row all of them, or NaN for all."
        )
    return numbers


def check_support(head: str, y: np.ndarray) -> None:
    """Counts are whole and not negative; a Gamma response is positive."""
    y = y[~np.isnan(y)]
    if head in COUNTS and np.any((y < 0) | (y != np.round(y))):
        raise ValueError(
            f"head={head!r} needs whole numbers y >= 0; got {y[(y < 0) | (y != np.round(y))][0]}."
        )
    if head == "gamma" and np.any(y <= 0):
        raise ValueError(f"head='gamma' needs y > 0; got {y[y <= 0][0]}.")


def _labelled(y: np.ndarray, unlabelled: Any) -> np.ndarray:
    if y.ndim == 2:
        return ~np.isnan(y[:, 0]) if unlabelled is None else _labelled(y[:, 0], unlabelled)
    labelled = ~np.isnan(y)
    return labelled if unlabelled is None else labelled & (y != unlabelled)


def _missing(y: np.ndarray) -> np.ndarray:
    if y.dtype.kind in "biuUS":
        return np.zeros(len(y), bool)
    return np.array([value is None or value != value for value in y.tolist()], bool)


def _units(head: str, y: np.ndarray) -> tuple[float, float]:
    """The head's unit of y: standardised for locations, the mean for Gamma, none for counts."""
    if len(y) == 0:
        return 0.0, 1.0
    if head in COUNTS:
        return 0.0, 1.0
    if head == "gamma":
        return 0.0, float(np.mean(y))
    scale = float(np.std(y))
    return float(np.mean(y)), scale if scale > 1e-12 * max(1.0, abs(float(np.mean(y)))) else 1.0
