"""Questions that are answered one request at a time: draws, changes, reasons and drift."""

import math
import warnings
from collections.abc import Callable

import numpy as np

from diglm.predictor import MissedTargetWarning, Monitor, counterfactual, explain
from diglm.serve import written
from diglm.serve.answers import encoded_rows, require_target
from diglm.serve.bodies import Json, refuse_others, take
from diglm.serve.errors import Refused
from diglm.serve.models import Served
from diglm.serve.rows import group_column
from diglm.serve.settings import Limits

Answer = dict[str, Json]
Errand = Callable[[], Answer]
NUMBERS = (int, float)
MOST_SEED = 2**31 - 1
MOST_STEPS = 32
SCALARS = (str, bool, int, float)
CHANGE = frozenset({"model", "target", "margin", "fixed", "bounds", "direction", "allow_strange"})


def sample(served: Served, content: dict[str, Json], limits: Limits) -> tuple[int, Errand]:
    """`n` rows like those that the model was fitted to; given `y`, rows of that target."""
    refuse_others(content, frozenset({"model", "n", "y", "seed", "temperature"}))
    n = take(content, "n", (int,), 1)
    seed = take(content, "seed", (int,), 0)
    temperature = take(content, "temperature", NUMBERS, 1.0)
    y = take(content, "y", SCALARS)
    if not 1 <= n <= limits.rows:
        status = 413 if n > limits.rows else 422
        raise Refused(status, f"n must lie between 1 and {limits.rows}; got {_short(n)}.")
    if not 0 <= seed <= MOST_SEED:
        raise Refused(422, f"seed must lie between 0 and {MOST_SEED}; got {_short(seed)}.")
    if not 0 < temperature <= 10:
        raise Refused(
            422, f"temperature must lie above 0, at most at 10; got {_short(temperature)}."
        )
    if y is not None:
        require_target(served.predictor, "y")
    # A program is compiled for each number of draws: powers of two are few.
    drawn = 2 ** math.ceil(math.log2(n))

    def run() -> Answer:
        rows = served.predictor.sample(drawn, y, seed=seed, temperature=float(temperature))
        return written.rows(rows[:n], served.column_names)

    return drawn, guarded(run)


