"""Where rows come from: what a run asks of memory and of files alike."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Array

from diglm.data.chunks import ArrayPlan
from diglm.data.encoder import AbstractEncoder, Rows
from diglm.data.kinds import encoder_of
from diglm.fitting.split import Split
from diglm.fitting.trainers import (
    AbstractTrainer,
    ChunkedTrainer,
    EpochTrainer,
    Plan,
)
from diglm.objectives.two_passes import Chunks
from diglm.recipes import AbstractRecipe
from diglm.targets.base import Column, is_missing
from diglm.training import Settings
from diglm.types import Batch

STEPS_A_CHUNK = 100

Encode = Callable[[Rows, Column, np.ndarray], Batch]


class Read(NamedTuple):
    """Rows to start from.

    Attributes:
        X: rows as they came.
        y: their targets; zeros where there are none.
        weights: in units of `weight_unit`.
        weight_unit: the mean of the user's weights that are above zero.
        groups: of the rows, or None.
        split: which rows are held out; None leaves it to the run.
        n_rows: rows to train on, in all; None for those that are here.
        n_labelled: how many of them have a label; None for as large a share as of those here.
        nulls: whether a missing target is a missing label.
    """

    X: Rows
    y: Column
    weights: np.ndarray
    weight_unit: float = 1.0
    groups: Column | None = None
    split: Split | None = None
    n_rows: int | None = None
    n_labelled: int | None = None
    nulls: bool = False


class AbstractSource(ABC):
    """Rows for a run.

    Attributes:
        checkpoint: folder where the run is kept; None for nowhere.
        must_be_seeded: whether a run that is kept needs a seed of the user's.
        holds_all: whether the rows to start from are all rows.
    """

    checkpoint: Path | None
    must_be_seeded: ClassVar[bool] = False
    holds_all: ClassVar[bool] = False

    @abstractmethod
    def read(self, seed: int, validation_fraction: float | str) -> Read:
        """Rows to start from, and those held out if the source must choose them."""

    @abstractmethod
    def encoder_kind(self, X: Rows) -> type[AbstractEncoder]:
        """What encodes the rows."""

    @abstractmethod
    def trainer(
        self, recipe: AbstractRecipe, train: Batch, settings: Settings, encode: Encode, seed: int
    ) -> AbstractTrainer:
        """What trains a model on the rows; `encode` makes batches of those read later."""

    @abstractmethod
    def described(self, train: Batch, held_out: Batch, settings: Settings) -> dict[str, object]:
        """What the rows are known by: a run that is kept resumes only with the same."""

    def training_rows(self, train: Batch, encode: Encode) -> Batch | Chunks:
        """All rows to train on, for steps that see each of them."""
        return train

    def every_row(self, encode: Encode) -> Iterable[Batch] | None:
        """All rows in pieces, for what must be learned from each of them; None if they are here."""
        return None


@dataclass(frozen=True)
class MemorySource(AbstractSource):
    """Rows in memory: a table, or images.

    Attributes:
        X: rows.
        y: their targets.
        weights: in units of `weight_unit`.
        weight_unit: the mean of the user's weights that are above zero.
        groups: of the rows, or None.
        checkpoint: folder where the run is kept; None for nowhere.
        nulls: whether a missing target is a missing label.
    """

    X: Rows
    y: Column
    weights: np.ndarray
    weight_unit: float = 1.0
    groups: Column | None = None
    checkpoint: Path | None = None
    nulls: bool = False
    must_be_seeded: ClassVar[bool] = True
    holds_all: ClassVar[bool] = True

    def read(self, seed: int, validation_fraction: float | str) -> Read:
        return Read(self.X, self.y, self.weights, self.weight_unit, self.groups, nulls=self.nulls)

    def with_unlabelled(self, more: Rows) -> "MemorySource":
        """The same with further rows, which have no target; the others must have one."""
        if np.any(missing := is_missing(self.y.reshape(len(self.y), -1)[:, 0])):
            raise ValueError(
                f"Input y contains NaN or None in {missing.sum()} of {len(self.y)} rows beside "
                "X_unlabelled; give rows without a label in one way."
            )
        X = self.encoder_kind(self.X).joined(self.X, more)
        n = len(X) - len(self.y)
        if self.y.dtype.kind == "f":
            nothing = np.full((n, *self.y.shape[1:]), np.nan, self.y.dtype)
        else:
            nothing = np.full((n, *self.y.shape[1:]), None, object)
        weights = np.concatenate([self.weights, np.full(n, 1 / self.weight_unit)])
        y = np.concatenate([self.y.astype(nothing.dtype), nothing])
        return replace(self, X=X, y=y, weights=weights, nulls=True)

    def encoder_kind(self, X: Rows) -> type[AbstractEncoder]:
        return encoder_of(X)

    def trainer(
        self, recipe: AbstractRecipe, train: Batch, settings: Settings, encode: Encode, seed: int
    ) -> AbstractTrainer:
        if not recipe.chunked:
            if self.checkpoint is not None:
                raise ValueError(
                    "checkpoint= keeps long fits: of images, or of tables in files with fit_file()."
                )
            return EpochTrainer(train, seed)
        batch_size = min(settings.batch_size, len(train.weight))
        n_steps = max(1, len(train.weight) // settings.batch_size)
        plan = ArrayPlan(train, batch_size, min(STEPS_A_CHUNK, n_steps), seed)
        return ChunkedTrainer(Plan(plan, plan.read), train, save_every=5 * STEPS_A_CHUNK)

    def described(self, train: Batch, held_out: Batch, settings: Settings) -> dict[str, object]:
        return {
            "rows": len(self.y),
            "content": fingerprint([*train, *held_out]),
            "groups": None if self.groups is None else fingerprint([np.asarray(self.groups)]),
        }


def fingerprint(columns: Iterable[np.ndarray | Array]) -> str:
    """A hash of arrays: of their values, shapes and types."""
    total = hashlib.sha256()
    for column in columns:
        array = np.asarray(column)
        total.update(f"{array.dtype} {array.shape}".encode())
        plain = array.dtype.kind != "O"
        total.update(array.tobytes() if plain else repr(array.tolist()).encode())
    return total.hexdigest()


def unit_of(weights: np.ndarray) -> float:
    """The weight that counts as one: the mean of those above zero."""
    if not np.any(weights > 0):
        raise ValueError("No row has a positive weight. Check the weights of the rows.")
    return float(np.mean(weights[weights > 0]))


def pieces(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Those with rows that have a label and a weight."""
    for batch in batches:
        used = np.flatnonzero(np.asarray(batch.weight) * np.asarray(batch.labelled) > 0)
        if len(used):
            yield Batch(*(np.asarray(column)[used] for column in batch))
