"""The page of results: the paper's tables and figures, ours beside them, and how each was made.

`diglm reproduce all` writes it for its budget; `python docs/measured.py` writes docs/results.md
from the full results, and a test says whether that is up to date.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diglm.__about__ import __version__
from diglm.experiments.frame import paper
from diglm.experiments.frame.study import Folders, Run
from diglm.experiments.registry import STUDIES, study

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

    def cell(self, ours: float | None, theirs: float | None) -> str:
        """Ours, the paper's in brackets, and by how much ours is better or worse."""
        told = "" if theirs is None else f"{theirs:{self.form}}"
        if ours is None:
            return f"{NOT_RUN} ({told})" if told else NOT_RUN
        if theirs is None:
            return f"**{ours:{self.form}}**"
        gap = (ours - theirs) * self.better
        size = f"{abs(gap):{self.form}}"
        if size == f"{0:{self.form}}":
            return f"**{ours:{self.form}}** ({told}, equal)"
        return f"**{ours:{self.form}}** ({told}, {'better' if gap > 0 else 'worse'} by {size})"


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


def image_table(results: Results, name: str, strange: str, numbers: dict[float, tuple]) -> str:
    """The paper's Table 1 or 2."""
    columns = [
        Column("bits per dimension", DOWN),
        Column("error", DOWN, ".2%"),
        Column("NLL", DOWN, ".3f"),
        Column(f"{strange}: bits", UP),
        Column(f"{strange}: NLL", DOWN),
        Column(f"{strange}: entropy", UP, ".3f"),
    ]
    found, rows = results.of(name), []
    for weight, theirs in numbers.items():
        one = found[f"{name}_{weight:g}"]
        ours = _image_numbers(one.metrics, strange)
        cells = [c.cell(*pair) for c, *pair in zip(columns, ours, theirs, strict=True)]
        rows.append([f"{weight:g}/D" if weight else "0", *cells, *one.origin])
    return table(["λ", *(column.title for column in columns), *ORIGIN], rows)


def _image_numbers(metrics: Mapping[str, Any] | None, strange: str) -> list[float | None]:
    if metrics is None:
        return [None] * 6
    others = metrics["strange"][strange]
    familiar = [metrics[key] for key in ("bits_per_dimension", "error", "nll")]
    guarded = [others[key]["minimum"] for key in ("nll", "entropy")]
    return [*familiar, others["bits_per_dimension"], *guarded]


def semi_table(results: Results, name: str, numbers: dict[str, tuple]) -> str:
    """The paper's Table 3 or S2."""
    columns = [Column("error", DOWN, ".2%"), Column("NLL", DOWN, ".3f")]
    found, rows = results.of(f"{name}_semi"), []
    for one in found.values():
        row, metrics = one.run.config["row"], one.metrics
        theirs = numbers.get(row, (None, None))
        ours = [None, None] if metrics is None else [metrics["error"], metrics["nll"]]
        cells = [c.cell(*pair) for c, *pair in zip(columns, ours, theirs, strict=True)]
        rows.append([row, *cells, *one.origin])
    return table(["learned from", *(column.title for column in columns), *ORIGIN], rows)


def grid_table(results: Results) -> str:
    """The paper's Table S1, and what a search of the grid found."""
    found = results.of("unlabelled_search")
    rows = []
    for name, values in paper.TABLE_S1.items():
        best = [
            NOT_RUN if o.metrics is None else f"{o.metrics['best'][name]:g}" for o in found.values()
        ]
        rows.append([name, ", ".join(map(str, values)), *best])
    for place, title in enumerate(ORIGIN):
        rows.append([title, "", *(one.origin[place] for one in found.values())])
    data = [f"best on {one.run.config['data']}" for one in found.values()]
    return table(["hyperparameter", "grid", *data], rows)


