"""Explanations in a few words: which columns made a row strange, or its answer."""

from typing import Any

import narwhals as nw
import numpy as np

from diglm.predictor import Explanation

MOST = 3  # columns that are named
LEAST_NATS, LEAST_ANSWER = 0.5, 0.05  # below, a column is not worth naming


def reasons_of(found: Explanation, n_rows: int, *, strange: bool) -> list[str]:
    """For each row the columns that add most to its surprise, or to its answer."""
    return [_words(_columns(found.table(row)), strange=strange) for row in range(n_rows)]


def _words(columns: dict[str, list[Any]], *, strange: bool) -> str:
    sizes = np.array(columns["surprise"] if strange else columns.get("prediction", []), float)
    if len(sizes) == 0:
        return ""
    order = np.argsort(-sizes if strange else -np.abs(sizes), kind="stable")[:MOST]
    least = LEAST_NATS if strange else LEAST_ANSWER * max(np.max(np.abs(sizes)), 1e-12)
    named = [int(j) for j in order if (sizes[j] if strange else abs(sizes[j])) >= least]
    words = [
        f"{columns['column'][j]} {_value(columns, j)} ({_signed(sizes[j])}{' nats' * strange})"
        for j in named
    ]
    return "; ".join(words) or "no one column"


def _signed(size: float) -> str:
    return f"{size:+,.0f}" if abs(size) >= 99.5 else f"{size:+.2g}"


def _value(columns: dict[str, list[Any]], j: int) -> str:
    """What the value is and, where it is another, what was expected."""
    value, expected = (str(columns[name][j]) for name in ("value", "expected"))
    value = "missing" if value in ("", "None", "nan") else value
    return value if value == expected else f"{value}, not {expected}"


def _columns(table: Any) -> dict[str, list[Any]]:
    """A table of any library as lists by name."""
    if isinstance(table, np.recarray):
        return {name: table[name].tolist() for name in table.dtype.names or ()}
    return nw.from_native(table, eager_only=True).to_dict(as_series=False)
