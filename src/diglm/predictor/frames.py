"""Frames of pandas or polars: telling them from arrays, and answering in kind."""

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from diglm.data.encoder import Container


def is_frame(X: object) -> bool:
    """Whether `X` is a data frame held in memory, of whichever library."""
    return nw.dependencies.is_into_dataframe(X)


def table_like(X: Container, columns: Mapping[Any, np.ndarray]) -> Container:
    """`columns` as a frame of the library of `X`; arrays get pandas, or records without it."""
    if is_frame(X):
        frame = nw.from_native(X, eager_only=True)
        table = nw.from_dict(dict(columns), backend=frame.implementation).to_native()
        if frame.implementation.is_pandas():
            table.index = X.index
        return table
    if importlib.util.find_spec("pandas") is not None:
        return importlib.import_module("pandas").DataFrame(columns)
    # NumPy's stubs know a list of names only beside `formats`.
    return np.rec.fromarrays(
        list(columns.values()),
        names=[str(name) for name in columns],  # pyright: ignore[reportArgumentType]
    )
