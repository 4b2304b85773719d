"""Rows that show what a column can hold: its levels, gaps, extremes and fractions."""

from typing import Any

import numpy as np

from diglm.data.files.formats import compute, pa
from diglm.data.files.opening import TableFileError

MOST_LEVELS = 10_000  # of a text or category column; more is an identifier
MOST_CLASSES = 1_000  # of a target of numbers; more is no class label
MOST_CODES = 256  # of a column of whole numbers; more are looked at as numbers


class _Column:
    """The first rows of one column that show each of its properties."""

    def __init__(self, name: str, kind: pa.DataType, is_target: bool):
        self.name, self.is_float = name, pa.types.is_floating(kind)
        self.has_order = not is_category(kind) and not pa.types.is_null(kind)
        # Numbers may be class labels or codes, so their values are levels while they are few.
        self.most_levels = MOST_CLASSES if is_target else MOST_CODES
        seen = is_category(kind) or is_target or pa.types.is_integer(kind) or _is_float(kind)
        self.levels: dict[Any, int] | None = {} if seen else None
        self.gap: int | None = None
        self.fraction: int | None = None
        self.least: tuple[Any, int] | None = None
        self.greatest: tuple[Any, int] | None = None

    def look(self, column: pa.ChunkedArray, numbers: np.ndarray):
        """Note the rows of a block, numbered `numbers`, that show something new."""
        if self.gap is None:
            gap = compute.index(is_gap(column), True).as_py()
            self.gap = int(numbers[gap]) if gap >= 0 else None
        if self.levels is not None:
            self._look_at_levels(self.levels, column, numbers)
        if self.has_order:
            self._look_at_extremes(_comparable(column), numbers)
        if self.is_float and self.fraction is None:
            values = column.to_numpy()
            with np.errstate(invalid="ignore"):
                found = np.flatnonzero((values != np.rint(values)) & ~np.isnan(values))
            self.fraction = int(numbers[found[0]]) if found.size else None

    def rows(self) -> set[int]:
        """The rows that are kept for this column."""
        found = [self.gap, self.fraction, *(self.levels or {}).values()]
        found += [pair[1] for pair in (self.least, self.greatest) if pair is not None]
        return {row for row in found if row is not None}

    def beyond(self, other: "_Column") -> set[int]:
        """The rows that show what `other` has not seen."""
        rows = set()
        if other.gap is None:
            rows.add(self.gap)
        if other.fraction is None:
            rows.add(self.fraction)
        if self.levels is not None:
            known = other.levels or {}
            rows |= {row for level, row in self.levels.items() if level not in known}
        for ours, theirs in ((self.least, other.least), (self.greatest, other.greatest)):
            if ours is not None and (theirs is None or ours[0] != theirs[0]):
                rows.add(ours[1])
        return rows - {None}

    def _look_at_levels(self, levels: dict[Any, int], column: pa.ChunkedArray, numbers: np.ndarray):
        unique = column.unique()
        if self.has_order and len(unique) > self.most_levels + 1:  # a gap is no level
            self.levels = None
            return
        if all(level in levels for level in unique.to_pylist() if not _is_none(level)):
            return
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        array = coded.unify_dictionaries().combine_chunks()
        codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        found, first = np.unique(codes, return_index=True)
        names = array.dictionary.to_pylist()
        for code, position in zip(found.tolist(), first.tolist(), strict=True):
            if code >= 0 and not _is_none(names[code]):
                levels.setdefault(names[code], int(numbers[position]))
        if self.has_order and len(levels) > self.most_levels:
            self.levels = None
        elif not self.has_order and len(levels) > MOST_LEVELS:
            raise TableFileError(
                f"Column {self.name!r} has more than {MOST_LEVELS:,} different values, such as "
                f"{names[0]!r}: it looks like an identifier. Leave it out of the columns, or "
                "replace it by groups or by a number."
            )

    def _look_at_extremes(self, column: pa.ChunkedArray, numbers: np.ndarray):
        found = compute.min_max(column)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is None or not low <= high:  # nothing but gaps
            return
        if self.least is None or low < self.least[0]:
            self.least = low, int(numbers[compute.index(column, found["min"]).as_py()])
        if self.greatest is None or high > self.greatest[0]:
            self.greatest = high, int(numbers[compute.index(column, found["max"]).as_py()])


class Witnesses:
    """For each column: the first row of each level, gap and fraction, and its extremes."""

    def __init__(self, schema: pa.Schema, names: list[str], target: str | None):
        self._columns = [_Column(n, schema.field(n).type, n == target) for n in names]
        self._kept: dict[int, pa.Table] = {}

    def look(self, block: pa.Table, numbers: np.ndarray):
        """Go through rows of the table, numbered `numbers`, ascending from block to block."""
        if block.num_rows == 0:
            return
        for column in self._columns:
            column.look(block[column.name], numbers)
        wanted = set().union(*(column.rows() for column in self._columns))
        self._kept = {row: kept for row, kept in self._kept.items() if row in wanted}
        new = np.array(sorted(wanted - self._kept.keys()), dtype=np.int64)
        taken = block.take(np.searchsorted(numbers, new))  # copied: the block itself is let go
        self._kept.update((row, taken.slice(i, 1)) for i, row in enumerate(new.tolist()))

    def beyond(self, other: "Witnesses") -> tuple[np.ndarray, list[pa.Table]]:
        """The rows, and their numbers, that show what `other` has not seen."""
        pairs = zip(self._columns, other._columns, strict=True)
        rows = sorted(set().union(*(ours.beyond(theirs) for ours, theirs in pairs)))
        return np.array(rows, dtype=np.int64), [self._kept[row] for row in rows]


def is_category(kind: pa.DataType) -> bool:
    """Whether columns of this type hold levels rather than numbers or times."""
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind)
    return text or types.is_boolean(kind) or types.is_dictionary(kind)


def _is_float(kind: pa.DataType) -> bool:
    """Whether these are floats whose values Arrow can list."""
    return pa.types.is_floating(kind) and not pa.types.is_float16(kind)


def is_gap(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which values are missing: nulls, and NaN among floats."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    return compute.is_null(column, nan_is_null=True)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that Arrow orders and Python compares: times as whole numbers."""
    types = pa.types
    if types.is_float16(column.type):
        return column.cast(pa.float32())
    if types.is_date32(column.type):
        return column.cast(pa.int32())
    if types.is_timestamp(column.type) or types.is_duration(column.type):
        return column.cast(pa.int64())
    return column


def _is_none(level: Any) -> bool:
    return level is None or level != level
