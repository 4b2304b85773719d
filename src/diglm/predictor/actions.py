"""What a person can change in a row: columns that are fixed, bounds, directions, grids, costs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from diglm.data.facets import Facet

DIRECTIONS = ("up", "down")
Bound = object  # a pair of ends, or a list of levels; what else it is, an error says


@dataclass(frozen=True)
class Actions:
    """Where each cell of each row may go.

    Attributes:
        facets: the columns.
        origin: the rows as they are.
        low: least value of each cell.
        high: largest value; below `low` where nothing is allowed.
        levels: which levels may be chosen, by column; all where it is not named.
    """

    facets: tuple[Facet, ...]
    origin: Float[np.ndarray, "rows columns"]
    low: Float[np.ndarray, "rows columns"]
    high: Float[np.ndarray, "rows columns"]
    levels: dict[int, Float[np.ndarray, " allowed"]]

    @classmethod
    def of(
        cls,
        facets: tuple[Facet, ...],
        origin: Float[np.ndarray, "rows columns"],
        *,
        fixed: Sequence[str | int] = (),
        bounds: Mapping[str | int, Bound] | None = None,
        direction: Mapping[str | int, str] | None = None,
    ) -> "Actions":
        """What is allowed: within the range of the data, the bounds and the directions given.

        What is missing stays missing, and what is there stays there, unless bounds of levels say
        otherwise: nobody can follow the advice to know less.
        """
        least = np.array([facet.low for facet in facets])
        # A level that was never seen may be given up, but not chosen.
        low = np.where([bool(facet.levels) for facet in facets], 0.0, np.minimum(least, origin))
        high = np.maximum(np.array([facet.high for facet in facets]), origin)
        levels: dict[int, np.ndarray] = {}
        still = [_place(facets, name, "fixed") for name in _names(fixed)]
        for name, bound in (bounds or {}).items():
            j = _place(facets, name, "bounds")
            if j in still:
                raise ValueError(f"Column {name!r} is fixed, so it can have no bounds; drop one.")
            if facets[j].levels:
                levels[j] = _allowed(facets[j], bound)
            else:
                least, most = _ends(facets[j], bound)
                low[:, j] = np.where(origin[:, j] >= least, np.maximum(low[:, j], least), least)
                high[:, j] = np.where(origin[:, j] <= most, np.minimum(high[:, j], most), most)
        for name, way in (direction or {}).items():
            j = _place(facets, name, "direction")
            if way not in DIRECTIONS or facets[j].levels:
                raise ValueError(
                    f"direction says 'up' or 'down' for columns of numbers; got {way!r} for "
                    f"{name!r}" + (", which has levels." if facets[j].levels else ".")
                )
            if way == "up":
                low[:, j] = np.maximum(low[:, j], origin[:, j])
            else:
                high[:, j] = np.minimum(high[:, j], origin[:, j])
        mask = _gaps(facets, origin)
        mask[:, list(levels)] = np.isnan(origin[:, list(levels)])
        mask[:, still] = True
        for j, facet in enumerate(facets):
            if None in facet.levels and j not in levels:
                known = [code for code, level in enumerate(facet.levels) if level is not None]
                levels[j] = np.array(known, float)
        return cls(facets, origin, low, high, levels).keeping(mask)

    def keeping(self, fixed: Bool[np.ndarray, "rows columns"]) -> "Actions":
        """The same with more cells that stay as they are."""
        low, high = (np.where(fixed, self.origin, end) for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    def take(self, rows: np.ndarray) -> "Actions":
        """Those of some of the rows."""
        parts = {name: getattr(self, name)[rows] for name in ("origin", "low", "high")}
        return replace(self, **parts)

    @property
    def free(self) -> Bool[np.ndarray, "rows columns"]:
        """Which cells can change."""
        return self.high > self.low

    @property
    def gaps(self) -> Bool[np.ndarray, "rows columns"]:
        """Which cells are missing."""
        return _gaps(self.facets, self.origin)

    @property
    def possible(self) -> Bool[np.ndarray, " rows"]:
        """Rows in which every cell has somewhere to be."""
        return np.all((self.high >= self.low) | np.isnan(self.origin), axis=1)

    def filled(
        self, cells: Float[np.ndarray, "rows n columns"]
    ) -> Float[np.ndarray, "rows n columns"]:
        """Rows in which what went missing, though it may not, is as it was."""
        gone = _gaps(self.facets, cells)
        for j, codes in self.levels.items():
            gone[..., j] &= ~np.isin(cells[..., j], codes)
        return np.where(gone, self.origin[:, None], cells)

    def project(
        self, cells: Float[np.ndarray, "rows n columns"]
    ) -> Float[np.ndarray, "rows n columns"]:
        """The nearest rows that are allowed: whole numbers whole, levels levels."""
        out = self.filled(cells)
        for j, facet in enumerate(self.facets):
            low, high, start = (a[:, j, None] for a in (self.low, self.high, self.origin))
            column = out[:, :, j]
            if facet.step:
                # Grid points within the bounds; a bound between two points moves inwards.
                unit = facet.step
                steps = np.rint((column - facet.low) / unit)
                first = np.ceil((low - facet.low) / unit - 1e-9)
                last = np.floor((high - facet.low) / unit + 1e-9)
                points = facet.point(np.clip(steps, first, np.maximum(last, first)))
                column = np.where(column == start, column, points)  # a row may be off the grid
            column = np.clip(column, low, np.maximum(high, low))
            if j in self.levels:
                allowed = self.levels[j]
                near = allowed[np.argmin(np.abs(column[..., None] - allowed), axis=-1)]
                column = np.where(low == high, column, near)
            moved = np.broadcast_to(low != high, column.shape)
            out[:, :, j] = np.where(moved, column, np.where(np.isnan(start), start, column))
        return out

    def cost(
        self, cells: Float[np.ndarray, "rows n columns"]
    ) -> Float[np.ndarray, "rows n columns"]:
        """What each change costs: distance in spreads of the data, one for another level."""
        start = np.broadcast_to(self.origin[:, None], cells.shape)
        parts = [
            facet.far(cells[:, :, j].ravel(), start[:, :, j].ravel()).reshape(cells.shape[:2])
            for j, facet in enumerate(self.facets)
        ]
        return np.stack(parts, axis=2)


def _gaps(
    facets: tuple[Facet, ...], cells: Float[np.ndarray, "*rows columns"]
) -> Bool[np.ndarray, "*rows columns"]:
    """Which cells are missing: no number, or the level that stands for nothing."""
    gaps = np.isnan(cells)
    for j, facet in enumerate(facets):
        if None in facet.levels:
            gaps[..., j] |= cells[..., j] == facet.levels.index(None)
    return gaps


def _names(fixed: Sequence[str | int]) -> Sequence[str | int]:
    if isinstance(fixed, str):
        raise ValueError(f"fixed is a list of columns; got {fixed!r}. Write fixed=[{fixed!r}].")
    return fixed


def _place(facets: tuple[Facet, ...], name: str | int, what: str) -> int:
    names = [facet.name for facet in facets]
    if name in names:
        return names.index(name)
    if isinstance(name, int | np.integer) and 0 <= name < len(names):
        return int(name)
    raise ValueError(f"{what} names the column {name!r}, but the table has {names}.")


def _ends(facet: Facet, bound: Bound) -> tuple[float, float]:
    """Both ends of an interval; None is open."""
    if not isinstance(bound, tuple | list) or len(bound) != 2:
        raise ValueError(
            f"bounds of {facet.name!r} are a pair (lowest, highest), None for open; got {bound!r}."
        )
    try:
        least, most = (_number(facet, end, way) for end, way in zip(bound, (-1, 1), strict=True))
    except (TypeError, ValueError) as error:
        raise ValueError(f"bounds of {facet.name!r} must be numbers; got {bound!r}.") from error
    if not least <= most:
        raise ValueError(f"bounds of {facet.name!r} are empty: {bound!r}.")
    return least, most


def _number(facet: Facet, end: object, way: int) -> float:
    if end is None:
        return way * math.inf
    if facet.time == "datetime":
        return np.datetime64(end, "us").astype(np.int64) / 1e6  # type: ignore[call-overload]
    if facet.time == "timedelta":
        return np.timedelta64(end, "us").astype(np.int64) / 1e6  # type: ignore[call-overload]
    return float(end)  # type: ignore[arg-type]


def _allowed(facet: Facet, bound: Bound) -> Float[np.ndarray, " allowed"]:
    """Codes of the levels that may be chosen."""
    if isinstance(bound, str) or not hasattr(bound, "__iter__"):
        raise ValueError(f"bounds of {facet.name!r} are a list of its levels; got {bound!r}.")
    asked = list(bound)  # type: ignore[call-overload]
    if not asked or any(level not in facet.levels for level in asked):
        raise ValueError(
            f"bounds of {facet.name!r} are some of its levels {list(facet.levels)}; got {bound!r}."
        )
    return np.array([facet.levels.index(level) for level in asked], float)
