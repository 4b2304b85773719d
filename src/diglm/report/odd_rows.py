"""The rows that the model gets most wrong, and those that it finds strangest."""

import numpy as np

from diglm.report.page import Section, number
from diglm.report.subject import Subject
from diglm.report.views import view_of

SHOWN = 8


def worst_section(subject: Subject) -> Section | None:
    """The rows whose truth was least expected."""
    if not subject.labelled.any():
        return None
    order = np.argsort(np.where(np.isnan(subject.log_py), np.inf, subject.log_py), kind="stable")
    worst = order[: min(SHOWN, int(subject.labelled.sum()))]
    reasons = _reasons(subject, worst, strange=False)
    reading = (
        "Rows whose truth the model thought least likely, worst first: mistakes of the model, or "
        "of the labels."
    )
    if reasons is not None:
        reading += (
            " In brackets, what a value adds to the answer compared with what the other columns "
            "lead one to expect."
        )
    content = view_of(subject).shown(worst, _facts(subject, worst), reasons)
    return Section("The worst answers", reading, content)


def strangest_section(subject: Subject) -> Section:
    """The rows that are least like those of training."""
    order = np.argsort(-subject.strangeness, kind="stable")[:SHOWN]
    reasons = _reasons(subject, order, strange=True)
    reading = (
        "Rows least like those of training, strangest first. The p-value: so rarely, at most, is a "
        "familiar row as strange, as those held out in training tell."
    )
    if reasons is not None:
        reading += " In brackets, what a value adds to the surprise."
    content = view_of(subject).shown(order, _facts(subject, order), reasons)
    return Section("The strangest rows", reading, content)


def _facts(subject: Subject, rows: np.ndarray) -> dict[str, list[str]]:
    """What is said of some rows, by name."""
    facts: dict[str, list[str]] = {"row": subject.named(rows)}
    if subject.labelled.any() and subject.y is not None:
        facts["truth"] = [_said(subject.y[row]) for row in rows]
    for name in subject.predictor.target.column_names:
        facts[name] = [_said(subject.columns[name][row]) for row in rows]
    facts["p-value"] = [_said(subject.columns["p_value"][row]) for row in rows]
    facts["refused"] = ["refused" if subject.refused[row] else "" for row in rows]
    return facts


def _reasons(subject: Subject, rows: np.ndarray, *, strange: bool) -> list[str] | None:
    """The columns that explain most of each row, where the model can explain itself."""
    if subject.explain is None:
        return None
    return view_of(subject).reasons(subject.explain, rows, strange=strange)


def _said(value: object) -> str:
    if value is None or value != value:
        return ""
    return number(float(value)) if isinstance(value, float | np.floating) else str(value)
