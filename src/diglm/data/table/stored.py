"""A fitted table encoder as JSON: strict reading, so that a damaged file says what is wrong."""

from typing import Any, NamedTuple

import numpy as np

from diglm.data.table.columns import Column
from diglm.data.table.normal import Normal
from diglm.data.table.patterns import Patterns
from diglm.data.table.write import CONTAINERS

FORMAT = "diglm.table"
VERSION = 3


class Parts(NamedTuple):
    """What a table encoder is made of, in the order of its fields."""

    columns: tuple[Column, ...]
    indicators: tuple[Column, ...]
    axes: tuple[Column, ...]
    patterns: Patterns
    normal: Normal
    n_rows: int
    container: str
    dtype: str


def to_content(parts: Parts) -> dict[str, Any]:
    """The parts of an encoder as JSON can hold them."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "container": parts.container,
        "dtype": parts.dtype,
        "n_rows": parts.n_rows,
        "columns": [column.to_dict() for column in parts.columns],
        "indicators": [column.to_dict() for column in parts.indicators],
        "axes": [column.to_dict() for column in parts.axes],
        "patterns": parts.patterns.to_dict(),
        "normal": parts.normal.to_dict(),
    }


def from_content(content: Any) -> Parts:
    """The parts that `to_content` described; ValueError if anything is out of place."""
    _check_keys(content)
    container, dtype, n_rows = content["container"], content["dtype"], content["n_rows"]
    if container not in CONTAINERS:
        raise ValueError(f"container must be one of {CONTAINERS}; got {container!r}.")
    _check_dtype(container, dtype)
    if type(n_rows) is not int or n_rows < 1:
        raise ValueError(f"n_rows must be a whole number above 0; got {n_rows!r}.")
    columns, indicators = _columns(content, "columns"), _columns(content, "indicators")
    axes = _columns(content, "axes")
    _check_columns(columns, indicators, axes)
    flagged = {column.name for column in indicators}
    prepared = {j for j, column in enumerate(columns) if column.name in flagged}
    patterns = Patterns.from_dict(content["patterns"], prepared)
    normal = Normal.from_dict(content["normal"], len(columns + indicators + axes))
    return Parts(columns, indicators, axes, patterns, normal, n_rows, container, dtype)


def _check_keys(content: Any):
    """Raise unless this is a description of the version that this code reads."""
    expected = {"format", "version", *Parts._fields}
    got = sorted(map(str, content)) if isinstance(content, dict) else type(content).__name__
    # The version first: what it holds beside that differs from one version to the next.
    if isinstance(content, dict) and {"format", "version"} <= set(content):
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise ValueError(
                f"Expected format {FORMAT!r}, version {VERSION}; got {content['format']!r}, "
                f"version {content['version']!r}. Use the version of diglm that wrote it, or fit "
                "the model again."
            )
    if not isinstance(content, dict) or set(content) != expected:
        raise ValueError(f"A table encoder must hold exactly {sorted(expected)}; got {got}.")


def _columns(content: dict[str, Any], key: str) -> tuple[Column, ...]:
    items = content[key]
    if not isinstance(items, list):
        raise ValueError(f"{key} must be a list; got {type(items).__name__}.")
    return tuple(Column.from_dict(item, f"{key}[{i}]") for i, item in enumerate(items))


def _check_columns(
    columns: tuple[Column, ...], indicators: tuple[Column, ...], axes: tuple[Column, ...]
):
    names = [column.name for column in columns]
    if not names:
        raise ValueError("columns must hold at least one column.")
    if len(set(names)) != len(names):
        raise ValueError(f"Column names must be unique; got {names}.")
    numeric = {column.name for column in columns if column.is_numeric}
    flagged = [column.name for column in indicators]
    if not set(flagged) <= numeric or len(set(flagged)) != len(flagged):
        raise ValueError(f"indicators must name numeric columns, each once; got {flagged}.")
    deep = [column.name for column in columns if column.depth > 1]
    if [column.name for column in axes] != deep:
        raise ValueError(f"axes must name the columns of a depth above 1, {deep}, in their order.")
    for kind, place, group in (("indicator", "indicators", indicators), ("axis", "axes", axes)):
        if {c.kind for c in group} - {kind} or kind in {c.kind for c in columns}:
            raise ValueError(f"Kind {kind!r} belongs in {place}, and nothing else does.")


def _check_dtype(container: str, dtype: Any):
    if not isinstance(dtype, str):
        raise ValueError(f"dtype must be text; got {dtype!r}.")
    try:
        known = container != "numpy" or np.dtype(dtype).kind in "biufOUMm"
    except (TypeError, ValueError, SyntaxError):
        known = False
    if not known:
        raise ValueError(f"dtype must name a NumPy type of numbers, text or time; got {dtype!r}.")
