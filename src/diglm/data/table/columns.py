"""One column of a user's table: what kind it is, and the affine code that standardises it."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from diglm.data.facets import Facet
from diglm.data.table.times import FORMATS

KINDS = ("continuous", "lattice", "categorical", "indicator", "axis")
TIMES = ("", "datetime", "timedelta")
NUMBERS = ("location", "scale", "step", "origin", "low", "high", "unseen_rate")


@dataclass(frozen=True)
class Column:
    r"""Encodes $x$ as $(x - \text{location}) / \text{scale}$; its cells are `step` wide.

    Attributes:
        name: The frame's name for the column, or its position in an array.
        kind: "continuous"; "lattice", numbers on the grid `origin + k * step`; "categorical",
            whose number is a position in `categories`; "indicator", 0 present and 1 missing; or
            "axis", the second dimension of a category, 0 to depth - 1.
        location: What is subtracted.
        scale: What is divided by, in the user's unit; positive.
        step: Distance between neighbouring values; 0 for a continuous column.
        origin: One point of the grid.
        low: Smallest number seen, the bound below when decoding to the grid.
        high: Largest number seen.
        categories: Values in the order of their codes: str, bool, int, float, or None for missing.
        frequent: Code of the commonest category, which stands in for unknown ones.
        time: "datetime" or "timedelta" when the numbers are seconds (since 1970 for a datetime).
        dtype: The container's own name of the type, used to restore it.
        iso: How the moments of a datetime column were written, if they came as text.
        levels: The declared categories of a category or enum type, in the user's order.
        ordered: Whether those levels were declared to be ordered.
        unseen_rate: Estimated probability that a new row shows something here that no row of fit
            did: another category, or a missing number where none was missing.
        coded: Whether the categories came as whole numbers, which were found to be codes.
        depth: How many categories share a cell, told apart along an axis of their own: the code c
            is the box (c // depth, c % depth).
        running: Whether these are whole numbers that never repeat and run evenly, as row numbers.
    """

    name: str | int
    kind: str
    location: float
    scale: float
    step: float = 0.0
    origin: float = 0.0
    low: float = 0.0
    high: float = 0.0
    categories: tuple[str | bool | int | float | None, ...] = ()
    frequent: int = 0
    time: str = ""
    dtype: str = ""
    iso: str = ""
    levels: tuple[str | bool | int | float, ...] | None = None
    ordered: bool = False
    unseen_rate: float = 1.0
    coded: bool = False
    depth: int = 1
    running: bool = False

    @property
    def width(self) -> float:
        """Width of a cell in encoded units: what training noise must fill. 0 if continuous."""
        return self.step / self.scale

    @property
    def is_numeric(self) -> bool:
        """Whether the user's values are numbers or times rather than categories."""
        return self.kind in ("continuous", "lattice")

    @property
    def came_as_numbers(self) -> bool:
        """Whether the user gave numbers or times, be they codes or not."""
        return self.is_numeric or self.coded

    def snap(self, x: np.ndarray) -> np.ndarray:
        """The nearest points of the grid within the range seen in fit; NaN stays NaN."""
        if self.step == 0:
            return x
        # Dividing before subtracting cannot overflow, and the grid has few enough cells for it.
        k = np.rint(x / self.step - self.origin / self.step)
        points = self.origin + k * self.step
        if (decimals := decimals_of(self.step, self.origin)) is not None:
            points = np.round(points, decimals)  # 3 * 0.1 becomes the 0.3 the user wrote
        return np.clip(points, self.low, self.high)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        content = asdict(self)
        content["categories"] = list(self.categories)
        content["levels"] = None if self.levels is None else list(self.levels)
        return content

    @classmethod
    def from_dict(cls, content: Any, where: str = "column") -> "Column":
        """The column that `to_dict` described; `where` names its place in error messages."""
        expected = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or set(content) != expected:
            got = sorted(map(str, content)) if isinstance(content, dict) else type(content).__name__
            raise ValueError(f"{where} must hold exactly {sorted(expected)}; got {got}.")
        content = dict(content)
        for key in ("categories", "levels"):
            if isinstance(content[key], list):
                content[key] = tuple(content[key])
        for key in NUMBERS:
            if type(content[key]) is int and abs(content[key]) < 2**1023:
                content[key] = float(content[key])  # JSON writers may drop the ".0"
        try:
            _check(content)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        return cls(**content)


def decimals_of(*numbers: float) -> int | None:
    """The decimal places, at most nine, that write every one of the numbers; None if more."""
    for places in range(10):
        if all(round(number, places) == number for number in numbers):
            return places
    return None


def facet_of(column: Column, place: int) -> Facet:
    """A column as people name and change it."""
    codes = len(column.categories) - 1
    low, high = (0.0, float(codes)) if column.categories else (column.low, column.high)
    return Facet(
        column.name,
        (place,),
        1.0 if column.categories else column.scale,
        1.0 if column.categories else column.step,
        low,
        high,
        decimals_of(column.step, column.origin, column.low) if column.step else None,
        column.categories,
        column.time,
    )


def places_of(columns: tuple[Column, ...], wanted: Any) -> list[int]:
    """Places of "all", which are all columns, or of a list of names or positions."""
    names = [column.name for column in columns]
    if isinstance(wanted, str) and wanted == "all":
        return list(range(len(names)))
    if not isinstance(wanted, list | tuple | np.ndarray):
        raise ValueError(
            "Expected 'all' or a list of the columns that have slopes of their own, such as "
            f"{names[:1]}; got {wanted!r}."
        )
    places = []
    for name in wanted:
        if name in names:
            places.append(names.index(name))
        elif isinstance(name, int | np.integer) and 0 <= name < len(names):
            places.append(int(name))
        else:
            raise ValueError(
                f"Slopes were asked for of the column {name!r}, but the table has {names}."
            )
    return places


def describe(name: str | int) -> str:
    """A column as error messages call it."""
    return f"Column {name!r}"


def _check(content: dict[str, Any]):
    """Raise for the first field that no fitted column could hold."""

    def require(key: str, holds: bool, expected: str):
        if not holds:
            raise ValueError(f"{key} must be {expected}; got {content[key]!r}.")

    kind = content["kind"]
    require("name", type(content["name"]) in (str, int), "text or a whole number")
    require("kind", kind in KINDS, f"one of {KINDS}")
    for key in NUMBERS:
        require(key, _is_finite(content[key]), "a finite number")
    require("scale", content["scale"] > 0, "positive")
    require("step", content["step"] >= 0, "zero or positive")
    if kind == "continuous":
        require("step", content["step"] == 0, "0 in a continuous column")
    else:
        require("step", content["step"] > 0, f"positive in a {kind} column")
    require("high", content["high"] >= content["low"], f"at least low, {content['low']}")
    require("time", content["time"] in TIMES, f"one of {TIMES}")
    formats = FORMATS if content["time"] == "datetime" else ("",)
    require("iso", content["iso"] in formats, f"one of {formats}")
    require("unseen_rate", 0 < content["unseen_rate"] <= 1, "a probability above 0")
    require("dtype", isinstance(content["dtype"], str), "text")
    for key in ("ordered", "coded", "running"):
        require(key, isinstance(content[key], bool), "true or false")

    values, levels, frequent = (content[key] for key in ("categories", "levels", "frequent"))
    require("categories", _are_values(values, missing=True), "a list of plain values")
    if kind == "categorical":
        require("categories", len(values) > 0, "at least one value")
    else:
        require("categories", len(values) == 0, f"empty in a {kind} column")
    in_range = type(frequent) is int and 0 <= frequent < max(len(values), 1)
    require("frequent", in_range, "the position of a category")
    depth = content["depth"]
    require("depth", type(depth) is int and 1 <= depth <= max(len(values), 1), "1 or more")
    if content["coded"]:
        whole = all(v is None or type(v) is int for v in values)
        require("categories", kind == "categorical" and whole, "whole numbers in a coded column")
    require("levels", levels is None or _are_values(levels, missing=False), "a list or null")


def _is_finite(number: Any) -> bool:
    return type(number) is float and math.isfinite(number)


def _are_values(values: Any, *, missing: bool) -> bool:
    """Whether this is a tuple of distinct values that JSON can hold."""
    if not isinstance(values, tuple):
        return False
    allowed = (str, bool, int, float, type(None)) if missing else (str, bool, int, float)
    plain = all(type(v) in allowed and (type(v) is not float or math.isfinite(v)) for v in values)
    return plain and len(set(values)) == len(values)
