"""What commands say: talk to stderr, data to stdout, colour only where a person wants it."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table


class Talk:
    """Talk to the person at the terminal, on stderr.

    rich leaves out colour where `NO_COLOR` is set or nobody watches.

    Args:
        quiet: say nothing but errors.
    """

    def __init__(self, quiet: bool = False):
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self.verbose: bool | str = False if quiet else "auto"

    def say(self, text: str = "") -> None:
        """One line."""
        self.console.print(text, markup=False)

    def warn(self, text: str) -> None:
        """A line that a person should not pass over."""
        self.console.print(f"note: {text}", markup=False, style="yellow")

    def table(self, title: str, rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> None:
        """A small table; the first column names the row."""
        shown = Table(title=title, title_justify="left", show_header=bool(header), box=None)
        for place, name in enumerate(header or [""] * len(rows[0])):
            shown.add_column(name, justify="left" if place == 0 else "right")
        for row in rows:
            shown.add_row(*row)
        self.console.print(shown, markup=False)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A sign of life where a person watches."""
        if self.console.is_terminal and not self.console.quiet:
            with self.console.status(what):
                yield
        else:
            yield


def print_json(content: Mapping[str, object] | Sequence[object]) -> None:
    """Data as JSON on stdout; what is not a finite number is null."""
    sys.stdout.write(json.dumps(_plain(content), indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def print_pairs(pairs: Mapping[str, object]) -> None:
    """Data as lines of name and value on stdout."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        sys.stdout.write(f"{name:<{width}}  {said(value)}\n")
    sys.stdout.flush()


def said(value: object) -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {said(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(said, value)) or "none"
    return str(value)


def _plain(value: object) -> object:
    """A value as JSON holds it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy
        return _plain(value.tolist())  # type: ignore[attr-defined]
    if isinstance(value, float):
        return value if value - value == 0 else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
