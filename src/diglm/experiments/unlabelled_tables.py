"""Ten tables of which 20 to 200 rows have a label: what the other rows are worth.

    diglm reproduce unlabelled_tables --budget full

Each seed draws rows to test on, at most 1,000 to train on, and which of those have a label, of
every class alike. Models at their defaults, but that they refuse nothing, learn from the labelled
rows alone, and with the others beside them; scikit-learn's LabelSpreading and SelfTraining see what
the second sees.

Defaults were chosen on the tables of `CHOSEN_ON`, which `--tables` may name too, and on other
seeds.
"""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from diglm import HybridClassifier, HybridRegressor
from diglm.data.downloads import adbench, uci_regression
from diglm.experiments.frame import Run, Study, Work

MOST_TRAIN, MOST_TEST = 1_000, 2_000
NOBODY = -1  # what marks a row without a label


@dataclass(frozen=True)
class Task:
    """A table, and how many of its rows have a label."""

    source: str
    n_labels: int
    classes: bool


JUDGED_ON = {
    "iris": Task("sklearn", 20, True),
    "wine": Task("sklearn", 20, True),
    "breast_cancer": Task("sklearn", 20, True),
    "digits": Task("sklearn", 100, True),
    "SpamBase": Task("adbench", 50, True),
    "Pima": Task("adbench", 50, True),
    "diabetes": Task("sklearn", 50, False),
    "concrete": Task("uci", 100, False),
    "energy": Task("uci", 100, False),
    "kin8nm": Task("uci", 200, False),
}
CHOSEN_ON = {
    "moons": Task("made", 20, True),
    "blobs": Task("made", 30, True),
    "landsat": Task("adbench", 50, True),
    "Cardiotocography": Task("adbench", 50, True),
    "PageBlocks": Task("adbench", 100, True),
    "Waveform": Task("adbench", 200, True),
    "yacht": Task("uci", 50, False),
    "power": Task("uci", 100, False),
}


@dataclass(frozen=True)
class Rows:
    """Rows to train on, of which some have a label, and rows to be judged by."""

    x: np.ndarray
    y: np.ndarray
    labelled: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def marked(self) -> np.ndarray:
        """Targets, as a model may see them."""
        nothing = NOBODY if self.y.dtype.kind == "i" else np.nan
        return np.where(self.labelled, self.y, nothing)


def loaded(name: str, task: Task, data_dir: str | None) -> tuple[np.ndarray, np.ndarray]:
    """A table whole."""
    if task.source == "made":
        made = {
            "moons": lambda: datasets.make_moons(1500, noise=0.15, random_state=0),
            "blobs": lambda: datasets.make_blobs(
                1500, 8, centers=10, cluster_std=3.0, random_state=0
            )[:2],
        }
        return made[name]()
    if task.source == "sklearn":
        return getattr(datasets, f"load_{name}")(return_X_y=True)
    if task.source == "adbench":
        x, y = adbench(name, data_dir)
        return x, y.astype(int)
    split = uci_regression(name, 0, data_dir)
    return np.concatenate([split.x_train, split.x_test]), np.concatenate(
        [split.y_train, split.y_test]
    )


def drawn(x: np.ndarray, y: np.ndarray, task: Task, seed: int) -> Rows:
    """Rows of one seed."""
    strata = y if task.classes else None
    parts = train_test_split(x, y, test_size=0.3, random_state=seed, stratify=strata)
    x, x_test, y, y_test = map(np.asarray, parts)
    x, y, x_test, y_test = x[:MOST_TRAIN], y[:MOST_TRAIN], x_test[:MOST_TEST], y_test[:MOST_TEST]
    rng = np.random.default_rng(seed)
    if task.classes:
        codes = np.unique(y, return_inverse=True)[1].astype(int)
        names = np.unique(codes)
        wanted = np.bincount(np.resize(rng.permutation(names), task.n_labels))
        picked = [rng.permutation(np.flatnonzero(codes == c))[: wanted[c]] for c in names]
        labelled = np.isin(np.arange(len(y)), np.concatenate(picked))
        return Rows(x, y.astype(int), labelled, x_test, y_test.astype(int))
    labelled = np.isin(np.arange(len(y)), rng.permutation(len(y))[: task.n_labels])
    return Rows(x, y.astype(float), labelled, x_test, y_test.astype(float))


def hybrid(x: np.ndarray, y: np.ndarray, rows: Rows, seed: int, **options: Any) -> dict[str, float]:
    """A model at its defaults, judged."""
    options = {"random_state": seed, "verbose": False, "reject": None} | options
    if rows.y.dtype.kind == "i":
        model = HybridClassifier(unlabelled=NOBODY, **options)
        model.fit(x, y)
        return _of_classes(model, rows)
    regressor = HybridRegressor(**options).fit(x, y)
    dist = regressor.predict_dist(rows.x_test)
    rmse = float(np.sqrt(np.mean((dist.mean - rows.y_test) ** 2)))
    spread = float(np.std(rows.y_test))
    nll = float(-np.mean(dist.log_prob(rows.y_test)) - np.log(spread))
    return {"loss": rmse / spread, "nll": nll}


