"""A file of rows to a file of answers: what `assess` says of every row, in bounded memory."""

import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from sklearn.utils.validation import check_is_fitted

from diglm.data.files.formats import BLOCK_ROWS, pa, pq
from diglm.data.files.opening import FileTable, open_table
from diglm.data.table.encoder import Encoded
from diglm.estimators import engine as evaluation
from diglm.estimators.base import AbstractHybridEstimator
from diglm.estimators.classifier import HybridClassifier

ENGINES = ("local", "ray")
ROW = "row"
BLOCKS_AHEAD = 2  # read and encoded while the block before them is scored
OUT_GROUP_ROWS = 131_072  # rows of a row group of the answers


@dataclass(frozen=True)
class Columns:
    """What to read: the columns a model takes, in its order, and those copied to the answers."""

    features: tuple[str, ...]
    kept: tuple[str, ...]

    @property
    def read(self) -> list[str]:
        """Every column to read, once."""
        return list(dict.fromkeys(self.features + self.kept))


def score_file(
    estimator: AbstractHybridEstimator,
    path: str | os.PathLike,
    out: str | os.PathLike,
    *,
    keep: str | Sequence[str] = (),
    engine: str = "local",
    n_workers: int | None = None,
    verbose: bool | str = "auto",
) -> Path:
    """Write what `assess` says of every row of a table on disk to the Parquet file `out`.

    The answers are in the order of the rows: `row`, the number of the row from 0; the columns of
    `keep`; and the columns of `assess`. They appear under the name `out` only once complete, so an
    earlier file of that name survives any failure.

    A model that was fitted on named columns finds them by name and ignores all others. One that
    was fitted on an array takes the columns in order, without those of `keep` if that is what
    makes their number right.

    Args:
        estimator: A fitted model.
        path: Parquet, Arrow or CSV file, or a folder of files of one kind.
        out: Name of the file of answers; it ends in .parquet.
        keep: Columns to copy through, such as an identifier. Decimals become floats.
        engine: "local" scores in this process, on all cores. "ray" scores on the workers of Ray;
            see `diglm.estimators.ray_scoring`.
        n_workers: Processes of engine "ray"; None is one for each core.
        verbose: True, False, or "auto" for a progress bar where a person watches.
    """
    check_is_fitted(estimator, "model_")
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {ENGINES}; got {engine!r}.")
    if n_workers is not None and (engine == "local" or n_workers < 1):
        raise ValueError(
            f"n_workers is the number of processes of engine='ray', at least 1; got {n_workers} "
            f"with engine={engine!r}. Local scoring uses all cores without it."
        )
    path, out = Path(path).absolute(), Path(out).absolute()
    _require_place(path, out)
    kept = (keep,) if isinstance(keep, str) else tuple(keep)
    if engine == "ray":
        from diglm.estimators import ray_scoring  # Ray is an extra, and takes seconds to import

        ray_scoring.score_file(estimator, path, out, kept, n_workers, verbose)
        return out
    table = open_table(path)
    columns = choose_columns(estimator, table, kept)
    with row_counter(table.n_rows, verbose) as count, replacing(out) as write:
        for answers in score_rows(estimator, table, columns, 0, table.n_rows, BLOCK_ROWS):
            write(answers)
            count(answers.num_rows)
    return out


def choose_columns(
    estimator: AbstractHybridEstimator, table: FileTable, kept: tuple[str, ...]
) -> Columns:
    """The columns to read, or an error that says which are missing or clash."""
    expected, names = estimator.encoder_.feature_names, table.names
    if absent := [name for name in kept if name not in names]:
        raise ValueError(f"keep names the columns {absent}, but the table has {names}.")
    if twice := sorted({name for name in kept if kept.count(name) > 1}):
        raise ValueError(f"keep names the columns {twice} more than once.")
    second = "probability" if isinstance(estimator, HybridClassifier) else "sd"
    answers = (ROW, "prediction", second, "log_px", "p_value", "rejected")
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
        n, others = len(estimator.encoder_.columns), [name for name in names if name not in kept]
        features = others if len(names) != n and len(others) == n else names
        if len(features) != n:
            raise ValueError(
                f"The model was fitted on {n} columns without names, so it takes a table of {n} "
                f"columns in the same order, besides those of keep; this one has {names}."
            )
    table.require(features)
    return Columns(tuple(features), kept)


