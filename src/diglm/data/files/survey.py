"""One pass over a table on disk: a sample that tells of all rows, and the rows held out."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from diglm.data.files.formats import compute, pa
from diglm.data.files.opening import FileTable, RowGroup, TableFileError
from diglm.data.files.witnesses import Witnesses, is_gap
from diglm.data.mixing import LABELLED_SHARE

MOST_LABELLED = 200_000  # rows that are kept in memory
DRAW = 4  # first number of the seed, which no other draw of the data layer uses


class Survey(NamedTuple):
    """What a pass over a table found.

    Attributes:
        sample: Rows drawn at random, in the order of the table, then the witnesses: rows that show
            what the drawn ones lack of levels, gaps, extremes and fractions.
        sample_rows: Their numbers in the table.
        n_drawn: How many of them were drawn; those behind are witnesses.
        held_out: Rows drawn at random for validation, in the order of the table; never in `sample`.
        held_out_rows: Their numbers in the table, ascending.
        n_rows: Rows of the table.
        n_missing_target: How many of them have no target.
        labelled: All rows with a target where those are few; None where they are not.
        labelled_rows: Their numbers in the table, ascending.
    """

    sample: pa.Table
    sample_rows: np.ndarray
    n_drawn: int
    held_out: pa.Table
    held_out_rows: np.ndarray
    n_rows: int
    n_missing_target: int
    labelled: pa.Table | None
    labelled_rows: np.ndarray


class FewLabelled:
    """Collects rows with a target until they turn out not to be few."""

    def __init__(self, wanted: bool):
        self.blocks: list[pa.Table] = []
        self.rows: list[np.ndarray] = []
        self.still, self.n = wanted, 0

    def look(self, target: pa.ChunkedArray, block: pa.Table, numbers: np.ndarray) -> None:
        """Take in a block of consecutive rows."""
        if not self.still:
            return
        known = np.flatnonzero(~np.asarray(is_gap(target)))
        self.n += len(known)
        self.blocks.append(block.take(known))
        self.rows.append(numbers[known])
        # A table may begin with its labelled rows.
        if self.n > MOST_LABELLED:
            self.still, self.blocks, self.rows = False, [], []

    def found(self, n_rows: int) -> bool:
        """Whether there are some, and few of all."""
        return self.still and 0 < self.n < LABELLED_SHARE * n_rows


def survey(
    table: FileTable,
    columns: Sequence[str],
    target: str | None,
    *,
    n_sample: int = 100_000,
    n_held_out: int,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> Survey:
    """Draw rows without replacement, and see in one pass what else an encoder must know of.

    Memory is that of the two samples, the witnesses and one block of rows.

    Args:
        table: Where the rows are.
        columns: Features; the target is added to them.
        target: Column that a model will predict, its missing values counted; None for none.
        n_sample: Rows to draw for fitting encoders; all the others if there are fewer.
        n_held_out: Rows to hold out.
        seed: Whole number, not negative.
        progress: Called with the rows done and all rows after each row group.
    """
    names: list[str] = list(dict.fromkeys([*columns, *([] if target is None else [target])]))
    table.require(names)
    n_rows = table.n_rows
    if not 0 <= n_held_out < n_rows or n_sample < 1:
        raise ValueError(
            f"n_held_out must be less than the table's {n_rows} rows and n_sample positive; got "
            f"{n_held_out} and {n_sample}."
        )
    sample_rows, held_rows = _draw(n_rows, n_sample, n_held_out, seed)
    everywhere, few = Witnesses(table.schema, names, target), FewLabelled(target is not None)
    sample, held_out, n_missing, position = [], [], 0, 0
    for group in table.groups:
        for block in table.scan(group, names):
            numbers = np.arange(position, position + block.num_rows)
            position += block.num_rows
            _refuse_infinite(block, group)
            if target is not None:
                n_missing += compute.sum(is_gap(block[target])).as_py() or 0
                few.look(block[target], block, numbers)
            sample.append(_taken(block, numbers, sample_rows))
            held_here = _within(held_rows, numbers)
            if held_here.size:
                held_out.append(block.take(held_here - numbers[0]))
                kept = np.delete(np.arange(numbers.size), held_here - numbers[0])
                block, numbers = block.take(kept), numbers[kept]
            everywhere.look(block, numbers)
        if progress is not None:
            progress(position, n_rows)
    if n_missing == n_rows:
        raise TableFileError(f"The target {target!r} is missing in all {n_rows} rows.")
    drawn = _joined(sample, table, names)
    in_sample = Witnesses(table.schema, names, target)
    in_sample.look(drawn, sample_rows)
    extra_rows, extra = everywhere.beyond(in_sample)
    return Survey(
        _joined([drawn, *extra], table, names),
        np.concatenate([sample_rows, extra_rows]),
        sample_rows.size,
        _joined(held_out, table, names),
        held_rows,
        n_rows,
        n_missing,
        _joined(few.blocks, table, names) if few.found(n_rows) else None,
        np.concatenate(few.rows) if few.found(n_rows) else np.zeros(0, int),
    )


def _draw(n_rows: int, n_sample: int, n_held_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ascending row numbers of a sample, and of rows held out from it."""
    random = np.random.default_rng([DRAW, seed])
    size = min(n_sample + n_held_out, n_rows)
    # Without shuffle numpy need not list all rows, but then which come first is not random.
    rows = random.permutation(random.choice(n_rows, size, replace=False, shuffle=False))
    return np.sort(rows[n_held_out:]), np.sort(rows[:n_held_out])


def _within(rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Those of ascending `rows` that lie in a block of consecutive `numbers`."""
    return rows[slice(*np.searchsorted(rows, [numbers[0], numbers[-1] + 1]))]


def _taken(block: pa.Table, numbers: np.ndarray, rows: np.ndarray) -> pa.Table:
    return block.take(_within(rows, numbers) - numbers[0])


def _joined(tables: Iterable[pa.Table], table: FileTable, names: list[str]) -> pa.Table:
    empty = pa.schema([table.schema.field(name) for name in names]).empty_table()
    return pa.concat_tables([empty, *tables]).unify_dictionaries().combine_chunks()


def _refuse_infinite(block: pa.Table, group: RowGroup):
    for name in block.column_names:
        column = block[name]
        if not pa.types.is_floating(column.type):
            continue
        if pa.types.is_float16(column.type):
            column = column.cast(pa.float32())
        if compute.any(compute.is_inf(column)).as_py():
            raise TableFileError(
                f"Column {name!r} holds infinity in row group {group.index} of {group.path}. "
                "Replace infinity by a finite number, or by a missing value."
            )
