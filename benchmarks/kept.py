"""Results that stay: an interrupted benchmark goes on where it stopped.

A result is a line of JSON, appended as soon as it is known, under a key that names the task, the
model, and what the result depends on: the version of a compared library, or for diglm a digest of
its own source. Results of other libraries so outlive changes of diglm, those of diglm do not.
"""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
from rich.console import Console

import diglm
from diglm.report.results import commit

Result = dict[str, Any]


def library(name: str) -> str:
    """Name and version of an installed library."""
    return f"{name} {version(name)}"


def diglm_source() -> str:
    """A digest of diglm's source, whether or not it is committed."""
    folder = Path(diglm.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"diglm {digest.hexdigest()[:12]}"


def read_options(
    parser: argparse.ArgumentParser, models: Iterable[str], out: str
) -> tuple[argparse.Namespace, list[str]]:
    """The command line with what every benchmark takes besides, and the models asked for."""
    known = list(models)
    parser.add_argument("--models", default=",".join(known), help="names with commas between")
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--cache", type=Path, help="file of results kept; else beside the output")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    chosen = options.models.split(",")
    if unknown := set(chosen) - set(known):
        parser.error(f"unknown models {sorted(unknown)}; choose from {known}")
    return options, chosen


def means(
    found: Mapping[tuple[str, int, str], Result], mean: Callable[[list[Result]], Result]
) -> dict[str, dict[str, Result]]:
    """What repeated runs come to: name → model → scores. A model that failed once has failed."""
    tables: dict[str, dict[str, Result]] = {}
    for name, model in dict.fromkeys((name, model) for name, _, model in found):
        runs = [result for key, result in found.items() if key[::2] == (name, model)]
        if any("left_out" in run for run in runs):
            continue
        failed = next((run for run in runs if "failed" in run), None)
        tables.setdefault(name, {})[model] = (
            mean(runs) if failed is None else {"failed": failed["failed"]}
        )
    return tables


class Kept:
    """Results by key, in a file of JSON lines; without a file they last as long as the object."""

    def __init__(self, path: Path | None = None):
        self.path, self.results = path, {}
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:  # the run was stopped while it wrote this line
                continue
            self.results[tuple(record["key"])] = record["result"]

    def add(self, key: tuple, result: Result) -> None:
        """Keep a result; one that says why it failed is not written, and is tried again."""
        self.results[key] = result
        if self.path is None or "failed" in result:
            return
        # The newline comes first: a line that was cut off does not spoil the next one.
        record = json.dumps({"key": key, "commit": commit(), "result": result})
        with self.path.open("a") as file:
            file.write(f"\n{record}\n")

    def run(
        self, tasks: Mapping[tuple, Callable[[], Result]], *, jobs: int = 1
    ) -> dict[tuple, Result]:
        """The results of all tasks; those that are not known yet are run, `jobs` at a time."""
        console = Console(stderr=True)
        missing = {key: task for key, task in tasks.items() if key not in self.results}
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
        done = parallel(joblib.delayed(_attempt)(key, task) for key, task in missing.items())
        for number, (key, result) in enumerate(done, 1):
            self.add(key, result)
            shown = " ".join(
                f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in result.items()
            )
            console.print(
                f"{number}/{len(missing)} {' '.join(map(str, key))}: {shown}", soft_wrap=True
            )
        return {key: self.results[key] for key in tasks}


def _attempt(key: tuple, task: Callable[[], Result]) -> tuple[tuple, Result]:
    try:
        return key, task()
    except Exception as error:  # one model that fails must not end the benchmark; it comes last
        return key, {"failed": f"{type(error).__name__}: {error}"[:300]}
