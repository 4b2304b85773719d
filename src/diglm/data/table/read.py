"""The user's containers to plain columns: NumPy arrays, pandas, polars and Arrow tables."""

from collections import Counter
from typing import Any

import narwhals as nw
import numpy as np
from scipy.sparse import issparse

from diglm.data.table.fields import Field, Table, refuse_complex

NUMERIC = "iuf"
TIME = "Mm"


def opened(X: Any) -> nw.DataFrame | np.ndarray:
    """Any supported container as a frame or a 2-D array, with clear errors for what is no table.

    Cells are not looked at one by one; `read` does that.
    """
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
        raise ValueError(_duplicates(X)) from error
    if isinstance(frame, nw.DataFrame):
        _check_frame(frame)
        return frame
    if hasattr(X, "collect"):
        raise TypeError(f"X is a lazy {type(X).__name__}; call X.collect() first.")
    return _as_array(X)


def names_of(source: nw.DataFrame | np.ndarray) -> list[str | int]:
    """The names of a frame's columns, the positions of an array's."""
    if isinstance(source, np.ndarray):
        return list(range(source.shape[1]))
    return [name if isinstance(name, str) else int(name) for name in source.columns]


def read(source: nw.DataFrame | np.ndarray, places: list[int] | None = None) -> Table:
    """Split what `opened` gave into columns: those of a frame at these places, or all."""
    if isinstance(source, np.ndarray):
        return _read_array(source)
    names, container = names_of(source), source.implementation.value
    places = list(range(len(names))) if places is None else places
    native = source.to_native() if container == "pandas" else None
    fields = []
    for j in places:
        field = None if native is None else _read_numbers(names[j], native.iloc[:, j])
        if field is None:
            field = _read_series(names[j], source[:, j], container)
        fields.append(field)
    return Table(fields, len(source), container, "")


def _check_frame(frame: nw.DataFrame):
    _require_size(*frame.shape)
    names = frame.columns
    if not all(isinstance(name, (str, int, np.integer)) for name in names):
        raise ValueError(
            f"Column names must be strings; got {names[0]!r}. Flatten or rename the columns first."
        )
    for j, dtype in enumerate(frame.schema.values()):
        if dtype == nw.Unknown and frame[:, j].to_numpy().dtype.kind == "c":
            refuse_complex()


def _read_numbers(name: str | int, column: Any) -> Field | None:
    """A column of pandas that is NumPy's numbers; None if it is not.

    Through narwhals the columns of one row take longer to read than the row to answer.
    """
    dtype = column.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in NUMERIC:
        return None
    return Field(name, column.to_numpy(), str(dtype))


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
            refuse_complex()
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


def _as_array(X: Any) -> np.ndarray:
    """A 2-D array; of objects if `X` is made of lists that mix text and numbers."""
    try:
        array = np.asarray(X)
        if array.dtype.kind in "US" and not hasattr(X, "dtype"):
            array = np.array(X, dtype=object)
    except ValueError as error:
        raise ValueError(f"X is not a table: its rows differ in length. {error}") from error
    if array.dtype.kind == "c":
        refuse_complex()
    if array.ndim != 2:
        _refuse_shape(array)
    _require_size(*array.shape)
    if array.dtype.kind not in NUMERIC + TIME + "bOUST":
        raise TypeError(f"X has dtype {array.dtype}; expected numbers, text, bools, objects.")
    return array


def _read_array(array: np.ndarray) -> Table:
    kind, dtype = array.dtype.kind, array.dtype.str
    own = array.dtype.name
    if kind in NUMERIC:
        fields = [Field(j, array[:, j], own) for j in range(array.shape[1])]
        return Table(fields, array.shape[0], "numpy", dtype, array.astype(np.float64, copy=False))
    if kind in TIME:
        fields = [Field(j, array[:, j], own) for j in range(array.shape[1])]
        return Table(fields, array.shape[0], "numpy", dtype)
    if kind in "ST":
        array = array.astype(str if kind == "S" else object)
    fields = []
    for j, column in enumerate(array.T):
        values = column.tolist()
        own = "int64" if kind == "O" and all(type(v) is int for v in values) else ""
        fields.append(Field(j, values, own))
    return Table(fields, array.shape[0], "numpy", array.dtype.str)


def _duplicates(X: Any) -> str:
    """The message for a frame in which a name occurs more than once."""
    names = getattr(X, "column_names", None) or getattr(X, "columns", ())
    found = [f"{name!r} {k} times" for name, k in Counter(names).items() if k > 1]
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return f"Column names must be unique; X has {', '.join(found[:5])}{more}. Rename or drop them."


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
