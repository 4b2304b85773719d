"""What would have to change? The nearest features with another answer, or the cheapest change."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from diglm.data.encoder import Container
from diglm.parameters import Real, check_real, check_whole
from diglm.predictor.actions import Actions, Bound
from diglm.predictor.advice import Advice
from diglm.predictor.predictor import Predictor
from diglm.predictor.search import Search
from diglm.targets.base import Column, one_a_row

DRAWS = 1_024  # rows of the model that a search may begin with
AT_A_TIME = 64  # rows that are searched for together
FURTHER = (1.0, 2.0, 4.0)  # margins of the nearest features that it begins with as well


class MissedTargetWarning(UserWarning):
    """Some counterfactuals do not reach what was asked for."""


@dataclass(frozen=True)
class Counterfactual:
    """Rows that would be answered as asked. With n answers a row, those of a row stand together.

    Attributes:
        x: the changed rows, in the container and units of the training table.
        z: their features.
        log_px: exact log p(x) of the changed rows.
        rejected: whether a changed row would itself be refused; then it is no honest advice.
        prediction: what the model predicts for the changed rows.
        reached: whether that is what was asked for; rounding to whole numbers or categories may
            undo a change.
        distance: how far the features moved; zero where the answer was the one asked for already.
        valid: whether the answer is reached, within all constraints, by a row that is not refused.
            Where it is not, none was found and the row is only the nearest miss.
        cost: of the change: distances in spreads of the data, one for another level, summed;
            infinite where there is no valid answer.
        row: position of the row that each answer is for.
        advice: what changes, and in which order; None where rows have no columns.
    """

    x: Container
    z: Float[np.ndarray, "rows dim"]
    log_px: Float[np.ndarray, " rows"]
    rejected: Bool[np.ndarray, " rows"]
    prediction: np.ndarray
    reached: Bool[np.ndarray, " rows"]
    distance: Float[np.ndarray, " rows"]
    valid: Bool[np.ndarray, " rows"]
    cost: Float[np.ndarray, " rows"]
    row: Int[np.ndarray, " rows"]
    advice: Advice | None

    def path(self, i: int = 0) -> Container:
        """The way from the row to its i-th answer, a column at a time, as a table."""
        return self._advice.path(i)

    def figure(self, i: int = 0) -> object:
        """The i-th answer as a figure: what changes, and what each step does."""
        return self._advice.figure(i)

    @property
    def _advice(self) -> Advice:
        if self.advice is None:
            raise ValueError("These rows have no columns that could change one after the other.")
        return self.advice


def counterfactual(
    predictor: Predictor,
    cells: Float[np.ndarray, "rows cells"],
    target: object,
    *,
    margin: float = 1.0,
    fixed: Sequence[str | int] = (),
    bounds: Mapping[str | int, Bound] | None = None,
    direction: Mapping[str | int, str] | None = None,
    n: int = 1,
    allow_strange: bool = False,
    seed: int = 0,
) -> Counterfactual:
    """Rows that are answered with `target`, one value or one a row; see the estimators' method.

    Without constraints the nearest row in feature space, in closed form. Where that is strange or
    rounding undoes it, and under constraints, the cheapest row that a search finds.
    """
    check_real("margin", margin, Real(0.0))
    n_answers = check_whole("n", n)
    wanted = one_a_row(target, len(cells), "target")
    facets = predictor.encoder.facets
    by_columns = bool(facets) and all(len(facet.places) == 1 for facet in facets)
    constrained = bool(len(fixed) or bounds or direction)
    if (constrained or n_answers > 1) and not by_columns:
        raise ValueError("fixed, bounds, direction and n speak of columns, which images lack.")
    before = predictor.features(predictor.at(cells)).astype(float)
    closed = _closed_form(predictor, before, wanted, float(margin))
    if not by_columns:
        found = closed[0][:, None]
        valid = _is_valid(predictor, found, wanted, allow_strange)
        return _result(predictor, cells, found, valid, wanted, before, None)
    actions = Actions.of(facets, cells, fixed=fixed, bounds=bounds, direction=direction)
    found = np.empty((len(cells), n_answers, cells.shape[1]))
    valid = np.zeros((len(cells), n_answers), bool)
    if not constrained:
        found[:, :1] = actions.filled(closed[0][:, None])
        kept = ~actions.gaps.any(axis=1)  # what is missing stays missing
        valid[:, 0] = kept & _is_valid(predictor, found[:, :1], wanted, allow_strange)[:, 0]
    draws = predictor.cells(predictor.sample(DRAWS, None, seed=seed))
    search = Search(predictor, wanted, float(margin), allow_strange)
    starts = np.stack(closed, axis=1)
    for k in range(n_answers):
        todo = np.flatnonzero(~valid[:, k] & actions.possible)
        for some in np.array_split(todo, max(1, -(-len(todo) // AT_A_TIME))):
            if len(some):
                own = Search(predictor, search.wanted[some], search.margin, allow_strange)
                rng = np.random.default_rng([seed, k])
                found[some, k], valid[some, k] = own.run(
                    actions.take(some), starts[some], draws, rng
                )
        found[~actions.possible, k] = cells[~actions.possible]
        # The next answer does without the column that this one leans on most.
        paid = actions.cost(found[:, [k]])[:, 0]
        leaned = (np.arange(paid.shape[1]) == np.argmax(paid, axis=1)[:, None]) & (paid > 0)
        actions = actions.keeping(leaned)
    return _result(predictor, cells, found, valid, wanted, before, actions)


def _closed_form(
    predictor: Predictor, before: np.ndarray, wanted: Column, margin: float
) -> list[Float[np.ndarray, "rows cells"]]:
    """Cells of the nearest features that are answered as wanted, by growing margins."""
    target, head = predictor.target, predictor.model.head
    margins = [np.full(len(before), margin)]
    margins += [np.full(len(before), times * max(margin, 0.1)) for times in FURTHER[1:]]
    zs = [target.nearest(head, before, wanted, each) for each in margins]
    return [predictor.cells(predictor.invert(z)) for z in zs]


def _is_valid(
    predictor: Predictor,
    cells: Float[np.ndarray, "rows n cells"],
    wanted: Column,
    allow_strange: bool,
) -> Bool[np.ndarray, "rows n"]:
    n, k, d = cells.shape
    known = predictor.known(predictor.at(cells.reshape(n * k, d)))
    prediction = predictor.target.columns(known.response)["prediction"]
    reached = predictor.target.reached(prediction, np.repeat(wanted, k))
    fine = reached if allow_strange else reached & ~predictor.refusal.rejects(known)
    return fine.reshape(n, k)


def _result(
    predictor: Predictor,
    cells: Float[np.ndarray, "rows cells"],
    found: Float[np.ndarray, "rows n cells"],
    valid: Bool[np.ndarray, "rows n"],
    wanted: Column,
    before: Float[np.ndarray, "rows dim"],
    actions: Actions | None,
) -> Counterfactual:
    """The answers, looked at afresh as what they became."""
    n, k, d = found.shape
    flat, rows = found.reshape(n * k, d), np.repeat(np.arange(n), k)
    known = predictor.known(predictor.at(flat))
    prediction = predictor.target.columns(known.response)["prediction"]
    reached = predictor.target.reached(prediction, wanted[rows])
    fine = valid.ravel() & reached
    cost = np.linalg.norm(known.z - before[rows], axis=1)
    advice = None
    if actions is not None:
        cost = actions.cost(found).sum(axis=2).ravel()
        advice = Advice(predictor, actions.facets, cells[rows], flat)
    _warn(fine, prediction, wanted[rows], rows)
    return Counterfactual(
        x=predictor.encoder.decode_cells(flat),
        z=known.z,
        log_px=known.log_px,
        rejected=predictor.refusal.rejects(known),
        prediction=prediction,
        reached=reached,
        distance=np.linalg.norm(known.z - before[rows], axis=1),
        valid=fine,
        cost=np.where(fine, cost, np.inf),
        row=rows,
        advice=advice,
    )


def _warn(valid: np.ndarray, prediction: np.ndarray, wanted: Column, rows: np.ndarray) -> None:
    missed = np.flatnonzero(~valid)
    if len(missed):
        i = missed[0]
        warnings.warn(
            f"For {len(missed)} of {len(valid)} answers nothing was found that is reached within "
            f"the constraints by a row that is not strange, such as for row {rows[i]}, where the "
            f"nearest miss predicts {prediction[i]!r} and {wanted[i]!r} was asked for. `.valid` "
            "tells which; fewer constraints, or allow_strange=True, may help.",
            MissedTargetWarning,
            stacklevel=4,
        )
