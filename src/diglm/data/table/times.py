"""Moments written as ISO 8601 text, such as 2024-03-01 or 2024-03-01T14:30: read and written."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Float

DATE = "YYYY-MM-DD"
CLOCKS = ("HH:MM", "HH:MM:SS", "HH:MM:SS.fff", "HH:MM:SS.ffffff")
# Every way to write a moment, by its name; "" for columns that did not come as such text.
FORMATS = (
    "",
    DATE,
    *(f"{DATE}{mark}{clock}{zone}" for mark in "T " for clock in CLOCKS for zone in ("", "Z")),
)
ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}"
    r"(?:(?P<mark>[T ])\d{2}:\d{2}(?P<seconds>:\d{2}(?:\.(?P<part>\d{1,6}))?)?(?P<zone>Z)?)?",
    re.ASCII,
)
UNITS: dict[str, Any] = dict(zip((DATE, *CLOCKS), ("D", "m", "s", "ms", "us"), strict=True))
FIRST, LAST = (np.datetime64(text, "us") for text in ("0001-01-01", "9999-12-31T23:59:59"))


def is_iso(text: str) -> bool:
    """Whether a text is a date or a moment that exists: neither 2024-02-30 nor 25:00 does."""
    if ISO.fullmatch(text) is None:
        return False
    try:
        return bool(parse(text) >= FIRST)
    except ValueError:
        return False


def parse(text: str) -> np.datetime64:
    """The moment that an ISO text names, in universal time."""
    return np.datetime64(text.removesuffix("Z"), "us")


def format_of(texts: Iterable[str]) -> str:
    """The one of FORMATS that loses nothing of these ISO texts, its signs those of most of them."""
    clock, marks, zones = 0, {"T": 0, " ": 0}, 0
    for text in texts:
        parts = ISO.fullmatch(text)
        if parts is None or parts["mark"] is None:
            continue
        digits = len(parts["part"] or "")
        clock = max(clock, 1 + (parts["seconds"] is not None) + (digits > 0) + (digits > 3))
        marks[parts["mark"]] += 1
        zones += 1 if parts["zone"] else -1
    if clock == 0:
        return DATE
    return DATE + max(marks, key=lambda m: marks[m]) + CLOCKS[clock - 1] + "Z" * (zones > 0)


def as_text(seconds: Float[np.ndarray, " rows"], iso: str) -> np.ndarray:
    """Seconds since 1970 as text in one of FORMATS, to its nearest unit; None where NaN."""
    clock = iso[len(DATE) + 1 :].removesuffix("Z") or DATE
    unit = np.timedelta64(1, UNITS[clock]) / np.timedelta64(1, "us")
    low, high = (float(end.astype(np.int64)) for end in (FIRST, LAST))
    known = np.where(np.isnan(seconds), 0.0, seconds)
    micro = np.clip(np.rint(known * 1e6 / unit) * unit, low, high).astype(np.int64)
    texts = np.datetime_as_string(
        micro.astype("datetime64[us]"), unit=UNITS[clock], casting="unsafe"
    )
    out = np.empty(len(texts), dtype=object)
    mark, zone = iso[len(DATE) : len(DATE) + 1], "Z" if iso.endswith("Z") else ""
    out[:] = [text.replace("T", mark) + zone for text in texts.tolist()]
    out[np.isnan(seconds)] = None
    return out
