"""What a model is, for people and for the page: columns, target, limits of strangeness."""

import math
from collections.abc import Callable

import numpy as np

from diglm.data.image import ImageEncoder
from diglm.data.table.columns import Column
from diglm.data.table.encoder import TableEncoder
from diglm.data.table.times import as_text
from diglm.refusal import Refusal
from diglm.registry import Registry
from diglm.serve.bodies import Json
from diglm.serve.models import Served
from diglm.targets import AbstractTarget, ClassTarget, NoTarget, NumberTarget

BINS = 40
LONGEST_LIST = 200  # categories told of a column; an identifier may have thousands
TYPES = {"continuous": "number", "lattice": "number", "categorical": "category"}
TIMES = {"datetime": "date", "timedelta": "duration"}


def summary(served: Served) -> dict[str, Json]:
    """One line of the list of models."""
    return {
        "name": served.name,
        "kind": served.kind,
        "estimator": served.estimator,
        "loaded": served.loaded,
        "version": "-".join(f"{part:x}" for part in served.stamp or ()),
    }


def description(served: Served) -> dict[str, Json]:
    """Everything that a client needs to ask a model."""
    predictor = served.predictor
    target = predictor.target
    return {
        **summary(served),
        **ROWS[served.kind](predictor.encoder),
        "target": TARGETS[type(target)](target),
        "answers": list(predictor.column_names),
        "strangeness": _strangeness(predictor.refusal),
        "groups": predictor.groups is not None,
        "explains": bool(predictor.encoder.facets),
        "counterfactual": not target.density_only and predictor.model.head.inverts_mean,
    }


def _table(encoder: TableEncoder) -> dict[str, Json]:
    missing = encoder.can_be_missing
    return {"columns": [_column(c, bool(missing[j])) for j, c in enumerate(encoder.columns)]}


def _column(column: Column, missing: bool) -> dict[str, Json]:
    found: dict[str, Json] = {
        "name": str(column.name),
        "type": TIMES.get(column.time, TYPES[column.kind]),
        "missing": missing or None in column.categories,
    }
    if column.kind == "categorical":
        levels = [level for level in column.levels or column.categories if level is not None]
        levels = levels if column.levels else sorted(levels, key=lambda v: (type(v).__name__, v))
        return found | {"categories": levels[:LONGEST_LIST], "more": len(levels) > LONGEST_LIST}
    low, high = column.low, column.high
    if column.time == "datetime":
        ends = as_text(np.array([low, high]), column.iso or "YYYY-MM-DDTHH:MM:SS")
        return found | {"low": ends[0], "high": ends[1]}
    return found | {"low": low, "high": high, "step": column.step or None}


def _image(encoder: ImageEncoder) -> dict[str, Json]:
    height, width, channels = encoder.size
    return {"height": height, "width": width, "channels": channels, "floats": encoder.floats}


ROWS: Registry[Callable[..., dict[str, Json]]] = Registry(
    "kind of data", {"table": _table, "image": _image}
)


def _classes(target: ClassTarget) -> dict[str, Json]:
    shares = None if target.shares is None else target.prior.tolist()
    return {"type": "classes", "classes": target.classes.tolist(), "shares": shares}


def _numbers(target: NumberTarget) -> dict[str, Json]:
    mean, std = (np.asarray(value, float).tolist() for value in (target.mean, target.std))
    return {"type": "numbers", "count": target.n_targets, "mean": mean, "sd": std}


def _nothing(target: NoTarget) -> dict[str, Json]:
    return {"type": "nothing"}


TARGETS: dict[type[AbstractTarget], Callable[..., dict[str, Json]]] = {
    ClassTarget: _classes,
    NumberTarget: _numbers,
    NoTarget: _nothing,
}


def _strangeness(refusal: Refusal) -> dict[str, Json]:
    """The threshold, and a histogram of the rows that it was set by."""
    threshold = refusal.threshold
    held_out = np.concatenate([threshold.ranks.usual, threshold.ranks.alone])
    held_out = held_out[np.isfinite(held_out)]
    limit = threshold.limit if math.isfinite(threshold.limit) else None
    found: dict[str, Json] = {
        "score": type(refusal.score).__name__,
        "rule": threshold.rule,
        "limit": limit,
        "rows": len(held_out),
    }
    if len(held_out):
        counts, edges = np.histogram(held_out, BINS)
        found |= {"counts": counts.tolist(), "edges": edges.tolist()}
    return found