def labels_alone(rows: Rows, seed: int) -> dict[str, float]:
    """From the labelled rows."""
    return hybrid(rows.x[rows.labelled], rows.y[rows.labelled], rows, seed)


def with_unlabelled(rows: Rows, seed: int) -> dict[str, float]:
    """From all rows, most of them without a label."""
    return hybrid(rows.x, rows.marked, rows, seed)


def label_spreading(rows: Rows, seed: int) -> dict[str, float]:
    """scikit-learn's, along neighbours of standardised columns."""
    spreading = LabelSpreading(kernel="knn", n_neighbors=7)
    model = make_pipeline(StandardScaler(), spreading).fit(rows.x, rows.marked)
    return _of_classes(model, rows)


def self_training(rows: Rows, seed: int) -> dict[str, float]:
    """scikit-learn's, about a logistic regression."""
    inside = SelfTrainingClassifier(LogisticRegression(max_iter=2_000), threshold=0.9)
    model = make_pipeline(StandardScaler(), inside).fit(rows.x, rows.marked)
    return _of_classes(model, rows)


def _of_classes(model: Any, rows: Rows) -> dict[str, float]:
    p = np.asarray(model.predict_proba(rows.x_test), float)
    p = np.maximum(np.nan_to_num(p), 1e-12)
    places = np.searchsorted(model.classes_, rows.y_test)
    error = float(np.mean(np.argmax(p, axis=1) != places))
    return {"loss": error, "nll": float(-np.mean(np.log(p[np.arange(len(p)), places])))}


Method = Callable[[Rows, int], dict[str, float]]
METHODS: dict[str, Method] = {
    "labels alone": labels_alone,
    "with unlabelled rows": with_unlabelled,
}
OF_CLASSES: dict[str, Method] = {
    "LabelSpreading": label_spreading,
    "SelfTraining": self_training,
}


def judged(rows: Rows, seed: int, methods: dict[str, Method]) -> dict[str, dict[str, float]]:
    """Every method on one seed: error, or RMSE over the spread of y; and NLL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of remarks on columns, once a seed
        return {method: run(rows, seed) for method, run in methods.items()}


def gain(found: dict[str, Any], what: str) -> tuple[float, float]:
    """By how much unlabelled rows lower a number, and the standard error over seeds."""
    less = np.subtract(found["labels alone"][what], found["with unlabelled rows"][what])
    return float(np.mean(less)), float(np.std(less, ddof=1) / np.sqrt(len(less)))


def show(results: dict[str, dict[str, Any]], console: Console) -> None:
    """Means over seeds, and what unlabelled rows gain with its standard error."""
    names = [*METHODS, *OF_CLASSES]
    table = Table(title="error, or RMSE over the spread of y")
    for column in ("table", *names, "gain", "gain in NLL"):
        table.add_column(column)
    for name, found in results.items():
        means = [f"{np.mean(found[m]['loss']):.3f}" if m in found else "" for m in names]
        gains = ["{:.4f} +- {:.4f}".format(*gain(found, what)) for what in ("loss", "nll")]
        table.add_row(name, *means, *gains)
    console.print(table)


@dataclass(frozen=True)
class Config:
    """Which tables, on how many seeds, and from which on."""

    tables: tuple[str, ...] = tuple(JUDGED_ON)
    seeds: int = 3
    first_seed: int = 0


def runs(config: Config) -> list[Run]:
    """One for each table, in which each seed is a step."""
    tasks = JUDGED_ON | CHOSEN_ON

    def of_table(name: str) -> Run:
        task = tasks[name]

        def measure(work: Work) -> dict[str, Any]:
            methods = METHODS | (OF_CLASSES if task.classes else {})
            whole = functools.cache(lambda: loaded(name, task, None))
            told = []
            for seed in range(config.first_seed, config.first_seed + config.seeds):

                def compute(seed: int = seed) -> dict[str, Any]:
                    return judged(drawn(*whole(), task, seed), seed, methods)

                told.append(work.step(str(seed), compute))
            found = {
                method: {what: [one[method][what] for one in told] for what in told[0][method]}
                for method in methods
            }
            show({name: found}, work.console)
            return found

        about = {"table": name, "labels": task.n_labels, "seeds": config.seeds}
        return Run(f"unlabelled_tables/{name}", about, measure, seed=config.first_seed)

    return [of_table(name) for name in config.tables]


REPRODUCE = Study(
    about="ten tables with 20 to 200 labels",
    full=Config(),
    small=Config(("iris", "diabetes"), 2),
    runs=runs,
)
