"""Rows of a table on disk, answered a block at a time."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from diglm.data.encoder import Encoded
from diglm.data.files.formats import pa
from diglm.data.files.opening import FileTable
from diglm.predictor.predictor import Predictor

ROW = "row"
BLOCKS_AHEAD = 2  # read and encoded while the block before them is scored
Item = TypeVar("Item")


@dataclass(frozen=True)
class Columns:
    """What to read: the columns a model takes, in its order, those copied, and that of groups."""

    features: tuple[str, ...]
    kept: tuple[str, ...]
    groups: str | None = None

    @property
    def read(self) -> list[str]:
        """Every column to read, once."""
        groups = () if self.groups is None else (self.groups,)
        return list(dict.fromkeys(self.features + self.kept + groups))


def choose_columns(
    predictor: Predictor, table: FileTable, kept: tuple[str, ...], groups: str | None
) -> Columns:
    """The columns to read, or an error that says which are missing or clash."""
    expected, names = predictor.encoder.feature_names, table.names
    if groups is not None:
        predictor.codes(np.zeros(0), 0)  # says if the model knows of none
        table.require([groups])
    if absent := [name for name in kept if name not in names]:
        raise ValueError(f"keep names the columns {absent}, but the table has {names}.")
    if twice := sorted({name for name in kept if kept.count(name) > 1}):
        raise ValueError(f"keep names the columns {twice} more than once.")
    answers = (ROW, *predictor.column_names)
    if clash := [name for name in kept if name in answers]:
        raise ValueError(
            f"The columns {clash} of keep would be taken for answers, which are {answers}. "
            "Rename them in the table, or join by `row` afterwards."
        )
    if expected is not None:
        if absent := [name for name in expected if name not in names]:
            raise ValueError(
                f"The table lacks columns {absent} that the model was fitted on; it has {names}."
            )
        features = expected
    else:
        n = predictor.encoder.n_features
        others = [name for name in names if name not in kept and name != groups]
        features = others if len(names) != n and len(others) == n else names
        if len(features) != n:
            raise ValueError(
                f"The model was fitted on {n} columns without names, so it takes a table of {n} "
                f"columns in the same order, besides those of keep; this one has {names}."
            )
    table.require(features)
    return Columns(tuple(features), kept, groups)


def score_rows(
    predictor: Predictor,
    table: FileTable,
    columns: Columns,
    start: int,
    stop: int,
    block_rows: int,
) -> Iterator[pa.Table]:
    """Answers for rows `start` to `stop` of a table, in order, `block_rows` at a time.

    The rows to come are read and encoded in a thread of their own.
    """

    def prepared() -> Iterator[tuple[pa.Table, Encoded, np.ndarray | None]]:
        for block in blocks(table, columns.read, start, stop, block_rows):
            encoded = predictor.encode(block.select(list(columns.features)))
            codes = None
            if columns.groups is not None:
                codes = predictor.codes(column_of(block, columns.groups), block.num_rows)
            yield block.select(list(columns.kept)), encoded, codes

    types = {
        name: pa.string() if kind.kind == "U" else pa.from_numpy_dtype(kind)
        for name, kind in predictor.target.column_types.items()
        if kind.kind != "O"
    }
    for kept, encoded, codes in _ahead(prepared()):
        numbers = np.arange(start, start + len(encoded), dtype=np.int64)
        start += len(encoded)
        arrays = {ROW: pa.array(numbers)}
        arrays |= dict(zip(columns.kept, kept.itercolumns(), strict=True))
        answers = predictor.columns(encoded, codes)
        # A block that lacks some classes has the type of all of them.
        arrays |= {name: pa.array(values, types.get(name)) for name, values in answers.items()}
        yield pa.table(arrays)


def column_of(rows: pa.Table, name: str) -> np.ndarray:
    """A column as NumPy's: numbers with NaN for nulls, text and classes as objects."""
    return rows[name].combine_chunks().to_numpy(zero_copy_only=False)


def blocks(
    table: FileTable, columns: list[str], start: int, stop: int, block_rows: int
) -> Iterator[pa.Table]:
    """Rows `start` to `stop` in tables of `block_rows`, whatever the sizes of the row groups."""
    held, n_held = [], 0
    for group in table.groups:
        first, last = max(start - group.start, 0), min(stop - group.start, group.n_rows)
        if first >= last:
            continue
        for piece in table.scan(group, columns, first, last):
            while piece.num_rows:
                held.append(piece.slice(0, block_rows - n_held))
                n_held += held[-1].num_rows
                piece = piece.slice(held[-1].num_rows)
                if n_held == block_rows:
                    yield pa.concat_tables(held)
                    held, n_held = [], 0
    if held:
        yield pa.concat_tables(held)


def _ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items, made in a thread of its own; an error is raised where its item would come."""
    with ThreadPoolExecutor(1, "diglm-scoring") as pool:
        waiting = deque(pool.submit(next, items, None) for _ in range(BLOCKS_AHEAD))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, items, None))
            yield item
