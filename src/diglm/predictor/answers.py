"""A file of answers: written under another name, and there under its own only when complete."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from diglm.data.files.formats import pa, pq

OUT_GROUP_ROWS = 131_072  # rows of a row group of the answers


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


def require_place(path: Path, out: Path) -> None:
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
