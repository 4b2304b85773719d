"""After training: base and head settled, the threshold set, what was learned put together."""

from dataclasses import replace
from typing import cast

import equinox as eqx
import numpy as np

from diglm.fitting.classbase import with_base_of_classes
from diglm.fitting.committee import settled_committee
from diglm.fitting.prepare import Prepared, can_have_class_base
from diglm.fitting.sources import AbstractSource, pieces
from diglm.fitting.told import Told, agreement_of, told_by
from diglm.heads import ConjugateHead, Settled
from diglm.heads.bayesian.regression import Statistics
from diglm.hybrid import Hybrid
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
    if prepared.begun.split is not None:
        model, told = settled_committee(prepared, prepared.begun.split, result.model)
        judge, sums = model, None
    else:
        model = _with_base(prepared, _worth_training(prepared, result.model))
        settled, judge, told = _settled_alone(prepared, model, exact=result.stopped == "exact")
        model, sums = eqx.tree_at(lambda m: m.head, model, settled.head), settled.sums
    learned, refusal = prepared.learned, _refusal(prepared, judge, left_out)
    predictor = Predictor(
        learned.encoder,
        learned.target,
        model,
        refusal,
        learned.groups,
        owner=prepared.request.owner,
        agreement=agreement_of(learned, model, refusal, told),
    )
    if sums is None:
        return predictor
    return _remembering(prepared, predictor, source, sums)


def _settled_alone(
    prepared: Prepared, model: Hybrid, *, exact: bool
) -> tuple[Settled, Hybrid, Told | None]:
    """The head as it will answer, the model that sets the threshold, and answers to held-out rows.

    A head with a posterior learns every row in the end. But its answers to rows that it has
    learned from prove nothing. So a threshold on answers is set by a head that has learned of the
    held-out rows those alone that judge training (which are all of them where there are few), and
    sets and intervals by one that has learned none.
    """
    learned, head = prepared.learned, model.head
    split = learned.split
    train = learned.features(model, NOBODY if head.only_held_out else split.train)

    def settled_on(rows: np.ndarray) -> Settled:
        return head.settle(train, learned.features(model, rows), exact=exact)

    def knowing(rows: np.ndarray) -> Hybrid:
        return eqx.tree_at(lambda m: m.head, model, settled_on(rows).head)

    if not head.learns_all:
        settled = settled_on(split.held_out)
        model = eqx.tree_at(lambda m: m.head, model, settled.head)
        return settled, model, told_by(prepared, model)
    settled = settled_on(prepared.whole_split.held_out)
    judge = eqx.tree_at(lambda m: m.head, model, settled.head)
    if prepared.request.rules_read_head(learned.encoder.layout):
        judge = knowing(split.held_out)
    return settled, judge, told_by(prepared, knowing(NOBODY))


def _worth_training(prepared: Prepared, model: Hybrid) -> Hybrid:
    """The trained model, or that from which it set out where training may have gained by chance.

    Of many epochs the best on a few held-out rows looks better than it is. Where the gain in
    log p(y|x) is within two standard errors the head's flow stays a plain GLM of the columns. So it
    does where labels are too few to hold any out and nothing but them has shaped it.
    """
    learned, start = prepared.learned, prepared.begun.model
    part, rows = learned.split.held_out, learned.rows
    part = part[learned.labels.labelled[part] & (rows.weights[part] > 0)]
    alone = model.density is None or learned.groups is not None
    untold = len(part) == 0 and not np.all(prepared.train.labelled)
    if untold and not alone and not prepared.request.terms:
        return _with_density(start, model)
    if alone or not 0 < len(part) <= MOST_TO_DOUBT:
        return model
    start, weights = _with_density(start, model), rows.weights[part]
    told = [
        learned.target.log_prob(learned.response(one, part), rows.y[part]) for one in (model, start)
    ]
    gains = told[0] - told[1]
    gain = np.average(gains, weights=weights)
    error = np.sqrt(np.average((gains - gain) ** 2, weights=weights) / len(part))
    return start if gain <= DOUBT * error else model


def _with_density(start: Hybrid, model: Hybrid) -> Hybrid:
    return eqx.tree_at(lambda m: m.density, start, model.density, is_leaf=lambda leaf: leaf is None)


def _refusal(prepared: Prepared, model: Hybrid, left_out: LeftOut | None) -> Refusal:
    """Score and rule, fitted to rows that nothing else has seen; to those of training if asked."""
    request, learned, ruling = prepared.request, prepared.learned, prepared.ruling
    train = learned.split.train

    def known(part: np.ndarray) -> Known:
        return learned.known(model, part)

    some = train
    if left_out is not None or not request.rule.needs_training(len(ruling)):
        n_wanted = min(request.score.wants_training, len(train))
        some = train[np.linspace(0, len(train) - 1, n_wanted).astype(int)]
    training = known(some) if len(some) else None
    held_out, judging = known(ruling), np.setdiff1d(prepared.whole_split.held_out, ruling)
    wrong = None
    if request.rule.needs_answers and held_out.expected.ndim == 2:
        labels, predicted = learned.labels, np.argmax(held_out.expected, axis=1)
        right = predicted == labels.ys[ruling]
        wrong = np.where(labels.labelled[ruling], ~right, np.nan)
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
        or not can_have_class_base(prepared.learned.target, prepared.request)
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
    unit, batch = prepared.learned.rows.weight_unit, prepared.learned.batch
    every = source.every_row(prepared.encode)
    if every is None:
        marks = [mark_rows(rows.x, rows.y, rows.weight) for rows in pieces([batch])]
        memory = Memory.of(sums, np.concatenate(marks), unit)
        return replace(predictor, memory=memory)
    known, marks = Statistics.zero(head.dim + 1, head.n_targets), []
    viewer = predictor.viewer
    for rows in pieces(every):
        z = viewer.features_of_values(np.asarray(rows.x))
        known = known.plus(head.statistics(z, np.asarray(rows.y), np.asarray(rows.weight)))
        marks.append(mark_rows(rows.x, rows.y, rows.weight))
    return remembering(predictor, head, Memory.of(known, np.concatenate(marks), unit))
