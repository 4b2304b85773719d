"""A table to its columns: kinds, locations and scales, and what is missing where."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from diglm.data.table.categories import coded_values, fit_axis, fit_categories, plain
from diglm.data.table.codes import find_codes
from diglm.data.table.columns import Column
from diglm.data.table.fields import (
    Field,
    Table,
    is_categorical,
    iso_format,
    to_numbers,
    to_values,
)
from diglm.data.table.lattice import are_running, fit_codes, fit_numbers
from diglm.data.table.patterns import Patterns, good_turing
from diglm.data.table.relation import standardised


class Fitted(NamedTuple):
    """What was learned of a table's columns, and the rows that it was learned from.

    Attributes:
        columns: The columns.
        indicators: Those of columns that have missing numbers.
        axes: Second dimensions of categories that need two orders.
        patterns: Which numbers were missing together.
        table: The rows of positive weight.
        weights: Their weights.
    """

    columns: tuple[Column, ...]
    indicators: tuple[Column, ...]
    axes: tuple[Column, ...]
    patterns: Patterns
    table: Table
    weights: np.ndarray


def fit_columns(table: Table, y: Any = None, weights: Any = None) -> Fitted:
    """The columns of a table, from its rows of positive weight."""
    target = None if y is None else _target(y, table.n_rows)
    if weights is not None:
        weights = _weights(weights, table.n_rows)
        keep = np.flatnonzero(weights > 0)
        table = table if keep.size == table.n_rows else table.take(keep)
        weights, target = weights[keep], None if target is None else target[keep]
    target = None if target is None else standardised(target, weights)
    numbers = [_numbers(field) for field in table.fields]
    coded = find_codes([None if time else x for x, time in numbers], target, weights)
    columns, indicators, axes = [], [], []
    missing = np.zeros((table.n_rows, len(table.fields)), bool)
    for j, (field, (x, time)) in enumerate(zip(table.fields, numbers, strict=True)):
        if x is None or coded[j]:
            values = to_values(field) if x is None else coded_values(x)
            column, codes = fit_categories(
                field.name, values, target, weights, declared=field.declared
            )
            column = replace(column, coded=coded[j])
            if column.depth > 1:
                axes.append(fit_axis(column, codes, weights))
        else:
            missing[:, j] = np.isnan(x)
            column = _fit_numbers(field, x, time, weights)
        columns.append(_as_it_came(column, field))
        if missing[:, j].any():
            location, scale = fit_codes(missing[:, j], weights)
            indicator = Column(field.name, "indicator", location, scale, step=1.0, high=1.0)
            indicators.append(indicator)
    weights = np.ones(table.n_rows) if weights is None else weights
    found = tuple(columns), tuple(indicators), tuple(axes), Patterns.fit(missing)
    return Fitted(*found, table, weights)


def refuse_infinite(names: list[str | int], raw: np.ndarray):
    """Name the columns of (rows, columns) that hold infinity, if any, and say what to do."""
    if not np.isinf(raw).any():
        return
    counts = np.isinf(raw).sum(axis=0)
    found = [f"column {name!r} ({k})" for name, k in zip(names, counts, strict=True) if k]
    more = f" and {len(found) - 5} more columns" if len(found) > 5 else ""
    raise ValueError(
        f"X holds infinite values in {', '.join(found[:5])}{more}. Replace infinity by a "
        "finite number, or by NaN if the value is missing."
    )


def _numbers(field: Field) -> tuple[np.ndarray | None, str]:
    """The numbers of a column, NaN where missing, and if they are times; None for categories."""
    if is_categorical(field):
        return None, ""
    x, time = to_numbers(field)
    refuse_infinite([field.name], x[:, None])
    return x, time


def _fit_numbers(field: Field, x: np.ndarray, time: str, weights: np.ndarray | None) -> Column:
    present = ~np.isnan(x)
    column = fit_numbers(
        field.name,
        x[present],
        None if weights is None else weights[present],
        itemsize=_itemsize(field.values),
    )
    return replace(
        column,
        time=time,
        iso=iso_format(field) if time == "datetime" else "",
        unseen_rate=good_turing(0, x.size),
        running=not time and are_running(x[present]),
    )


def _as_it_came(column: Column, field: Field) -> Column:
    """The column with what is needed to give its values back in their type."""
    levels = field.levels
    if levels is not None:
        levels = tuple(plain(level, field.name, declared=True) for level in levels)
    return replace(column, dtype=field.dtype, levels=levels, ordered=field.ordered)


def _itemsize(values: np.ndarray | list[Any]) -> int:
    """Bytes of the float type the numbers came in; other numbers become float64 exactly."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return values.dtype.itemsize
    return 8


def _target(y: Any, n_rows: int) -> np.ndarray:
    try:
        target = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must hold numbers; pass classes as one-hot columns. {error}"
        ) from error
    target = target[:, None] if target.ndim == 1 else target
    if target.ndim != 2 or target.shape[0] != n_rows:
        raise ValueError(f"Expected y of shape ({n_rows},) or ({n_rows}, k); got {np.shape(y)}.")
    return target


def _weights(weights: Any, n_rows: int) -> np.ndarray:
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(f"Expected weights of shape ({n_rows},); got {weights.shape}.")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0) or not np.any(weights > 0):
        raise ValueError("weights must be finite and not negative, and one at least positive.")
    return weights
