"""A user's table to standardised numbers and back, every change of unit counted."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from diglm.data.table.categories import codes_of
from diglm.data.table.columns import Column, describe
from diglm.data.table.fitting import fit_columns, refuse_infinite
from diglm.data.table.read import Field, Table, read, to_numbers, to_values
from diglm.data.table.stored import from_content, to_content
from diglm.data.table.write import write

LARGEST = 1e30  # finite in float32, and so is a sum of many


class Encoded(NamedTuple):
    """Rows as a model sees them.

    Attributes:
        values: Standardised numbers, (rows, dim); NaN where a cell is missing.
        log_scale: Log of the change of unit, (rows,): log p_user = log p_encoded + log_scale.
        unseen: How many cells of each row no row of fit prepared for: unknown categories, and
            missing values in columns that had none.
    """

    values: np.ndarray
    log_scale: np.ndarray
    unseen: np.ndarray


@dataclass(frozen=True)
class TableEncoder:
    r"""$u_j = (x_j - m_j) / s_j$, with $\log|\det \partial u / \partial x| = -\sum_j \log s_j$.

    Numbers are standardised by robust location and scale. Whole numbers, rounded numbers and
    categories lie on a grid whose cells are `widths` wide in encoded units; noise that fills the
    cells turns their log mass into a log density. A column with missing values keeps NaN in its
    cell and gains an indicator (0 present, 1 missing) behind all columns. Dates become seconds
    since 1970 and durations seconds, so their densities are per second.

    A missing cell has no unit and adds nothing to `log_scale`. Unknown categories take the place
    of the commonest one and are counted in `unseen`.

    Use `TableEncoder.fit`; the constructor takes what was fitted.
    """

    columns: tuple[Column, ...]
    indicators: tuple[Column, ...]
    container: str
    dtype: str

    @classmethod
    def fit(cls, X: Any, y: Any = None, *, weights: Any = None) -> "TableEncoder":
        """Learn kinds, locations and scales of the columns.

        Args:
            X: Array (rows, columns) or eager frame of numbers, text, bools, categories, times.
            y: Numbers (rows,) or (rows, k), such as one-hot classes, by which categories are
                ordered; rows with NaN are ignored. Without it the order is by frequency.
            weights: Nonnegative row weights. Weight 0 is as if the row were absent, and a whole
                number as if it were repeated.
        """
        table = read(X)
        columns, indicators = fit_columns(table, y, weights)
        return cls(columns, indicators, table.container, table.dtype)

    @property
    def dim(self) -> int:
        """Encoded dimensions: the columns, then one indicator per column with missing values."""
        return len(self.columns) + len(self.indicators)

    @cached_property
    def widths(self) -> np.ndarray:
        """Width of a cell in encoded units, (dim,); 0 where continuous."""
        return np.array([column.width for column in self.columns + self.indicators])

    @property
    def feature_names(self) -> list[str] | None:
        """The frame's column names; None if it had none, or not all of them text."""
        names = [column.name for column in self.columns if isinstance(column.name, str)]
        return names if len(names) == len(self.columns) else None

    def encode(self, X: Any, *, owner: str = "TableEncoder") -> Encoded:
        """Standardise the rows of a table; `owner` is who expects it, for error messages."""
        table = read(X)
        raw, unseen = self._raw(table, self._matched(table, owner))
        if np.isinf(raw).any():
            refuse_infinite([c.name for c in self.columns], raw)
        n, d = raw.shape
        values = np.empty((n, self.dim))
        _standardise(raw, self._location[:d], self._scale[:d], out=values[:, :d])
        log_scale = np.full(n, -self._log_scale.sum())
        missing = np.isnan(values[:, :d])
        if missing.any():
            log_scale += missing @ self._log_scale[:d]
            prepared = np.zeros(d, dtype=bool)
            prepared[self._sources] = True
            unseen += missing[:, ~prepared].sum(axis=1)
        flags = missing[:, self._sources].astype(np.float64)
        values[:, d:] = (flags - self._location[d:]) / self._scale[d:]
        return Encoded(values, log_scale, unseen)

    def decode(self, values: Any, *, like: str = "fit", snap: bool = True) -> Any:
        """Encoded rows as a table.

        Numbers on a grid move to its nearest point within the range seen in fit. A cell is
        missing where it is NaN or its indicator lies nearer to 1 than to 0.

        Args:
            values: Encoded rows, (rows, dim).
            like: "fit" for the container, names and types given in fit; "numpy" for an array.
            snap: False leaves numbers between grid points, and integers as floats.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.dim:
            raise ValueError(f"Expected values of shape (rows, {self.dim}); got {values.shape}.")
        if like not in ("fit", "numpy"):
            raise ValueError(f'like must be "fit" or "numpy"; got {like!r}.')
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            largest = np.finfo(np.float64).max
            shrink = _shrink(self._location, self._scale)
            raw = values * (self._scale * shrink) + self._location * shrink
            raw = np.clip(raw, -largest * shrink, largest * shrink) / shrink
            for source, j in zip(self._sources, range(len(self.columns), self.dim), strict=True):
                raw[raw[:, j] > 0.5, source] = np.nan
            arrays = [_decoded(c, raw[:, j], snap) for j, c in enumerate(self.columns)]
        if like == "fit" or self.container == "numpy":
            return write(self.columns, arrays, self.container, self.dtype, snap=snap)
        plain_floats = all(array.dtype.kind == "f" for array in arrays)
        return write(self.columns, arrays, "numpy", "f8" if plain_floats else "O", snap=snap)

    def to_dict(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""
        return to_content(self.columns, self.indicators, self.container, self.dtype)

    @classmethod
    def from_dict(cls, content: Any) -> "TableEncoder":
        """The encoder that `to_dict` described; ValueError if anything is out of place."""
        return cls(*from_content(content))

    @cached_property
    def can_be_missing(self) -> np.ndarray:
        """Which encoded dimensions may be NaN: the columns that had missing values in fit."""
        return np.isin(np.arange(self.dim), self._sources)

    @cached_property
    def _location(self) -> np.ndarray:
        return np.array([column.location for column in self.columns + self.indicators])

    @cached_property
    def _scale(self) -> np.ndarray:
        return np.array([column.scale for column in self.columns + self.indicators])

    @cached_property
    def _log_scale(self) -> np.ndarray:
        return np.log(self._scale)

    @cached_property
    def _sources(self) -> np.ndarray:
        """Positions of the columns that the indicators speak of."""
        position = {column.name: j for j, column in enumerate(self.columns)}
        return np.array([position[column.name] for column in self.indicators], dtype=np.int64)

    def _matched(self, table: Table, owner: str) -> list[Field]:
        """The table's columns in the order of fit: by name if both have names, else by place."""
        names, expected = table.names, self.feature_names
        if expected is not None and all(isinstance(name, str) for name in names):
            by_name = dict(zip(names, table.fields, strict=True))
            absent = [name for name in expected if name not in by_name]
            extra = sorted(by_name.keys() - set(expected))
            if absent or extra:
                problems = [f"lacks columns {absent}"] * bool(absent)
                problems += [f"has columns {extra} that were not there in fit"] * bool(extra)
                raise ValueError(f"X {' and '.join(problems)}; {owner} expects {expected}.")
            return [by_name[name] for name in expected]
        if len(names) != len(self.columns):
            raise ValueError(
                f"X has {len(names)} features, but {owner} is expecting {len(self.columns)} "
                "features as input."
            )
        return table.fields

    def _raw(self, table: Table, fields: list[Field]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers in the user's units, codes for categories; and the unknown cells per row."""
        unseen = np.zeros(table.n_rows, dtype=np.int64)
        if table.matrix is not None and all(c.is_numeric and not c.time for c in self.columns):
            return table.matrix, unseen
        raw = np.empty((table.n_rows, len(self.columns)))
        for j, (column, field) in enumerate(zip(self.columns, fields, strict=True)):
            if column.is_numeric:
                raw[:, j], time = to_numbers(field)
                if time != column.time and not np.isnan(raw[:, j]).all():
                    was, now = column.time or "number", time or "number"
                    raise ValueError(f"{describe(column.name)} was a {was} in fit, now a {now}.")
            else:
                codes = codes_of(to_values(field), column.categories, column.name, declared=True)
                raw[:, j] = np.where(codes < 0, column.frequent, codes)
                unseen += codes < 0
        return raw, unseen


def _standardise(x: np.ndarray, location: np.ndarray, scale: np.ndarray, *, out: np.ndarray):
    """(x - location) / scale within +-LARGEST; overflow on the way ends at the bound."""
    shrink = _shrink(location, scale)
    if shrink.min() < 1:
        x, location, scale = x * shrink, location * shrink, scale * shrink
    with np.errstate(over="ignore", under="ignore"):
        np.subtract(x, location, out=out)
        np.divide(out, scale, out=out)
    np.clip(out, -LARGEST, LARGEST, out=out)


def _shrink(location: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A power of two per column that keeps sums near the largest float from overflowing."""
    return np.where(np.maximum(np.abs(location), scale) > 1e290, 2.0**-4, 1.0)


def _decoded(column: Column, x: np.ndarray, snap: bool) -> np.ndarray:
    """One column in the user's terms: floats, times, or objects."""
    if column.kind == "categorical":
        known = np.where(np.isnan(x), column.frequent, x)
        codes = np.clip(np.rint(known), 0, len(column.categories) - 1).astype(np.int64)
        values = np.empty(len(column.categories), dtype=object)
        values[:] = column.categories
        return values[codes]
    x = column.snap(x) if snap else x
    if not column.time:
        return x
    micro = np.clip(np.rint(x * 1e6), -(2.0**62), 2.0**62)
    ticks = np.where(np.isnan(x), 0, micro).astype(np.int64)
    times = ticks.astype("datetime64[us]" if column.time == "datetime" else "timedelta64[us]")
    times[np.isnan(x)] = "NaT"
    return times
