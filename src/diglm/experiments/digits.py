"""The demo: learn handwritten digits, then meet things that are not digits.

    diglm demo
    diglm reproduce digits --budget full

Trains HybridClassifier with its default settings on scikit-learn's digits (8 by 8 pixels, whole
numbers 0 to 16), prints how well it answers and how much of each kind of strange input it refuses,
and writes report.html (a page with figures that needs nothing else) and metrics.json.
"""

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits, load_sample_images
from sklearn.model_selection import train_test_split

from diglm import HybridClassifier
from diglm.experiments.digits_report import FAMILIAR, SIDE, TOP, Group, write_page
from diglm.experiments.frame import Run, Study, Work
from diglm.refusal import auroc
from diglm.report import require_matplotlib, write_result


@dataclass(frozen=True)
class Config:
    """Settings of the demo. "auto" leaves the choice to HybridClassifier, as a user would."""

    seed: int = 0
    test_size: float = 0.25
    n_blocks: int | str = "auto"
    width: int | str = "auto"
    n_epochs: int | str = "auto"
    reject: float = 0.01  # share of familiar digits that may be refused


QUICK = Config(n_blocks=2, width=8, n_epochs=2)


def run(config: Config, out_dir: Path, console: Console | None = None) -> dict[str, Any]:
    """Train, measure, and write the page to `out_dir`; returns the metrics."""
    require_matplotlib()
    console = console or Console()
    xs, ys = load_digits(return_X_y=True)
    xs = xs.astype(int)
    parts = train_test_split(xs, ys, test_size=config.test_size, stratify=ys, random_state=0)
    x_train, x_test, y_train, y_test = map(np.asarray, parts)
    console.print(f"Training on {len(x_train):,} handwritten digits.")
    before_fit = time.perf_counter()
    model = HybridClassifier(
        n_blocks=config.n_blocks,
        width=config.width,
        n_epochs=config.n_epochs,
        score="density",
        reject=config.reject,
        random_state=config.seed,
    ).fit(x_train, y_train)
    fit_seconds = time.perf_counter() - before_fit

    kinds = {FAMILIAR: x_test} | strange_inputs(x_test, np.random.default_rng(config.seed))
    groups = assess_groups(model, kinds)
    metrics = measure(model, groups, x_test, y_test) | {"fit_seconds": round(fit_seconds, 2)}
    show(metrics, console)

    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    write_page(out_dir / "report.html", model, groups, y_test, metrics, len(x_train))
    console.print(f"Figures and numbers: {out_dir / 'report.html'}")
    return metrics


