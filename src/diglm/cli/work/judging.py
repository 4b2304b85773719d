"""`diglm evaluate`, `report` and `drift`: a model against rows whose truth is known, or not."""

from dataclasses import asdict
from pathlib import Path

import numpy as np

from diglm.cli.errors import FAULT, CommandError
from diglm.cli.terminal import Talk, print_json, print_pairs
from diglm.cli.work.data import AbstractData, TableData, listed, open_data
from diglm.cli.work.holding import unseen_part
from diglm.cli.work.models import open_model
from diglm.cli.work.writing import require_place
from diglm.estimators import Estimator
from diglm.predictor.drift import NOTHING, Drift
from diglm.report import measure, worded
from diglm.report.measures import membership
from diglm.targets.base import is_missing

MOST_ROWS = 20_000  # that a report looks at; figures show no more
MOST_WATCHED = 100_000  # rows that `drift` looks at
SHOWN_COLUMNS = 8


def evaluate(model: str, data: str, target: str | None, *, as_json: bool, talk: Talk) -> None:
    """Scores on rows whose truth is known; those of training are judged by the ones held out."""
    fitted = open_model(model)
    rows = _judged_rows(fitted, open_data(data), talk)
    given = rows.rows(fitted.predictor_)
    truth = _truth(fitted, rows, target, data)
    with talk.waiting("looking at rows"):
        scores = measure(fitted.predictor_, given, truth)
    if as_json:
        print_json(scores)
    else:
        print_pairs(worded(scores))


def report(
    model: str,
    data: str,
    out: Path,
    target: str | None,
    against: str | None,
    command: str,
    *,
    seed: int,
    talk: Talk,
) -> None:
    """One HTML file about the model and these rows."""
    require_place(out, (".html", ".htm"), read=(model, data, *([against] if against else [])))
    fitted = open_model(model)
    whole = open_data(data)
    rows = _judged_rows(fitted, whole, talk).sampled(MOST_ROWS, seed)
    truth = rows.truth(_target(fitted, target))
    if target is not None or truth is not None:
        truth = _truth(fitted, rows, target, data)
    if truth is None and not fitted.predictor_.target.density_only:
        talk.warn("these rows have no target, so the report says nothing of accuracy.")
    other = None
    if against is not None:
        other = open_data(against).sampled(MOST_ROWS, seed).rows(fitted.predictor_)
    with talk.waiting("drawing figures"):
        fitted.report(
            out,
            rows.rows(fitted.predictor_),
            truth,
            against=other,
            title=f"{Path(model).name} on {Path(data).name}",
            command=command,
            random_state=seed,
            rows=range(rows.n_rows) if rows.places is None else rows.places.tolist(),
            note=_note(whole, rows),
        )
    talk.say(f"Wrote {out}; open it in a browser.")


def _note(whole: AbstractData, rows: AbstractData) -> str:
    """Which rows of a file a report is about."""
    name, how = Path(whole.name).name, "Rows are numbered from 0, as they stand in the file."
    if rows.n_rows == whole.n_rows:
        return how
    return f"These are {rows.n_rows:,} of the {whole.n_rows:,} rows of {name}. {how}"


def drift(
    model: str,
    data: str,
    reference: str | None,
    target: str | None,
    *,
    in_order: bool,
    as_json: bool,
    talk: Talk,
) -> int:
    """Whether rows are still like those of training; exit code 1 where they are not.

    A monitor watches a stream, and a file that is sorted moves from its first row to its last. So
    rows are mixed first, unless their order is that of time.
    """
    fitted, rows = open_model(model), open_data(data).sampled(MOST_WATCHED)
    if not in_order:
        rows = rows.take(np.random.default_rng(0).permutation(rows.n_rows))
    usual = _reference(fitted, reference, talk).sampled(MOST_ROWS)
    column, predictor = _target(fitted, target), fitted.predictor_
    truths = None if predictor.target.density_only else (usual.truth(column), rows.truth(column))
    known = truths is not None and all(truth is not None for truth in truths)
    before, now = truths if known and truths is not None else (None, None)
    with talk.waiting("comparing"):
        monitor = fitted.monitor(usual.rows(predictor), before)
        found = monitor.update(rows.rows(predictor), now)
    if as_json:
        print_json(asdict(found))
    else:
        print(found)
        print_columns(found)
    if not known and not predictor.target.density_only:
        talk.warn("without targets on both sides only the inputs are judged.")
    return 0 if found.verdict == NOTHING else FAULT


def print_columns(found: Drift) -> None:
    """The columns with the most evidence."""
    for column in found.columns[:SHOWN_COLUMNS]:
        print(f"{column.name}: {column.shift:+.2f} sd (evidence {column.evidence:.1f})")


def _reference(model: Estimator, given: str | None, talk: Talk) -> AbstractData:
    """Usual rows that the model was not fitted to: given, or held out of the data of training."""
    if given is not None:
        return _judged_rows(model, open_data(given), talk)
    source = model.card_.get("data")
    if isinstance(source, str) and Path(source).exists():
        unseen = unseen_part(open_data(source), model.card_)
        if unseen is not None:
            talk.say(f"Compared with {unseen.n_rows:,} rows of {source} that were held out.")
            return unseen
    raise CommandError(
        "there is nothing to compare with: the data of training is not where it was.",
        "give usual rows that the model was not trained on: --reference FILE",
    )


def _judged_rows(model: Estimator, data: AbstractData, talk: Talk) -> AbstractData:
    """All rows, but of those of training only the ones that were held out."""
    unseen = unseen_part(data, model.card_)
    if unseen is None:
        return data
    talk.warn(
        f"{data.name} is what the model was trained on: it is judged by the {unseen.n_rows:,} "
        "rows that were held out."
    )
    return unseen


def _target(model: Estimator, asked: str | None) -> str | None:
    kept = model.card_.get("target")
    return asked if asked is not None else kept if isinstance(kept, str) else None


def _truth(model: Estimator, rows: AbstractData, asked: str | None, name: str) -> np.ndarray | None:
    """The targets, or an error where a model that predicts something has none to be judged by."""
    if model.predictor_.target.density_only:
        return None
    column = _target(model, asked)
    found = rows.truth(column)
    if found is not None:
        _require_fitting(model, found, column, name)
        return found
    if isinstance(rows, TableData) and asked is not None:
        rows.require(asked)
    what = "no labels" if column is None else f"no column {column!r}, which the model predicts"
    raise CommandError(f"{name} has {what}.", "name the column with the truth: --target COLUMN")


def _require_fitting(model: Estimator, truth: np.ndarray, column: str | None, name: str) -> None:
    """Raise where what is said to be the truth is nothing that the model could have said."""
    known = truth[~is_missing(truth)]
    if len(known) == 0:
        return
    classes = getattr(model.predictor_.target, "classes", None)
    try:
        fits = classes is None or bool(membership(classes, known).any())
        fits = fits and (classes is not None or bool(np.asarray(known, float).size))
    except (ValueError, TypeError):  # words where numbers were learned
        fits = False
    if not fits:
        says = "numbers" if classes is None else listed([str(one) for one in classes], 6)
        what = "its truth" if column is None else f"its column {column!r}"
        raise CommandError(
            f"the model says {says}; in {name} {what} holds values such as {known[0]!s}.",
            "name the column with the truth: --target COLUMN",
        )
