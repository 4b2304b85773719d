"""The model card: what a model is, what it was made from, and how to make it again."""

from collections.abc import Mapping
from html import escape

from diglm.report.page import Section, number, table
from diglm.report.subject import Subject


def describe(subject: Subject) -> dict[str, object]:
    """What a model is, by name, as plain values."""
    predictor, card = subject.predictor, subject.card
    target, encoder = predictor.target, predictor.encoder
    classes = getattr(target, "classes", None)
    found: dict[str, object] = {
        "kind": subject.kind,
        "predicts": card.get("target"),
        "classes": None if classes is None else [str(one) for one in classes],
        "head": target.choice.name if target.choice is not None else None,
        "columns": encoder.feature_names or f"{encoder.n_features} without names",
        "left out": card.get("left out"),
        "rows": card.get("rows"),
        "data": card.get("data"),
        "trained": card.get("trained"),
        "epochs": len(subject.history),
        "refuses": f"{predictor.refusal.threshold.rule}, by {_score(subject)}",
        "threshold": float(predictor.refusal.threshold.limit),
        "held out": len(predictor.refusal.threshold.ranks),
        "command": card.get("command"),
        "versions": card.get("versions"),
        "test": card.get("test"),
    }
    return {name: value for name, value in found.items() if value is not None}


def card_section(subject: Subject) -> Section:
    """What the model is, its parameters, and the exact commands."""
    found = describe(subject)
    commands = [found.pop("command", None), subject.card.get("report command")]
    shown = {
        name: _said(value) for name, value in found.items() if name not in ("test", "versions")
    }
    given = {name: _said(value) for name, value in subject.parameters.items() if name != "verbose"}
    content = table(("", ""), list(shown.items()), css="words")
    if given:
        content += "<h3>Parameters that are not the defaults</h3>"
        content += table(("parameter", "value"), list(given.items()), css="words")
    lines = [escape(str(command)) for command in commands if command]
    if lines:
        content += "<h3>Made by</h3><pre>" + "\n".join(lines) + "</pre>"
    versions = found.get("versions")
    if isinstance(versions, Mapping):
        content += table(("package", "version"), [(str(k), str(v)) for k, v in versions.items()])
    return Section(
        "Model card",
        "Answers are promised for rows like those of training, and only for these; what is refused "
        "is answered by nobody. Rows are judged one by one: their order and company do not matter.",
        content,
    )


def _score(subject: Subject) -> str:
    return type(subject.predictor.refusal.score).__name__


def _said(value: object) -> str:
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_said(one)}" for name, one in value.items())
    return str(value)
