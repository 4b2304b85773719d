"""How rows are shown: tables by their columns, images as images, other kinds not at all."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from diglm.data.encoder import AbstractEncoder
from diglm.data.image import ImageEncoder
from diglm.data.table.encoder import TableEncoder
from diglm.drawing import new_figure
from diglm.report.columns import (
    cell,
    columns_of,
    difference,
    distance,
    kind_of,
    overlay,
    summary,
    taken,
)
from diglm.report.images import image_grid, new_grid
from diglm.report.page import Section, embed, table
from diglm.report.reasons import reasons_of
from diglm.report.subject import Subject

MOST_COLUMNS = 12  # of a row that are shown
N_DRAWN = 1_000  # rows, to compare columns
ACROSS = 8  # images in a row
Facts = Mapping[str, Sequence[str]]


class AbstractView(ABC):
    """What can be shown of rows; by default nothing but what is said of them."""

    def __init__(self, subject: Subject):
        self.subject = subject

    @abstractmethod
    def data_section(self) -> Section | None:
        """What the rows are like."""

    def draws_section(self) -> Section | None:
        """Rows that the model draws beside real ones."""
        return None

    def shown(self, rows: np.ndarray, facts: Facts, reasons: Sequence[str] | None) -> str:
        """Some rows with what is said of them."""
        return table(list(facts), list(zip(*facts.values(), strict=True)))

    def changed(self, rows: np.ndarray, after: Any, notes: Sequence[str]) -> str:
        """Some rows and what became of them."""
        return table(("change",), [(note,) for note in notes])

    def moves(self, other: Any) -> str:
        """Where other rows differ from these."""
        return ""

    def reasons(
        self, explain: Callable[[Any], Any], rows: np.ndarray, *, strange: bool
    ) -> list[str] | None:
        """Why each row is strange, or is answered as it is, in a few words."""
        return None


class PlainView(AbstractView):
    """Rows of a kind that nobody has taught reports to show."""

    def data_section(self) -> None:
        return None


class TableView(AbstractView):
    """Rows of a table."""

    def __init__(self, subject: Subject):
        super().__init__(subject)
        self.encoder: TableEncoder = subject.predictor.encoder  # type: ignore[assignment]
        self.columns = columns_of(subject.X, self.encoder)

    def data_section(self) -> Section:
        rows = [
            (str(column.name), kind_of(column), *summary(column, self.columns[column.name]))
            for column in self.encoder.columns
        ]
        left_out = self.subject.card.get("left out")
        odd = [
            *(f"{k!r} was left out: {why}." for k, why in _pairs(left_out)),
            *self.encoder.remarks,
        ]
        remarks = "".join(f"<li>{escape(text)}</li>" for text in odd)
        return Section(
            "The data",
            f"{len(self.subject):,} rows. What training saw in each column, what these rows show, "
            "and what of it training had not seen; new levels and values beyond the range are what "
            "refusals often come from.",
            table(("column", "kind", "in training", "here", "missing", "never seen"), rows)
            + (f"<h3>Odd columns</h3><ul>{remarks}</ul>" if remarks else ""),
        )

    def shown(self, rows: np.ndarray, facts: Facts, reasons: Sequence[str] | None) -> str:
        shown = list(self.columns)[:MOST_COLUMNS]
        content = {
            **facts,
            **{str(name): [cell(self.columns[name][row]) for row in rows] for name in shown},
        }
        rows_table = table(list(content), list(zip(*content.values(), strict=True)))
        if reasons is None:
            return rows_table
        told = list(zip(facts["row"], reasons, strict=True))
        return rows_table + table(("row", "because of"), told, css="words")

    def draws_section(self) -> Section:
        drawn = self.subject.predictor.sample(N_DRAWN, None, seed=self.subject.seed)
        columns = columns_of(drawn, self.encoder)
        pictures = []
        for column in self.encoder.columns[:MOST_COLUMNS]:
            figure, (axes,) = new_figure(2.7, 2.1)
            overlay(axes, column, self.columns[column.name], columns[column.name])
            pictures.append(embed(figure, f"Values of {column.name}, real and drawn."))
        first = [[cell(values[i]) for values in columns.values()] for i in range(5)]
        names = [str(name) for name in columns][:MOST_COLUMNS]
        return Section(
            "What it imagines",
            f"Filled: the rows of this report. Line: {N_DRAWN:,} rows that the model draws from "
            "p(x), its own idea of the rows of training. The closer, the better. Below, the first "
            "draws.",
            f'<div class="figures">{"".join(pictures)}</div>'
            + table(names, [row[:MOST_COLUMNS] for row in first]),
        )

    def changed(self, rows: np.ndarray, after: Any, notes: Sequence[str]) -> str:
        became = columns_of(after, self.encoder)
        lines = []
        for i, (row, note) in enumerate(zip(rows, notes, strict=True)):
            moves = []
            for column in self.encoder.columns:
                before, now = self.columns[column.name][row], became[column.name][i]
                if cell(before) != cell(now):
                    moves.append((difference(column, before, now), column.name, before, now))
            moves.sort(key=lambda move: -move[0])
            told = "; ".join(f"{name} {cell(old)} → {cell(new)}" for _, name, old, new in moves[:5])
            more = f" and {len(moves) - 5} more" if len(moves) > 5 else ""
            lines.append((note, told + more or "nothing"))
        return table(("answer", "what changes, most first"), lines, css="words")

    def moves(self, other: Any) -> str:
        columns = columns_of(other, self.encoder)
        moved = sorted(
            (
                (distance(self.columns[column.name], columns[column.name]), column)
                for column in self.encoder.columns
            ),
            key=lambda pair: -pair[0],
        )
        rows = [
            (
                str(column.name),
                f"{size:.2f}",
                summary(column, self.columns[column.name])[1],
                summary(column, columns[column.name])[1],
            )
            for size, column in moved[:MOST_COLUMNS]
        ]
        return table(("column", "moved by", "this report", "the other rows"), rows)

    def reasons(
        self, explain: Callable[[Any], Any], rows: np.ndarray, *, strange: bool
    ) -> list[str]:
        return reasons_of(explain(taken(self.subject.X, rows)), len(rows), strange=strange)


class ImageView(AbstractView):
    """Images."""

    def __init__(self, subject: Subject):
        super().__init__(subject)
        self.images = np.asarray(subject.X)

    def data_section(self) -> Section:
        height, width, channels = self.images.shape[1:]
        some = np.random.default_rng(0).permutation(len(self.images))[: 2 * ACROSS]
        return Section(
            "The data",
            f"{len(self.images):,} images of {width} by {height} pixels, "
            f"{'grey' if channels == 1 else 'in colour'}. A few of them, not selected.",
            _grid(self.images[np.sort(some)]),
        )

    def shown(self, rows: np.ndarray, facts: Facts, reasons: Sequence[str] | None) -> str:
        words = {"row": "row", "truth": "is", "prediction": "said", "p-value": "p"}  # little room
        captions = [
            "\n".join(
                f"{word} {facts[name][i][:6]}" for name, word in words.items() if name in facts
            )
            for i in range(len(rows))
        ]
        framed = [bool(word) for word in facts["refused"]]
        return _grid(self.images[rows], captions, framed)

    def draws_section(self) -> Section:
        drawn = self.subject.predictor.sample(2 * ACROSS, None, seed=self.subject.seed)
        return Section(
            "What it imagines",
            "Images that the model draws from p(x): none is one of the data.",
            _grid(np.asarray(drawn)),
        )

    def changed(self, rows: np.ndarray, after: Any, notes: Sequence[str]) -> str:
        both = zip(self.images[rows], np.asarray(after), strict=True)
        pairs = [image for pair in both for image in pair]
        told = [note.partition(": ")[2].replace(", ", "\n") for note in notes]
        captions = [text for note in told for text in ("before", note)]
        return _grid(np.stack(pairs), captions, across=4)


def _pairs(found: object) -> list[tuple[str, str]]:
    return list(found.items()) if isinstance(found, Mapping) else []


def _grid(
    images: np.ndarray,
    captions: Sequence[str] | None = None,
    framed: Sequence[bool] | None = None,
    across: int = ACROSS,
) -> str:
    """Images in rows of `across`."""
    squeezed = images[..., 0] if images.shape[-1] == 1 else images
    top = 255 if images.dtype == np.uint8 else 1.0
    shown = top - squeezed if squeezed.ndim == 3 else squeezed  # light on dark, as they came
    n_rows = -(-len(images) // across)
    lines = max((text.count("\n") + 1 for text in captions or ()), default=0)

    def rows_of(items: Sequence[Any], fill: Any) -> list[list[Any]]:
        padded = [*items, *[fill] * (n_rows * across - len(items))]
        return [padded[i * across : (i + 1) * across] for i in range(n_rows)]

    figure, axes = new_grid(n_rows, across, caption_lines=lines)
    image_grid(
        axes,
        rows_of(list(shown), None),
        top=top,
        captions=None if captions is None else rows_of(captions, ""),
        framed=None if framed is None else rows_of(framed, False),
    )
    return embed(figure, "Images.", vector=False)


VIEWS: dict[type[AbstractEncoder], type[AbstractView]] = {
    TableEncoder: TableView,
    ImageEncoder: ImageView,
}


def view_of(subject: Subject) -> AbstractView:
    """What shows the rows of a subject."""
    return VIEWS.get(type(subject.predictor.encoder), PlainView)(subject)
