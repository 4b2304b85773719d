"""A report as one HTML file: style and figures inside it, no script, nothing fetched."""

import base64
import io
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light; }
body { max-width: 56rem; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; color: #1c1c1c;
       background: #fff; font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .2rem; padding-top: .9rem; border-top: 1px solid #ddd; }
p { margin: .3rem 0 .9rem; }
.lead { font-size: 1.1rem; color: #333; }
.side-by-side { display: flex; flex-wrap: wrap; gap: 0 3rem; align-items: flex-start; }
/* A shadow at an edge says that a table goes on behind it. */
.scroll { overflow-x: auto;
  background: linear-gradient(to right, #fff 30%, #fff0) left,
              linear-gradient(to left, #fff 30%, #fff0) right,
              radial-gradient(farthest-side at 0 50%, #0003, #0000) left,
              radial-gradient(farthest-side at 100% 50%, #0003, #0000) right;
  background-repeat: no-repeat; background-size: 40px 100%, 40px 100%, 12px 100%, 12px 100%;
  background-attachment: local, local, scroll, scroll; }
img { display: block; max-width: 100%; height: auto; margin: .6rem 0; }
table { border-collapse: collapse; margin: .8rem 0; font-size: .95rem;
        font-variant-numeric: tabular-nums; }
th, td { padding: .32rem .9rem .32rem 0; text-align: left; border-bottom: 1px solid #e3e3e3; }
th { border-bottom: 2px solid #888; font-weight: 600; vertical-align: bottom; white-space: nowrap; }
td + td { white-space: nowrap; }
.n { text-align: right; }
footer { margin-top: 3rem; padding-top: .9rem; border-top: 1px solid #ddd; color: #555;
         font-size: .9rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .2rem; }
.figures { display: flex; flex-wrap: wrap; gap: 0 1.5rem; align-items: flex-start; }
.figures > * { min-width: 0; }
.words td { white-space: normal; overflow-wrap: anywhere; vertical-align: top; }
.words td:first-child { overflow-wrap: normal; }
td.moved { font-weight: 600; background: #fdeee4; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f5f5f5; padding: .7rem .9rem;
      font: .88rem/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .92em; }
@media (max-width: 40rem) { body { padding: 1.2rem 1rem 3rem; } h1 { font-size: 1.5rem; } }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .scroll { overflow: visible; background: none; }
  table { font-size: 9pt; }
  .wide { font-size: 7pt; }
  th, td + td { white-space: normal; }
  .wide th, .wide td { overflow-wrap: anywhere; padding-right: .5em; }
  h2, img, table { break-inside: avoid; } h2, h2 + p, h3 { break-after: avoid; } }
"""

WIDE = 7  # columns; more are printed small
NUMBER = re.compile(r"[-+−]?[\d.,]+(e[-+]?\d+)?\s?%?|nan|-?inf")


@dataclass(frozen=True)
class Section:
    """A heading, one plain sentence on how to read what follows, and its HTML."""

    title: str
    reading: str
    content: str


def page(title: str, lead: str, sections: Sequence[Section], footer: str = "") -> str:
    """A whole HTML document. Texts are escaped; the sections' `content` is taken as it is."""
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
        f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>',
    ]
    for section in sections:
        parts.append(f"<section>\n<h2>{escape(section.title)}</h2>")
        parts.append(f"<p>{escape(section.reading)}</p>\n{section.content}\n</section>")
    if footer:
        parts.append(f"<footer>{escape(footer)}</footer>")
    return "\n".join([*parts, "</body>\n</html>\n"])


def embed(figure: Any, description: str, *, vector: bool = True) -> str:
    """A matplotlib figure as an image inside the page, drawn at its own size.

    Lines and bars are best as vectors; small images are best as pixels, where no viewer smooths
    them. As a data URI a figure cannot clash with the names inside another one.
    """
    from matplotlib import rc_context

    buffer = io.BytesIO()
    kind = "svg" if vector else "png"
    # Without date and random names the same results give the same file.
    with rc_context({"svg.hashsalt": "diglm"}):
        figure.savefig(
            buffer,
            format=kind,
            dpi=192,
            bbox_inches="tight",
            pad_inches=0.05,
            metadata={"Date": None} if vector else {"Software": None},
        )
    data = buffer.getvalue()
    mime, width = (
        ("image/svg+xml", "") if vector else ("image/png", f' width="{_width(data) // 2}"')
    )
    source = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    return f'<img src="{source}" alt="{escape(description)}"{width}>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, css: str = "") -> str:
    """An HTML table; the first column names the row, and those of numbers line up on the right.

    `css` is a class of the style, if any. A header of empty names is left out.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(header)
    looks = ["", *(' class="n"' if _are_numbers(column) else "" for column in columns[1:])]
    head = "".join(
        f'<th scope="col"{look}>{escape(cell)}</th>'
        for cell, look in zip(header, looks, strict=True)
    )
    head = f"<thead><tr>{head}</tr></thead>\n" if any(header) else ""
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{k}>{escape(cell)}</td>" for cell, k in zip(row, looks, strict=True))
        + "</tr>"
        for row in rows
    )
    wide = "wide" if len(header) > WIDE else ""
    kind = f' class="{css or wide}"' if css or wide else ""
    return f'<div class="scroll"><table{kind}>\n{head}<tbody>\n{body}\n</tbody>\n</table></div>'


def number(value: float) -> str:
    """A number as people read it: four digits that count, no powers of ten for middling ones."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def _are_numbers(cells: Sequence[str]) -> bool:
    return any(cells) and all(NUMBER.fullmatch(cell) for cell in cells if cell)


def _width(png: bytes) -> int:
    """Pixels across, from the header of a PNG file."""
    return struct.unpack(">I", png[16:20])[0]
