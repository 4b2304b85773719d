"""A first look at a table: what kind of problem it is, and which columns tell nothing."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from diglm.cli.errors import CommandError
from diglm.data.files.formats import compute, pa
from diglm.data.table.encoder import TableEncoder
from diglm.data.table.remarks import FEWEST_ROWS, IDENTIFIER_RATE

MOST_CODES = 10  # whole numbers 0 to 9, or 1 to 10, are taken for classes
MOST_CLASSES = 200  # of text; more are most likely an identifier
MOST_LEVELS, LONGEST = 1_000, 30  # that are looked at, and letters that are shown
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)
# Numbers and dates as people write them, and what to do about each.
MEANT = {
    re.compile(r"\s*[-+]?[$€£¥]?\s*[-+]?\d[\d,.' ]*\s*[$€£¥%]?\s*"): (
        "write numbers plainly, such as 1234.5, to have them read as numbers"
    ),
    re.compile(r"\s*\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(\s.*)?"): (
        "write dates as 2024-12-31 to have them read as dates"
    ),
}


@dataclass(frozen=True)
class Problem:
    """What is to be learned, and why that was thought."""

    kind: str
    why: str


@dataclass(frozen=True)
class Look:
    """What was seen in a sample of the rows.

    Attributes:
        columns: what each is, by name: "numbers", "whole numbers", "categories", "dates".
        gaps: share of missing cells, by name, where any are.
        useless: why a column is left out, by name.
        odd: what looks like a mistake in a column that is kept, by name.
    """

    columns: dict[str, str]
    gaps: dict[str, float]
    useless: dict[str, str]
    odd: dict[str, str]


def infer(target: "pa.ChunkedArray", name: str) -> Problem:
    """Classes or numbers? By the type and the values of the target."""
    kind, known = target.type, target.drop_null()
    if len(known) == 0:
        raise CommandError(
            f"the target {name!r} is empty in every row.", "name another column with --target."
        )
    n_distinct = len(compute.unique(known))
    if n_distinct < 2:
        raise CommandError(
            f"the target {name!r} has one value only, {known[0].as_py()!r}.",
            "name another column, or leave --target out to learn what is usual.",
        )
    types = pa.types
    if types.is_temporal(kind):
        raise CommandError(
            f"the target {name!r} holds dates or times, which cannot be predicted.",
            "turn it into a number, such as days since a start.",
        )
    if types.is_boolean(kind):
        return Problem("classes", f"{name!r} is true or false")
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
        if n_distinct > MOST_CODES and (meant := not_meant_as_text(target)):
            raise CommandError(
                f"the target {name!r} was meant as numbers or dates, it seems, but {meant}.",
                "correct the file, or say --problem classes to learn it as it is.",
            )
        if n_distinct > max(MOST_CLASSES, len(known) // 4) or n_distinct > len(known) // 2:
            raise CommandError(
                f"the target {name!r} is text with {n_distinct:,} different values in "
                f"{len(known):,} rows.",
                "classes come up often each; is this an identifier or free text? "
                "Name another column.",
            )
        return Problem("classes", f"{name!r} is text with {n_distinct} values")
    values = np.asarray(known.to_numpy(), float)
    if np.any(values != np.rint(values)):
        return Problem("numbers", f"{name!r} holds numbers with a fraction")
    low, high = int(values.min()), int(values.max())
    if n_distinct == 2:
        return Problem("classes", f"{name!r} has two values, {low} and {high}")
    if low in (0, 1) and high - low + 1 == n_distinct <= MOST_CODES:
        return Problem("classes", f"{name!r} holds the codes {low} to {high}")
    return Problem("numbers", f"{name!r} holds whole numbers from {low} to {high}")


def look_at(rows: "pa.Table") -> Look:
    """Kinds of columns, gaps, and those that tell nothing, from a sample without the target."""
    useless: dict[str, str] = {}
    for name in rows.column_names:
        known = rows[name].drop_null()
        if len(known) == 0:
            useless[name] = "it is empty"
        elif len(rows) > 1 and len(compute.unique(known)) == 1 and len(known) == len(rows):
            useless[name] = "it is the same in every row"
    some = rows.drop_columns(list(useless))
    if not some.column_names:
        raise CommandError("no column is left to learn from.", "add columns that differ by row.")
    columns: dict[str, str] = {}
    odd: dict[str, str] = {}
    for column in TableEncoder.fit(some).columns:
        name = str(column.name)
        columns[name] = _kind(column, some.schema.field(name).type)
        often = column.kind == "categorical" and column.unseen_rate >= IDENTIFIER_RATE
        meant = not_meant_as_text(some[name])
        if column.running:
            useless[name] = "it looks like a row number or an identifier"
        elif often and len(rows) >= FEWEST_ROWS:
            useless[name] = meant or (
                "almost every row has a value of its own, like a name or an identifier"
            )
        elif meant:
            odd[name] = meant
    counts = {name: rows[name].null_count / max(1, len(rows)) for name in rows.column_names}
    gaps = {name: share for name, share in counts.items() if share > 0}
    return Look(columns, gaps, useless, odd)


def not_meant_as_text(values: "pa.ChunkedArray") -> str | None:
    """What is wrong with text that was surely meant as numbers or dates; None for other text."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return None
    levels = compute.unique(values.drop_null()).to_pylist()[:MOST_LEVELS]
    numbers = [level for level in levels if NUMBER.fullmatch(level)]
    if len(numbers) == len(levels):
        return None  # text by declaration, such as codes in a Parquet file
    others = [level for level in levels if not NUMBER.fullmatch(level)]
    for pattern, advice in MEANT.items():
        like = [level for level in others if pattern.fullmatch(level)]
        if len(like) + len(numbers) > 0.8 * len(levels) and len(like) > 0.5 * len(others):
            return f"it is text, since values are written as {like[0]!r}; {advice}"
    if len(numbers) > len(levels) / 2:
        return (
            f"it is text, because some values, such as {others[0][:LONGEST]!r}, are no numbers; "
            "leave them empty to have the others read as numbers"
        )
    return None


def balance(target: np.ndarray) -> list[tuple[str, int, float]]:
    """Each class, its rows and their share, commonest first."""
    known = [value for value in target.tolist() if value is not None and value == value]
    classes, counts = np.unique(np.array([str(value) for value in known]), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [(str(classes[i]), int(counts[i]), float(counts[i] / len(known))) for i in order]


def _kind(column: Any, arrow: "pa.DataType") -> str:
    if column.time or pa.types.is_temporal(arrow):
        return "dates"
    if column.kind == "categorical":
        return "categories"
    return "whole numbers" if pa.types.is_integer(arrow) else "numbers"
