"""DATA of a command: a table on disk or in a pipe, or images; and a clear error for all else."""

import atexit
import difflib
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diglm.cli.errors import CommandError
from diglm.cli.work.images import Images, is_image_folder, read_folder, read_npz
from diglm.data.encoder import Rows
from diglm.data.files.formats import SUFFIXES, pa
from diglm.data.files.opening import FileTable, TableFileError, open_table
from diglm.predictor import Predictor
from diglm.predictor.files import blocks, choose_columns, column_of

KINDS = "a CSV, Parquet or Arrow file, a folder of them, images in .npz, or a folder a class"
MAGIC = {b"PAR1": ".parquet", b"ARRO": ".arrow"}  # how files in a pipe begin; CSV has no such mark
# What to do about a table that cannot be read, by the words of its error or by its suffix.
ROWS_NEEDED = "a table needs a line of column names and at least one row."
HINTS = {
    "0 bytes": ROWS_NEEDED,
    "no rows": ROWS_NEEDED,
    "Empty CSV": ROWS_NEEDED,
    "several columns named": "give each column a name of its own, in the first line of the file.",
    "fields, got": "every line needs as many fields as the first; put those that hold a separator, "
    "a quotation mark or a new line in quotation marks.",
    "same columns": "the files of a folder are one table; move others elsewhere.",
    "not UTF-8": "its first lines are, so a part of it may come from elsewhere.",
}
SPREADSHEET = "save the sheet as CSV, in the program that wrote it."
OTHER_KINDS = {
    ".xlsx": SPREADSHEET,
    ".xls": SPREADSHEET,
    ".ods": SPREADSHEET,
    ".zip": "unpack it first; of packed files only .csv.gz and .tsv.gz are read.",
    ".json": "in Python: pandas.read_json(...).to_parquet(...)",
    ".jsonl": "in Python: pandas.read_json(..., lines=True).to_parquet(...)",
    ".pkl": "in Python: pandas.read_pickle(...).to_parquet(...)",
    ".txt": "if it holds a table, rename it to end in .csv",
    "": "if it holds a table, rename it to end in .csv",
}
WHOLE_TABLE = 200_000  # rows that commands read at once; more are sampled or streamed


