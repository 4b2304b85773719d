"""Scores: from what one pass knows of a row to how strange it is."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from diglm.heads import AbstractResponse
from diglm.parameters import Parameters
from diglm.registry import Registry


class Known(NamedTuple):
    """What one pass knows of rows.

    Attributes:
        z: features, flat.
        log_px: log p(x), in the user's units.
        response: p(y|x), stacked along the rows.
        unseen: (rows, facts): what no training row prepared for.
    """

    z: Float[np.ndarray, "rows dim"]
    log_px: Float[np.ndarray, " rows"]
    response: AbstractResponse
    unseen: Bool[np.ndarray, "rows facts"]


class AbstractScore(Parameters, ABC):
    """How strange rows are; the higher, the stranger. A dataclass of its parameters."""

    def fit(self, held_out: Known) -> "AbstractScore":
        """A copy that has learned what familiar rows are like, from rows that were held out."""
        return self

    @abstractmethod
    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        """The strangeness of each row."""


@dataclass
class Density(AbstractScore):
    r"""$-\log p(x)$: the paper's."""

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        return -known.log_px


SCORES: Registry[Callable[[], AbstractScore]] = Registry(
    "score", {"auto": Density, "density": Density}
)


def score_of(asked: str | AbstractScore) -> AbstractScore:
    """The score that a name stands for, or the object itself, its parameters checked."""
    score = asked if isinstance(asked, AbstractScore) else SCORES[asked]()
    score.check()
    return score
