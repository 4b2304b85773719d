"""Parquet and Arrow files: their schema, their row groups, and one row group read in blocks."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from diglm.optional import optional, require

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = optional("pyarrow", "files"), optional("pyarrow.parquet", "files")

# Its functions are made as it is imported, which type checkers cannot see.
compute: Any = optional("pyarrow.compute", "files")
BLOCK_ROWS = 65_536  # rows decoded at a time: a row group of millions never stands in memory
SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
}
# Errors of pyarrow that are the file's fault; it maps some of them to Python's own.
READ_ERRORS = (pa.ArrowException, OSError, ValueError)


class TableFileError(ValueError):
    """A file of a table that cannot be read, or whose content is not what was promised."""


class Contents(NamedTuple):
    """What a file says of itself: its columns, and the rows of each of its row groups."""

    schema: pa.Schema
    counts: list[int]


def kind_of(path: Path) -> str:
    """The kind of a file by its suffix: "parquet", "arrow" or "csv"."""
    require(pa)
    name = path.name.lower()
    for suffix, kind in SUFFIXES.items():
        if name.endswith(suffix):
            return kind
    raise TableFileError(
        f"{path} is of no known kind; expected a name that ends in one of {', '.join(SUFFIXES)}."
    )


def look(path: Path, kind: str) -> Contents:
    """The schema and row counts of a file; its data stay on disk."""
    try:
        if path.stat().st_size == 0:
            raise TableFileError(f"{path} is empty (0 bytes). Remove it or write it anew.")
        if kind == "parquet":
            metadata = _metadata(path)
            groups = range(metadata.num_row_groups)
            schema = metadata.schema.to_arrow_schema()
            contents = Contents(schema, [metadata.row_group(i).num_rows for i in groups])
        else:
            contents = _look_arrow(path)
    except TableFileError:
        raise
    except READ_ERRORS as error:
        raise TableFileError(
            f"{path} cannot be read as a{'n Arrow' if kind == 'arrow' else ' Parquet'} file: "
            f"{error} Check that it was written to its end."
        ) from error
    names = contents.schema.names
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise TableFileError(f"{path} has several columns named {doubled}; names must be unique.")
    return contents._replace(schema=plain_schema(contents.schema))


def scan(
    path: Path, kind: str, index: int, columns: list[str], start: int, stop: int
) -> Iterator[pa.Table]:
    """Rows `start` to `stop` of one row group, at most `BLOCK_ROWS` at a time."""
    blocks = _scan_parquet if kind == "parquet" else _scan_arrow
    position = 0
    for block in blocks(path, index, columns):
        first, last = max(start - position, 0), min(stop - position, block.num_rows)
        if first < last:
            yield _conform(block.slice(first, last - first).select(columns))
        position += block.num_rows
        if position >= stop:
            return
    raise TableFileError(f"it ends at row {position} where row {stop} was expected.")


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in the types that rows are handed out in, without metadata."""
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def unsupported(kind: pa.DataType) -> str | None:
    """What to do about a column of a type that no model takes; None if it takes the type."""
    types = pa.types
    if types.is_dictionary(kind):
        return unsupported(kind.value_type)
    if types.is_nested(kind):
        return "spread nested values over columns of their own"
    if types.is_time(kind):
        return "convert times of day to numbers, for example seconds since midnight"
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return None
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return None
    if types.is_timestamp(kind) or types.is_duration(kind) or types.is_date(kind):
        return None
    return "convert it to text or to numbers"


def _plain(kind: pa.DataType) -> pa.DataType:
    """The few types that later code must know: writers differ in what they call the same."""
    types = pa.types
    if types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), _plain(kind.value_type), kind.ordered)
    if types.is_decimal(kind):
        return pa.float64()
    if types.is_date64(kind):
        return pa.date32()
    return pa.large_string() if types.is_string_view(kind) else kind


def _conform(block: pa.Table) -> pa.Table:
    schema = plain_schema(block.schema)
    return block.replace_schema_metadata(None) if block.schema == schema else block.cast(schema)


def _metadata(path: Path) -> pq.FileMetaData:
    """A Parquet file's footer, kept in memory until the file changes."""
    found = path.stat()
    return _footer(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=16)
def _footer(path: Path, size: int, mtime: int) -> pq.FileMetaData:
    return pq.read_metadata(path)


def _scan_parquet(path: Path, index: int, columns: list[str]) -> Iterator[pa.Table]:
    # Without pre_buffer and with a buffer, column chunks stream from disk as they are decoded.
    with pq.ParquetFile(
        path, metadata=_metadata(path), pre_buffer=False, buffer_size=1 << 16
    ) as file:
        for batch in file.iter_batches(BLOCK_ROWS, row_groups=[index], columns=columns):
            yield pa.Table.from_batches([batch])


# Arrow files are read, not mapped: a mapped file that is cut short would kill the process.
def _scan_arrow(path: Path, index: int, columns: list[str]) -> Iterator[pa.Table]:
    with pa.OSFile(str(path)) as source:
        names = pa.ipc.open_file(source).schema.names
        places = sorted(names.index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=places)
        batch = pa.ipc.open_file(source, options=options).get_batch(index)
    table = pa.Table.from_batches([batch])
    for start in range(0, table.num_rows, BLOCK_ROWS):
        yield table.slice(start, BLOCK_ROWS)


def _look_arrow(path: Path) -> Contents:
    with pa.OSFile(str(path)) as source:
        reader = pa.ipc.open_file(source)
        schema = reader.schema
        if len(schema) == 0:
            return Contents(schema, [])
        # Row counts come with the columns, so the one that is quickest to load is loaded.
        widths = [_bits(field.type) for field in schema]
        options = pa.ipc.IpcReadOptions(included_fields=[widths.index(min(widths))])
        reader = pa.ipc.open_file(source, options=options)
        counts = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
    return Contents(schema, counts)


def _bits(kind: pa.DataType) -> int:
    try:
        return kind.bit_width
    except ValueError:  # text and nested types have no fixed width
        return 1024
