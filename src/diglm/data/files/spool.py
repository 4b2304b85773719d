"""CSV to Arrow, once: text is parsed from front to back, and then read from any row."""

import atexit
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from diglm.data.files.dialect import dialect_of
from diglm.data.files.formats import BLOCK_ROWS, READ_ERRORS, TableFileError, pa
from diglm.optional import optional

if TYPE_CHECKING:
    from pyarrow import csv
else:
    csv = optional("pyarrow.csv", "files")  # builds of pyarrow may leave it out

BLOCK_BYTES = 1 << 22  # of text parsed at a time; the first block decides the columns' types
VERSION = 2  # part of a spool's name: raise it when the same text would be converted otherwise
# Beside what pyarrow takes for missing: UCI's mark, SAS's, and errors of spreadsheets.
MISSING = ("?", ".", "<NA>", "#VALUE!", "#DIV/0!", "#REF!", "#NUM!", "#NAME?")
BAD_LINE = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)
BAD_VALUE = re.compile(r"column #(\d+): Row #(\d+): .* invalid value '(.*)'", re.DOTALL)


class _Mismatch(Exception):
    """A value that the type of its column cannot hold."""

    def __init__(self, column: str, value: str, message: str):
        super().__init__(message)
        self.column, self.value = column, value


def spool_csv(files: list[Path], names: list[str], folder: Path | None) -> Path:
    """An Arrow file with the rows of CSV files in `folder`, written now or by an earlier call.

    Its name tells the files' names, sizes and times of change, so that a spool of other content
    is never taken for this one. It appears under that name only once it is complete.

    Args:
        files: CSV files, compressed or not; `dialect_of` says how each is written.
        names: Their names relative to what the user opened.
        folder: Where spools are kept; None is a folder that is removed when Python exits.
    """
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="diglm-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found = [file.stat() for file in files]
    state = [(n, s.st_size, s.st_mtime_ns) for n, s in zip(names, found, strict=True)]
    mark = hashlib.sha256(repr((VERSION, state)).encode()).hexdigest()[:16]
    # Folders are searched for tables without names in "_", so a spool may lie among its sources.
    path = folder / f"_{Path(names[0]).name.split('.')[0]}-{mark}.arrow"
    if path.exists():
        return path
    types = _first_types(files)
    temporary = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{path.stem}.")
        os.close(handle)
        _convert(files, types, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise TableFileError(f"CSV cannot be converted in the folder {folder}: {error}") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
    return path


def _convert(files: list[Path], types: dict[str, pa.DataType], out: str):
    """Write all rows, from the start again where a column turns out to need a wider type."""
    widened: set[str] = set()
    while True:
        try:
            return _write(files, types, out)
        except _Mismatch as mismatch:
            wider = _wider(types[mismatch.column], mismatch.value)
            if wider is None or mismatch.column in widened:
                raise TableFileError(str(mismatch)) from mismatch
            types = {**types, mismatch.column: wider}
            widened.add(mismatch.column)


def _wider(kind: pa.DataType, value: str) -> pa.DataType | None:
    """A type for a column that began with whole numbers, or with nothing; None for the others."""
    try:
        float(value)
    except ValueError:
        return pa.string() if pa.types.is_null(kind) else None
    return pa.float64() if pa.types.is_null(kind) or pa.types.is_integer(kind) else None


def _write(files: list[Path], types: dict[str, pa.DataType], out: str):
    schema = pa.schema(list(types.items()))
    codec = "lz4" if pa.Codec.is_available("lz4") else None
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.OSFile(out, "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
        held = schema.empty_table()
        for file in files:
            for batch in _batches(file, types):
                held = pa.concat_tables([held, pa.Table.from_batches([batch]).select(schema.names)])
                whole = held.num_rows // BLOCK_ROWS * BLOCK_ROWS
                if whole:
                    for start in range(0, whole, BLOCK_ROWS):
                        writer.write_table(held.slice(start, BLOCK_ROWS).combine_chunks())
                    held = held.slice(whole)
        if held.num_rows:
            writer.write_table(held.combine_chunks())


def _first_types(files: list[Path]) -> dict[str, pa.DataType]:
    """Names and types by the first block of the first file that has rows."""
    types: dict[str, pa.DataType] = {}
    for file in files:
        schema = _header(file)
        if len(set(schema.names)) < len(schema.names):
            doubled = sorted({name for name in schema.names if schema.names.count(name) > 1})
            raise TableFileError(f"{file} has several columns named {doubled}.")
        for field in schema:
            if pa.types.is_binary(field.type):
                raise TableFileError(
                    f"{file}, column {field.name!r}, is not UTF-8 text. Save the file as UTF-8."
                )
        types = types or {field.name: field.type for field in schema}
        if set(schema.names) != set(types):
            name = sorted(set(schema.names) ^ set(types))[0]
            here, there = ("lacks", "has") if name in types else ("has", "lacks")
            raise TableFileError(
                f"{file} {here} the column {name!r}, which {files[0]} {there}. Write all files "
                "with the same columns."
            )
        if all(pa.types.is_null(kind) for kind in types.values()):
            types = {name: schema.field(name).type for name in types}  # no rows until now
    return types


def _header(file: Path) -> pa.Schema:
    if file.stat().st_size == 0:
        raise TableFileError(f"{file} is empty (0 bytes). Remove it or write it anew.")
    try:
        with _reader(file, None) as reader:
            return reader.schema
    except READ_ERRORS as error:
        raise _explained(file, [], error) from error


def _batches(file: Path, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    names = _header(file).names
    try:
        with _reader(file, types) as reader:
            yield from reader
    except READ_ERRORS as error:
        raise _explained(file, names, error) from error


def _reader(file: Path, types: dict[str, pa.DataType] | None) -> csv.CSVStreamingReader:
    written = dialect_of(file)
    converted = csv.ConvertOptions(
        column_types=types, strings_can_be_null=True, decimal_point=written.decimal
    )
    converted.null_values = [*converted.null_values, *MISSING]
    return csv.open_csv(
        file,
        # One thread parses as quickly as two here, and only then are the rows of errors known.
        read_options=csv.ReadOptions(
            use_threads=False, block_size=BLOCK_BYTES, encoding=written.encoding
        ),
        parse_options=csv.ParseOptions(delimiter=written.separator, newlines_in_values=True),
        convert_options=converted,
    )


def _explained(file: Path, names: list[str], error: Exception) -> Exception:
    """What is wrong with a CSV file, and where, from the words of its parser."""
    text = str(error)
    if found := BAD_LINE.search(text):
        line, expected, got, content = found.groups()
        return TableFileError(
            f"{file}, near line {line}: expected {expected} fields, got {got}: {content!r}. "
            "Correct or remove the line."
        )
    if found := BAD_VALUE.search(text):
        column, line, value = names[int(found[1])], found[2], found[3]
        kind = re.search(r"conversion error to (.+?):", text)
        return _Mismatch(
            column,
            value,
            f"{file}, near line {line}, column {column!r}: expected "
            f"{kind[1] if kind else 'a number'}, as in the first rows of the table, but found "
            f"{value!r}. Correct the value, or convert the table to Parquet with the type wanted.",
        )
    if "invalid UTF8" in text:
        return TableFileError(f"{file} is not UTF-8 text to its end. Save the file as UTF-8.")
    if "straddl" in text:
        text = f"a line is longer than {BLOCK_BYTES:,} bytes. Is a quotation mark left open?"
    return TableFileError(f"{file} cannot be read as CSV: {text}")
