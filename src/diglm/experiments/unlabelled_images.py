"""What the studies of images with few labels share: the paper's Tables 3 and S1.

A row of the table is one model: from the labelled images alone, from all images with those labels,
from all labels, and, where asked, from all labels with the terms that rows without one are given.
Each is trained in a folder of its own, from where an interrupted run goes on, its result is written
as soon as it is known, and a row whose result is there is passed over. scikit-learn's
LabelSpreading and SelfTraining read 50 principal components of the pixels.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from diglm import HybridClassifier
from diglm.data.image_sets import Labelled, load_images
from diglm.experiments.image_study import in_distribution
from diglm.recipes import Glow
from diglm.report.results import write_result
from diglm.training.devices import use_every_core

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


def run(
    study: FewLabels,
    out: Path,
    *,
    kept: Path,
    minutes: float,
    rows: tuple[str, ...],
    n_epochs: int | None = None,
    n_images: int | None = None,
    data_dir: str | None = None,
) -> dict[str, Any]:
    """Every row of the table, from the first `n_images` images if that is given."""
    console, found = Console(stderr=True), {}
    train, test = (load_images(study.name, part, data_dir) for part in ("train", "test"))
    if n_images is not None:
        train = Labelled(train.x[:n_images], train.y[:n_images])
        test = Labelled(test.x[:n_images], test.y[:n_images])
    for row in rows:
        stem = f"semi_{study.name}_{row.replace(' ', '_')}"
        path = out / f"{stem}.json"
        if path.exists():
            console.print(f"{path} is there; delete it to run {row!r} again")
            found[row] = json.loads(path.read_text())["metrics"]
            continue
        plan: dict[str, Any] = {}
        if row in OTHERS:
            found[row], seconds = run_other(study, row, train, test)
        else:
            plan, found[row], seconds = run_row(
                study,
                row,
                train,
                test,
                kept / stem,
                minutes=minutes,
                n_epochs=n_epochs,
                console=console,
            )
        config = asdict(study) | {"row": row, "images": len(train.y)} | plan
        write_result(path, config=config, seed=study.seed, seconds=seconds, metrics=found[row])
        console.print(row, found[row])
    return found


def command_line(study: FewLabels, about: str, rows: tuple[str, ...]) -> None:
    """The command of a study."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of results")
    parser.add_argument("--kept", type=Path, default=Path("runs"), help="folder of unfinished runs")
    parser.add_argument("--minutes", type=float, default=study.minutes, help="for each row")
    parser.add_argument("--epochs", type=int, default=None, help="instead of minutes")
    parser.add_argument("--images", type=int, default=None, help="the first so many alone")
    parser.add_argument("--rows", nargs="+", choices=OWN_ROWS + OTHERS, default=list(rows))
    parser.add_argument("--one-core", action="store_true", help="leave the other cores alone")
    parser.add_argument("--data-dir", default=None, help="where the images are, else DIGLM_DATA")
    options = parser.parse_args()
    if not options.one_core:
        use_every_core()
    run(
        study,
        options.out,
        kept=options.kept,
        minutes=options.minutes,
        rows=tuple(options.rows),
        n_epochs=options.epochs,
        n_images=options.images,
        data_dir=options.data_dir,
    )
