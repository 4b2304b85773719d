"""Categories to codes: which values are the same, and an order that a monotone code can use."""

import datetime
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from diglm.data.table.columns import Column, describe
from diglm.data.table.lattice import fit_codes
from diglm.data.table.patterns import good_turing

Value = str | bool | int | float | None
# Rows' worth of the grand mean mixed into a category's mean: rare categories move to the middle.
SHRINKAGE = 5.0
# Codes of values that are none of the categories, and of missing ones where none was missing.
UNKNOWN, UNKNOWN_MISSING = -1, -2


def is_missing(value: Any) -> bool:
    """Whether a value stands for no value: None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True  # by name, since pandas need not be installed
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def plain(value: Any, name: str | int, *, declared: bool = False) -> Value:
    """A category as JSON can hold it, None if missing.

    Values are the same category when Python calls them equal: 1, 1.0 and True are one, 1 and "1"
    are two. Other types, such as intervals, pass as their text where the column was declared
    categorical, for there the user has said what is meant.
    """
    if is_missing(value):
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        if math.isinf(value):
            raise ValueError(
                f"{describe(name)} holds an infinite value among its categories. Replace it by a "
                "finite number, a string or a missing value."
            )
        return float(value)
    if declared:
        return str(value)
    raise TypeError(wrong_type(value, name))


def wrong_type(value: Any, name: str | int) -> str:
    """The message for a cell that is no scalar of a known type."""
    advice = "convert the column to numbers or to text, for example with astype(str)"
    if isinstance(value, datetime.time):
        advice = "convert times of day to numbers, for example seconds since midnight"
    elif isinstance(value, (list, tuple, dict, np.ndarray)):
        advice = "spread nested values over columns of their own"
    return (
        f"{describe(name)} holds a value of type {type(value).__name__}; each argument must be a "
        f"string, a number, a bool, a date or missing. Please {advice}."
    )


def distinct(values: Iterable[Any], name: str | int) -> set[Any]:
    """The set of raw values, with a clear error for lists, dicts and other unhashable ones."""
    try:
        return set(values)
    except TypeError:
        for value in values:
            try:
                hash(value)
            except TypeError:
                raise TypeError(wrong_type(value, name)) from None
        raise


def codes_of(
    values: list[Any], categories: tuple[Value, ...], name: str | int, *, declared: bool
) -> np.ndarray:
    """The position of each value in `categories`; UNKNOWN or UNKNOWN_MISSING if not there."""
    position: dict[Value, int] = {None: UNKNOWN_MISSING}
    position |= {category: i for i, category in enumerate(categories)}
    # Only distinct values are looked at one by one; the rows go through one dictionary in C.
    table = {
        raw: position.get(plain(raw, name, declared=declared), UNKNOWN)
        for raw in distinct(values, name)
    }
    return np.fromiter(map(table.__getitem__, values), np.int64, len(values))


def fit_categories(
    name: str | int,
    values: list[Any],
    target: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    *,
    declared: bool = False,
) -> Column:
    """The categorical column of these values, missing ones being a category of their own.

    Args:
        name: The column's name.
        values: One value per row.
        target: What the order should follow, (rows, k); NaN where a row has none.
        weights: Positive weights of the rows.
        declared: Whether the type of the column says that it is categorical.
    """
    found = {plain(raw, name, declared=declared) for raw in distinct(values, name)}
    categories = tuple(sorted(found, key=lambda v: (v is None, type(v).__name__, v)))
    codes = codes_of(values, categories, name, declared=declared)
    counts = np.bincount(codes, weights, minlength=len(categories))
    order = np.argsort(-counts, kind="stable")
    if target is not None:
        scores = _scores(codes, target, weights, len(categories))
        order = order[np.argsort(scores[order], kind="stable")]
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    location, scale = fit_codes(rank[codes], weights)
    return Column(
        name,
        "categorical",
        location,
        scale,
        step=1.0,
        high=float(order.size - 1),
        categories=tuple(categories[i] for i in order),
        frequent=int(rank[np.argmax(counts)]),
        unseen_rate=good_turing(int(np.sum(np.bincount(codes) == 1)), codes.size),
    )


def _scores(
    codes: np.ndarray, target: np.ndarray, weights: np.ndarray | None, n: int
) -> np.ndarray:
    r"""First principal coordinate of the categories' mean targets.

    With $n_c$ rows of mean $\bar y_c$ (targets standardised), the profile of a category is
    $n_c \bar y_c / (n_c + m)$, shrunk towards the grand mean 0. Weighted by $\sqrt{n_c}$, its
    leading right singular vector is the direction in which categories differ most.
    """
    known = np.all(np.isfinite(target), axis=1)
    weights = np.ones(codes.size) if weights is None else weights
    codes, target, weights = codes[known], target[known], weights[known]
    if codes.size == 0:
        return np.zeros(n)
    target = target / np.maximum(np.max(np.abs(target), axis=0), 1e-300)  # squares stay finite
    target = target - np.average(target, axis=0, weights=weights)
    spread = np.sqrt(np.average(np.square(target), axis=0, weights=weights))
    target = target / np.where(spread > 1e-12, spread, np.inf)
    counts = np.bincount(codes, weights, minlength=n)
    sums = [np.bincount(codes, weights * column, minlength=n) for column in target.T]
    profile = np.stack(sums, axis=1) / (counts + SHRINKAGE)[:, None]
    axis = np.linalg.svd(np.sqrt(counts)[:, None] * profile, full_matrices=False)[2][0]
    scores = profile @ (axis * np.sign(axis[np.argmax(np.abs(axis))]))
    return np.round(scores, 12)  # equal categories keep the order of their frequency
