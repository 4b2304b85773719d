"""The report of a model: one page about its data, its errors, what it refuses and imagines."""

import os
from collections.abc import Callable
from pathlib import Path

from diglm.__about__ import __version__
from diglm.atomic import replacing
from diglm.drawing import require_matplotlib
from diglm.report.card import card_section, describe
from diglm.report.changing import changed_section
from diglm.report.judging import quality_section, refusing_section
from diglm.report.measures import worded
from diglm.report.moving import moved_section
from diglm.report.odd_rows import strangest_section, worst_section
from diglm.report.page import Section, page, table
from diglm.report.strange import strangeness_section
from diglm.report.subject import Subject
from diglm.report.training_curves import training_section
from diglm.report.views import view_of

# In the order of the page; each has nothing to say of some models and rows.
SECTIONS: tuple[Callable[[Subject], Section | None], ...] = (
    lambda subject: view_of(subject).data_section(),
    quality_section,
    strangeness_section,
    refusing_section,
    worst_section,
    strangest_section,
    lambda subject: view_of(subject).draws_section(),
    changed_section,
    moved_section,
    training_section,
    card_section,
)


def write_report(path: str | os.PathLike, subject: Subject, title: str = "") -> Path:
    """Write the page, whole or not at all; returns its path."""
    require_matplotlib()
    text = report_page(subject, title or f"A {subject.kind} and {len(subject):,} rows")
    with replacing(path) as file:
        file.write(text.encode())
    return Path(path)


def report_page(subject: Subject, title: str) -> str:
    """The page as text."""
    numbers = Section(
        "In short",
        "Measured on the rows of this report, whether the model would answer or refuse them, "
        "unless a line says otherwise.",
        table(("measure", "value"), list(worded(subject.measures).items())),
    )
    sections = [numbers, *(section for make in SECTIONS if (section := make(subject)))]
    return page(title, _lead(subject), sections, _footer(subject))


def _lead(subject: Subject) -> str:
    found = describe(subject)
    share = float(subject.measures["refused"])
    learned = f" learned from {found['rows']:,} rows" if isinstance(found.get("rows"), int) else ""
    return (
        f"A {subject.kind}{learned}. Of the {len(subject):,} rows here it refuses {share:.1%} as "
        "too unlike what it has learned from; of each of the others it says what it predicts, how "
        f"sure it is, and how probable the row itself is.{subject.note and ' '}{subject.note}"
    )


def _footer(subject: Subject) -> str:
    versions = subject.card.get("versions")
    told = ", ".join(f"{k} {v}" for k, v in versions.items()) if isinstance(versions, dict) else ""
    written = f"Written by diglm {__version__}."
    return f"{written} The model was trained with {told}." if told else written
