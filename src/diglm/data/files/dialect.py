"""How a CSV file is written: its encoding, what separates its fields, its decimal point."""

import codecs
import csv
import gzip
import re
import warnings
import zlib
from collections.abc import Sequence
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import NamedTuple

LOOKED_AT = 1 << 16  # bytes of a file
LINES = 50
SEPARATORS = ",;\t|"  # the earlier wins where several would do
MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
WESTERN = "cp1252"  # of what is not Unicode, by far the commonest
WITH_COMMA, WITH_POINT = (re.compile(rf"\s*[-+]?\d+{mark}\d+\s*") for mark in (",", r"\."))


class Dialect(NamedTuple):
    """What a parser has to be told."""

    encoding: str
    separator: str
    decimal: str


def dialect_of(file: Path) -> Dialect:
    """The dialect of a CSV file by its first lines; a warning tells one that is not Unicode."""
    found = file.stat()
    return _dialect(file, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=256)
def _dialect(file: Path, size: int, mtime: int) -> Dialect:
    packed = file.name.lower().endswith(".gz")
    with gzip.open(file) if packed else open(file, "rb") as source:
        try:
            start = source.read(LOOKED_AT)
        except (EOFError, zlib.error) as error:  # cut short, or not what its name says
            raise OSError(f"it cannot be unpacked: {error}") from error
    encoding = _encoding(start)
    if encoding == WESTERN:
        warnings.warn(
            f"{file.name} is not UTF-8; it is read as Windows-1252, the Western European encoding. "
            "If letters look wrong, save it as UTF-8.",
            stacklevel=2,
        )
    text = start.decode(encoding, errors="ignore")
    if file.name.lower().endswith((".tsv", ".tsv.gz")):
        return Dialect(encoding, "\t", _decimal(_rows(text, "\t", len(start))))
    for separator in SEPARATORS:
        rows = _rows(text, separator, len(start))
        widths = {len(row) for row in rows}
        if len(widths) == 1 and widths.pop() > 1:
            # Between commas a comma is no decimal point.
            return Dialect(encoding, separator, "." if separator == "," else _decimal(rows))
    return Dialect(encoding, ",", ".")


def _encoding(start: bytes) -> str:
    if start[:2] in MARKS:
        return MARKS[start[:2]]
    try:  # the last letter may be cut in two
        codecs.getincrementaldecoder("utf-8")().decode(start, final=len(start) < LOOKED_AT)
    except UnicodeDecodeError:
        if b"\0" in start:
            raise ValueError("it holds bytes that are no text. Is it a CSV file?") from None
        return WESTERN
    return "utf-8"


def _rows(text: str, separator: str, n_bytes: int) -> list[list[str]]:
    """The fields of the first lines, without a last one that is cut short."""
    found: list[list[str]] = []
    try:
        for row in csv.reader(StringIO(text, newline=""), delimiter=separator):
            found += [row] if row else []
            if len(found) > LINES:
                break
    except csv.Error:  # such as a field that has no end
        return []
    return found[:-1] if len(found) > LINES or n_bytes == LOOKED_AT else found


def _decimal(rows: Sequence[Sequence[str]]) -> str:
    cells = [cell for row in rows[1:] for cell in row]
    commas = any(WITH_COMMA.fullmatch(cell) for cell in cells)
    return "," if commas and not any(WITH_POINT.fullmatch(cell) for cell in cells) else "."
