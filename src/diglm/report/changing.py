"""Counterfactuals: what would have to change for another answer?"""

import warnings
from collections.abc import Callable

import numpy as np

from diglm.predictor import Counterfactual, counterfactual
from diglm.report.columns import taken
from diglm.report.measures import probabilities
from diglm.report.page import Section, number
from diglm.report.subject import Subject
from diglm.report.views import view_of
from diglm.targets import AbstractTarget, ClassTarget, NumberTarget

SHOWN = 6


def changed_section(subject: Subject) -> Section | None:
    """Some rows that were answered, and the nearest ones that are answered otherwise."""
    asks = ASKED.get(type(subject.predictor.target))
    if asks is None or not subject.predictor.model.head.inverts_mean:
        return None
    answered = np.flatnonzero(~subject.refused)
    if len(answered) == 0:
        return None
    rows = np.random.default_rng(subject.seed).permutation(answered)[:SHOWN]
    wanted = asks(subject, rows)
    found = _changed(subject, rows, wanted)
    notes = [
        f"row {row}: {_said(before)} → {_said(after)}, {_verdict(found, i)}"
        for i, (row, before, after) in enumerate(
            zip(
                subject.named(rows),
                subject.columns["prediction"][rows],
                found.prediction,
                strict=True,
            )
        )
    ]
    return Section(
        "What would have to change?",
        "The nearest rows, in the model's own space of features, that it answers otherwise. A row "
        "that would itself be refused is no honest advice.",
        view_of(subject).changed(rows, found.x, notes),
    )


def _changed(subject: Subject, rows: np.ndarray, wanted: np.ndarray) -> Counterfactual:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what misses its target is said beside it
        cells = subject.predictor.cells(taken(subject.X, rows), extra="ignore")
        return counterfactual(subject.predictor, cells, wanted, seed=subject.seed)


def _runner_up(subject: Subject, rows: np.ndarray) -> np.ndarray:
    """The second most probable class of each row."""
    target: ClassTarget = subject.predictor.target  # type: ignore[assignment]
    order = np.argsort(probabilities(target, subject.known)[rows], axis=1)
    return target.classes[order[:, -2]]


def _other_side(subject: Subject, rows: np.ndarray) -> np.ndarray:
    """A quartile of the predictions on the other side of the median."""
    told = subject.columns["prediction"]
    low, middle, high = np.quantile(told, [0.25, 0.5, 0.75])
    return np.where(told[rows] < middle, high, low)


ASKED: dict[type[AbstractTarget], Callable[[Subject, np.ndarray], np.ndarray]] = {
    ClassTarget: _runner_up,
    NumberTarget: _other_side,
}


def _verdict(found: Counterfactual, i: int) -> str:
    if not found.reached[i]:
        return "not reached"
    return "would be refused" if found.rejected[i] else "would be answered"


def _said(value: object) -> str:
    return number(float(value)) if isinstance(value, float | np.floating) else str(value)
