"""Answers as JSON takes them: columns of plain values, images as lists, null for no number."""

import dataclasses
import datetime
import math
from collections.abc import Mapping

import narwhals as nw
import numpy as np

from diglm.data.encoder import Container
from diglm.data.table.categories import is_missing
from diglm.serve.bodies import Json


def column(values: np.ndarray) -> list[Json]:
    """An array as a list, of lists where it has several axes; null for what is not finite."""
    listed = values.tolist()
    kind = values.dtype.kind
    if kind in "iub" or (kind == "f" and np.isfinite(values).all()):
        return listed
    return _plain(listed)


def columns(table: Mapping[str, np.ndarray]) -> dict[str, list[Json]]:
    """Columns of answers."""
    return {name: column(values) for name, values in table.items()}


def fields(value: object) -> dict[str, Json]:
    """The fields of a dataclass of numbers and names."""
    return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}  # type: ignore


def rows(container: Container, names: list[str]) -> dict[str, Json]:
    """Rows in the container that a model gives back: columns of a table by name, or images."""
    if isinstance(container, np.ndarray):
        if container.ndim > 2:
            return {"images": column(container)}
        return {"columns": {n: column(container[:, j]) for j, n in enumerate(names)}}
    frame = nw.from_native(container, eager_only=True)
    series = (frame[:, j].to_list() for j in range(frame.shape[1]))
    return {"columns": {n: _plain(values) for n, values in zip(names, series, strict=True)}}


def _plain(value: object) -> Json:
    """Whatever a cell of a table is, as JSON can hold it."""
    if isinstance(value, str | bool | int):
        return value
    if is_missing(value):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, np.generic):
        return _plain(value.item())
    return str(value)
