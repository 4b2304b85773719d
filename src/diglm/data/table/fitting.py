"""A table to its columns: kinds, locations and scales, and indicators of what is missing."""

from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from diglm.data.table.categories import fit_categories, plain
from diglm.data.table.columns import Column
from diglm.data.table.lattice import fit_codes, fit_numbers
from diglm.data.table.read import Field, Table, is_categorical, to_numbers, to_values


def fit_columns(
    table: Table, y: Any = None, weights: Any = None
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """The columns of a table, and the indicators of those that have missing numbers."""
    target = None if y is None else _target(y, table.n_rows)
    fields = table.fields
    if weights is not None:
        weights = _weights(weights, table.n_rows)
        keep = weights > 0
        fields = [_rows(field, keep) for field in fields]
        weights, target = weights[keep], None if target is None else target[keep]
    columns, indicators = [], []
    for field in fields:
        column, indicator = _fit_column(field, target, weights)
        columns.append(column)
        if indicator is not None:
            indicators.append(indicator)
    return tuple(columns), tuple(indicators)


def refuse_infinite(names: list[str | int], raw: np.ndarray):
    """Name the columns of (rows, columns) that hold infinity, and say what to do."""
    counts = np.isinf(raw).sum(axis=0)
    found = [f"column {name!r} ({k})" for name, k in zip(names, counts, strict=True) if k]
    more = f" and {len(found) - 5} more columns" if len(found) > 5 else ""
    raise ValueError(
        f"X holds infinite values in {', '.join(found[:5])}{more}. Replace infinity by a "
        "finite number, or by NaN if the value is missing."
    )


def _fit_column(
    field: Field, target: np.ndarray | None, weights: np.ndarray | None
) -> tuple[Column, Column | None]:
    """The column of one field, and its indicator if some of its numbers are missing."""
    indicator = None
    if is_categorical(field):
        values = to_values(field)
        column = fit_categories(field.name, values, target, weights, declared=field.declared)
    else:
        x, time = to_numbers(field)
        if np.isinf(x).any():
            refuse_infinite([field.name], x[:, None])
        missing = np.isnan(x)
        if missing.any():
            location, scale = fit_codes(missing, weights)
            indicator = Column(field.name, "indicator", location, scale, step=1.0, high=1.0)
        present = ~missing
        column = fit_numbers(
            field.name,
            x[present],
            None if weights is None else weights[present],
            itemsize=_itemsize(field.values),
        )
        column = replace(column, time=time)
    levels = field.levels
    if levels is not None:
        levels = tuple(plain(level, field.name, declared=True) for level in levels)
    return replace(column, dtype=field.dtype, levels=levels, ordered=field.ordered), indicator


def _itemsize(values: np.ndarray | list[Any]) -> int:
    """Bytes of the float type the numbers came in; other numbers become float64 exactly."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return values.dtype.itemsize
    return 8


def _rows(field: Field, keep: np.ndarray) -> Field:
    values = field.values
    kept = list(compress(values, keep)) if isinstance(values, list) else values[keep]
    return field._replace(values=kept)


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
