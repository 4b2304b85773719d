"""The picture of the README: density, decision and refusal on two interleaved half circles.

    diglm reproduce moons --budget full

Trains HybridClassifier with its default settings on 1,000 points of scikit-learn's two moons and
evaluates it on a grid. The crosses are new points, uniform over the plane, that it refuses.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons

from diglm import HybridClassifier
from diglm.experiments.frame import Run, Study, Work
from diglm.report import density_decision_picture, new_figure, require_matplotlib


@dataclass(frozen=True)
class Config:
    """Settings of the picture. "auto" leaves the choice to HybridClassifier."""

    seed: int = 0
    n_rows: int = 1000
    noise: float = 0.1
    n_blocks: int | str = "auto"
    width: int | str = "auto"
    n_epochs: int | str = "auto"
    n_new: int = 40  # uniform points, of which the refused ones are shown
    n_grid: int = 240  # places a side


PICTURE = "moons.png"


def run(config: Config, path: Path) -> dict[str, float]:
    """Train, evaluate on a grid, and save the picture to `path` (PNG, SVG or PDF)."""
    require_matplotlib()
    rows_and_classes = make_moons(config.n_rows, noise=config.noise, random_state=config.seed)
    x_train, y_train = (np.asarray(part) for part in rows_and_classes)
    model = HybridClassifier(
        n_blocks=config.n_blocks,
        width=config.width,
        n_epochs=config.n_epochs,
        score="density",
        random_state=config.seed,
    ).fit(x_train, y_train)
    low, high = np.array([-1.7, -1.15]), np.array([2.7, 1.65])
    across, up = (np.linspace(*ends, config.n_grid) for ends in zip(low, high, strict=True))
    plane = np.stack(np.meshgrid(across, up), axis=-1)
    rows = plane.reshape(-1, 2)
    new = np.random.default_rng(config.seed).uniform(low + 0.1, high - 0.1, (config.n_new, 2))
    figure, (axes,) = new_figure(8.0, 6.0)
    density_decision_picture(
        axes,
        (across, up),
        model.score_samples(rows).reshape(plane.shape[:2]),
        model.predict_proba(rows)[:, 1].reshape(plane.shape[:2]),
        model.threshold_,
        points=x_train,
        classes=y_train,
        refused=new[model.rejects(new)],
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160, bbox_inches="tight", pad_inches=0.05)
    x_new, y_new = make_moons(config.n_rows, noise=config.noise, random_state=config.seed + 1)
    return {
        "accuracy": float(model.score(x_new, y_new)),
        "false_refusals": float(np.mean(model.rejects(x_new))),
        "uniform_points_refused": float(np.mean(model.rejects(new))),
    }


def runs(config: Config) -> list[Run]:
    """One, which draws the picture."""

    def measure(work: Work) -> dict[str, float]:
        return run(config, work.figure(PICTURE))

    return [Run("moons", vars(config), measure, seed=config.seed, figures=(PICTURE,))]


REPRODUCE = Study(
    about="density, decision and refusal in the plane",
    full=Config(),
    small=Config(n_rows=400, n_epochs=15, n_grid=120),
    runs=runs,
)
