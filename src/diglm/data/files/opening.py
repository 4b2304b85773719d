"""A table on disk as numbered row groups: Parquet, Arrow or CSV, one file or a folder of them."""

import difflib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from diglm.data.files.formats import (
    READ_ERRORS,
    Contents,
    TableFileError,
    kind_of,
    look,
    pa,
    scan,
    unsupported,
)
from diglm.data.files.spool import spool_csv

__all__ = ["FileTable", "RowGroup", "TableFileError", "open_table"]


class RowGroup(NamedTuple):
    """Rows that are stored together: number `index` of `path`; the table's row `start` and on."""

    path: Path
    index: int
    start: int
    n_rows: int


@dataclass(frozen=True)
class FileTable:
    """A table whose rows stay on disk. Made by `open_table`; holds no open file.

    Attributes:
        kind: How the row groups are stored, "parquet" or "arrow".
        schema: Names and types as rows are handed out. Decimals become float64.
        groups: The row groups in order, none of them empty.
        sources: Name, relative to what was opened, and bytes of each file the user gave.
    """

    kind: str
    schema: pa.Schema
    groups: tuple[RowGroup, ...]
    sources: tuple[tuple[str, int], ...]

    @property
    def names(self) -> list[str]:
        return self.schema.names

    @property
    def n_rows(self) -> int:
        return self.groups[-1].start + self.groups[-1].n_rows

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        """The columns of one row group, whole."""
        return pa.concat_tables(self.scan(group, columns))

    def scan(
        self, group: RowGroup, columns: Sequence[str], start: int = 0, stop: int | None = None
    ) -> Iterator[pa.Table]:
        """Rows `start` to `stop` of a row group, in tables of at most `BLOCK_ROWS` rows."""
        stop = group.n_rows if stop is None else stop
        try:
            yield from scan(group.path, self.kind, group.index, list(columns), start, stop)
        except READ_ERRORS as error:
            column = self._culprit(group, columns)
            raise TableFileError(
                f"Row group {group.index} of {group.path} cannot be read"
                f"{f', column {column!r}' if column else ''}: {error} The file may have been "
                "moved, replaced or cut short since it was opened; restore it and start again."
            ) from error

    def require(self, columns: Sequence[str]) -> None:
        """Raise unless all these columns exist, in types that a model can take."""
        for name in columns:
            if name not in self.names:
                close = difflib.get_close_matches(name, self.names, n=3, cutoff=0.5)
                hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
                raise ValueError(f"There is no column {name!r} in {self.names}.{hint}")
            kind = self.schema.field(name).type
            if advice := unsupported(kind):
                raise TypeError(
                    f"Column {name!r} is of type {kind}; expected numbers, text, bools, "
                    f"categories, dates or times. Please {advice}, or leave the column out."
                )

    def fingerprint(self) -> str:
        """A hash of file names, sizes, schema and row counts: equal for a copy of the files."""
        counts = [(group.index, group.n_rows) for group in self.groups]
        schema = [(field.name, str(field.type)) for field in self.schema]
        return hashlib.sha256(repr((self.sources, schema, counts)).encode()).hexdigest()

    def _culprit(self, group: RowGroup, columns: Sequence[str]) -> str | None:
        """The one column that cannot be read, if the others can."""
        broken = []
        for name in columns:
            try:
                for _ in scan(group.path, self.kind, group.index, [name], 0, group.n_rows):
                    pass
            except READ_ERRORS:
                broken.append(name)
        return broken[0] if len(broken) < len(columns) and broken else None


def open_table(path: str | Path, *, spool: str | Path | None = None) -> FileTable:
    """The table in a Parquet, Arrow or CSV file, or in a folder of files of one kind.

    Folders are searched to their depth, in the order of the paths; names that begin with "." or
    "_" are passed over. Columns that only the name of a folder tells, as in `year=2024/`, are not
    added. All files must have the same columns, of the same types.

    CSV cannot be read from the middle, so it is first converted to an Arrow file.

    Args:
        path: File or folder.
        spool: Folder that keeps converted CSV files for the next time. None converts to a
            temporary folder, removed when Python exits.
    """
    path = Path(path)
    files = _find(path)
    kinds = {kind_of(file): file for file in reversed(files)}
    if len(kinds) > 1:
        found = ", ".join(str(file) for file in kinds.values())
        raise TableFileError(f"{path} mixes kinds of files ({found}); keep one kind a folder.")
    kind = next(iter(kinds))
    sources = tuple((_relative(file, path), file.stat().st_size) for file in files)
    if kind == "csv":
        folder = None if spool is None else Path(spool)
        files, kind = [spool_csv(files, [name for name, _ in sources], folder)], "arrow"
    contents = [look(file, kind) for file in files]
    _require_agreement(files, contents)
    groups, start = [], 0
    for file, content in zip(files, contents, strict=True):
        for index, n_rows in enumerate(content.counts):
            if n_rows:
                groups.append(RowGroup(file, index, start, n_rows))
                start += n_rows
    if start == 0:
        raise TableFileError(f"{path} holds no rows.")
    return FileTable(kind, contents[0].schema, tuple(groups), sources)


def _find(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.exists():
        raise TableFileError(f"{path} does not exist.")
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    files = [file for file in files if not _is_passed_over(file.relative_to(path))]
    if not files:
        raise TableFileError(f"The folder {path} holds no files of a table.")
    return files


def _is_passed_over(relative: Path) -> bool:
    return any(part.startswith((".", "_")) for part in relative.parts)


def _relative(file: Path, path: Path) -> str:
    return file.name if file == path else file.relative_to(path).as_posix()


def _require_agreement(files: list[Path], contents: list[Contents]):
    first = contents[0].schema
    for file, content in zip(files, contents, strict=True):
        for name in dict.fromkeys([*first.names, *content.schema.names]):
            ours, theirs = (
                str(schema.field(name).type) if name in schema.names else "absent"
                for schema in (first, content.schema)
            )
            if ours != theirs:
                raise TableFileError(
                    f"{file} differs from {files[0]} in column {name!r}: it is {theirs}, "
                    f"expected {ours}. Write all files with the same columns and types."
                )
