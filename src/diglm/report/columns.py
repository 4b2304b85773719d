"""Columns of a table in a report: in training, here, drawn by the model, and how they moved."""

from typing import Any

import narwhals as nw
import numpy as np

from diglm.data.table.columns import Column
from diglm.data.table.encoder import TableEncoder
from diglm.drawing import DARK, LIGHT, Axes

Values = np.ndarray  # of a column, as the user gave them; None or NaN where missing
Columns = dict[str | int, Values]
MOST_LEVELS = 8  # of a category that are drawn
LONGEST = 40  # letters of a value that are shown


def columns_of(X: Any, encoder: TableEncoder) -> Columns:
    """The columns that a model reads, by name or by place."""
    names = [column.name for column in encoder.columns]
    if isinstance(X, np.ndarray):
        return {name: X[:, place] for place, name in enumerate(names)}
    frame = nw.from_native(X, eager_only=True)
    by_name = {str(name): name for name in frame.columns}
    found = [by_name.get(str(name), frame.columns[place]) for place, name in enumerate(names)]
    return {name: _values(frame[column]) for name, column in zip(names, found, strict=True)}


def taken(X: Any, rows: np.ndarray) -> Any:
    """Some rows, in the container of all of them."""
    if isinstance(X, np.ndarray):
        return X[rows]
    return nw.from_native(X, eager_only=True)[rows.tolist()].to_native()


def kind_of(column: Column) -> str:
    """What a column is, in a word or two."""
    if column.time:
        return {"datetime": "date", "timedelta": "duration"}[column.time]
    if column.kind == "categorical":
        return "codes" if column.coded else "category"
    if column.kind == "continuous":
        return "number"
    return "whole number" if column.step % 1 == 0 else "rounded number"


def summary(column: Column, values: Values) -> tuple[str, str, str, str]:
    """In training, here, missing, never seen: what a table says of a column."""
    gaps = missing(values)
    share = f"{np.mean(gaps):.1%}" if gaps.any() else ""
    known = values[~gaps]
    if not column.is_numeric:
        levels = [str(level) for level in column.categories if level is not None]
        text = known.astype(str)
        new = ~np.isin(text, levels)
        return _levels(levels), _commonest(text), share, _rate(new)
    numbers = as_numbers(column, known)
    seen = _range(column, column.low, column.high)
    if len(numbers) == 0:
        return seen, "", share, ""
    outside = (numbers < column.low) | (numbers > column.high)
    middle = f"{_range(column, *_ends(numbers))}, half below {_number(column, np.median(numbers))}"
    return seen, middle, share, _rate(outside)


def overlay(axes: Axes, column: Column, real: Values, drawn: Values) -> None:
    """Real values filled, drawn ones as a line, on the same bins."""
    real, drawn = real[~missing(real)], drawn[~missing(drawn)]
    axes.set_title(str(column.name), fontsize=9)
    axes.set_yticks([])
    axes.tick_params(labelsize=7)
    if not column.is_numeric:
        levels, counts = np.unique(real.astype(str), return_counts=True)
        levels = levels[np.argsort(-counts, kind="stable")][:MOST_LEVELS]
        places = np.arange(len(levels))
        for values, colour, filled, width in ((real, LIGHT, True, 0.8), (drawn, DARK, False, 0.8)):
            shares = [np.mean(values.astype(str) == level) for level in levels]
            axes.bar(places, shares, width, color=colour, fill=filled, edgecolor=colour, lw=1.5)
        turn = 0 if sum(map(len, levels)) < 22 else 35
        names = [level if len(level) < 12 else f"{level[:10]}…" for level in levels]
        axes.set_xticks(places, names, rotation=turn, ha="right" if turn else "center", fontsize=7)
        return
    numbers, imagined = as_numbers(column, real), as_numbers(column, drawn)
    if len(numbers) == 0:
        return
    low, high = np.quantile(numbers, [0.005, 0.995])
    edges = np.linspace(low, high if high > low else low + 1, 25)
    for values, filled in ((numbers, True), (imagined, False)):
        counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
        style = {"fill": True, "color": LIGHT} if filled else {"color": DARK, "lw": 1.5}
        axes.stairs(counts / max(1, len(values)), edges, **style)
    axes.locator_params(axis="x", nbins=5, integer=column.step > 0 and column.step % 1 == 0)
    if column.time:
        ends = [edges[0], edges[-1]]
        axes.set_xticks(ends, [_number(column, end)[:10] for end in ends], fontsize=7)


