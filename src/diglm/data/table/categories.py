"""Categories to codes: which values are the same, and an order that a monotone code can use."""

import datetime
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from diglm.data.table.columns import Column, describe
from diglm.data.table.lattice import fit_codes
from diglm.data.table.patterns import good_turing
from diglm.data.table.relation import Relation, relate

Value = str | bool | int | float | None
# Rows' worth of the grand mean mixed into a category's mean: rare categories move to the middle.
SHRINKAGE = 5.0
# Levels of whose mean less than this share is their own have one place in the order together.
LEAST_OWN = 0.2
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


def coded_values(x: np.ndarray) -> list[int | float | None]:
    """Numbers as categories: whole ones as int, missing ones as None."""
    return [None if v != v else int(v) if v.is_integer() else v for v in x.tolist()]


def fit_categories(
    name: str | int,
    values: list[Any],
    target: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    *,
    declared: bool = False,
) -> tuple[Column, np.ndarray]:
    """The categorical column of these values, and their codes; missing ones are a category too.

    Args:
        name: The column's name.
        values: One value per row.
        target: What the order should follow, standardised, (rows, k); NaN where a row has none.
        weights: Positive weights of the rows.
        declared: Whether the type of the column says that it is categorical.
    """
    found = {plain(raw, name, declared=declared) for raw in distinct(values, name)}
    categories = tuple(sorted(found, key=lambda v: (v is None, type(v).__name__, v)))
    codes = codes_of(values, categories, name, declared=declared)
    counts = np.bincount(codes, weights, minlength=len(categories))
    order, depth = np.argsort(-counts, kind="stable"), 1
    if target is not None:
        scores = _scores(relate(codes, target, weights, len(categories)))
        order = order[np.argsort(scores[order, 0], kind="stable")]
        if scores.shape[1] > 1:
            depth = math.isqrt(order.size - 1) + 1
            order = order[np.lexsort((scores[order, 1], np.arange(order.size) // depth))]
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    location, scale = fit_codes(rank[codes] // depth, weights)
    column = Column(
        name,
        "categorical",
        location,
        scale,
        step=1.0,
        high=float((order.size - 1) // depth),
        categories=tuple(categories[i] for i in order),
        frequent=int(rank[np.argmax(counts)]),
        unseen_rate=good_turing(int(np.sum(np.bincount(codes) == 1)), codes.size),
        depth=depth,
    )
    return column, rank[codes]


def fit_axis(column: Column, codes: np.ndarray, weights: np.ndarray | None) -> Column:
    """The second dimension of a category whose codes these are."""
    location, scale = fit_codes(codes % column.depth, weights)
    return Column(column.name, "axis", location, scale, step=1.0, high=column.depth - 1.0)


def _scores(relation: Relation) -> np.ndarray:
    r"""Places of categories in one order, or in two if needed: their mean targets along axes.

    With $n_c$ rows of mean $\bar y_c$ (targets standardised), the place of a category is
    $n_c \bar y_c / (n_c + m)$, shrunk towards the grand mean 0. Here m is what the levels' own
    differences demand, and SHRINKAGE at least. Levels with so few rows that hardly anything of
    their own would be left share one place, that of all their rows together: an order among them
    would follow the noise of y.
    """
    means, counts, _ = relation
    demanded = relation.rows_that_count
    few = counts < demanded * LEAST_OWN / (1 - LEAST_OWN)
    if together := counts[few].sum():
        means = np.where(few[:, None], counts[few] @ means[few] / together, means)
        counts = np.where(few, together, counts)
    scores = means * (counts / (counts + max(demanded, SHRINKAGE)))[:, None]
    n_orders = 2 if relation.needs_two_orders else 1
    return np.round(scores[:, :n_orders], 12)  # equal categories keep the order of their frequency