def score_rows(
    estimator: AbstractHybridEstimator,
    table: FileTable,
    columns: Columns,
    start: int,
    stop: int,
    block_rows: int,
) -> Iterator[pa.Table]:
    """Answers for rows `start` to `stop` of a table, in order, `block_rows` at a time.

    The rows to come are read and encoded in a thread of their own.
    """

    def prepared() -> Iterator[tuple[pa.Table, Encoded]]:
        encoder, owner = estimator.encoder_, type(estimator).__name__
        for block in _blocks(table, columns.read, start, stop, block_rows):
            encoded = encoder.encode(block.select(list(columns.features)), owner=owner)
            yield block.select(list(columns.kept)), estimator._filled(encoder, encoded)

    for kept, encoded in _ahead(prepared()):
        n = len(encoded.values)
        numbers = np.arange(start, start + n, dtype=np.int64)
        start += n
        arrays = {ROW: pa.array(numbers)}
        arrays |= dict(zip(columns.kept, kept.itercolumns(), strict=True))
        yield pa.table(arrays | _answers(estimator, encoded))


@contextmanager
def replacing(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Yields a function that writes rows to a file, which becomes `path` if no error is raised."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            writer = _RowGroupWriter(file)
            try:
                yield writer.write
                writer.close()
            finally:
                writer.abandon()
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def row_counter(n_rows: int, shown: bool | str) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with each number of rows done; draws rows done and rows a second.

    Args:
        n_rows: The length of the bar.
        shown: True, False, or "auto" to draw only on a terminal that a person watches.
    """
    console = Console(stderr=True)
    visible = console.is_terminal or console.is_jupyter if shown == "auto" else bool(shown)
    since, done = time.perf_counter(), 0
    with Progress(
        TextColumn("score"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows {task.fields[speed]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not visible,
        transient=shown == "auto",
    ) as bar:
        task = bar.add_task("score", total=n_rows, speed="")

        def count(n: int) -> None:
            nonlocal done
            done += n
            speed = done / max(time.perf_counter() - since, 1e-9)
            bar.update(task, completed=done, speed=f"({speed:,.0f} a second)")

        yield count


def _answers(estimator: AbstractHybridEstimator, encoded: Encoded) -> dict[str, pa.Array]:
    """The columns of `assess` for rows that are encoded already."""
    seen = estimator._evaluate(evaluation.look, encoded)
    log_px = estimator._in_user_units(seen.log_px, encoded)
    rule = estimator.reject_rule_
    columns = estimator._answers(seen.response) | {
        "log_px": log_px,
        "p_value": rule.p_value(log_px),
        "rejected": rule.rejects(log_px),
    }
    types = {}
    if isinstance(
        estimator, HybridClassifier
    ):  # a block that lacks some classes has the type of all of them
        types["prediction"] = pa.array(estimator.classes_).type
    return {name: pa.array(values, types.get(name)) for name, values in columns.items()}


def _blocks(
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


def _ahead(items: Iterator[Any]) -> Iterator[Any]:
    """The items, made in a thread of its own; an error is raised where its item would come."""
    with ThreadPoolExecutor(1, "diglm-scoring") as pool:
        waiting = deque(pool.submit(next, items, None) for _ in range(BLOCKS_AHEAD))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, items, None))
            yield item


class _RowGroupWriter:
    """Writes tables to an open file as Parquet, gathered to row groups of `OUT_GROUP_ROWS`."""

    def __init__(self, file: BinaryIO):
        self.file = file
        self.writer: pq.ParquetWriter | None = None
        self.held: list[pa.Table] = []

    def write(self, rows: pa.Table) -> None:
        self.held.append(rows)
        n_held = sum(table.num_rows for table in self.held)
        if n_held >= OUT_GROUP_ROWS:
            self._write_held(n_held - n_held % OUT_GROUP_ROWS)

    def close(self) -> None:
        if self.held:
            self._write_held(None)
        if self.writer is not None:
            self.writer.close()

    def abandon(self) -> None:
        """End writing, if it was cut short: pyarrow must not try when the file is closed."""
        if self.writer is not None:
            with suppress(Exception):  # the error that cut it short is the one to tell
                self.writer.close()

    def _write_held(self, n: int | None) -> None:
        """Write the first `n` rows that are held, or all of them; the others stay."""
        # Blocks may number the same categories differently; a row group has one numbering.
        rows = pa.concat_tables(self.held).unify_dictionaries()
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.file, rows.schema)
        self.writer.write_table(rows.slice(0, n), OUT_GROUP_ROWS)
        rest = rows.slice(rows.num_rows if n is None else n)
        self.held = [rest] if rest.num_rows else []


def _require_place(path: Path, out: Path) -> None:
    """Raise unless a file of answers may be written at `out`, apart from the table at `path`."""
    if out.suffix != ".parquet":
        raise ValueError(f"out must be the name of a file that ends in .parquet; got {out}.")
    if out.is_dir():
        raise IsADirectoryError(f"out must be the name of a file; {out} is a folder.")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {out.parent} to write {out.name} to.")
    if path.resolve() in (out.resolve(), *out.resolve().parents):
        raise ValueError(
            f"out, {out}, would become part of the table {path}; choose another place."
        )
