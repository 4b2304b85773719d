"""No target: a density alone."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from diglm.heads import AbstractHead, AbstractHeadChoice, AbstractResponse, NoHead
from diglm.targets.base import AbstractTarget, Column, Labels

NOTHING = "This model has no target: it was fitted to rows alone."


@dataclass(frozen=True)
class NoTarget(AbstractTarget):
    """Nothing is predicted; a column of zeros stands for targets."""

    choice: AbstractHeadChoice | None = None

    metric: ClassVar[str] = ""
    higher_is_better: ClassVar[bool] = True
    density_only: ClassVar[bool] = True

    def read(self, y: Column) -> Labels:
        return Labels(np.zeros(len(y), np.int32), np.zeros(len(y), bool))

    def relation(self, labels: Labels) -> None:
        return None

    def strata(self, labels: Labels) -> None:
        return None

    def head(self, dim: int, n_groups: int) -> AbstractHead:
        return NoHead()

    def with_marginal(self, y: Column, weights: Float[np.ndarray, " rows"]) -> "NoTarget":
        return self

    def columns(self, response: AbstractResponse) -> dict[str, np.ndarray]:
        return {}

    @property
    def column_names(self) -> tuple[str, ...]:
        return ()

    def log_prob(self, response: AbstractResponse, y: Column) -> Float[np.ndarray, " rows"]:
        raise ValueError(NOTHING)

    def places(
        self, response: AbstractResponse, y: Column, u: Float[np.ndarray, " rows"]
    ) -> Float[np.ndarray, "rows k"]:
        raise ValueError(NOTHING)

    def agreement(self, response: AbstractResponse, y: Column) -> Float[np.ndarray, "rows k"]:
        raise ValueError(NOTHING)

    def losses(
        self, response: AbstractResponse, y: Column
    ) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
        raise ValueError(NOTHING)

    def answers(self, response: AbstractResponse) -> Float[np.ndarray, "rows 0"]:
        return np.zeros((len(jax.tree.leaves(response)[0]), 0))

    def asked_of(
        self, answers: Float[np.ndarray, "rows k"], target: object
    ) -> Int[np.ndarray, " rows"]:
        if target is not None:
            raise ValueError(NOTHING)
        return np.zeros(len(answers), int)

    def skill(
        self, response: AbstractResponse, y: Column, weights: Float[np.ndarray, " rows"]
    ) -> float:
        raise ValueError(NOTHING)

    def in_user_terms(self, drawn: np.ndarray) -> Column:
        raise ValueError(NOTHING)

    def in_head_terms(self, wanted: Column) -> np.ndarray:
        raise ValueError(NOTHING)

    def nearest(
        self,
        head: AbstractHead,
        z: Float[np.ndarray, "rows dim"],
        wanted: Column,
        margin: Float[np.ndarray, " rows"],
    ) -> Float[np.ndarray, "rows dim"]:
        raise ValueError(NOTHING)

    def lead(self, response: AbstractResponse, wanted: Column) -> Float[np.ndarray, " rows"]:
        raise ValueError(NOTHING)

    def shortfall(self, lead: Float[np.ndarray, "..."], margin: float) -> Float[np.ndarray, "..."]:
        raise ValueError(NOTHING)

    def aim(self, margin: float) -> float:
        raise ValueError(NOTHING)

    def reached(self, prediction: Column, wanted: Column) -> Bool[np.ndarray, " rows"]:
        raise ValueError(NOTHING)