def change(served: Served, content: dict[str, Json], limits: Limits) -> tuple[int, Errand]:
    """The nearest rows that would be answered with `target`, within constraints on columns."""
    refuse_others(content, served.reader.fields - {"groups"} | CHANGE)
    predictor, reader = served.predictor, served.reader
    require_target(predictor, "A counterfactual")
    if not predictor.model.head.inverts_mean:
        raise Refused(422, "The head of this model has no one predictor to move along.")
    given = reader.given(content, limits.heavy_rows)
    wanted = take(content, "target", (*SCALARS, list))
    margin = take(content, "margin", NUMBERS, 1.0)
    if wanted is None:
        raise Refused(422, "A counterfactual needs a target: the answer that the rows should have.")
    if not 0 <= margin <= 100:
        raise Refused(422, f"margin must lie between 0 and 100; got {_short(margin)}.")
    named = {str(facet.name): facet.name for facet in predictor.encoder.facets}
    fixed = [_called(name, named, "fixed") for name in take(content, "fixed", (list,), [])]
    bounds, direction = (
        {_called(name, named, field): value for name, value in given_to.items()}
        for field in ("bounds", "direction")
        for given_to in [take(content, field, (dict,), {})]
    )
    strange = take(content, "allow_strange", (bool,), False)

    def run() -> Answer:
        cells = predictor.cells(reader.join([given.content]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissedTargetWarning)  # `valid` says it
            found = counterfactual(
                predictor,
                cells,
                wanted,
                margin=float(margin),
                fixed=fixed,
                bounds=bounds,
                direction=direction,
                allow_strange=strange,
            )
        parts = ("prediction", "log_px", "rejected", "reached", "valid", "cost", "distance")
        return {
            **written.rows(found.x, served.column_names),
            **{name: written.column(np.asarray(getattr(found, name))) for name in parts},
        }

    return given.n_rows, guarded(run)


def interpolate(served: Served, content: dict[str, Json], limits: Limits) -> tuple[int, Errand]:
    """Rows on the way from one row to another, through latent space."""
    refuse_others(content, (served.reader.fields | {"model", "steps"}) - {"groups"})
    given = served.reader.given(content, limits.rows)
    steps = take(content, "steps", (int,), 8)
    if given.n_rows != 2:
        raise Refused(422, f"A way leads from one row to another: give 2 rows, not {given.n_rows}.")
    if not 2 <= steps <= MOST_STEPS:
        raise Refused(422, f"steps must lie between 2 and {MOST_STEPS}; got {_short(steps)}.")

    def run() -> Answer:
        ends = encoded_rows(served.predictor, served.reader, given)
        first, second = (ends.take(np.array([i])) for i in (0, 1))
        way = served.predictor.between(first, second, steps)
        return written.rows(way, served.column_names)

    return steps, guarded(run)


def reasons(served: Served, content: dict[str, Json], limits: Limits) -> tuple[int, Errand]:
    """What each column of each row adds to its strangeness and to its prediction."""
    refuse_others(content, served.reader.fields | {"model", "target"})
    predictor, reader = served.predictor, served.reader
    given = reader.given(content, limits.heavy_rows)
    target = take(content, "target", SCALARS)

    def run() -> Answer:
        rows, groups = reader.join([given.content]), group_column(given.groups)
        found = explain(predictor, rows, target, groups=groups)
        parts = ("surprise", "strangeness", "prediction")
        return {
            "columns": [str(facet.name) for facet in found.facets],
            **{name: written.column(found.parts[name]) for name in parts if name in found.parts},
            "expected": written.rows(found.expected, served.column_names),
        }

    return given.n_rows, guarded(run)


def drift(served: Served, content: dict[str, Json], limits: Limits) -> tuple[int, Errand]:
    """Whether rows have moved away from reference rows, and in which columns."""
    reader = served.reader
    refuse_others(content, reader.fields | {"model", "reference", "y", "level"})
    reference = take(content, "reference", (dict,))
    if reference is None:
        raise Refused(
            422,
            "Drift needs a reference: usual rows that the model was not fitted to.",
            'For example {"reference": {"records": [...]}, "records": [...]}.',
        )
    refuse_others(reference, reader.fields | {"y"})
    before, after = (reader.given(part, limits.rows) for part in (reference, content))
    y_before, y_after = (take(part, "y", (list,)) for part in (reference, content))
    level = take(content, "level", NUMBERS, 0.05)

    def run() -> Answer:
        joined = [reader.join([given.content]) for given in (before, after)]
        groups = [group_column(given.groups) for given in (before, after)]
        monitor = Monitor.of(
            served.predictor, joined[0], y_before, groups=groups[0], level=float(level)
        )
        found = monitor.update(joined[1], y_after, groups=groups[1])
        relation = None if found.relation is None else written.fields(found.relation)
        return {
            "verdict": found.verdict,
            "inputs": written.fields(found.inputs),
            "relation": relation,
            "columns": [written.fields(column) for column in found.columns],
        }

    return before.n_rows + after.n_rows, guarded(run)


def guarded(run: Errand) -> Errand:
    """An errand whose complaints about its input are refusals."""

    def guarded_run() -> Answer:
        try:
            return run()
        except (ValueError, TypeError, OverflowError) as error:
            raise Refused(422, str(error)) from None

    return guarded_run


def _called(name: Json, named: dict[str, str | int], field: str) -> str | int:
    """The column that a constraint speaks of, as the model calls it."""
    if not isinstance(name, str) or name not in named:
        raise Refused(422, f"{field} names {name!r:.80}, which is no column.")
    return named[name]


def _short(number: float) -> str:
    """A number that may have thousands of digits, in few."""
    with np.errstate(over="ignore"):
        return f"{number:d}"[:20] if isinstance(number, int) else f"{number:g}"
