"""What the studies of images with few labels share: the paper's Tables 3 and S2.

A row of the table is one model: from the labelled images alone, from all images with those labels,
from all labels, and, where asked, from all labels with the terms that rows without one are given.
scikit-learn's LabelSpreading and SelfTraining read 50 principal components of the pixels.
"""

import functools
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from diglm import HybridClassifier
from diglm.data.image_sets import Labelled
from diglm.experiments.frame import Run, Work
from diglm.experiments.frame import images as load_images
from diglm.experiments.image_study import in_distribution
from diglm.recipes import Glow

NOBODY = -1
VALIDATION_IMAGES = 2_000
MOST_EPOCHS = 1_000  # where the clock ends training
OWN_ROWS = ("labels alone", "with unlabelled images", "all labels", "all labels and terms")
OTHERS = ("LabelSpreading", "SelfTraining")


@dataclass(frozen=True)
class FewLabels:
    """A set of images, how many labels are left, and how models learn from it.

    Attributes:
        name: of the set, and of the results.
        minutes: of training, for each row of the table that learns from all images.
        rows: of the table.
        n_epochs: instead of minutes; 0 for minutes.
        n_images: the first so many are learned, and as many judged; 0 for all.
        embedded: sets that data of scikit-learn stand in for.
        n_labels: how many labels are left, of every class alike.
        flow: Glow, with its own parameters.
        settings: of the classifier in every row.
        unlabelled: of the classifier where it learns from unlabelled images.
        alone: of the classifier where it learns from the labelled images alone.
        seed: of everything random.
    """

    name: str
    minutes: float
    n_labels: int = 1_000
    flow: Glow = field(default_factory=Glow)
    settings: dict[str, Any] = field(default_factory=dict)
    unlabelled: dict[str, Any] = field(default_factory=dict)
    alone: dict[str, Any] = field(default_factory=dict)
    rows: tuple[str, ...] = OWN_ROWS + OTHERS
    n_epochs: int = 0
    n_images: int = 0
    embedded: tuple[str, ...] = ()
    seed: int = 0


def left_labelled(y: np.ndarray, n_labels: int, seed: int) -> np.ndarray:
    """Numbers of the images whose labels are left, as many of each class."""
    rng, classes = np.random.default_rng(seed), np.unique(y)
    a_class = n_labels // len(classes)
    picked = [rng.choice(np.flatnonzero(y == c), a_class, replace=False) for c in classes]
    return np.sort(np.concatenate(picked))


def task(study: FewLabels, row: str, train: Labelled) -> tuple[Labelled, dict[str, Any]]:
    """What a row of the table learns from, and how."""
    kept = left_labelled(train.y, study.n_labels, study.seed)
    if row == "labels alone":
        return Labelled(train.x[kept], train.y[kept]), study.settings | study.alone
    if row == "all labels":
        return train, study.settings
    if row == "all labels and terms":
        return train, study.settings | {"vat_weight": 1.0} | study.unlabelled
    y = np.full(len(train.y), NOBODY)
    y[kept] = train.y[kept]
    return Labelled(train.x, y), study.settings | study.unlabelled


def classifier(
    study: FewLabels,
    settings: dict[str, Any],
    n_images: int,
    n_epochs: int | str,
    minutes: float | None = None,
) -> HybridClassifier:
    """A model of a row, not yet fitted."""
    return HybridClassifier(
        study.flow,
        n_epochs=n_epochs,
        max_time=None if minutes is None else 60 * minutes,
        validation_fraction=min(0.2, VALIDATION_IMAGES / n_images),
        score="density",
        unlabelled=NOBODY,
        random_state=study.seed,
        **settings,
    )


def run_row(
    study: FewLabels,
    row: str,
    train: Labelled,
    test: Labelled,
    folder: Path,
    *,
    minutes: float,
    n_epochs: int | None,
    console: Console,
) -> tuple[dict[str, Any], dict[str, Any], float]:
    """A model of ours: its plan, what is measured of it, and seconds of training."""
    images, settings = task(study, row, train)
    plan = _plan(row, folder, minutes, n_epochs)
    model = classifier(study, settings, len(images.y), plan["n_epochs"], plan["minutes"])
    console.print(f"{row}: {plan}; kept in {folder}")
    model.fit(images.x, images.y, checkpoint=folder / "states")
    model.save(folder / "model.safetensors")
    last = model.history_[-1]
    plan |= {"epochs_taken": len(model.history_), "stopped": model.stopped_}
    plan["seconds_an_epoch"] = last["seconds"] / len(model.history_)
    return plan, in_distribution(model, test), float(last["seconds"])


def _plan(row: str, folder: Path, minutes: float, n_epochs: int | None) -> dict[str, Any]:
    """How long a model is trained, noted once so that a run can go on.

    By the clock: rates fall so that training ends in the minutes, however fast it goes.
    """
    note = folder / "plan.json"
    if note.exists():
        return json.loads(note.read_text())
    plan: dict[str, Any] = {"n_epochs": n_epochs, "minutes": None}
    if n_epochs is None and row == "labels alone":
        plan["n_epochs"] = "auto"  # few images: as long as they pay
    elif n_epochs is None:
        plan = {"n_epochs": MOST_EPOCHS, "minutes": minutes}
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(plan))
    return plan


def run_other(
    study: FewLabels, row: str, train: Labelled, test: Labelled
) -> tuple[dict[str, float], float]:
    """A model of scikit-learn's, and seconds of its fit."""
    since = time.perf_counter()
    images, _ = task(study, "with unlabelled images", train)
    pixels, new = (np.reshape(part.x, (len(part.x), -1)) / 255.0 for part in (images, test))
    reduce = PCA(50, random_state=study.seed).fit(pixels[:20_000])
    x, x_new = reduce.transform(pixels), reduce.transform(new)
    if row == "LabelSpreading":
        model: Any = LabelSpreading(kernel="knn", n_neighbors=10, max_iter=50)
    else:
        scaled = x[:, :1].std()
        x, x_new = x / scaled, x_new / scaled
        model = SelfTrainingClassifier(LogisticRegression(max_iter=300), threshold=0.9)
    p = np.maximum(np.nan_to_num(model.fit(x, images.y).predict_proba(x_new)), 1e-12)
    nll = -np.mean(np.log(p[np.arange(len(p)), test.y]))
    error = np.mean(np.argmax(p, axis=1) != test.y)
    return {"error": float(error), "nll": float(nll)}, time.perf_counter() - since


Sets = Callable[[], tuple[Labelled, Labelled]]


def runs(study: FewLabels) -> list[Run]:
    """One for each row of the table."""

    @functools.cache
    def sets() -> tuple[Labelled, Labelled]:
        n = study.n_images or None
        both = (load_images(study.name, part, study.embedded) for part in ("train", "test"))
        train, test = (Labelled(some.x[:n], some.y[:n]) for some in both)
        return train, test

    return [_run(study, row, sets) for row in study.rows]


def _run(study: FewLabels, row: str, sets: Sets) -> Run:
    def measure(work: Work) -> dict[str, Any]:
        train, test = sets()
        if row in OTHERS:
            found, work.seconds = run_other(study, row, train, test)
            return found
        plan, found, work.seconds = run_row(
            study,
            row,
            train,
            test,
            work.folder,
            minutes=study.minutes,
            n_epochs=study.n_epochs or None,
            console=work.console,
        )
        return found | {"plan": plan}

    about = {k: v for k, v in asdict(study).items() if k != "rows"} | {"row": row}
    name = f"semi_{study.name}_{row.replace(' ', '_')}"
    return Run(name, about, measure, seed=study.seed)
