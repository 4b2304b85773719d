"""The affine code of columns: to encoded units, and back to the user's terms."""

import numpy as np
from jaxtyping import Bool, Float, Int

from diglm.data.table.columns import Column
from diglm.data.table.times import as_text

LARGEST = 1e30  # finite in float32, and so is a sum of many


def standardise(
    x: Float[np.ndarray, "rows columns"],
    location: Float[np.ndarray, " columns"],
    scale: Float[np.ndarray, " columns"],
    *,
    out: Float[np.ndarray, "rows columns"],
):
    """(x - location) / scale within +-LARGEST; overflow on the way ends at the bound."""
    shrink = _shrink(location, scale)
    if shrink.min() < 1:
        x, location, scale = x * shrink, location * shrink, scale * shrink
    with np.errstate(over="ignore", under="ignore"):
        np.subtract(x, location, out=out)
        np.divide(out, scale, out=out)
    np.clip(out, -LARGEST, LARGEST, out=out)


def restore(
    values: Float[np.ndarray, "rows columns"],
    location: Float[np.ndarray, " columns"],
    scale: Float[np.ndarray, " columns"],
) -> Float[np.ndarray, "rows columns"]:
    """values * scale + location, within what a float can hold."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        largest, shrink = np.finfo(np.float64).max, _shrink(location, scale)
        raw = values * (scale * shrink) + location * shrink
        return np.clip(raw, -largest * shrink, largest * shrink) / shrink


def decoded(column: Column, x: Float[np.ndarray, " rows"], snap: bool) -> np.ndarray:
    """Numbers of one column in the user's terms: floats, times, or objects."""
    if column.kind == "categorical":
        if column.coded:
            values = np.array([np.nan if v is None else v for v in column.categories], np.float64)
        else:
            values = np.empty(len(column.categories), dtype=object)
            values[:] = column.categories
        known = np.where(np.isnan(x), column.frequent, x)
        return values[np.clip(np.rint(known), 0, len(values) - 1).astype(np.int64)]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        x = column.snap(x) if snap else x
        if not column.time:
            return x
        if column.iso:
            return as_text(x, column.iso)
        micro = np.clip(np.rint(x * 1e6), -(2.0**62), 2.0**62)
    ticks = np.where(np.isnan(x), 0, micro).astype(np.int64)
    times = ticks.astype("datetime64[us]" if column.time == "datetime" else "timedelta64[us]")
    times[np.isnan(x)] = "NaT"
    return times


def boxed(codes: Float[np.ndarray, " rows"], depth: int) -> tuple[np.ndarray, np.ndarray]:
    """The box of a code in two dimensions: (c // depth, c % depth)."""
    return np.floor_divide(codes, depth), np.mod(codes, depth)


def unboxed(
    cell: Float[np.ndarray, " rows"], place: Float[np.ndarray, " rows"], column: Column
) -> Float[np.ndarray, " rows"]:
    """The code of the box next to a point: the nearest cell, then the nearest place in it.

    The last cell may hold fewer categories than the others.
    """
    last = len(column.categories) - 1
    cell = np.clip(np.rint(cell), 0, last // column.depth)
    code = cell * column.depth + np.clip(np.rint(place), 0, column.depth - 1)
    return np.where(np.isnan(code), column.frequent, np.minimum(code, last))


def to_centres(
    values: Float[np.ndarray, "rows dim"], columns: tuple[Column, ...]
) -> Float[np.ndarray, "rows dim"]:
    """Encoded values at the centres of the cells that they lie in, within what fit saw."""
    out = values.copy()
    for j, column in enumerate(columns):
        if column.step:
            first, last = column.low, column.high
            if column.categories:
                first, last = 0.0, (len(column.categories) - 1) // column.depth
            raw = out[:, j] * column.scale + column.location
            steps = np.rint((raw - column.origin) / column.step)
            points = np.clip(column.origin + steps * column.step, first, last)
            out[:, j] = (points - column.location) / column.scale
    return out


def within_reach(
    values: Float[np.ndarray, "rows dim"], columns: tuple[Column, ...]
) -> Bool[np.ndarray, " rows"]:
    """Rows whose numbers all lie in the range that fit saw, or within its width of it."""
    within = np.ones(len(values), bool)
    for j, column in enumerate(columns):
        if column.kind == "continuous":
            first, last = (
                (end - column.location) / column.scale for end in (column.low, column.high)
            )
            width = last - first
            out = (values[:, j] < first - width) | (values[:, j] > last + width)
            within &= ~out  # what is missing is not out
    return within


def lost_cells(
    values: Float[np.ndarray, "rows dim"],
    flags: Float[np.ndarray, "rows indicators"],
    location: Float[np.ndarray, " indicators"],
    scale: Float[np.ndarray, " indicators"],
    sources: Int[np.ndarray, " indicators"],
) -> Bool[np.ndarray, "rows dim"]:
    """Cells that are NaN without an indicator, of the column at its source, that says missing."""
    lost = np.isnan(values)
    if lost.any():
        lost[:, sources] &= restore(flags.astype(np.float64), location, scale) < 0.5
    return lost


def _shrink(location: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A power of two per column that keeps sums near the largest float from overflowing."""
    return np.where(np.maximum(np.abs(location), scale) > 1e290, 2.0**-4, 1.0)
