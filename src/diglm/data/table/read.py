"""The user's containers to plain columns: NumPy arrays, pandas, polars and Arrow tables."""

import datetime
import decimal
import numbers
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from scipy.sparse import issparse

from diglm.data.table.categories import distinct, is_missing
from diglm.data.table.columns import describe

NUMERIC = "iuf"
TIME = "Mm"


class Field(NamedTuple):
    """A column as it arrived: a numeric or time array, or a list of Python values."""

    name: str | int
    values: np.ndarray | list[Any]
    dtype: str = ""
    declared: bool = False
    levels: tuple[Any, ...] | None = None
    ordered: bool = False


class Table(NamedTuple):
    """A container as it arrived. `matrix` is set for numeric arrays, which need no splitting."""

    fields: list[Field]
    n_rows: int
    container: str
    dtype: str
    matrix: np.ndarray | None = None

    @property
    def names(self) -> list[str | int]:
        return [field.name for field in self.fields]


def read(X: Any) -> Table:
    """Split any supported container into columns, with clear errors for what is no table."""
    if issparse(X):
        raise TypeError(
            "Sparse data was passed, but dense data is required. Use '.toarray()' to convert to a "
            "dense NumPy array."
        )
    if isinstance(X, dict):
        raise TypeError("X is a dict; wrap it in a frame, for example pandas.DataFrame(X).")
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"Column names must be unique. {error}") from error
    if isinstance(frame, nw.DataFrame):
        return _read_frame(frame)
    if hasattr(X, "collect"):
        raise TypeError(f"X is a lazy {type(X).__name__}; call X.collect() first.")
    return _read_array(X)


def to_numbers(field: Field) -> tuple[np.ndarray, str]:
    """A column as float64 with NaN for missing, and "datetime" or "timedelta" if it is seconds."""
    values = field.values
    if isinstance(values, list):
        kinds = {type(value) for value in distinct(values, field.name) if not is_missing(value)}
        if kinds and all(issubclass(kind, datetime.date) for kind in kinds):
            values = np.array([_moment(value) for value in values], "datetime64[us]")
        else:
            return _numbers(values, field.name), ""
    if values.dtype.kind == "M":
        return (values - np.datetime64(0, "s")) / np.timedelta64(1, "s"), "datetime"
    if values.dtype.kind == "m":
        return values / np.timedelta64(1, "s"), "timedelta"
    return values.astype(np.float64, copy=False), ""


def to_values(field: Field) -> list[Any]:
    """A column as a list of Python values, for look-up among categories."""
    return field.values if isinstance(field.values, list) else field.values.tolist()


def is_categorical(field: Field) -> bool:
    """Whether a column that arrives in fit is categorical: declared so, bool, text or mixed."""
    if field.declared:
        return True
    if not isinstance(field.values, list):
        return False
    kinds = {type(v) for v in distinct(field.values, field.name) if not is_missing(v)}
    if any(issubclass(kind, (complex, np.complexfloating)) for kind in kinds):
        _refuse_complex()
    if not kinds:  # all missing: a column of floats if it holds NaN, else of unknown values
        return not any(isinstance(v, float) for v in field.values)
    if all(issubclass(kind, (bool, np.bool_)) for kind in kinds):
        return True
    return not all(_is_number(kind) or issubclass(kind, datetime.date) for kind in kinds)


def _read_frame(frame: nw.DataFrame) -> Table:
    n_rows, n_columns = frame.shape
    _require_size(n_rows, n_columns)
    names = frame.columns
    if not all(isinstance(name, (str, int, np.integer)) for name in names):
        raise ValueError(
            f"Column names must be strings; got {names[0]!r}. Flatten or rename the columns first."
        )
    names = [name if isinstance(name, str) else int(name) for name in names]
    container = frame.implementation.value
    fields = [_read_series(name, frame[:, j], container) for j, name in enumerate(names)]
    return Table(fields, n_rows, container, "")


def _read_series(name: str | int, series: nw.Series, container: str) -> Field:
    if container == "pyarrow":
        return _read_arrow(name, series)
    native, pandas = series.to_native(), container == "pandas"
    dtype = str(native.dtype) if pandas else str(series.dtype)
    if series.dtype in (nw.Categorical, nw.Enum):
        levels, ordered = None, False
        if pandas:
            levels, ordered = tuple(native.cat.categories.tolist()), bool(native.cat.ordered)
        elif series.dtype == nw.Enum:
            levels, dtype = tuple(series.dtype.categories), "Enum"
        return Field(name, series.to_list(), dtype, True, levels, ordered)
    if series.dtype != nw.String:
        values = series.to_numpy()
        if values.dtype.kind in NUMERIC + TIME:
            return Field(name, values, dtype)
        if values.dtype.kind == "c":
            _refuse_complex()
    return Field(name, series.to_list(), dtype)


