"""`Study`: settings for each budget, and the runs that they ask for, each with a file of its own.

A run whose result is there, of these settings and of this code, is passed over. One that was
killed goes on from what it kept.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Console

from diglm.experiments.frame.stand_ins import lacking
from diglm.report.results import code, of_this_code, write_result
from diglm.training.devices import use_every_core

BUDGETS = ("small", "full")
STEPS = "steps.json"
EMBEDDED = "embedded"  # among settings: the data sets that embedded data stand in for
Settings = TypeVar("Settings")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Folders:
    """Where results go, where figures go, and where unfinished runs and models are kept.

    `page` is where the page about all results goes.
    """

    results: Path
    figures: Path
    kept: Path
    page: Path = Path("results.md")

    @classmethod
    def of(cls, budget: str, out: Path | None = None) -> "Folders":
        """Those of a budget: small results never take the place of full ones."""
        if out is not None:
            return cls(out, out / "figures", Path("runs") / budget, out / "results.md")
        if budget == "small":
            return cls.of(budget, Path("results/small"))
        docs = Path("docs")
        return cls(Path("results"), docs / "images", Path("runs/full"), docs / "results.md")


class Work:
    """What a run works with.

    Attributes:
        folder: of its own, in which it finds what it left when it was killed.
        seconds: it took in all, killed ones included, where it says so.
    """

    def __init__(self, folder: Path, folders: Folders, console: Console):
        self.folder, self.folders, self.console = folder, folders, console
        self.seconds: float | None = None

    def say(self, *what: object) -> None:
        """A line for those who watch."""
        self.console.print(*what)

    def figure(self, name: str) -> Path:
        """The file of a figure."""
        self.folders.figures.mkdir(parents=True, exist_ok=True)
        return self.folders.figures / name

    def model(self, name: str) -> Path:
        """The file of a model, which outlives the run."""
        return self.folders.kept / f"{name}.safetensors"

    def step(self, name: str, compute: Callable[[], Answer]) -> Answer:
        """What `compute` gives, as JSON holds it; asked for again, it is not computed again.

        The run's seconds are those of its steps.
        """
        path = self.folder / STEPS
        known = json.loads(path.read_text()) if path.exists() else {}
        if name not in known:
            since = time.perf_counter()
            value = plain(compute())
            known[name] = {"value": value, "seconds": time.perf_counter() - since}
            new = path.with_suffix(".new")
            new.write_text(json.dumps(known))
            new.replace(path)
        self.seconds = sum(step["seconds"] for step in known.values())
        return known[name]["value"]


@dataclass(frozen=True)
class Run:
    """One result, results/NAME.json.

    Attributes:
        name: of the file.
        config: all that the result depends on.
        measure: computes the numbers, and draws the figures.
        seed: of everything random.
        figures: files that it draws.
    """

    name: str
    config: Mapping[str, Any]
    measure: Callable[[Work], Any]
    seed: int = 0
    figures: tuple[str, ...] = ()

    def made(self, stored: Mapping[str, Any]) -> bool:
        """Whether a result is of these settings, be it on embedded data."""
        found, asked = stored["config"], plain(self.config)
        same = all(found.get(name) == asked[name] for name in asked if name != EMBEDDED)
        return same and stored["seed"] == self.seed

    def on_same_data(self, stored: Mapping[str, Any]) -> bool:
        """Whether embedded data stood in for the same sets, or for none."""
        found, asked = (config.get(EMBEDDED) or () for config in (stored["config"], self.config))
        return tuple(found) == tuple(asked)

    def stands(self, folders: Folders) -> bool:
        """Whether its result is there, of these settings and of this code, with its figures."""
        path = folders.results / f"{self.name}.json"
        if not path.exists():
            return False
        stored = json.loads(path.read_text())
        drawn = all((folders.figures / name).exists() for name in self.figures)
        same = self.made(stored) and self.on_same_data(stored)
        return drawn and same and of_this_code(stored)


@dataclass(frozen=True)
class Study(Generic[Settings]):
    """A study: what it shows, what it needs, its settings, and the runs that settings ask for.

    Attributes:
        about: in a line.
        full: settings of the study itself, the paper's where it states them.
        small: settings that take a minute or so.
        runs: that settings ask for. It reads no data.
        shows: tables and figures, by the paper's names.
        needs: data sets, as `diglm data list` names them. Small runs replace those that are not
            here by embedded data: settings then say so in `embedded`.
        every_core: whether steps of training are divided among the cores.
        check: raises where settings ask for what cannot be had, before anything is computed.
        draw: draws figures from results.
    """

    about: str
    full: Settings
    small: Settings
    runs: Callable[[Settings], Sequence[Run]]
    shows: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    every_core: bool = False
    check: Callable[[Settings], None] = lambda settings: None
    draw: Callable[[Folders], None] = lambda folders: None

    def settings(self, budget: str) -> Settings:
        """Those of a budget; a small one is content with embedded data."""
        if budget != BUDGETS[0]:
            return self.full
        absent = lacking(self.needs)
        return replace(self.small, embedded=absent) if absent else self.small  # type: ignore

    def run(
        self, settings: Settings, folders: Folders, *, command: str, again: bool = False
    ) -> list[Path]:
        """Run what has no result yet, or everything `again`; the paths of all results."""
        self.check(settings)
        if self.every_core:
            use_every_core()
        console = Console(stderr=True, highlight=False)
        for name in getattr(settings, "embedded", ()):
            console.print(
                f"{name} is not here: embedded data instead. See: diglm data fetch {name}"
            )
        paths = []
        for run in self.runs(settings):
            path = folders.results / f"{run.name}.json"
            paths.append(path)
            if not again and run.stands(folders):
                console.print(f"{path} is there, of this code and these settings")
                continue
            measured(run, folders, console, command=command, again=again)
        self.draw(folders)
        return paths


def measured(
    run: Run, folders: Folders, console: Console, *, command: str, again: bool = False
) -> Path:
    """Measure a run and write its result."""
    mark = hashlib.sha256(json.dumps([plain(run.config), run.seed, code()]).encode())
    folder = folders.kept / f"{run.name}-{mark.hexdigest()[:12]}"
    if again:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    work, since = Work(folder, folders, console), time.perf_counter()
    metrics = run.measure(work)
    seconds = time.perf_counter() - since if work.seconds is None else work.seconds
    path = write_result(
        folders.results / f"{run.name}.json",
        config=dict(plain(run.config)),
        seed=run.seed,
        seconds=seconds,
        metrics=metrics,
        command=command,
    )
    shutil.rmtree(folder, ignore_errors=True)
    console.print(f"{path}: {seconds:.0f} s")
    return path


def plain(value: Any) -> Any:
    """Settings and numbers as JSON holds them."""
    return json.loads(json.dumps(value, default=_plain_one))


def _plain_one(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return {type(value).__name__: asdict(value)}
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
