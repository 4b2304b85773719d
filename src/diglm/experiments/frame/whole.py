"""All studies one after the other, each in a process of its own, and the page about them."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from diglm.experiments.frame.study import Folders
from diglm.experiments.registry import STUDIES, study

STOOD, RAN, FAILED = "was there", "ran", "failed"


@dataclass(frozen=True)
class Told:
    """What became of a study."""

    name: str
    outcome: str
    seconds: float
    embedded: tuple[str, ...] = ()


def run_all(budget: str, out: Path | None, *, again: bool = False) -> list[Told]:
    """Run every study that has a run without a result; one that fails does not stop the others."""
    console, folders = Console(stderr=True, highlight=False), Folders.of(budget, out)
    told = []
    for name in STUDIES:
        one = study(name)
        settings = one.settings(budget)
        embedded = getattr(settings, "embedded", ())
        if not again and all(run.stands(folders) for run in one.runs(settings)):
            one.draw(folders)
            told.append(Told(name, STOOD, 0.0, embedded))
            continue
        console.rule(f"{name}: {one.about}")
        since = time.perf_counter()
        code = _in_a_process_of_its_own(name, budget, out, again)
        outcome = RAN if code == 0 else FAILED
        told.append(Told(name, outcome, time.perf_counter() - since, embedded))
    return told


def _in_a_process_of_its_own(name: str, budget: str, out: Path | None, again: bool) -> int:
    """Devices and memory are a study's own, and so is its end."""
    words = ["reproduce", name, "--budget", budget]
    words += [] if out is None else ["--out", str(out)]
    words += ["--again"] if again else []
    return _run([sys.executable, "-m", "diglm", *words])


def _run(words: Sequence[str]) -> int:
    return subprocess.run(words, env=dict(os.environ), check=False).returncode
