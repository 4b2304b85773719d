"""A progress bar for people: loss, log p(x), log p(y|x), metric and time left."""

import sys
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

Record = dict[str, float | int]
Progress = Callable[[Record], None]


class ProgressBar:
    """Draws one line on stderr while training; a context manager that is called every epoch.

    Args:
        n_epochs: the length of the bar.
        metric: name of the skill shown; empty for none.
        root: whether the square root of the skill is shown.
        shown: True, False, or "auto" to draw only on a terminal that a person watches.
        what: is trained.
    """

    def __init__(
        self,
        n_epochs: int,
        metric: str,
        shown: bool | str = "auto",
        *,
        root: bool = False,
        what: str = "fit",
    ):
        console = Console(file=sys.stderr)
        visible = console.is_terminal or console.is_jupyter if shown == "auto" else bool(shown)
        self.metric, self.root, self.visible = metric, root, visible
        self.bar = RichProgress(
            TextColumn(what),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not visible,
            transient=shown == "auto",
        )
        self.task = self.bar.add_task("fit", total=n_epochs, numbers="compiling")

    def __enter__(self) -> "ProgressBar":
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def __call__(self, record: Record) -> None:
        """Show an epoch's numbers: those of the validation rows where there are any."""
        prefix = "val_" if "val_loss" in record else ""
        numbers = f"loss {record[prefix + 'loss']:.4f}  log p(x) {record[prefix + 'log_px']:.2f}"
        if self.metric:
            skill = record[prefix + "skill"]
            skill = skill**0.5 if self.root else skill
            numbers += f"  log p(y|x) {record[prefix + 'log_py']:.4f}  {self.metric} {skill:.4f}"
        done = record["epoch"] + record.get("share", 1)  # of the epoch, where it is told in parts
        self.bar.update(self.task, completed=done, numbers=numbers)
