"""The page of results: the paper's tables and figures, ours beside them, and how each was made.

`diglm reproduce all` writes it for its budget; `python docs/measured.py` writes docs/results.md
from the full results, and a test says whether that is up to date.
"""

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diglm.__about__ import __version__
from diglm.experiments.frame.study import Folders, Run
from diglm.experiments.registry import study

UP, DOWN = 1, -1  # which way is better
MARKS = {
    "†": "made from a tree with changes that no commit holds",
    "‡": "made with other settings than the command has now",
    "§": "made by an earlier version of diglm",
    "°": "on embedded data that stand in for the set named",
}
NOT_RUN = "not run"


@dataclass(frozen=True)
class Column:
    """A column of numbers: its title, which way is better, and how it is written."""

    title: str
    better: int
    form: str = ".2f"

    def cell(self, ours: float | Sequence[float] | None, theirs: float | None) -> str:
        """Ours, the paper's in brackets, and by how much ours is better or worse.

        Of several seeds their mean and standard deviation.
        """
        told = "" if theirs is None else f"{theirs:{self.form}}"
        every = [] if ours is None else [ours] if isinstance(ours, float | int) else [*ours]
        if not every:
            return f"{NOT_RUN} ({told})" if told else NOT_RUN
        mean = statistics.fmean(every)
        bold = f"**{mean:{self.form}}**"
        if len(every) > 1:
            bold += f" ± {statistics.stdev(every):{self.form}}"
        if theirs is None:
            return bold
        gap = (mean - theirs) * self.better
        size = f"{abs(gap):{self.form}}"
        if size == f"{0:{self.form}}":
            return f"{bold} ({told}, equal)"
        return f"{bold} ({told}, {'better' if gap > 0 else 'worse'} by {size})"


@dataclass(frozen=True)
class Found:
    """A run of a study, and its result where there is one."""

    run: Run
    stored: Mapping[str, Any] | None

    @property
    def metrics(self) -> Mapping[str, Any] | None:
        """Its numbers."""
        return None if self.stored is None else self.stored["metrics"]

    @property
    def marks(self) -> str:
        """Why its command would not make it again, or would on other data; empty if all is well."""
        if self.stored is None:
            return ""
        said = {
            "†": str(self.stored["commit"]).endswith("+"),
            "‡": not self.run.made(self.stored),
            "§": self.stored["version"] != __version__,
            "°": bool(self.stored["config"].get("embedded")),
        }
        return "".join(mark for mark, holds in said.items() if holds)

    @property
    def origin(self) -> list[str]:
        """Seconds, seed and commit, with marks."""
        if self.stored is None:
            return ["", "", ""]
        commit = self.stored["commit"] or f"version {self.stored['version']}"
        return [
            f"{self.stored['seconds']:,.0f}",
            str(self.stored["seed"]),
            f"{commit} {self.marks}",
        ]


class Results:
    """What the studies of a budget have left in a folder."""

    def __init__(self, budget: str, folders: Folders):
        self.budget, self.folders = budget, folders

    def of(self, name: str) -> dict[str, Found]:
        """The runs of a study, by the names of their files."""
        one = study(name)
        settings = one.full if self.budget == "full" else one.small
        return {run.name: Found(run, self._stored(run.name)) for run in one.runs(settings)}

    def _stored(self, name: str) -> Mapping[str, Any] | None:
        path = self.folders.results / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def command(self, name: str) -> str:
        """What runs a study."""
        return f"`diglm reproduce {name} --budget {self.budget}`"

    def figure(self, name: str, file: str, about: str) -> str:
        """An image on the page, marked as the run that drew it; or that it is not there."""
        path = self.folders.figures / file
        if not path.exists():
            return f"*{about}: not drawn.*"
        drawn = [one for one in self.of(name).values() if file in one.run.figures and one.marks]
        marks = "".join(f"\n\n*{one.run.name} {one.marks}*" for one in drawn)
        return f"![{about}]({os.path.relpath(path, self.folders.page.parent)}){marks}"


ORIGIN = ("seconds", "seed", "commit")


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as Markdown; the first column names them."""
    lines = ["| " + " | ".join(titles) + " |", "|---|" + "---:|" * (len(titles) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