def strange_inputs(digits: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs that are not whole, upright digits, as many of each kind as there are `digits`.

    The last three are hard: they keep the strokes of digits, and some are digits still (a mirrored
    8 is an 8).
    """
    squares = digits.reshape(-1, SIDE, SIDE)
    half = SIDE // 2
    shifted = np.zeros_like(squares)
    shifted[:, :, 1:] = squares[:, :, :-1]
    others = squares[rng.permutation(len(squares))]
    kinds = {
        "uniform noise": rng.integers(0, TOP + 1, digits.shape),
        "inverted digits": TOP - digits,
        "photographs": photograph_patches(len(digits), rng),
        "shuffled pixels": rng.permuted(digits, axis=1),
        "rotated by 90°": np.rot90(squares, axes=(1, 2)),
        "shifted by 1 pixel": shifted,
        "mirrored": squares[:, :, ::-1],
        "halves of two digits": np.concatenate([squares[:, :half], others[:, half:]], axis=1),
    }
    return {kind: images.reshape(digits.shape) for kind, images in kinds.items()}


def photograph_patches(n: int, rng: np.random.Generator) -> np.ndarray:
    """Grey squares of scikit-learn's two photographs, in whole numbers 0 to 16 like the digits."""
    shrink = 8  # so that a patch shows a piece of a roof or a petal rather than one smooth spot
    patches = []
    for image in load_sample_images().images:
        grey = image.mean(axis=2)
        height, width = (size // shrink * shrink for size in grey.shape)
        small = grey[:height, :width].reshape(height // shrink, shrink, -1, shrink).mean((1, 3))
        squares = np.lib.stride_tricks.sliding_window_view(small, (SIDE, SIDE))
        patches.append(squares.reshape(-1, SIDE * SIDE))
    chosen = rng.choice(np.concatenate(patches), n, replace=False)
    return np.rint(chosen / 255 * TOP).astype(int)


def assess_groups(model: HybridClassifier, kinds: dict[str, np.ndarray]) -> dict[str, Group]:
    """What the model says about every kind of input, from one pass over all rows."""
    answers = model.assess(np.concatenate(list(kinds.values())))
    ends = np.cumsum([len(images) for images in kinds.values()])[:-1]
    names = [field.name for field in dataclasses.fields(Group)][1:]
    columns = [np.split(np.asarray(answers[name]), ends) for name in names]
    return {
        kind: Group(images, *parts)
        for (kind, images), *parts in zip(kinds.items(), *columns, strict=True)
    }


def measure(
    model: HybridClassifier, groups: dict[str, Group], x_test: np.ndarray, y_test: np.ndarray
) -> dict[str, Any]:
    """The numbers of the demo. Shares are of one; densities are in nats unless named bits."""
    familiar = groups[FAMILIAR]
    log_py = model.predict_log_proba(x_test)
    right = familiar.prediction == y_test
    answered = ~familiar.rejected
    return {
        "accuracy": float(right.mean()),
        "accuracy_when_answered": float(right[answered].mean()) if answered.any() else 0.0,
        "nll": float(
            -log_py[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)].mean()
        ),
        "bits_per_dimension": float(-familiar.log_px.mean() / (SIDE**2 * np.log(2))),
        "false_refusals": float(familiar.rejected.mean()),
        "threshold": float(model.threshold_),
        "n_test": len(y_test),
        "n_epochs": int(model.n_epochs_),
        "strange": {
            kind: {
                "refused": float(group.rejected.mean()),
                "auroc": auroc(familiar.log_px, group.log_px),
                "sure_of_a_digit": float((group.probability > 0.9).mean()),
            }
            for kind, group in groups.items()
            if kind != FAMILIAR
        },
    }


def show(metrics: dict[str, Any], console: Console) -> None:
    """Print the numbers."""
    table = Table(title=f"On {metrics['n_test']} digits it has not seen", title_justify="left")
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_row("accuracy", f"{metrics['accuracy']:.1%}")
    table.add_row("negative log-likelihood, nats a label", f"{metrics['nll']:.3f}")
    table.add_row("bits per dimension", f"{metrics['bits_per_dimension']:.3f}")
    table.add_row("refused though familiar", f"{metrics['false_refusals']:.1%}")
    table.add_row("seconds to train", f"{metrics['fit_seconds']:.1f}")
    console.print(table)
    table = Table(title="On inputs that are not whole, upright digits", title_justify="left")
    table.add_column("kind")
    for name in ("refused", "AUROC of log p(x)", "p(y|x) > 0.9"):
        table.add_column(name, justify="right")
    for kind, one in metrics["strange"].items():
        shares = f"{one['refused']:.1%}", f"{one['auroc']:.3f}", f"{one['sure_of_a_digit']:.1%}"
        table.add_row(kind, *shares)
    console.print(table)


def demo(out_dir: Path, *, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """The demo: a page and metrics in a folder of the person's own."""
    since = time.perf_counter()
    config = dataclasses.replace(QUICK if quick else Config(), seed=seed)
    metrics = run(config, out_dir)
    write_result(
        out_dir / "metrics.json",
        config=dataclasses.asdict(config),
        seed=seed,
        seconds=time.perf_counter() - since,
        metrics=metrics,
        command="diglm demo" + (" --quick" if quick else ""),
    )
    return metrics


def runs(config: Config) -> list[Run]:
    """One; its page is kept in the folder of runs."""

    def measure(work: Work) -> dict[str, Any]:
        return run(config, work.folders.kept / "digits", work.console)

    return [Run("digits", vars(config), measure, seed=config.seed)]


REPRODUCE = Study(
    about="the demo: digits, and things that are not digits",
    full=Config(),
    small=Config(n_blocks=4, width=32, n_epochs=15),
    runs=runs,
)