def flights_table(results: Results) -> str:
    """RMSE and NLL of the paper's text."""
    columns = [Column("RMSE", DOWN), Column("NLL", DOWN)]
    rows = []
    for one in results.of("flights").values():
        config, metrics = one.run.config, one.metrics
        if "-rows" in one.run.name:
            continue
        ours = [None, None] if metrics is None else [metrics["rmse"], metrics["nll"]]
        cells = [c.cell(*pair) for c, *pair in zip(columns, ours, paper.FLIGHTS, strict=True)]
        recipe = {"paper": "the paper's recipe", "ours": "our recipe"}[config["recipe"]]
        rows.append([f"{recipe}, split {config['split']}", *cells, *one.origin])
    return table(["model", *(column.title for column in columns), *ORIGIN], rows)


def toy_table(results: Results) -> str:
    """What is measured of Figure 2, of which the paper gives no numbers."""
    (one,) = results.of("toy_regression").values()
    names = {
        "hybrid": "hybrid with a density of its own",
        "shared_flow": "hybrid, one flow for both (the paper's)",
        "gaussian_process": "Gaussian process",
        "kernel_density": "kernel density estimate",
    }
    keys = {"rmse_to_truth": ".2f", "coverage_90": ".1%", "log_py": ".3f", "log_px": ".3f"}
    rows = []
    for name, title in names.items():
        of_one = (one.metrics or {}).get(name)
        if of_one is None:
            rows.append([title, *[NOT_RUN] * len(keys), *one.origin])
            continue
        cells = [f"{of_one[key]:{form}}" if key in of_one else "" for key, form in keys.items()]
        rows.append([title, *cells, *one.origin])
    titles = ["RMSE to x³", "in the 90 % interval", "mean log p(y\\|x)", "mean log p(x)"]
    return table(["model", *titles, *ORIGIN], rows)


def moons_table(results: Results) -> str:
    """Accuracies of Figure 6."""
    (one,) = results.of("half_moons").values()
    if one.metrics is None:
        return f"*{NOT_RUN.capitalize()}.*"
    rows = [
        [
            name,
            f"{sum(values) / len(values):.2%}",
            f"{min(values):.2%}",
            str(len(values)),
            *one.origin,
        ]
        for name, values in one.metrics.items()
    ]
    return table(["learned from", "mean accuracy", "least", "draws", *ORIGIN], rows)


FUTURE = {
    "moons": {"kl": ("KL from the truth", ".3f"), "error": ("error", ".2%")},
    "digits": {"bits_per_dimension": ("bits per dimension", ".3f"), "error": ("error", ".2%")},
    "table": {"log_px": ("mean log p(x)", ".2f"), "rmse": ("RMSE", ".2f")},
}


def future_table(results: Results, data: str) -> str:
    """Flows and terms that the paper leaves for the future, beside couplings, on one data set."""
    one = results.of("future_flows")[f"future_flows/{data}"]
    if one.metrics is None:
        return f"*{NOT_RUN.capitalize()}.*"
    columns = FUTURE[data] | {
        "nll": ("NLL", ".3f"),
        "log_px_error": ("standard error of a row's log p(x)", ".2f"),
        "seconds": ("processor seconds of fit", ",.0f"),
    }
    rows = []
    for name, told in one.metrics.items():
        means = {key: sum(told[key]) / len(told[key]) for key in columns}
        cells = [f"{means[key]:{form}}" for key, (_, form) in columns.items()]
        rows.append([name, *cells, *one.origin[1:]])
    return table(["flow", *(title for title, _ in columns.values()), *ORIGIN[1:]], rows)


def studies_table(results: Results) -> str:
    """Every study: what it shows, how many of its runs are there, and what makes them."""
    rows = []
    for name in STUDIES:
        found = results.of(name)
        there = [one for one in found.values() if one.stored is not None]
        sound = sum(not one.marks.strip("°") for one in there)
        seconds = sum(one.stored["seconds"] for one in there if one.stored is not None)
        shows = ", ".join(study(name).shows)
        counts = [f"{len(there)} of {len(found)}", str(sound), f"{seconds:,.0f}"]
        rows.append([f"{results.command(name)} {study(name).about}", shows, *counts])
    return table(["study", "shows", "results", "unmarked", "seconds"], rows)
