"""Rows as they come in JSON: read, joined with those of other requests, and encoded.

Nothing here makes a data frame: for a request of one row that would take longer than the model.
"""

import base64
import binascii
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

import numpy as np

from diglm.data.encoder import Encoded, Rows
from diglm.data.image import WHITE, ImageEncoder
from diglm.data.table.encoder import TableEncoder
from diglm.data.table.fields import Field, Table, as_durations
from diglm.predictor import Predictor
from diglm.registry import Registry
from diglm.serve.bodies import Json, kind_of, take
from diglm.serve.errors import Refused
from diglm.serve.png import is_png, read_png

Columns = list[list[Json]]
Part = TypeVar("Part")


@dataclass(frozen=True)
class Given(Generic[Part]):
    """The rows of one request, and their groups if it names them."""

    content: Part
    n_rows: int
    groups: list[Json] | None = None


class AbstractReader(ABC, Generic[Part]):
    """Reads rows for one kind of data.

    Attributes:
        fields: of a request, that this reader reads.
    """

    fields: frozenset[str]

    @abstractmethod
    def read(self, content: dict[str, Json], most: int) -> tuple[Part, int]:
        """The rows of a request and their number, or `Refused`."""

    @abstractmethod
    def join(self, parts: list[Part]) -> Rows:
        """The rows of several requests, one after the other, as the model's encoder takes them."""

    def given(self, content: dict[str, Json], most: int) -> Given[Part]:
        """The rows of a request with their groups."""
        rows, n_rows = self.read(content, most)
        groups = take(content, "groups", (list,))
        if groups is not None and len(groups) != n_rows:
            raise Refused(422, f"There are {n_rows} rows, but {len(groups)} groups.")
        return Given(rows, n_rows, groups)


class TableReader(AbstractReader[Columns]):
    """Rows of a table: "records", "columns" or "rows", of which each request has one."""

    fields = frozenset({"records", "columns", "rows", "groups", "extra"})

    def __init__(self, encoder: TableEncoder):
        self.encoder = encoder
        self.names = [str(column.name) for column in encoder.columns]
        self.known = frozenset(self.names)

    def read(self, content: dict[str, Json], most: int) -> tuple[Columns, int]:
        forms = [name for name in FORMS if name in content]
        if len(forms) != 1:
            raise Refused(
                422,
                f"A request has one of {list(FORMS)}; got {forms or 'none of them'}.",
                'For example {"records": [{"column": value, ...}, ...]}.',
            )
        extra = take(content, "extra", (str,), "error")
        if extra not in ("error", "ignore"):
            raise Refused(422, f"extra must be 'error' or 'ignore'; got {extra!r:.80}.")
        columns = FORMS[forms[0]](self, content[forms[0]], most, extra == "ignore")
        return columns, len(columns[0])

    def join(self, parts: list[Columns]) -> Table:
        columns = [list(chain(*each)) for each in zip(*parts, strict=True)]
        fields = [
            Field(column.name, as_durations(values) if column.time == "timedelta" else values)
            for column, values in zip(self.encoder.columns, columns, strict=True)
        ]
        return Table(fields, len(columns[0]), "numpy", "|O")

    def _records(self, records: Json, most: int, ignore: bool) -> Columns:
        _require_list("records", records, most)
        names, known = self.names, self.known
        for i, record in enumerate(records):
            if type(record) is not dict:
                raise Refused(422, f"Record {i} must be an object; got {kind_of(record)}.")
            if record.keys() != known:
                self._check_names(record.keys(), f"Record {i}", ignore)
        return [[record[name] for record in records] for name in names]

    def _columns(self, columns: Json, most: int, ignore: bool) -> Columns:
        if type(columns) is not dict:
            raise Refused(422, f"columns must be an object of lists; got {kind_of(columns)}.")
        self._check_names(columns.keys(), "columns", ignore)
        found = [columns[name] for name in self.names]
        for name, values in zip(self.names, found, strict=True):
            _require_list(f"Column {name!r}", values, most)
            if len(values) != len(found[0]):
                raise Refused(
                    422,
                    f"Columns differ in length: {self.names[0]!r} has {len(found[0])} values, "
                    f"{name!r} has {len(values)}.",
                )
        return found

    def _rows(self, rows: Json, most: int, ignore: bool) -> Columns:
        _require_list("rows", rows, most)
        for i, row in enumerate(rows):
            if type(row) is not list or len(row) != len(self.names):
                got = f"{len(row)} values" if type(row) is list else kind_of(row)
                raise Refused(
                    422,
                    f"Row {i} must be a list of {len(self.names)} values; got {got}.",
                    f"In this order: {self.names}.",
                )
        return [list(column) for column in zip(*rows, strict=True)]

    def _check_names(self, names, where: str, ignore: bool) -> None:
        absent = [name for name in self.names if name not in names]
        others = [] if ignore else sorted(set(names) - self.known)
        if absent:
            raise Refused(422, f"{where} lacks {absent[:5]}.", "null stands for a missing value.")
        if others:
            raise Refused(
                422,
                f"{where} has {others[:5]}, which the model does not know.",
                f'It knows {self.names}. Leave the others out, or send "extra": "ignore".',
            )


