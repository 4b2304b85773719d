"""Two half moons of which six points each have a label: the paper's Figure 6.

    python -m diglm.experiments.half_moons --out results/half_moons.json

Of 1,000 points six of each class have a label. Models at their defaults learn from those twelve,
from all points with twelve labels, and from all labels; scikit-learn's LabelSpreading and
SelfTraining see what the second sees. All are judged on 2,000 new points. The weight and radius of
virtual adversarial training were chosen on other seeds, 0 to 3. Draws the first seed in
docs/images/half_moons.png; goes on where an interrupted run ended.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from diglm import HybridClassifier
from diglm.experiments.unlabelled_tables import NOBODY, Rows
from diglm.report import new_figure, require_matplotlib
from diglm.report.results import write_result

N_ROWS, N_TEST, NOISE, LABELS_A_CLASS, FIRST_SEED = 1_000, 2_000, 0.1, 6, 100
COLOURS = "#c1440e", "#1f4e8c"


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
    settings = {"unlabelled": NOBODY, "random_state": seed, "verbose": False} | options
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
            axes.scatter(*points, s=70, color=colour, edgecolors="white", linewidths=1.2, zorder=3)
        accuracy = float(np.mean(models[name].predict(rows.x_test) == rows.y_test))
        axes.set(title=f"{name}: {accuracy:.1%}", xticks=[], yticks=[])
    figure.colorbar(shades, ax=list(panels), label="p(second class | x)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, bbox_inches="tight", pad_inches=0.05)


def run(out: Path, picture: Path, n_seeds: int, **options: Any) -> dict[str, list[float]]:
    """Accuracies of every model by seed, written after each."""
    console, since = Console(stderr=True), time.perf_counter()
    stored = json.loads(out.read_text()) if out.exists() else {"metrics": {}, "seconds": 0.0}
    told: dict[str, list[float]] = stored["metrics"]
    done = len(next(iter(told.values()), []))
    for seed in range(FIRST_SEED + done, FIRST_SEED + n_seeds):
        rows = moons(seed)
        models = fitted(rows, seed, **options)
        for name, model in models.items():
            right = float(np.mean(model.predict(rows.x_test) == rows.y_test))
            told.setdefault(name, []).append(right)
        console.print(seed, {name: round(values[-1], 4) for name, values in told.items()})
        seconds = stored["seconds"] + time.perf_counter() - since
        config = {"rows": N_ROWS, "noise": NOISE, "labels_a_class": LABELS_A_CLASS}
        write_result(out, config=config, seed=FIRST_SEED, seconds=seconds, metrics=told)
        if seed == FIRST_SEED:
            draw(models, rows, picture)
    for name, values in told.items():
        error = np.std(values) / np.sqrt(len(values))
        console.print(f"{name:<24} {np.mean(values):.4f} +- {error:.4f}, least {min(values):.4f}")
    return told


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/half_moons.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/half_moons.png"))
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args(arguments)
    try:
        require_matplotlib()
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    run(given.out, given.picture, given.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
