"""After training: base and head settled, the threshold set, what was learned put together."""

from dataclasses import replace
from typing import cast

import equinox as eqx
import numpy as np

from diglm.fitting.classbase import with_base_of_classes
from diglm.fitting.committee import MOST_TO_JUDGE, Told, answered, settled_committee
from diglm.fitting.prepare import Prepared, can_have_class_base
from diglm.fitting.sources import AbstractSource, pieces
from diglm.heads import ConjugateHead
from diglm.heads.bayesian.regression import Statistics
from diglm.hybrid import Hybrid
from diglm.predictor import evaluate
from diglm.predictor.agreement import Agreement
from diglm.predictor.look import Viewer
from diglm.predictor.memory import Memory
from diglm.predictor.online import remembering
from diglm.predictor.predictor import Predictor
from diglm.predictor.seen import mark_rows
from diglm.refusal import Known, LeftOut, Refusal, fit_refusal
from diglm.training import FitResult

NOBODY = np.zeros(0, int)
DOUBT = 2.0  # standard errors: of the best of many epochs, one is soon gained by chance
MOST_TO_DOUBT = 200  # held-out rows; by more of them, training is judged well


def settle(
    prepared: Prepared,
    result: FitResult,
    source: AbstractSource,
    left_out: LeftOut | None = None,
) -> Predictor:
    """The predictor that training has led to."""
    split = prepared.split
    if prepared.begun.split is not None:
        model, told = settled_committee(prepared, prepared.begun.split, result.model)
        sums = None
    else:
        model = _with_base(prepared, _worth_training(prepared, result.model))
        viewer = Viewer(prepared.encoder, model)
        trained = NOBODY if model.head.only_held_out else split.train
        train, held_out = (prepared.features(viewer, part) for part in (trained, split.held_out))
        exact = result.stopped == "exact"
        settled = model.head.settle(train, held_out, exact=exact)
        head = settled.head
        if head.learns_all:  # its answers to rows that it has learned from prove nothing
            head = model.head.settle(train, held_out.take(NOBODY), exact=exact).head
        told = _told(prepared, eqx.tree_at(lambda m: m.head, model, head))
        model, sums = eqx.tree_at(lambda m: m.head, model, settled.head), settled.sums
    viewer = Viewer(prepared.encoder, model, prepared.groups)
    refusal = _refusal(prepared, viewer, left_out)
    predictor = Predictor(
        prepared.encoder,
        prepared.target,
        model,
        refusal,
        prepared.groups,
        owner=prepared.request.owner,
        agreement=_agreement(prepared, viewer, refusal, told),
    )
    if sums is None:
        return predictor
    return _remembering(prepared, predictor, source, sums)


def _worth_training(prepared: Prepared, model: Hybrid) -> Hybrid:
    """The trained model, or that from which it set out where training may have gained by chance.

    Of many epochs the best on a few held-out rows looks better than it is. Where the gain in
    log p(y|x) is within two standard errors the head's flow stays a plain GLM of the columns. So it
    does where labels are too few to hold any out and nothing but them has shaped it.
    """
    start, part = prepared.begun.model, prepared.split.held_out
    labelled = prepared.target.read(prepared.rows.y).labelled[part]
    part = part[labelled & (prepared.rows.weights[part] > 0)]
    alone = model.density is None or prepared.groups is not None
    untold = len(part) == 0 and not np.all(prepared.train.labelled)
    if untold and not alone and not prepared.request.terms:
        return _with_density(start, model)
    if alone or not 0 < len(part) <= MOST_TO_DOUBT:
        return model
    ys, weights = prepared.rows.y[part], prepared.rows.weights[part]
    encoded = prepared.encoded.take(part)
    start = _with_density(start, model)
    told = []
    for one in (model, start):
        response = Viewer(prepared.encoder, one).look(encoded, None, evaluate.respond).response
        told.append(prepared.target.log_prob(response, ys))  # type: ignore[arg-type]
    gains = told[0] - told[1]
    gain = np.average(gains, weights=weights)
    error = np.sqrt(np.average((gains - gain) ** 2, weights=weights) / len(part))
    return start if gain <= DOUBT * error else model


def _with_density(start: Hybrid, model: Hybrid) -> Hybrid:
    return eqx.tree_at(lambda m: m.density, start, model.density, is_leaf=lambda leaf: leaf is None)


def _told(prepared: Prepared, model: Hybrid) -> Told | None:
    """Answers of a model to the rows that it was not trained on."""
    rows = prepared.whole_split.held_out
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST_TO_JUDGE)).astype(int)]
    if len(rows) == 0 or prepared.target.density_only:
        return None
    viewer = Viewer(prepared.encoder, model, prepared.groups)
    return Told(rows, answered(prepared, viewer, rows))


def _agreement(
    prepared: Prepared, viewer: Viewer, refusal: Refusal, told: Told | None
) -> Agreement | None:
    """How well the answers to held-out rows agree with their targets, where they are answered."""
    if told is None:
        return None
    rows, response = told
    codes = None if prepared.codes is None else prepared.codes[rows]
    known = viewer.known(prepared.encoded.take(rows), codes)
    answered = ~refusal.rejects(known) & (prepared.rows.weights[rows] > 0)
    return Agreement.of(prepared.target, response, prepared.rows.y[rows], answered)


def _refusal(prepared: Prepared, viewer: Viewer, left_out: LeftOut | None) -> Refusal:
    """Score and rule, fitted to rows that nothing else has seen; to those of training if asked."""
    request, train, ruling = prepared.request, prepared.split.train, prepared.ruling

    def known(part: np.ndarray) -> Known:
        codes = None if prepared.codes is None else prepared.codes[part]
        return viewer.known(prepared.encoded.take(part), codes)

    some = train
    if left_out is not None or not request.rule.needs_training(len(ruling)):
        n_wanted = min(request.score.wants_training, len(train))
        some = train[np.linspace(0, len(train) - 1, n_wanted).astype(int)]
    training = known(some) if len(some) else None
    held_out, judging = known(ruling), np.setdiff1d(prepared.whole_split.held_out, ruling)
    wrong = None
    if request.rule.needs_answers and held_out.expected.ndim == 2:
        labels = prepared.target.read(prepared.rows.y[ruling])
        predicted = np.argmax(held_out.expected, axis=1)
        wrong = np.where(labels.labelled, predicted != labels.ys, np.nan)
    aside = known(judging) if len(judging) else training
    return fit_refusal(
        request.score, request.rule, held_out, training, wrong, aside=aside, left_out=left_out
    )


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