FORMS = {
    "records": TableReader._records,
    "columns": TableReader._columns,
    "rows": TableReader._rows,
}


class ImageReader(AbstractReader[np.ndarray]):
    """Images: nested lists of pixels, or base64 of raw bytes or of a PNG file, one text each."""

    fields = frozenset({"images", "groups"})

    def __init__(self, encoder: ImageEncoder):
        self.encoder = encoder

    def read(self, content: dict[str, Json], most: int) -> tuple[np.ndarray, int]:
        images = content.get("images")
        if images is None:
            raise Refused(422, "A request to a model of images has a list of images.")
        _require_list("images", images, most)
        pixels = [self._image(image, f"Image {i}") for i, image in enumerate(images)]
        return np.stack(pixels), len(pixels)

    def join(self, parts: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts)

    def _image(self, image: Json, name: str) -> np.ndarray:
        height, width, channels = self.encoder.size
        if type(image) is str:
            return self._unpacked(image, name)
        try:
            pixels = np.array(image)
        except ValueError:
            raise Refused(422, f"{name} is not a list of lines of equal length.") from None
        if pixels.shape == (height, width) and channels == 1:
            pixels = pixels[:, :, None]
        if pixels.shape != self.encoder.size or pixels.dtype.kind not in "iuf":
            raise Refused(
                422,
                f"{name} must hold {height} x {width} x {channels} numbers; got an array of shape "
                f"{pixels.shape} and type {pixels.dtype.name}.",
            )
        if self.encoder.floats:
            return pixels.astype(np.float32)
        if pixels.dtype.kind == "f" or pixels.min() < 0 or pixels.max() > WHITE:
            raise Refused(422, f"{name} must hold whole numbers from 0 to {WHITE}.")
        return pixels.astype(np.uint8)

    def _unpacked(self, text: str, name: str) -> np.ndarray:
        height, width, channels = self.encoder.size
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise Refused(422, f"{name} is text, but not base64.") from None
        if is_png(data):
            try:
                pixels = read_png(data, height, width)
            except ValueError as error:
                raise Refused(422, f"{name} is a PNG that cannot be read: {error}.") from None
        elif len(data) == height * width * channels:
            pixels = np.frombuffer(data, np.uint8).reshape(self.encoder.size)
        else:
            raise Refused(
                422,
                f"{name} must be a PNG or {height * width * channels} bytes, a byte for each pixel "
                f"and channel; got {len(data)} bytes.",
            )
        if pixels.shape != self.encoder.size:
            raise Refused(422, f"{name} must have {channels} channel(s); got {pixels.shape[2]}.")
        return pixels.astype(np.float32) / WHITE if self.encoder.floats else pixels


def _require_list(name: str, values: Json, most: int) -> None:
    if type(values) is not list or not values:
        got = "an empty one" if type(values) is list else kind_of(values)
        raise Refused(422, f"{name} must be a list that is not empty; got {got}.")
    if len(values) > most:
        raise Refused(413, f"{name} has {len(values)} rows; at most {most} are taken at a time.")


READERS: Registry = Registry("kind of data", {"table": TableReader, "image": ImageReader})


def encode_each(
    reader: AbstractReader, predictor: Predictor, parts: list[Given]
) -> list[Encoded | Exception]:
    """Rows of every request encoded alone, so that an error is that of their sender."""
    found: list[Encoded | Exception] = []
    for part in parts:
        try:
            predictor.codes(group_column(part.groups), part.n_rows)
            found.append(predictor.encode(reader.join([part.content])))
        except (ValueError, TypeError) as error:
            found.append(Refused(422, str(error)))
    return found


def codes_of(predictor: Predictor, parts: list[Given]) -> np.ndarray | None:
    """Numbers of the groups of all rows, -1 where a request names none."""
    if all(part.groups is None for part in parts):
        return None
    every = (
        np.full(part.n_rows, -1) if codes is None else codes
        for part in parts
        for codes in [predictor.codes(group_column(part.groups), part.n_rows)]
    )
    return np.concatenate(list(every))


def group_column(groups: list[Json] | None) -> np.ndarray | None:
    """Groups as a column of whatever they are."""
    if groups is None:
        return None
    column = np.empty(len(groups), object)
    column[:] = groups
    return column
