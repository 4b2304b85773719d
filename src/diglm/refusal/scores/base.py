"""What every score offers: from what one pass knows of a row to how strange it is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from diglm.parameters import Parameters
from diglm.refusal.known import Known

LEARNED: Mapping[str, bool] = {"learned": True}


def learned() -> Any:
    """A field of a score that `fit` fills: not a parameter, and not part of what people compare."""
    return field(default=None, repr=False, compare=False, metadata=LEARNED)


class AbstractScore(Parameters, ABC):
    """How strange rows are; the higher, the stranger. A dataclass of its parameters.

    Attributes:
        wants_training: how many rows of training `fit` looks at, at most.
    """

    wants_training: ClassVar[int] = 0

    def why_not(self, known: Known) -> str:
        """Why a model that knows this of rows cannot have the score; empty where it can."""
        return ""

    def reads_head(self, layout: str) -> bool:
        """Whether the score of such rows looks at what the head reads, or at its answers.

        Rows that set a threshold may then teach the head nothing.
        """
        return True

    def fit(self, training: Known, aside: Known) -> "AbstractScore":
        """A copy that has learned what familiar rows are like.

        Args:
            training: some rows of training, at most `wants_training`.
            aside: familiar rows that neither the model nor the rule looks at; where there are too
                few to spare, those of training once more. The rows that the rule looks at are not
                seen here: to them the score is as it is to rows that come later, and so the rate
                that a rule promises holds whatever is learned here.
        """
        return self

    @abstractmethod
    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        """The strangeness of each row."""

    def weighed(self, familiar: Known, strange: Known) -> "AbstractScore":
        """A copy that tells some strange rows from familiar ones better, where it has weights."""
        raise ValueError(
            f"score={type(self).__name__} has no parts that strange rows could weigh. Leave out "
            "strange=, or use a Combined score."
        )

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """The parameters by name, without what was learned."""
        return {
            one.name: getattr(self, one.name)
            for one in fields(self)  # type: ignore[arg-type]
            if not one.metadata.get("learned")
        }


def require(score: AbstractScore, known: Known) -> None:
    """Raise if a model cannot have the score, saying why."""
    reason = score.why_not(known)
    if reason:
        raise ValueError(f"score={type(score).__name__} cannot be had: {reason}")
