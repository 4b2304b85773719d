"""After training: base and head settled, the threshold set, what was learned put together."""

from dataclasses import replace
from typing import cast

import equinox as eqx
import numpy as np

from diglm.fitting.classbase import with_base_of_classes
from diglm.fitting.prepare import Prepared, can_have_class_base
from diglm.fitting.sources import AbstractSource, pieces
from diglm.heads import ConjugateHead
from diglm.heads.bayesian.regression import Statistics
from diglm.hybrid import Hybrid
from diglm.predictor import evaluate
from diglm.predictor.look import Viewer
from diglm.predictor.memory import Memory
from diglm.predictor.online import remembering
from diglm.predictor.predictor import Predictor
from diglm.predictor.seen import mark_rows
from diglm.refusal import Known, Refusal, fit_refusal
from diglm.refusal.refusal import n_for_rule
from diglm.training import FitResult

NOBODY = np.zeros(0, int)
DOUBT = 2.0  # standard errors: of the best of many epochs, one is soon gained by chance
MOST_TO_DOUBT = 200  # held-out rows; by more of them, training is judged well


def settle(prepared: Prepared, result: FitResult, source: AbstractSource) -> Predictor:
    """The predictor that training has led to."""
    split = prepared.split
    model = _with_base(prepared, _worth_training(prepared, result.model))
    viewer = Viewer(prepared.encoder, model)
    trained = NOBODY if model.head.only_held_out else split.train
    train, held_out = (prepared.features(viewer, part) for part in (trained, split.held_out))
    settled = model.head.settle(train, held_out, exact=result.stopped == "exact")
    model = eqx.tree_at(lambda m: m.head, model, settled.head)
    refusal = _refusal(prepared, Viewer(prepared.encoder, model, prepared.groups))
    predictor = Predictor(
        prepared.encoder,
        prepared.target,
        model,
        refusal,
        prepared.groups,
        owner=prepared.request.owner,
    )
    if settled.sums is None:
        return predictor
    return _remembering(prepared, predictor, source, settled.sums)


def _worth_training(prepared: Prepared, model: Hybrid) -> Hybrid:
    """The trained model, or that from which it set out where training may have gained by chance.

    Of many epochs the best on a few held-out rows looks better than it is. Where the gain in
    log p(y|x) is within two standard errors the head's flow stays a plain GLM of the columns.
    """
    start, part = prepared.begun.model, prepared.split.held_out
    labelled = prepared.target.read(prepared.rows.y).labelled[part]
    part = part[labelled & (prepared.rows.weights[part] > 0)]
    alone = model.density is None or prepared.groups is not None
    if alone or not 0 < len(part) <= MOST_TO_DOUBT:
        return model
    ys, weights = prepared.rows.y[part], prepared.rows.weights[part]
    encoded = prepared.encoded.take(part)
    start = eqx.tree_at(
        lambda m: m.density, start, model.density, is_leaf=lambda leaf: leaf is None
    )
    told = []
    for one in (model, start):
        response = Viewer(prepared.encoder, one).look(encoded, None, evaluate.respond).response
        told.append(prepared.target.log_prob(response, ys))  # type: ignore[arg-type]
    gains = told[0] - told[1]
    gain = np.average(gains, weights=weights)
    error = np.sqrt(np.average((gains - gain) ** 2, weights=weights) / len(part))
    return start if gain <= DOUBT * error else model


def _refusal(prepared: Prepared, viewer: Viewer) -> Refusal:
    """Score and rule, fitted to rows that were held out; to those of training where asked for."""
    request, split = prepared.request, prepared.split

    def known(part: np.ndarray) -> Known:
        codes = None if prepared.codes is None else prepared.codes[part]
        return viewer.known(prepared.encoded.take(part), codes)

    n_left = n_for_rule(request.score, len(split.held_out))
    training = split.train
    if not request.rule.needs_training(n_left):
        n_wanted = min(request.score.wants_training, len(training))
        training = training[np.linspace(0, len(training) - 1, n_wanted).astype(int)]
    seen = known(training) if len(training) else None
    held_out = known(split.held_out)
    wrong = None
    if request.rule.needs_answers and held_out.expected.ndim == 2:
        labels = prepared.target.read(prepared.rows.y[split.held_out])
        predicted = np.argmax(held_out.expected, axis=1)
        wrong = np.where(labels.labelled, predicted != labels.ys, np.nan)
    return fit_refusal(request.score, request.rule, held_out, seen, wrong)


def _with_base(prepared: Prepared, model: Hybrid) -> Hybrid:
    """The trained model with the density of its features that suits them best."""
    wanted = prepared.recipe.class_base
    if (
        wanted == "never"
        or model.density is not None
        or not can_have_class_base(prepared.target, prepared.request)
    ):
        return model
    return with_base_of_classes(
        model,
        prepared.train,
        prepared.begun.held_out,
        always=wanted == "always",
        seed=prepared.request.seed,
    )


def _remembering(
    prepared: Prepared, predictor: Predictor, source: AbstractSource, sums: Statistics
) -> Predictor:
    """The predictor with the sums of every labelled row, and marks of those rows."""
    head = cast(ConjugateHead, predictor.model.head)
    unit = prepared.rows.weight_unit
    every = source.every_row(prepared.encode)
    if every is None:
        batches = list(pieces([prepared.train, prepared.begun.held_out]))
        marks = [mark_rows(rows.x, rows.y, rows.weight) for rows in batches]
        memory = Memory.of(sums, np.concatenate(marks), unit)
        return replace(predictor, memory=memory)
    known, marks = Statistics.zero(head.dim + 1, head.n_targets), []
    viewer = predictor.viewer
    for rows in pieces(every):
        z = viewer.features_of_values(np.asarray(rows.x))
        known = known.plus(head.statistics(z, np.asarray(rows.y), np.asarray(rows.weight)))
        marks.append(mark_rows(rows.x, rows.y, rows.weight))
    return remembering(predictor, head, Memory.of(known, np.concatenate(marks), unit))
