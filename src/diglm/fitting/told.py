"""Answers to held-out rows of those who have not learned from them, and how well they agree."""

from typing import NamedTuple

import numpy as np

from diglm.fitting.prepare import Prepared
from diglm.heads import AbstractResponse
from diglm.hybrid import Hybrid
from diglm.predictor import evaluate
from diglm.predictor.agreement import Agreement
from diglm.predictor.look import Viewer
from diglm.refusal import Refusal

MOST_TO_JUDGE = 5_000


class Told(NamedTuple):
    """Rows by their numbers, and the answers to them of those who have not learned from them."""

    rows: np.ndarray
    response: AbstractResponse


def told_by(prepared: Prepared, model: Hybrid) -> Told | None:
    """Answers of a model to the rows that it was not trained on."""
    rows = prepared.whole_split.held_out
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST_TO_JUDGE)).astype(int)]
    if len(rows) == 0 or prepared.target.density_only:
        return None
    viewer = Viewer(prepared.encoder, model, prepared.groups)
    return Told(rows, answered(prepared, viewer, rows))


def answered(prepared: Prepared, viewer: Viewer, rows: np.ndarray) -> AbstractResponse:
    """p(y|x) of some of the rows."""
    codes = None if prepared.codes is None else prepared.codes[rows]
    seen = viewer.look(prepared.encoded.take(rows), codes, evaluate.respond)
    return seen.response  # type: ignore[return-value]


def agreement_of(
    prepared: Prepared, viewer: Viewer, refusal: Refusal, told: Told | None
) -> Agreement | None:
    """How well the answers to held-out rows agree with their targets, where they are answered."""
    if told is None:
        return None
    rows, response = told
    codes = None if prepared.codes is None else prepared.codes[rows]
    known = viewer.known(prepared.encoded.take(rows), codes)
    counted = ~refusal.rejects(known) & (prepared.rows.weights[rows] > 0)
    return Agreement.of(prepared.target, response, prepared.rows.y[rows], counted)
