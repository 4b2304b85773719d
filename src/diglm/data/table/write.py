"""Decoded columns to the user's container, with the types it had in fit."""

import re
from typing import Any

import narwhals as nw
import numpy as np

from diglm.data.table.columns import Column

CONTAINERS = ("numpy", "pandas", "polars", "pyarrow", "modin", "cudf")


def write(
    columns: tuple[Column, ...], arrays: list[np.ndarray], container: str, dtype: str, *, snap: bool
) -> Any:
    """The container of decoded columns, types restored where the values allow it.

    Args:
        columns: What fit stored.
        arrays: Floats with NaN, times with NaT, or objects with None; one array per column.
        container: One of `CONTAINERS`.
        dtype: Type of the whole array if the container is "numpy".
        snap: Whether whole numbers become integers again; if not, numbers stay floats.
    """
    if snap:
        arrays = [_whole(array, c.dtype) for c, array in zip(columns, arrays, strict=True)]
    if container == "numpy":
        return _write_array(arrays, np.dtype(dtype))
    if container in ("pandas", "modin", "cudf"):
        return _write_pandas(columns, arrays, container, snap=snap)
    series: dict[str, nw.Series] = {}
    backend: Any = container
    for column, array in zip(columns, arrays, strict=True):
        whole = _in_unit(array, column.dtype)
        plain = nw.new_series(str(column.name), _nullable(whole), backend=backend)
        series[str(column.name)] = _cast(plain, column, snap=snap)
    return nw.from_dict(series).to_native()


def _write_array(arrays: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "O":
        out = np.empty((len(arrays[0]), len(arrays)), dtype=object)
        for j, array in enumerate(arrays):
            out[:, j] = array
        return out
    out = np.stack(arrays, axis=1)
    if out.dtype.kind == "f" and dtype.kind != "f":
        return out  # gaps, or numbers between the integers, were asked for
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        out = np.clip(out, limits.min, limits.max)
    return out.astype(dtype)


def _write_pandas(
    columns: tuple[Column, ...], arrays: list[np.ndarray], container: Any, *, snap: bool
) -> Any:
    names = [column.name for column in columns]
    data: dict[Any, Any] = dict(zip(names, arrays, strict=True))
    frame = nw.from_dict(data, backend=container).to_native()
    for column, array in zip(columns, arrays, strict=True):
        frame[column.name] = _cast_pandas(frame[column.name], column, array.dtype.kind, snap=snap)
    return frame


def _cast_pandas(series: Any, column: Column, kind: str, *, snap: bool) -> Any:
    dtype = column.dtype
    if dtype == "category":
        levels = list(column.levels or ())
        return series.astype("category").cat.set_categories(levels, ordered=column.ordered)
    if zone := re.fullmatch(r"datetime64\[(\w+), (.+)\]", dtype):
        return series.dt.tz_localize("UTC").dt.tz_convert(zone[2]).dt.as_unit(zone[1])
    # NumPy's integers have no room for gaps; pandas' own, with a capital, and Arrow's do.
    nullable = dtype[:1].isupper() or dtype.endswith("[pyarrow]")
    if _integer_type(dtype) and kind == "f" and not (snap and nullable):
        return series
    if dtype == "object" and column.came_as_numbers:
        return series
    return series.astype(dtype) if dtype else series


def _cast(series: nw.Series, column: Column, *, snap: bool) -> nw.Series:
    name = column.dtype.partition("(")[0]
    if name == "Categorical" and series.implementation.value == "pyarrow":
        # Levels may be numbers, which narwhals does not cast to categories.
        return nw.from_native(series.to_native().dictionary_encode(), series_only=True)
    if name == "Enum":
        return series.cast(nw.Enum([str(level) for level in column.levels or ()]))
    if time := re.fullmatch(
        r"(Datetime|Duration)\(time_unit='(\w+)'(?:, time_zone=(?:None|'(.+)'))?\)", column.dtype
    ):
        unit: Any = time[2]
        if time[1] == "Duration":
            return series.cast(nw.Duration(unit))
        if time[3]:
            series = series.dt.replace_time_zone("UTC").dt.convert_time_zone(time[3])
        return series.cast(nw.Datetime(unit, time[3]))
    plain = ("Float32", "Float64", "Boolean", "String", "Categorical", "Date")
    if name in plain or (_integer_type(name) and snap):
        return series.cast(getattr(nw, name)())
    return series


def _in_unit(array: np.ndarray, dtype: str) -> np.ndarray:
    """Times without the parts of a second that their column has no room for: Arrow drops none."""
    coarse = re.search(r"time_unit='(s|ms)'", dtype) if array.dtype.kind in "mM" else None
    return array.astype(f"{array.dtype.kind}8[{coarse[1]}]") if coarse else array


def _nullable(array: np.ndarray) -> Any:
    """The array, or a list with None where it has gaps: only pandas writes gaps as NaN."""
    if array.dtype.kind == "O":
        return array.tolist()
    if array.dtype.kind != "f" or not np.isnan(array).any():
        return array
    gaps = np.isnan(array).tolist()
    return [None if gap else value for gap, value in zip(gaps, array.tolist(), strict=True)]


def _whole(x: np.ndarray, dtype: str) -> np.ndarray:
    """Floats to the nearest integers the type can hold; still floats where some are missing."""
    integer = _integer_type(dtype)
    if integer is None or x.dtype.kind != "f":
        return x
    if np.isnan(x).any():
        return np.rint(x)
    limits = np.iinfo(integer)
    highest = np.nextafter(float(limits.max) + 1, 0)  # 2^63 - 1 itself is no float64
    return np.clip(np.rint(x), float(limits.min), min(highest, limits.max)).astype(integer)


def _integer_type(dtype: str) -> str | None:
    """NumPy's name of an integer type as pandas, polars or NumPy spell it; None for others."""
    match = re.match(r"u?int(8|16|32|64)\b", dtype, re.IGNORECASE)
    return match[0].lower() if match else None