class AbstractData(ABC):
    """Rows that a command was given.

    Attributes:
        name: as the person wrote it.
        places: which rows of the file these are, from 0; None for all.
    """

    name: str
    places: np.ndarray | None

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many."""

    @abstractmethod
    def rows(self, predictor: Predictor) -> Rows:
        """All rows as a model takes them, or an error that says why it cannot."""

    @abstractmethod
    def truth(self, column: str | None) -> np.ndarray | None:
        """The targets; None where there are none."""

    @abstractmethod
    def take(self, places: np.ndarray) -> "AbstractData":
        """Some of the rows, in memory."""

    def sampled(self, most: int, seed: int = 0) -> "AbstractData":
        """At most so many rows, drawn at random and in their order."""
        if self.n_rows <= most:
            return self
        chosen = np.random.default_rng(seed).choice(self.n_rows, most, replace=False)
        return self.take(np.sort(chosen))


@dataclass(frozen=True)
class TableData(AbstractData):
    """A table whose rows stay on disk."""

    name: str
    table: FileTable
    places: None = None

    @property
    def n_rows(self) -> int:
        return self.table.n_rows

    def read(self, columns: Sequence[str] | None = None) -> "pa.Table":
        """Columns of all rows."""
        wanted = list(self.table.names if columns is None else columns)
        return pa.concat_tables(blocks(self.table, wanted, 0, self.n_rows, WHOLE_TABLE))

    def require(self, column: str) -> None:
        """Raise unless there is such a column."""
        if column not in self.table.names:
            raise CommandError(
                f"{self.name} has no column {column!r}; it has {listed(self.table.names)}.",
                close_to(column, self.table.names) or "names must match to the letter.",
            )

    def rows(self, predictor: Predictor) -> "pa.Table":
        return self._in_memory().rows(predictor)

    def truth(self, column: str | None) -> np.ndarray | None:
        return self._in_memory().truth(column)

    def take(self, places: np.ndarray) -> "RowsData":
        found, start = [], 0
        ascending, back = np.unique(places, return_inverse=True)
        for block in blocks(self.table, self.table.names, 0, self.n_rows, WHOLE_TABLE):
            inside = (ascending >= start) & (ascending < start + block.num_rows)
            found.append(block.take(ascending[inside] - start))
            start += block.num_rows
        return RowsData(self.name, pa.concat_tables(found).take(back), places)

    def _in_memory(self) -> "RowsData":
        return RowsData(self.name, self.read())


@dataclass(frozen=True)
class RowsData(AbstractData):
    """Rows of a table in memory."""

    name: str
    content: "pa.Table"
    places: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        return self.content.num_rows

    def rows(self, predictor: Predictor) -> "pa.Table":
        require_table(predictor, self.name)
        return self.content.select(features_of(predictor, self.content, self.name))

    def truth(self, column: str | None) -> np.ndarray | None:
        if column is None or column not in self.content.column_names:
            return None
        return column_of(self.content, column)

    def take(self, places: np.ndarray) -> "RowsData":
        return RowsData(self.name, self.content.take(places), _among(self.places, places))


@dataclass(frozen=True)
class ImageData(AbstractData):
    """Images, and their labels if they have any."""

    name: str
    images: Images
    places: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        return len(self.images.pixels)

    def rows(self, predictor: Predictor) -> np.ndarray:
        expected = predictor.encoder.shape
        if predictor.encoder.in_files:
            raise CommandError(
                f"{self.name} holds images, but the model reads a table of "
                f"{predictor.encoder.n_features} columns.",
                "give a CSV, Parquet or Arrow file with the columns of training.",
            )
        pixels = self.images.with_channels(expected[-1])
        if pixels.shape[1:] != expected:
            raise CommandError(
                f"the model reads images of {sized(expected)}; those of {self.name} are "
                f"{sized(self.images.pixels.shape[1:])}.",
                "scale the images to the size of those of training.",
            )
        return pixels

    def truth(self, column: str | None) -> np.ndarray | None:
        return self.images.labels

    def take(self, places: np.ndarray) -> "ImageData":
        return ImageData(self.name, self.images.take(places), _among(self.places, places))


def _among(before: np.ndarray | None, places: np.ndarray) -> np.ndarray:
    """Which rows of the file some of some of its rows are."""
    return places if before is None else before[places]


def open_data(given: str) -> AbstractData:
    """The rows at a path, or in the pipe for "-"."""
    if given == "-":
        return TableData("standard input", _opened(_from_pipe(), "standard input"))
    if not given:
        raise CommandError("the name of the data is empty.", f"expected {KINDS}.")
    path = Path(given)
    if path.is_symlink() and not path.exists():
        raise CommandError(f"{given} is a link to nothing.", "name the file itself.")
    if not path.exists():
        folder = path.parent
        there = [file.name for file in folder.iterdir()] if folder.is_dir() else []
        raise CommandError(
            f"there is no file or folder {given}.",
            close_to(path.name, there) or f"expected {KINDS}.",
        )
    if path.suffix == ".npz":
        return ImageData(given, read_npz(path))
    if path.is_dir() and is_image_folder(path):
        return ImageData(given, read_folder(path))
    return TableData(given, _opened(path, given))


def require_table(predictor: Predictor, name: str) -> None:
    """Raise unless the model reads tables."""
    if not predictor.encoder.in_files:
        raise CommandError(
            f"{name} is a table, but the model reads images of {sized(predictor.encoder.shape)}.",
            "give images as .npz, or as a folder with a folder a class.",
        )


def features_of(predictor: Predictor, table: "pa.Table | FileTable", name: str) -> list[str]:
    """The columns that a model reads, or an error that names those missing."""
    names = table.names if isinstance(table, FileTable) else table.column_names
    expected = predictor.encoder.feature_names
    absent = [column for column in expected or () if column not in names]
    if absent:
        raise CommandError(
            f"{name} lacks {listed(absent)}, which the model was trained on; it has "
            f"{listed(names)}.",
            close_to(absent[0], names) or "is this the right model for this table?",
        )
    if isinstance(table, FileTable):
        return list(choose_columns(predictor, table, (), None).features)
    return list(names) if expected is None else list(expected)


def close_to(word: str, words: Sequence[str]) -> str | None:
    """A question after the words most like a mistyped one."""
    near = difflib.get_close_matches(word, words, n=3, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else None


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names for a sentence, not too many of them."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def sized(shape: Sequence[int]) -> str:
    """The size of an image for a sentence."""
    height, width, channels = shape
    colours = {1: "grey", 3: "in colour"}.get(channels, f"with {channels} channels")
    return f"{height} x {width} pixels, {colours}"


def _opened(path: Path, name: str) -> FileTable:
    try:
        return open_table(path)
    except TableFileError as error:
        text = str(error) if name == str(path) else str(error).replace(str(path), name)
        raise CommandError(text.rstrip("."), _hint_of(path, text)) from error


def _hint_of(path: Path, text: str) -> str:
    for part, hint in HINTS.items():
        if part in text:
            return hint
    if "no known kind" in text and path.suffix.lower() in OTHER_KINDS:
        return OTHER_KINDS[path.suffix.lower()]
    if path.is_dir():
        return f"a folder holds tables ({', '.join(SUFFIXES)}), or a folder of images a class."
    return f"expected {KINDS}."


def _from_pipe() -> Path:
    """What comes through the pipe, as a file that is removed when Python exits."""
    if sys.stdin.isatty():
        raise CommandError(
            "- reads a table from standard input, but nothing is piped to it.",
            "for example: cat rows.csv | diglm predict model.diglm -",
        )
    folder = Path(tempfile.mkdtemp(prefix="diglm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = sys.stdin.buffer
    begin = source.read(4)
    path = folder / f"input{MAGIC.get(begin, '.csv')}"
    with open(path, "wb") as file:
        file.write(begin)
        shutil.copyfileobj(source, file)
    return path
