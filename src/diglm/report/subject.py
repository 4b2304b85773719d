"""What a report is about: a fitted model, rows, and all that one pass says of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from diglm.data.encoder import Encoded
from diglm.predictor import Predictor
from diglm.refusal import Known
from diglm.report.measures import Measures, log_prob, measured
from diglm.targets.base import Column, is_missing

History = Sequence[Mapping[str, float | int]]


@dataclass(frozen=True)
class Subject:
    """A model and rows to judge it by.

    Attributes:
        predictor: the fitted thing.
        X: rows.
        y: their targets; None where they are not known.
        history: of training, an entry an epoch.
        density_history: of a density of its own; empty without.
        parameters: of the estimator that are not its defaults, by name.
        card: what was noted about the model when it was trained.
        against: other rows, to see whether the inputs have moved; or None.
        explain: rows to what made them strange and what made their prediction; None for unknown.
        kind: name of the estimator.
        seed: of what is drawn.
        rows: what each row is called; by default its place, from 0.
        note: what a reader should know of the rows, said at the top.
    """

    predictor: Predictor
    X: Any
    y: Column | None
    history: History = ()
    density_history: History = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    card: Mapping[str, object] = field(default_factory=dict)
    against: Any = None
    explain: Callable[[Any], Any] | None = None
    kind: str = "Predictor"
    seed: int = 0
    rows: Sequence[object] | None = None
    note: str = ""

    @cached_property
    def encoded(self) -> Encoded:
        """The rows as the model takes them."""
        return self.predictor.encode(self.X, extra="ignore")

    @cached_property
    def known(self) -> Known:
        """Everything about the rows, from one pass."""
        return self.predictor.known(self.encoded)

    @cached_property
    def known_against(self) -> Known:
        """The same of the other rows."""
        return self.predictor.known(self.predictor.encode(self.against, extra="ignore"))

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """What `assess` says of the rows."""
        return self.predictor.target.columns(self.known.response) | {
            "log_px": self.known.log_px,
            "p_value": self.predictor.refusal.p_value(self.known),
        }

    @cached_property
    def strangeness(self) -> Float[np.ndarray, " rows"]:
        """How strange each row is."""
        return self.predictor.refusal.strangeness(self.known)

    @cached_property
    def refused(self) -> Bool[np.ndarray, " rows"]:
        """Whether each row is refused."""
        return self.predictor.refusal.rejects(self.known)

    @cached_property
    def labelled(self) -> Bool[np.ndarray, " rows"]:
        """Whether the truth of each row is known."""
        if self.y is None or self.predictor.target.density_only:
            return np.zeros(len(self), bool)
        return ~is_missing(self.y)

    @cached_property
    def measures(self) -> Measures:
        """How good the model is on the rows."""
        y = self.y if self.labelled.any() else None
        return measured(self.predictor, self.known, y)

    @cached_property
    def log_py(self) -> Float[np.ndarray, " rows"]:
        """log p(y|x) of each row, minus infinity for classes never seen, NaN without a truth."""
        found = np.full(len(self), np.nan)
        if self.labelled.any() and self.y is not None:
            truth = np.where(self.labelled, self.y, self.y[np.argmax(self.labelled)])
            told = log_prob(self.predictor, self.known, truth)
            found[self.labelled] = told[self.labelled]
        return found

    def named(self, places: np.ndarray) -> list[str]:
        """What some rows are called."""
        return [str(place if self.rows is None else self.rows[place]) for place in places]

    def __len__(self) -> int:
        """How many rows."""
        return len(self.encoded)
