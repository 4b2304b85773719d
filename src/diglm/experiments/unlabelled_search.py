"""The paper's grid for learning from unlabelled rows, its Table S1, by halving.

    diglm reproduce unlabelled_search --budget full

Dropout 0, 0.2, 0.5; VAT's radius 1, 5; weights of entropy and of VAT 0, 0.3, 1, 3: 84 candidates,
or those of the values given instead (`--vat-weight 0.3 1 --dropout 0`).
All are trained for the first number of epochs, the best third of them for the next, and so on;
judged by labels that no training sees. Every answer is written as soon as it is known, and none is
computed twice, so an interrupted search goes on.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diglm import HybridClassifier
from diglm.data.image_sets import Labelled, load_images
from diglm.experiments import half_moons, mnist_semi, svhn_semi
from diglm.experiments.frame import Run, Study, Work
from diglm.experiments.unlabelled_images import FewLabels, classifier, task
from diglm.report.results import write_result

GRID: dict[str, tuple[float, ...]] = {
    "dropout": (0.0, 0.2, 0.5),
    "vat_radius": (1.0, 5.0),
    "entropy_weight": (0.0, 0.3, 1.0, 3.0),
    "vat_weight": (0.0, 0.3, 1.0, 3.0),
}
STUDIES: dict[str, FewLabels] = {"mnist": mnist_semi.STUDY, "svhn": svhn_semi.STUDY}
JUDGES = 5_000  # images whose labels judge, and that nobody trains on
MOONS_SEED = 50  # of no study

Candidate = dict[str, Any]
Judge = Callable[[Candidate, int], float]


def candidates(grid: dict[str, tuple[float, ...]]) -> list[Candidate]:
    """All of a grid, each behaviour once: without a weight a radius means nothing."""
    rows = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    least = min(grid.get("vat_radius", (0.0,)))
    return [
        row for row in rows
        if row.get("vat_weight", 1.0) > 0 or row.get("vat_radius", least) == least
    ]  # fmt: skip


def halved(
    offered: Sequence[Candidate],
    judge: Judge,
    budgets: Sequence[int],
    out: Path,
    *,
    keep: float = 1 / 3,
    config: dict[str, Any] | None = None,
) -> Candidate:
    """The best candidate by successive halving; `judge` gives an error, and `out` remembers it."""
    told: dict[str, float] = json.loads(out.read_text())["metrics"] if out.exists() else {}
    left = list(offered)
    for budget in budgets:
        errors = []
        for candidate in left:
            name = f"{budget} " + json.dumps(candidate, sort_keys=True)
            if name not in told:
                told[name] = judge(candidate, budget)
                write_result(out, config=config or {}, seed=0, seconds=0.0, metrics=told)
            errors.append(told[name])
        order = np.argsort(np.nan_to_num(errors, nan=np.inf), kind="stable")
        last = budget == budgets[-1]
        left = [left[i] for i in order[: 1 if last else max(1, round(keep * len(left)))]]
    return left[0]


def judge_of(name: str, n_images: int | None, data_dir: str | None) -> Judge:
    """What trains a candidate for some epochs, and tells its error."""
    if name == "moons":
        rows = half_moons.moons(MOONS_SEED)

        def of_moons(candidate: Candidate, n_epochs: int) -> float:
            settings = {"n_epochs": n_epochs, "random_state": 0, "verbose": False} | candidate
            model = HybridClassifier(unlabelled=-1, reject=None, **settings)
            model.fit(rows.x, rows.marked)
            return 1 - float(model.score(rows.x_test, rows.y_test))

        return of_moons
    study = STUDIES[name]
    images = load_images(study.name, "train", data_dir)
    judges = Labelled(images.x[-JUDGES:], images.y[-JUDGES:])
    n = len(images.y) - JUDGES if n_images is None else n_images
    learn, settings = task(study, "with unlabelled images", Labelled(images.x[:n], images.y[:n]))

    def of_images(candidate: Candidate, n_epochs: int) -> float:
        model = classifier(study, settings | candidate, len(learn.y), n_epochs)
        model.fit(learn.x, learn.y)
        return 1 - float(model.score(judges.x, judges.y))

    return of_images


@dataclass(frozen=True)
class Config:
    """What is learned, for how many epochs a round, and the grid."""

    data: tuple[str, ...] = ("moons", *STUDIES)
    epochs: tuple[int, ...] = (1, 3, 9)
    n_images: int = 0  # the first so many; 0 for all
    dropout: tuple[float, ...] = GRID["dropout"]
    vat_radius: tuple[float, ...] = GRID["vat_radius"]
    entropy_weight: tuple[float, ...] = GRID["entropy_weight"]
    vat_weight: tuple[float, ...] = GRID["vat_weight"]


def runs(config: Config) -> list[Run]:
    """One for each kind of data; every answer is remembered until the run is over."""

    def of_data(data: str) -> Run:
        def measure(work: Work) -> dict[str, Any]:
            grid = {name: getattr(config, name) for name in GRID}
            offered, told = candidates(grid), work.folder / "told.json"
            judge = judge_of(data, config.n_images or None, None)
            best = halved(offered, judge, config.epochs, told)
            answers = json.loads(told.read_text())["metrics"]
            return {"candidates": len(offered), "best": best, "errors": answers}

        about = {k: v for k, v in vars(config).items() if k != "data"} | {"data": data}
        return Run(f"search_{data}", about, measure)

    return [of_data(data) for data in config.data]


REPRODUCE = Study(
    about="the paper's grid for rows without a label, by halving",
    full=Config(),
    small=Config(
        ("moons",),
        (3, 9),
        dropout=(0.0,),
        vat_radius=(1.0,),
        entropy_weight=(0.0, 1.0),
        vat_weight=(0.0, 1.0),
    ),
    runs=runs,
    shows=("Table S1",),
)
