"""Two half moons of which six points each have a label: the paper's Figure 6.

    diglm reproduce half_moons --budget full

Of 1,000 points six of each class have a label. Models at their defaults learn from those twelve,
from all points with twelve labels, and from all labels, and refuse nothing; scikit-learn's
LabelSpreading and SelfTraining see what the second sees. All are judged on 2,000 new points. The
weight and radius of virtual adversarial training were chosen on other seeds, 0 to 3. The first seed
is drawn.
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from diglm import HybridClassifier
from diglm.drawing import DARK, GREY, WARM
from diglm.experiments.frame import Run, Study, Work
from diglm.experiments.unlabelled_tables import NOBODY, Rows
from diglm.report import new_figure, require_matplotlib

N_ROWS, N_TEST, NOISE, LABELS_A_CLASS = 1_000, 2_000, 0.1, 6
NAMES, COLOURS = ("first", "second"), (WARM, DARK)
FIGURE = "figure_6.png"


@dataclass(frozen=True)
class Config:
    """How many points, on how many seeds."""

    rows: int = N_ROWS
    noise: float = NOISE
    labels_a_class: int = LABELS_A_CLASS
    first_seed: int = 100
    n_seeds: int = 20


def moons(seed: int, n_rows: int = N_ROWS) -> Rows:
    """The points of a seed."""
    x, y = map(np.asarray, make_moons(n_rows, noise=NOISE, random_state=seed))
    told = make_moons(N_TEST, noise=NOISE, random_state=10_000 + seed)
    x_test, y_test = map(np.asarray, told)
    rng = np.random.default_rng(seed)
    picked = [rng.choice(np.flatnonzero(y == c), LABELS_A_CLASS, replace=False) for c in (0, 1)]
    return Rows(x, y, np.isin(np.arange(n_rows), np.concatenate(picked)), x_test, y_test)


def fitted(rows: Rows, seed: int, **options: Any) -> dict[str, Any]:
    """Every model, fitted."""
    settings = {"unlabelled": NOBODY, "random_state": seed, "verbose": False, "reject": None}
    settings |= options
    known = rows.labelled
    logistic = SelfTrainingClassifier(LogisticRegression(), threshold=0.9)
    return {
        "labels alone": HybridClassifier(**settings).fit(rows.x[known], rows.y[known]),
        "with unlabelled points": HybridClassifier(**settings).fit(rows.x, rows.marked),
        "all labels": HybridClassifier(**settings).fit(rows.x, rows.y),
        "LabelSpreading": LabelSpreading(kernel="knn", n_neighbors=7).fit(rows.x, rows.marked),
        "SelfTraining": logistic.fit(rows.x, rows.marked),
    }


def draw(models: dict[str, Any], rows: Rows, path: Path) -> None:
    """p(y|x) of the first two models, the points, and those that have a label."""
    figure, panels = new_figure(11.0, 4.2, 2)
    low, high = np.array([-1.7, -1.15]), np.array([2.7, 1.65])
    across, up = (np.linspace(*ends, 200) for ends in zip(low, high, strict=True))
    plane = np.stack(np.meshgrid(across, up), axis=-1)
    for axes, name in zip(panels, list(models)[:2], strict=True):
        share = models[name].predict_proba(plane.reshape(-1, 2))[:, 1].reshape(plane.shape[:2])
        shades = axes.contourf(across, up, share, levels=np.linspace(0, 1, 21), cmap="RdBu")
        axes.contour(across, up, share, levels=[0.5], colors="black", linewidths=1.5)
        axes.scatter(*rows.x[~rows.labelled].T, s=5, color="white", alpha=0.7, linewidths=0)
        for label, colour in enumerate(COLOURS):
            points = rows.x[rows.labelled & (rows.y == label)].T
            axes.scatter(
                *points,
                s=70,
                color=colour,
                edgecolors="white",
                linewidths=1.2,
                zorder=3,
                label=f"{NAMES[label]} class, labelled",
            )
        accuracy = float(np.mean(models[name].predict(rows.x_test) == rows.y_test))
        axes.set(title=f"{name}: {accuracy:.1%}", xticks=[], yticks=[])
    ticks = np.linspace(0, 1, 5)
    figure.colorbar(shades, ax=list(panels), label="p(second class | x)", ticks=ticks)
    panels[0].plot([], [], "o", color="white", mec=GREY, ms=4, label="without a label")
    panels[0].plot([], [], color="black", linewidth=1.5, label="p(second class | x) = 1/2")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, bbox_inches="tight", pad_inches=0.05)


def accuracies(config: Config, seed: int, picture: Path) -> dict[str, float]:
    """Accuracy of every model on one seed; the first seed is drawn."""
    rows = moons(seed, config.rows)
    models = fitted(rows, seed)
    if seed == config.first_seed:
        draw(models, rows, picture)
    right = {name: model.predict(rows.x_test) == rows.y_test for name, model in models.items()}
    return {name: float(np.mean(found)) for name, found in right.items()}


def runs(config: Config) -> list[Run]:
    """One, in which each seed is a step."""

    def measure(work: Work) -> dict[str, list[float]]:
        require_matplotlib()
        told: dict[str, list[float]] = {}
        for seed in range(config.first_seed, config.first_seed + config.n_seeds):
            compute = functools.partial(accuracies, config, seed, work.figure(FIGURE))
            for name, right in work.step(str(seed), compute).items():
                told.setdefault(name, []).append(right)
            work.say(seed, {name: round(values[-1], 4) for name, values in told.items()})
        return told

    about = vars(config)
    return [Run("half_moons", about, measure, seed=config.first_seed, figures=(FIGURE,))]


REPRODUCE = Study(
    about="two half moons with twelve labels",
    full=Config(),
    small=Config(n_seeds=1),
    runs=runs,
    shows=("Figure 6",),
)
