"""A user's table to standardised numbers and back, every change of unit counted."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from diglm.data.encoder import AbstractEncoder, Encoded
from diglm.data.facets import Facet
from diglm.data.table import units
from diglm.data.table.columns import Column, facet_of, places_of
from diglm.data.table.fitting import fit_columns, refuse_infinite
from diglm.data.table.matching import lacking, read_as, read_cells, settle_unknown
from diglm.data.table.normal import MOST_ROWS, Normal
from diglm.data.table.patterns import Patterns
from diglm.data.table.read import opened, read
from diglm.data.table.remarks import remarks_on
from diglm.data.table.stored import Parts, from_content, to_content
from diglm.data.table.write import write


@dataclass(frozen=True)
class TableEncoder(AbstractEncoder):
    r"""$u_j = (x_j - m_j) / s_j$, with $\log|\det \partial u / \partial x| = -\sum_j \log s_j$.

    Numbers are standardised by robust location and scale. Whole numbers, rounded numbers and
    categories lie on a grid whose cells are `widths` wide in encoded units; noise that fills the
    cells turns their log mass into a log density. A column with missing values keeps NaN in its
    cell and gains an indicator (0 present, 1 missing) behind all columns. Dates become seconds
    since 1970 and durations seconds, so their densities are per second.

    What kind a column is, its values and y decide. Text, bools and category types are categories.
    Whole numbers are numbers, unless y follows them in a way that no order can say: then they are
    codes, and treated as categories (`codes.py`); numbers with a fraction among them never are.
    The cells of a category follow one order, by y. Where levels differ in two ways, as with three
    classes, the category has a second dimension behind all columns and indicators, and a level is
    the box of two cells.

    A missing cell has no unit and adds nothing to `log_scale`. What no row of fit prepared for is
    told by the facts in `unseen`, one for each column and one for the set of missing cells as a
    whole, and costs the log of its estimated rate:

    - an unknown category takes the place of the commonest one, one that is missing is lost;
    - where cells are missing together that never were, all of the row's missing cells are lost:
      their indicators say present, and `complete` draws their values given the others.

    Use `TableEncoder.fit`; the constructor takes what was fitted.

    Attributes:
        columns: The columns, in the order of fit.
        indicators: One for each column that had missing numbers, behind the columns.
        axes: Second dimensions of the categories that need one, behind the indicators.
        patterns: Which numbers were missing together.
        normal: The distribution of encoded rows, from which lost cells are drawn.
        n_rows: How many rows were learned from.
        container: What the rows came in: "numpy", "pandas", "polars" and so on.
        dtype: Type of the whole array if that was "numpy".
    """

    layout: ClassVar[str] = "vector"
    n_offsets: ClassVar[int] = 8
    in_files: ClassVar[bool] = True

    columns: tuple[Column, ...]
    indicators: tuple[Column, ...]
    axes: tuple[Column, ...]
    patterns: Patterns
    normal: Normal
    n_rows: int
    container: str
    dtype: str

    # ------------------------------------------------------------------ made

    @classmethod
    def accepts(cls, X: Any) -> bool:
        """True: what is no table meets a clear error in `check`."""
        return True

    @classmethod
    def check(cls, X: Any) -> Any:
        """`X` if it is a frame, else its 2-D array; an error for what is no table."""
        source = opened(X)
        return source if isinstance(source, np.ndarray) else X

    @classmethod
    def fit(cls, X: Any, y: Any = None, *, weights: Any = None) -> "TableEncoder":
        """Learn kinds, locations and scales of the columns, and what goes with what.

        Args:
            X: Array (rows, columns) or eager frame of numbers, text, bools, categories, times.
            y: Numbers (rows,) or (rows, k), such as one-hot classes, by which categories are
                ordered and codes told from numbers; rows with NaN are ignored. Without it the
                order is by frequency, and numbers are numbers.
            weights: Nonnegative row weights. Weight 0 is as if the row were absent, and a whole
                number as if it were repeated, but that rates of what is unseen count rows.
        """
        columns, indicators, axes, patterns, table, weights = fit_columns(
            read(opened(X)), y, weights
        )
        begun = cls(
            columns,
            indicators,
            axes,
            patterns,
            Normal.standard(len(columns + indicators + axes)),
            table.n_rows,
            table.container,
            table.dtype,
        )
        if table.n_rows > MOST_ROWS:
            rows = np.random.default_rng(0).choice(table.n_rows, MOST_ROWS, replace=False)
            table, weights = table.take(np.sort(rows)), weights[np.sort(rows)]
        values = begun.encode_cells(read_cells(table, columns)).values
        return replace(begun, normal=Normal.fit(values, begun.widths, weights))

    @classmethod
    def from_dict(cls, content: Any) -> "TableEncoder":
        return cls(*from_content(content))

    def to_dict(self) -> dict[str, Any]:
        return to_content(Parts(*(getattr(self, name) for name in Parts._fields)))

    # ------------------------------------------------------------------ what it is

    @property
    def shape(self) -> tuple[int, ...]:
        """(dim,): the columns, an indicator per column with missing values, second dimensions."""
        return (len(self._parts),)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @property
    def feature_names(self) -> list[str] | None:
        """The frame's column names; None if it had none, or not all of them text."""
        names = [column.name for column in self.columns if isinstance(column.name, str)]
        return names if len(names) == len(self.columns) else None

    @cached_property
    def widths(self) -> Float[np.ndarray, " dim"]:
        """Width of a cell in encoded units, (dim,); 0 where continuous."""
        return np.array([column.width for column in self._parts])

    @cached_property
    def can_be_missing(self) -> Bool[np.ndarray, " dim"]:
        """Which encoded dimensions may be NaN: the columns that had missing values in fit."""
        return np.isin(np.arange(self.dim), self._sources)

    @property
    def remarks(self) -> list[str]:
        """Which columns are identifiers, or almost."""
        return remarks_on(self.columns, self.n_rows)

    def encode(self, X: Any, *, owner: str = "The model", extra: str = "error") -> Encoded:
        return self.encode_cells(self.cells(X, owner=owner, extra=extra))

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
        raw = units.restore(values, self._location, self._scale)
        for j, source in enumerate(self._sources, len(self.columns)):
            raw[raw[:, j] > 0.5, source] = np.nan
        for j, second in self._deep:
            raw[:, j] = units.unboxed(raw[:, j], raw[:, second], self.columns[j])
        arrays = [units.decoded(c, raw[:, j], snap) for j, c in enumerate(self.columns)]
        if like == "fit" or self.container == "numpy":
            return write(self.columns, arrays, self.container, self.dtype, snap=snap)
        plain_floats = all(array.dtype.kind == "f" for array in arrays)
        return write(self.columns, arrays, "numpy", "f8" if plain_floats else "O", snap=snap)

    def complete(
        self, values: Float[np.ndarray, "rows dim"], u: Float[np.ndarray, "rows dim"]
    ) -> tuple[Float[np.ndarray, "rows dim"], Float[np.ndarray, " rows"]]:
        """Lost cells drawn from the normal distribution of training rows, given the others.

        A cell is lost where it is NaN and no indicator says missing.
        """
        part = self._flagged
        location, scale = self._location[part], self._scale[part]
        lost = units.lost_cells(values, values[:, part], location, scale, self._sources)
        drawn, log_q = self.normal.draw(values, lost, u)
        # The noise that will fill cells is taken off: what was drawn is the place in the cell.
        return drawn - np.where(lost, self.widths * (u - 0.5), 0.0).astype(drawn.dtype), log_q

    def told(self, values: Float[np.ndarray, "rows dim"]) -> Bool[np.ndarray, "rows dim"] | None:
        told = ~np.isnan(values)
        told[:, self._flagged] = False
        return None if told.all() else told

    def centred(self, values: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "rows dim"]:
        return units.to_centres(values, self._parts)

    def within_reach(self, values: Float[np.ndarray, "rows dim"]) -> Bool[np.ndarray, " rows"]:
        return units.within_reach(values, self.columns)

    def slopes(self, wanted: Any) -> list[int]:
        """Places of "all", which are all columns, or of a list of names or positions."""
        return places_of(self.columns, wanted)

    def slope_units(self, places: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return self._location[places], self._scale[places]

    @cached_property
    def facets(self) -> tuple[Facet, ...]:
        return tuple(facet_of(column, j) for j, column in enumerate(self.columns))

    def cells(
        self, X: Any, *, owner: str = "The model", extra: str = "error", absent: str = "error"
    ) -> Float[np.ndarray, "rows columns"]:
        """Numbers and codes; a code is negative where fit did not see the level."""
        table = read_as(X, self.feature_names, len(self.columns), owner, extra, absent)
        return read_cells(table, self.columns)

    def lacking(self, X: Any) -> Bool[np.ndarray, " columns"]:
        return lacking(X, self.feature_names, len(self.columns))

    def encode_cells(
        self,
        cells: Float[np.ndarray, "rows columns"],
        absent: Bool[np.ndarray, " columns"] | None = None,
    ) -> Encoded:
        """Standardise cells. What is absent is NaN and no more: nothing is concluded from it."""
        cells = cells if absent is None else np.where(absent, np.nan, cells)
        raw, unknown, log_scale = settle_unknown(cells, self.columns, self.n_rows)
        refuse_infinite([c.name for c in self.columns], raw)
        n, d = raw.shape
        values, unseen = np.empty((n, self.dim)), np.zeros((n, d + 1), bool)
        for j, second in self._deep:  # raw is not the user's own then: they are no numbers
            raw[:, j], place = units.boxed(raw[:, j], self.columns[j].depth)
            values[:, second] = (place - self._location[second]) / self._scale[second]
        units.standardise(raw, self._location[:d], self._scale[:d], out=values[:, :d])
        log_scale -= np.log(self._scale).sum()
        missing = np.isnan(values[:, :d]) & ~(unknown if absent is None else unknown | absent)
        seen = known = self.patterns.contain(missing)
        unseen[:, :d], unseen[:, d] = unknown, ~seen
        values[:, self._flagged] = 0.0
        if (gone := np.isnan(values)).any():
            log_scale += gone @ np.log(self._scale)
            strange = missing & ~self.can_be_missing[:d]
            if strange.any():
                unseen[:, :d] |= strange
                log_scale += strange @ np.log([column.unseen_rate for column in self.columns])
                known = self.patterns.contain(missing & ~strange)  # the rest is charged already
        log_scale += np.where(known, 0.0, np.log(self.patterns.rate))
        flags, place = missing[:, self._sources] & seen[:, None], self._flagged
        values[:, place] = (flags - self._location[place]) / self._scale[place]
        return Encoded(values, log_scale, unseen)

    def decode_cells(self, cells: Float[np.ndarray, "rows columns"]) -> Any:
        cells = settle_unknown(cells, self.columns, self.n_rows)[0]
        arrays = [units.decoded(c, cells[:, j], False) for j, c in enumerate(self.columns)]
        return write(self.columns, arrays, self.container, self.dtype, snap=True)

    @property
    def _parts(self) -> tuple[Column, ...]:
        """Every encoded dimension."""
        return self.columns + self.indicators + self.axes

    @property
    def _flagged(self) -> slice:
        """Where the indicators are."""
        return slice(len(self.columns), len(self.columns + self.indicators))

    @property
    def _deep(self) -> list[tuple[int, int]]:
        """Positions of the columns that have a second dimension, and where that is."""
        deep = [j for j, column in enumerate(self.columns) if column.depth > 1]
        return list(zip(deep, range(self.dim - len(self.axes), self.dim), strict=True))

    @cached_property
    def _location(self) -> np.ndarray:
        return np.array([column.location for column in self._parts])

    @cached_property
    def _scale(self) -> np.ndarray:
        return np.array([column.scale for column in self._parts])

    @cached_property
    def _sources(self) -> np.ndarray:
        """Positions of the columns that the indicators speak of."""
        position = {column.name: j for j, column in enumerate(self.columns)}
        return np.array([position[column.name] for column in self.indicators], dtype=np.int64)
