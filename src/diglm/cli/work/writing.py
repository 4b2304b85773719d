"""Tables that commands write: to a file, whole or not at all, or to standard output."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from diglm.atomic import replacing
from diglm.cli.errors import CommandError
from diglm.data.files.formats import pa, pq
from diglm.optional import optional, require

csv: Any = optional("pyarrow.csv", "files")
Write = Callable[["pa.Table"], None]


class JsonLines:
    """A JSON object a row."""

    def __init__(self, file: BinaryIO, schema: "pa.Schema"):
        self.file = file

    def write_table(self, rows: "pa.Table") -> None:
        """Append rows; what is not a finite number is null."""
        for row in rows.to_pylist():
            plain = {name: _plain(value) for name, value in row.items()}
            self.file.write(json.dumps(plain, ensure_ascii=False, default=str).encode() + b"\n")

    def close(self) -> None:
        """Nothing is held back."""


def _csv(file: BinaryIO, schema: "pa.Schema") -> Any:
    return csv.CSVWriter(file, schema)


def _arrow(file: BinaryIO, schema: "pa.Schema") -> Any:
    return pa.ipc.new_file(file, schema)


def _parquet(file: BinaryIO, schema: "pa.Schema") -> Any:
    return pq.ParquetWriter(file, schema)


WRITERS: dict[str, Callable[[BinaryIO, "pa.Schema"], Any]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".jsonl": JsonLines,
}


@contextmanager
def written(
    out: Path | None, *, as_json: bool = False, read: Sequence[str] = ()
) -> Iterator[Write]:
    """Yields what writes tables of one schema to `out`, or to standard output for None."""
    require(pa)
    if out is None:
        with _writing(sys.stdout.buffer, JsonLines if as_json else _csv) as write:
            yield write
        sys.stdout.flush()
        return
    require_place(out, tuple(WRITERS), read=read)
    with replacing(out) as file, _writing(file, WRITERS[out.suffix.lower()]) as write:
        yield write


def require_place(out: Path, suffixes: tuple[str, ...] = (), *, read: Sequence[str] = ()) -> None:
    """Raise unless a file may be written at `out`: before hours of work, not after.

    `read` names what the command reads, which it must not overwrite.
    """
    for path in read:
        if out.exists() and Path(path).exists() and out.samefile(path):
            raise CommandError(
                f"--out {out} is what this command reads, and would be overwritten.",
                "name another file to write.",
            )
    if suffixes and out.suffix.lower() not in suffixes:
        raise CommandError(
            f"{out} does not say what kind of file it is to be.",
            f"use a name that ends in {', '.join(suffixes)}.",
        )
    if out.is_dir():
        raise CommandError(f"{out} is a folder.", "name a file in it.")
    if out.exists() and not out.is_file():
        raise CommandError(f"{out} is a device or a pipe.", "name a file, or leave --out away.")
    folder = out.absolute().parent
    if not folder.is_dir():
        raise CommandError(f"there is no folder {folder} to write {out.name} to.", "make it first.")
    if not os.access(folder, os.W_OK):
        raise CommandError(
            f"{folder} may not be written to.", "choose another place, or ask for permission."
        )


@contextmanager
def _writing(file: BinaryIO, open_writer: Callable[..., Any]) -> Iterator[Write]:
    """The writer is opened by the first table, whose columns all others share."""
    writer: Any = None

    def write(rows: "pa.Table") -> None:
        nonlocal writer
        rows = _flat(rows)
        if writer is None:
            writer = open_writer(file, rows.schema)
        writer.write_table(rows.cast(getattr(writer, "schema", rows.schema)))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _flat(rows: "pa.Table") -> "pa.Table":
    """Categories as the values they stand for: not every kind of file knows them."""
    fields = [
        pa.field(field.name, field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def _plain(value: object) -> object:
    return None if isinstance(value, float) and value - value != 0 else value
