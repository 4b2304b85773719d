"""Columns as they arrived: numbers, moments or Python values, and which of these they are."""

import datetime
import decimal
import numbers
from typing import Any, NamedTuple

import numpy as np

from diglm.data.table.categories import distinct, is_missing
from diglm.data.table.columns import describe
from diglm.data.table.times import format_of, is_iso

# What to call a column that fit read as one of TIMES.
HELD = {"": "numbers", "datetime": "dates", "timedelta": "durations"}
ADVICE = {
    "": "Convert it to numbers, or fit it as text.",
    "datetime": "Write it as YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS, or leave it missing.",
    "timedelta": "Convert it to durations, or leave it missing.",
}


class Field(NamedTuple):
    """A column as it arrived: a numeric or time array, or a list of Python values."""

    name: str | int
    values: np.ndarray | list[Any]
    dtype: str = ""
    declared: bool = False
    levels: tuple[Any, ...] | None = None
    ordered: bool = False

    def take(self, rows: np.ndarray) -> "Field":
        """The column of some of the rows, given by their numbers."""
        values = self.values
        if isinstance(values, list):
            return self._replace(values=[values[i] for i in rows.tolist()])
        return self._replace(values=values[rows])


class Table(NamedTuple):
    """A container as it arrived. `matrix` is set for numeric arrays, which need no splitting."""

    fields: list[Field]
    n_rows: int
    container: str
    dtype: str
    matrix: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> "Table":
        """The table of some of the rows, given by their numbers."""
        fields = [field.take(rows) for field in self.fields]
        matrix = None if self.matrix is None else self.matrix[rows]
        return self._replace(fields=fields, n_rows=len(rows), matrix=matrix)


def to_numbers(field: Field, was: str = "") -> tuple[np.ndarray, str]:
    """A column as float64 with NaN for missing, and "datetime" or "timedelta" if it is seconds.

    Args:
        field: The column.
        was: Which of these the column was in fit, for error messages.
    """
    values = field.values
    if isinstance(values, list):
        found = [value for value in distinct(values, field.name) if not is_missing(value)]
        if found and all(isinstance(value, (datetime.date, str)) for value in found):
            if any(_is_other_text(value) for value in found):
                _refuse(field.name, next(v for v in values if _is_other_text(v)), was)
            values = np.array([_moment(value) for value in values], "datetime64[us]")
        else:
            return _numbers(values, field.name, was), ""
    if values.dtype.kind == "M":
        return (values - np.datetime64(0, "s")) / np.timedelta64(1, "s"), "datetime"
    if values.dtype.kind == "m":
        return values / np.timedelta64(1, "s"), "timedelta"
    return values.astype(np.float64, copy=False), ""


def as_durations(values: list[Any]) -> np.ndarray | list[Any]:
    """Seconds as durations; unchanged where a value is no number, for the error that says so."""
    if any(type(value) not in (int, float, type(None)) for value in values):
        return values
    seconds = np.array(values, float)
    micro = np.clip(np.nan_to_num(seconds) * 1e6, -(2.0**62), 2.0**62).astype(np.int64)
    durations = micro.astype("timedelta64[us]")
    durations[np.isnan(seconds)] = np.timedelta64("NaT")
    return durations


def to_values(field: Field) -> list[Any]:
    """A column as a list of Python values, for look-up among categories."""
    return field.values if isinstance(field.values, list) else field.values.tolist()


def iso_format(field: Field) -> str:
    """How a column of moments is written, if it came as text; "" if it did not."""
    if not isinstance(field.values, list):
        return ""
    found = [value for value in distinct(field.values, field.name) if not is_missing(value)]
    return format_of(found) if found and all(isinstance(v, str) for v in found) else ""


def is_categorical(field: Field) -> bool:
    """Whether a column that arrives in fit is categorical: declared so, bool, text or mixed.

    Text of which every value is an ISO date or moment is not: it is a column of moments.
    """
    if field.declared:
        return True
    if not isinstance(field.values, list):
        return False
    found = [value for value in distinct(field.values, field.name) if not is_missing(value)]
    kinds = {type(value) for value in found}
    if any(issubclass(kind, (complex, np.complexfloating)) for kind in kinds):
        refuse_complex()
    if not kinds:  # all missing: a column of floats if it holds NaN, else of unknown values
        return not any(isinstance(v, float) for v in field.values)
    if all(issubclass(kind, (bool, np.bool_)) for kind in kinds):
        return True
    if all(issubclass(kind, (datetime.date, str)) for kind in kinds):
        return any(_is_other_text(value) for value in found)
    return not all(_is_number(kind) or issubclass(kind, datetime.date) for kind in kinds)


def refuse_complex():
    """Say that complex numbers are none that a table can hold."""
    raise ValueError("Complex data not supported: split real and imaginary parts into two columns.")


def _is_other_text(value: Any) -> bool:
    return isinstance(value, str) and not is_iso(value)


def _refuse(name: str | int, value: Any, was: str):
    raise ValueError(
        f"{describe(name)} held {HELD[was]} in fit, but now holds {value!r} "
        f"({type(value).__name__}). {ADVICE[was]}"
    )


def _numbers(values: list[Any], name: str | int, was: str) -> np.ndarray:
    kinds = {type(value) for value in values}
    strange = [k for k in kinds if not _is_number(k) and not issubclass(k, (bool, np.bool_))]
    if strange:
        for value in values:
            if type(value) in strange and not is_missing(value):
                _refuse(name, value, was)
        values = [np.nan if type(v) in strange else v for v in values]
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"{describe(name)} holds a whole number beyond 1e308.") from error


def _moment(value: Any) -> Any:
    """A date or datetime without time zone, in universal time, or its text; None if missing."""
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value.removesuffix("Z")
    if getattr(value, "tzinfo", None) is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def _is_number(kind: type) -> bool:
    return issubclass(kind, (numbers.Real, np.number, decimal.Decimal))
