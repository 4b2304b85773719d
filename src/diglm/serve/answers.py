"""What can be asked of rows that were looked at: one pass, and several views of what it knows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from diglm.data.encoder import Encoded
from diglm.predictor import Predictor
from diglm.refusal import Known
from diglm.registry import Registry
from diglm.serve import written
from diglm.serve.bodies import Json
from diglm.serve.errors import Refused
from diglm.serve.rows import AbstractReader, Given, codes_of, encode_each
from diglm.targets import AbstractTarget, ClassTarget, NumberTarget

LEVEL = 0.9  # of the interval of a number that /predict tells
Columns = dict[str, np.ndarray]
View = Callable[[Predictor, Known], Columns]


class Question(NamedTuple):
    """Rows, and the view of them that a request wants."""

    rows: Given
    view: str


def _probabilities(predictor: Predictor, known: Known) -> Columns:
    """Of every class, in the order of `classes`."""
    logits = predictor.target.logits(known.response)  # type: ignore[attr-defined]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return {"probabilities": odds / odds.sum(axis=1, keepdims=True)}


def _interval(predictor: Predictor, known: Known) -> Columns:
    """Ends of the interval of y; one for each target."""
    low, high = predictor.interval(known.response, LEVEL)
    return {"low": low, "high": high}


# What /predict tells beside the prediction, by kind of target.
DETAILS: dict[type[AbstractTarget], Callable[[Predictor, Known], Columns]] = {
    ClassTarget: _probabilities,
    NumberTarget: _interval,
}


def _predict(predictor: Predictor, known: Known) -> Columns:
    target = predictor.target
    detail = DETAILS.get(type(target), lambda predictor, known: {})
    rejected = {"rejected": predictor.refusal.rejects(known)}
    return target.columns(known.response) | detail(predictor, known) | rejected


def _density(predictor: Predictor, known: Known) -> Columns:
    return {
        "log_px": known.log_px,
        "strangeness": predictor.refusal.strangeness(known),
        "p_value": predictor.refusal.p_value(known),
        "rejected": predictor.refusal.rejects(known),
    }


VIEWS: Registry[View] = Registry(
    "view", {"predict": _predict, "assess": Predictor.columns_of, "density": _density}
)


def answer_all(
    predictor: Predictor, reader: AbstractReader, questions: list[Question]
) -> list[dict[str, list[Json]] | Exception]:
    """The answers of many requests to one model, from one pass over the rows of all.

    Rows are evaluated independently of their company (`diglm.predictor.evaluate`), so each answer
    is the one that it would have had alone.
    """
    parts = [question.rows for question in questions]
    try:
        codes = codes_of(predictor, parts)
        encoded = predictor.encode(reader.join([part.content for part in parts]))
    except (ValueError, TypeError):
        return _answer_readable(predictor, reader, questions)
    known = predictor.known(encoded, codes)
    tables = {view: VIEWS[view](predictor, known) for view in {q.view for q in questions}}
    answers, start = [], 0
    for question in questions:
        stop = start + question.rows.n_rows
        table = tables[question.view]
        answers.append(written.columns({name: c[start:stop] for name, c in table.items()}))
        start = stop
    return answers


def _answer_readable(
    predictor: Predictor, reader: AbstractReader, questions: list[Question]
) -> list[dict[str, list[Json]] | Exception]:
    """The same where some rows cannot be read: their senders hear why, the others are answered."""
    each = encode_each(reader, predictor, [question.rows for question in questions])
    failed = {i: found for i, found in enumerate(each) if isinstance(found, Exception)}
    if not failed:  # only together they cannot be read: one after the other, then
        return [answer_all(predictor, reader, [question])[0] for question in questions]
    good = [question for i, question in enumerate(questions) if i not in failed]
    answered = iter(answer_all(predictor, reader, good) if good else [])
    return [failed[i] if i in failed else next(answered) for i in range(len(questions))]


def encoded_rows(predictor: Predictor, reader: AbstractReader, given: Given) -> Encoded:
    """The rows of one request, for questions that are answered alone."""
    found = encode_each(reader, predictor, [given])[0]
    if isinstance(found, Exception):
        raise found
    return found


def require_target(predictor: Predictor, what: str) -> None:
    """Refuse questions about a target to a model that has none."""
    if predictor.target.density_only:
        raise Refused(422, f"{what} needs a target, but this model was fitted to rows alone.")
