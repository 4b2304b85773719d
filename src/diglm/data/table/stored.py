"""A fitted table encoder as JSON: strict reading, so that a damaged file says what is wrong."""

from typing import Any

import numpy as np

from diglm.data.table.columns import Column
from diglm.data.table.write import CONTAINERS

FORMAT = "diglm.table"
VERSION = 1


def to_content(
    columns: tuple[Column, ...], indicators: tuple[Column, ...], container: str, dtype: str
) -> dict[str, Any]:
    """The parts of an encoder as JSON can hold them."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "container": container,
        "dtype": dtype,
        "columns": [column.to_dict() for column in columns],
        "indicators": [column.to_dict() for column in indicators],
    }


def from_content(content: Any) -> tuple[tuple[Column, ...], tuple[Column, ...], str, str]:
    """The parts that `to_content` described; ValueError if anything is out of place."""
    expected = {"format", "version", "container", "dtype", "columns", "indicators"}
    if not isinstance(content, dict) or set(content) != expected:
        got = sorted(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"A table encoder must hold exactly {sorted(expected)}; got {got}.")
    if content["format"] != FORMAT or content["version"] != VERSION:
        raise ValueError(
            f"Expected format {FORMAT!r}, version {VERSION}; got {content['format']!r}, version "
            f"{content['version']!r}. A newer version of diglm may read it."
        )
    container, dtype = content["container"], content["dtype"]
    if container not in CONTAINERS:
        raise ValueError(f"container must be one of {CONTAINERS}; got {container!r}.")
    _check_dtype(container, dtype)
    columns, indicators = _columns(content, "columns"), _columns(content, "indicators")
    _check_columns(columns, indicators)
    return columns, indicators, container, dtype


def _columns(content: dict[str, Any], key: str) -> tuple[Column, ...]:
    items = content[key]
    if not isinstance(items, list):
        raise ValueError(f"{key} must be a list; got {type(items).__name__}.")
    return tuple(Column.from_dict(item, f"{key}[{i}]") for i, item in enumerate(items))


def _check_columns(columns: tuple[Column, ...], indicators: tuple[Column, ...]):
    names = [column.name for column in columns]
    if not names:
        raise ValueError("columns must hold at least one column.")
    if len(set(names)) != len(names):
        raise ValueError(f"Column names must be unique; got {names}.")
    numeric = {column.name for column in columns if column.is_numeric}
    flagged = [column.name for column in indicators]
    if not set(flagged) <= numeric or len(set(flagged)) != len(flagged):
        raise ValueError(f"indicators must name numeric columns, each once; got {flagged}.")
    if {c.kind for c in indicators} - {"indicator"} or "indicator" in {c.kind for c in columns}:
        raise ValueError("Kind 'indicator' belongs in indicators, and nothing else does.")


def _check_dtype(container: str, dtype: Any):
    if not isinstance(dtype, str):
        raise ValueError(f"dtype must be text; got {dtype!r}.")
    try:
        known = container != "numpy" or np.dtype(dtype).kind in "biufOUMm"
    except (TypeError, ValueError, SyntaxError):
        known = False
    if not known:
        raise ValueError(f"dtype must name a NumPy type of numbers, text or time; got {dtype!r}.")
