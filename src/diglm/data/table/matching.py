"""Rows that come later, read as the columns that fit saw."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from diglm.data.table.categories import UNKNOWN_MISSING, coded_values, codes_of
from diglm.data.table.columns import Column, describe
from diglm.data.table.fields import Field, Table, to_numbers, to_values
from diglm.data.table.patterns import good_turing
from diglm.data.table.read import names_of, opened, read

EXTRA, ABSENT = ("error", "ignore"), ("error", "draw")


def read_as(
    X: Any,
    expected: list[str] | None,
    n_columns: int,
    owner: str,
    extra: str = "error",
    absent: str = "error",
) -> Table:
    """The table's columns in the order of fit: by name if both have names, else by place.

    Args:
        X: Any supported container, or a table that was read already, its columns in that order.
        expected: Names of the columns in fit; None if they had none.
        n_columns: How many columns there were.
        owner: Who expects them, for messages.
        extra: "ignore" passes over columns of a frame that were not there in fit.
        absent: "draw" leaves columns that a frame lacks empty; one at least must be there.
    """
    for name, value, allowed in (("extra", extra, EXTRA), ("absent", absent, ABSENT)):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {allowed}; got {value!r}.")
    if isinstance(X, Table):
        return X
    source = opened(X)
    names = names_of(source)
    named = all(isinstance(name, str) for name in names)
    if expected is None or not named:
        if expected is not None:
            warnings.warn(
                f"X does not have valid feature names, but {owner} was fitted with feature names",
                UserWarning,
                stacklevel=3,
            )
        if len(names) != n_columns:
            raise ValueError(
                f"X has {len(names)} features, but {owner} is expecting {n_columns} features as "
                "input."
            )
        return read(source)
    place = {name: j for j, name in enumerate(names)}
    gone = [name for name in expected if name not in place]
    others = sorted(str(name) for name in place.keys() - set(expected))
    lacking = bool(gone) and (absent == "error" or len(gone) == len(expected))
    problems = [f"lacks columns {gone}"] * lacking
    if others and extra == "error":
        problems.append(f"has columns {others} that were not there in fit")
    if problems:
        raise ValueError(f"X {' and '.join(problems)}; {owner} expects {expected}.")
    table = read(source, [place[name] for name in expected if name in place])
    there = {field.name: field for field in table.fields}
    empty = np.full(table.n_rows, np.nan)
    fields = [there.get(name, Field(name, empty)) for name in expected]
    return table._replace(fields=fields)


def lacking(X: Any, expected: list[str] | None, n_columns: int) -> Bool[np.ndarray, " columns"]:
    """Which columns of fit a frame does not have at all; an array has them all."""
    names = names_of(opened(X))
    if expected is None or not all(isinstance(name, str) for name in names):
        return np.zeros(n_columns, bool)
    return ~np.isin(expected, names)


def read_cells(table: Table, columns: tuple[Column, ...]) -> Float[np.ndarray, "rows columns"]:
    """Numbers in the user's units and codes of categories, negative for what fit did not see.

    Args:
        table: Rows whose columns stand in the order of fit.
        columns: What fit learned of them.
    """
    if table.matrix is not None and all(c.is_numeric and not c.time for c in columns):
        return table.matrix
    raw = np.empty((table.n_rows, len(columns)))
    for j, (column, field) in enumerate(zip(columns, table.fields, strict=True)):
        if column.is_numeric:
            raw[:, j], time = to_numbers(field, column.time)
            if time != column.time and not np.isnan(raw[:, j]).all():
                was, now = column.time or "number", time or "number"
                raise ValueError(f"{describe(column.name)} was a {was} in fit, now a {now}.")
            continue
        values = coded_values(to_numbers(field)[0]) if column.coded else to_values(field)
        raw[:, j] = codes_of(values, column.categories, column.name, declared=True)
    return raw


def settle_unknown(
    raw: Float[np.ndarray, "rows columns"], columns: tuple[Column, ...], n_rows: int
) -> tuple[
    Float[np.ndarray, "rows columns"], Bool[np.ndarray, "rows columns"], Float[np.ndarray, " rows"]
]:
    """Cells with unknown categories at the commonest one; which are unknown; the log rates.

    A category that is missing where none was is NaN, to be drawn given the rest.
    """
    unknown, log_rate = np.zeros(raw.shape, bool), np.zeros(len(raw))
    levels = [j for j, column in enumerate(columns) if not column.is_numeric]
    if not levels:
        return raw, unknown, log_rate
    raw = raw.copy()
    for j in levels:
        column, codes = columns[j], raw[:, j]
        unknown[:, j] = codes < 0
        if unknown[:, j].any():
            gone = codes == UNKNOWN_MISSING
            rate = np.where(gone, good_turing(0, n_rows), column.unseen_rate)
            log_rate += np.where(codes < 0, np.log(rate), 0.0)
            raw[:, j] = np.where(gone, np.nan, np.where(codes < 0, column.frequent, codes))
    return raw, unknown, log_rate