def _read_arrow(name: str | int, series: nw.Series) -> Field:
    """An Arrow column: numbers and times without a Python object each, levels looked at once."""
    import pyarrow as pa

    column, dtype, types = series.to_native(), str(series.dtype), pa.types
    declared = types.is_dictionary(column.type)
    text = types.is_string(column.type) or types.is_large_string(column.type)
    if declared or text or types.is_boolean(column.type):
        coded = column if declared else column.dictionary_encode()
        return Field(name, _spread(coded), dtype, declared)
    if types.is_decimal(column.type):
        column = column.cast(pa.float64())
    elif types.is_date64(column.type):
        column, dtype = column.cast(pa.date32()), "Date"
    values = column.to_numpy()
    if values.dtype.kind in NUMERIC + TIME:
        return Field(name, values, dtype)
    return Field(name, column.to_pylist(), dtype)


def _spread(column: Any) -> list[Any]:
    """The values of an Arrow dictionary column: rows of one level share one Python object."""
    array = column.unify_dictionaries().combine_chunks()  # row groups bring their own levels
    levels = np.array([None, *array.dictionary.to_pylist()], dtype=object)
    codes = array.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return levels[codes + 1].tolist()


def _read_array(X: Any) -> Table:
    try:
        array = np.asarray(X)
        if array.dtype.kind in "US" and not hasattr(X, "dtype"):
            array = np.array(X, dtype=object)  # lists that mix text and numbers keep both
    except ValueError as error:
        raise ValueError(f"X is not a table: its rows differ in length. {error}") from error
    if array.dtype.kind == "c":
        _refuse_complex()
    if array.ndim != 2:
        _refuse_shape(array)
    _require_size(*array.shape)
    kind, dtype = array.dtype.kind, array.dtype.str
    own = array.dtype.name
    if kind in NUMERIC:
        fields = [Field(j, array[:, j], own) for j in range(array.shape[1])]
        return Table(fields, array.shape[0], "numpy", dtype, array.astype(np.float64, copy=False))
    if kind in TIME:
        fields = [Field(j, array[:, j], own) for j in range(array.shape[1])]
        return Table(fields, array.shape[0], "numpy", dtype)
    if kind not in "bOUST":
        raise TypeError(f"X has dtype {array.dtype}; expected numbers, text, bools, objects.")
    if kind in "ST":
        array = array.astype(str if kind == "S" else object)
    fields = []
    for j, column in enumerate(array.T):
        values = column.tolist()
        own = "int64" if kind == "O" and all(type(v) is int for v in values) else ""
        fields.append(Field(j, values, own))
    return Table(fields, array.shape[0], "numpy", array.dtype.str)


def _numbers(values: list[Any], name: str | int) -> np.ndarray:
    kinds = {type(value) for value in values}
    strange = [k for k in kinds if not _is_number(k) and not issubclass(k, (bool, np.bool_))]
    if strange:
        for value in values:
            if type(value) in strange and not is_missing(value):
                raise ValueError(
                    f"{describe(name)} held numbers in fit, but now holds {value!r} "
                    f"({type(value).__name__}). Convert it to numbers, or fit it as text."
                )
        values = [np.nan if type(v) in strange else v for v in values]
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"{describe(name)} holds a whole number beyond 1e308.") from error


def _moment(value: Any) -> Any:
    """A date or datetime without time zone, in universal time; None if missing."""
    if is_missing(value):
        return None
    if getattr(value, "tzinfo", None) is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def _is_number(kind: type) -> bool:
    return issubclass(kind, (numbers.Real, np.number, decimal.Decimal))


def _require_size(n_rows: int, n_columns: int):
    for count, what in ((n_rows, "sample"), (n_columns, "feature")):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape=({n_rows}, {n_columns})) while a minimum of "
                "1 is required."
            )


def _refuse_shape(array: np.ndarray):
    if array.ndim > 2:
        raise ValueError(
            f"Found array with dim {array.ndim}, of shape {array.shape}; a table has 2 dimensions, "
            "(rows, columns)."
        )
    what = "1D array" if array.ndim == 1 else "scalar array"
    raise ValueError(
        f"Expected 2D array, got {what} instead, of shape {array.shape}. Reshape your data either "
        "using array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if "
        "it contains a single sample."
    )


def _refuse_complex():
    raise ValueError("Complex data not supported: split real and imaginary parts into two columns.")