def distance(first: Values, second: Values) -> float:
    """How far values moved, 0 to 1: the largest gap of distribution functions, or of shares."""
    gaps = abs(float(np.mean(missing(first))) - float(np.mean(missing(second))))
    first, second = first[~missing(first)], second[~missing(second)]
    if len(first) == 0 or len(second) == 0:
        return gaps
    numbers = [np.asarray(part) for part in (first, second)]
    if all(part.dtype.kind in "iufmM" for part in numbers):
        every = np.sort(np.concatenate(numbers))
        shares = [np.searchsorted(np.sort(p), every, side="right") / len(p) for p in numbers]
        return max(gaps, float(np.max(np.abs(shares[0] - shares[1]))))
    texts = [part.astype(str) for part in numbers]
    levels = np.unique(np.concatenate(texts))
    shares = [np.array([np.mean(text == level) for level in levels]) for text in texts]
    return max(gaps, float(0.5 * np.sum(np.abs(shares[0] - shares[1]))))


def difference(column: Column, before: Any, after: Any) -> float:
    """How much a value changed, in units of its column; a change of category counts as one."""
    if not column.is_numeric or missing(np.array([before, after], object)).any():
        return 1.0
    old, new = as_numbers(column, np.array([before, after]))
    return abs(new - old) / column.scale


def cell(value: object) -> str:
    """A value as a table shows it."""
    if value is None or value != value:
        return ""
    text = f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
    text = text.removesuffix(" 00:00:00")  # of a day
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def missing(values: Values) -> np.ndarray:
    """Where a value is None, NaN or not a time."""
    if values.dtype.kind in "biuUS":
        return np.zeros(len(values), bool)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    return np.array([value is None or value != value for value in values.tolist()], bool)


def as_numbers(column: Column, values: Values) -> np.ndarray:
    """Numbers as they are; times in seconds, as the column counts them."""
    values = np.asarray(values)
    if column.time == "datetime":
        moments = np.array(
            values.tolist() if values.dtype.kind == "O" else values, "datetime64[us]"
        )
        return moments.astype(np.int64) / 1e6
    if column.time:
        spans = np.array(values.tolist() if values.dtype.kind == "O" else values, "timedelta64[us]")
        return spans.astype(np.int64) / 1e6
    return values.astype(float)


def _values(series: Any) -> Values:
    array = series.to_numpy()
    return np.array(series.to_list(), object) if array.dtype.kind in "OUST" else array


def _ends(numbers: np.ndarray) -> tuple[float, float]:
    return float(numbers.min()), float(numbers.max())


def _range(column: Column, low: float, high: float) -> str:
    return f"{_number(column, low)} to {_number(column, high)}"


def _number(column: Column, value: float) -> str:
    if column.time == "datetime":
        return str(np.datetime64(round(value), "s")).replace("T00:00:00", "")
    return f"{value:.5g}"


def _levels(levels: list[str]) -> str:
    shown = ", ".join(map(cell, levels[:4]))
    return shown if len(levels) <= 4 else f"{shown} and {len(levels) - 4:,} more"


def _commonest(text: np.ndarray) -> str:
    if len(text) == 0:
        return ""
    levels, counts = np.unique(text, return_counts=True)
    best = int(np.argmax(counts))
    return f"{cell(levels[best])} {counts[best] / len(text):.0%}"


def _rate(strange: np.ndarray) -> str:
    return f"{np.mean(strange):.1%}" if len(strange) and strange.any() else ""
