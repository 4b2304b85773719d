"""Answers to held-out rows of those who have not learned from them, and how well they agree."""

from typing import NamedTuple

import numpy as np

from diglm.fitting.learned import Learned
from diglm.fitting.prepare import Prepared
from diglm.heads import AbstractResponse
from diglm.hybrid import Hybrid
from diglm.predictor.agreement import Agreement
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
    if len(rows) == 0 or prepared.learned.target.density_only:
        return None
    return Told(rows, prepared.learned.response(model, rows))


def agreement_of(
    learned: Learned, model: Hybrid, refusal: Refusal, told: Told | None
) -> Agreement | None:
    """How well the answers to held-out rows agree with their targets, where they are answered."""
    if told is None:
        return None
    rows, response = told
    counted = ~refusal.rejects(learned.known(model, rows)) & (learned.rows.weights[rows] > 0)
    return Agreement.of(learned.target, response, learned.rows.y[rows], counted)
