"""What every target offers: reading, units, answers, and p(y) for rows that are refused."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from diglm.heads import AbstractHead, AbstractHeadChoice, AbstractResponse
from diglm.types import Batch

Column = np.ndarray  # one value a row, of whatever type the user's targets have


@dataclass(frozen=True)
class Labels:
    """Targets as the head takes them; `ys` holds zero where `labelled` is False.

    `factors` multiply the weights of the rows; None leaves them.
    """

    ys: np.ndarray
    labelled: Bool[np.ndarray, " rows"]
    factors: Float[np.ndarray, " rows"] | None = None

    def batch(self, values: np.ndarray, weights: np.ndarray) -> Batch:
        """Encoded rows with these targets, in the precision of training."""
        real = jnp.result_type(float)
        weights = weights if self.factors is None else weights * self.factors
        if values.dtype != np.uint8:  # pixels stay as they are
            values = values.astype(real)
        return Batch(values, self.ys, self.labelled, weights.astype(real))


class AbstractTarget(ABC):
    """What was learned of a target.

    Attributes:
        metric: name of the skill that people watch; empty for none.
        higher_is_better: whether that is better.
        squared: whether training shows its square.
        drops_features: whether features are dropped in training unless told otherwise.
        density_only: whether nothing is predicted.
        smooth: whether rows without a label are taken to say where answers do not change.
        retries: how often a counterfactual that rounding has undone is pushed further.
        choice: the head that was asked for.
    """

    metric: ClassVar[str]
    higher_is_better: ClassVar[bool]
    squared: ClassVar[bool] = False
    drops_features: ClassVar[bool] = False
    density_only: ClassVar[bool] = False
    smooth: ClassVar[bool] = False
    retries: ClassVar[int] = 1
    choice: AbstractHeadChoice | None

    # ------------------------------------------------------------------ fitting

    @abstractmethod
    def read(self, y: Column) -> Labels:
        """Targets of rows, by what was learned."""

    @abstractmethod
    def relation(self, labels: Labels) -> Float[np.ndarray, "rows k"] | None:
        """Numbers by which an encoder orders categories, NaN where there is no label."""

    @abstractmethod
    def strata(self, labels: Labels) -> np.ndarray | None:
        """Groups whose shares a split should keep; None for none."""

    @abstractmethod
    def head(self, dim: int, n_groups: int) -> AbstractHead:
        """The head for this target, not yet started; `n_groups` is 0 without groups."""

    def candidates(
        self, y: Column, weights: Float[np.ndarray, " rows"]
    ) -> "tuple[AbstractTarget, ...]":
        """This target with each head that held-out rows may choose among; the usual one first."""
        return (self,)

    def judged(
        self, response: AbstractResponse, y: Column, width: float
    ) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
        """Log-probabilities of the cells of that width about y, and squared errors of the mean."""
        raise ValueError(f"{type(self).__name__} has one head to choose among.")

    @abstractmethod
    def with_marginal(self, y: Column, weights: Float[np.ndarray, " rows"]) -> "AbstractTarget":
        """The target with p(y) of these rows, which answers for rows that are refused."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know of the targets."""
        return ()

    @property
    def as_fitted(self) -> "AbstractTarget":
        """The target as fit left it, whatever its answers were adapted to since."""
        return self

    @property
    def unit(self) -> tuple[float, float]:
        """Location and scale of the head's unit of y."""
        return 0.0, 1.0

    # ------------------------------------------------------------------ answering

    @abstractmethod
    def columns(self, response: AbstractResponse) -> dict[str, np.ndarray]:
        """Columns of a table of answers; "prediction" comes first, where anything is predicted."""

    @property
    @abstractmethod
    def column_names(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def column_types(self) -> Mapping[str, np.dtype]:
        """Their types, where a block of rows may not show them."""
        return {}

    @abstractmethod
    def log_prob(self, response: AbstractResponse, y: Column) -> Float[np.ndarray, " rows"]:
        """log p(y|x) of each row, in the user's units; NaN where a row has no label."""

    @abstractmethod
    def places(
        self, response: AbstractResponse, y: Column, u: Float[np.ndarray, " rows"]
    ) -> Float[np.ndarray, "rows k"]:
        """Where targets stand under p(y|x), between 0 and 1: uniform if that is their distribution.

        Where y has a mass, `u` says where in it.
        """

    @abstractmethod
    def agreement(self, response: AbstractResponse, y: Column) -> Float[np.ndarray, "rows k"]:
        """How well targets agree with what is predicted; the smaller, the worse."""

    @abstractmethod
    def losses(
        self, response: AbstractResponse, y: Column
    ) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
        """What each answer costs, and how sure it was: what risk is judged by."""

    @abstractmethod
    def answers(self, response: AbstractResponse) -> Float[np.ndarray, "rows k"]:
        """What is predicted, as numbers: probabilities of classes, or means."""

    @abstractmethod
    def asked_of(
        self, answers: Float[np.ndarray, "rows k"], target: object
    ) -> Int[np.ndarray, " rows"]:
        """Which of its answers is asked about in each row; None for the one that is given."""

    @abstractmethod
    def skill(
        self, response: AbstractResponse, y: Column, weights: Float[np.ndarray, " rows"]
    ) -> float:
        """The metric over rows that have labels."""

    @abstractmethod
    def in_user_terms(self, drawn: np.ndarray) -> Column:
        """Targets from draws of the head."""

    @abstractmethod
    def in_head_terms(self, wanted: Column) -> np.ndarray:
        """Targets that are asked for, as the head takes them; an error for impossible ones."""

    # ------------------------------------------------------------------ counterfactuals

    @abstractmethod
    def nearest(
        self,
        head: AbstractHead,
        z: Float[np.ndarray, "rows dim"],
        wanted: Column,
        margin: Float[np.ndarray, " rows"],
    ) -> Float[np.ndarray, "rows dim"]:
        """The nearest features at which the head answers as wanted; see `margin` in the target."""

    @abstractmethod
    def lead(self, response: AbstractResponse, wanted: Column) -> Float[np.ndarray, " rows"]:
        """By how much the wanted answer leads, or how far predictions lie above it."""

    @abstractmethod
    def shortfall(self, lead: Float[np.ndarray, "..."], margin: float) -> Float[np.ndarray, "..."]:
        """How far a lead is from being as wanted; 0 where it is."""

    @abstractmethod
    def aim(self, margin: float) -> float:
        """The least lead that is as wanted."""

    @abstractmethod
    def reached(self, prediction: Column, wanted: Column) -> Bool[np.ndarray, " rows"]:
        """Whether predictions are what was wanted."""


def as_column(y: object) -> np.ndarray:
    """Targets as an array; a list that mixes numbers and text keeps both."""
    if isinstance(y, list | tuple):
        kinds = {isinstance(value, str) for value in y}
        return np.array(y, dtype=object) if len(kinds) > 1 else np.asarray(y)
    return np.asarray(y)


def is_missing(y: Column) -> Bool[np.ndarray, " rows"]:
    """Where a target is None or NaN."""
    if y.dtype.kind in "biuUS":
        return np.zeros(len(y), bool)
    return np.array([value is None or value != value for value in y.tolist()], bool)


def one_a_row(target: object, n: int, what: str) -> Column:
    """One value, or one a row, as a column of n; any other number of them is an error."""
    given = np.asarray(target).ravel() if np.ndim(target) else np.array([target])  # type: ignore
    if len(given) not in (1, n):
        raise ValueError(f"{what} must be one value or one a row ({n}); got {len(given)} values.")
    return np.resize(given, n)
