"""The flight-delay study: a hybrid streamed from a file of two million flights.

    python -m diglm.experiments.flights --recipe paper --split all --out results/flights

The paper's recipe is RealNVP with networks of one layer of 100 units, a mean and a variance linear
in the features, Adam at 1e-3, ten epochs in batches of 100. Ours differs where it pays: margins
made normal first, other couplings, a mixture of Gaussians for the delay, larger batches. A run
that is killed resumes when it is called again. `--rows` and `--repeat` measure how cost grows.
"""

import argparse
import json
import os
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from scipy.special import softmax

from diglm import HybridRegressor, flows, heads
from diglm.drawing import new_figure
from diglm.experiments.flights_metrics import (
    Gaussian,
    GaussianMixture,
    Predictive,
    StudentT,
    scores,
)
from diglm.experiments.flights_protocol import (
    ATTRIBUTES,
    SPLITS,
    TARGET,
    load_split,
    require,
)
from diglm.report.figures import shift_histogram
from diglm.report.results import write_result

ROW_GROUP = 131_072
HISTOGRAM_BINS = 80
HISTOGRAM_ROWS = 100_000


@dataclass(frozen=True)
class Recipe:
    """How a hybrid of the study is built; `flow` may name the paper's RealNVP."""

    flow: str
    head: str
    n_epochs: int
    batch_size: int
    learning_rate: float
    n_blocks: int = 8
    width: int = 100
    depth: int = 1
    generative_weight: float = 1.0
    about: dict[str, Any] = field(default_factory=dict)

    def estimator(self, seed: int, verbose: bool | str) -> HybridRegressor:
        """The unfitted regressor."""
        flow: Any = self.flow
        if flow == "realnvp":
            flow = flows.coupling(
                len(ATTRIBUTES),
                n_blocks=self.n_blocks,
                width=self.width,
                depth=self.depth,
                mixing="exchange",
                activation="relu",
                unroll=self.n_blocks,
                key=jax.random.key(seed),
            )
        return HybridRegressor(
            flow,
            n_blocks=self.n_blocks,
            width=self.width,
            depth=self.depth,
            head=self.head,
            n_epochs=self.n_epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            generative_weight=self.generative_weight,
            patience=self.n_epochs,
            random_state=seed,
            verbose=verbose,
        )


RECIPES = {
    "paper": Recipe("realnvp", "heteroscedastic", 10, 100, 1e-3),
    "paper-student-t": Recipe("realnvp", "student_t", 10, 100, 1e-3),
    "ours": Recipe("coupling", "mixture", 10, 512, 3e-3, width=64, depth=2, generative_weight=0.3),
    "ours-spline": Recipe("spline", "mixture", 3, 512, 3e-3, width=64, depth=2),
}


def prepare(
    split: str, folder: Path, data_dir: str | None, rows: int | None, repeat: int
) -> tuple[Path, Path]:
    """Training and test rows of a split as Parquet files, written once."""
    pa, pq = (require(m, "The flight study", extra="files") for m in ("pyarrow", "pyarrow.parquet"))
    name = split + (f"-{rows}" if rows else "") + (f"-x{repeat}" if repeat > 1 else "")
    train, test = folder / f"flights-{name}-train.parquet", folder / f"flights-{split}-test.parquet"
    if train.exists() and test.exists():
        return train, test
    folder.mkdir(parents=True, exist_ok=True)
    part = load_split(split, data_dir)

    def table(x: np.ndarray, y: np.ndarray) -> Any:
        columns = {name: x[:, j].astype(np.int32) for j, name in enumerate(ATTRIBUTES)}
        return pa.table(columns | {TARGET: y.astype(np.int32)})

    for path, x, y, times in (
        (train, part.x_train[-rows:] if rows else part.x_train, part.y_train, repeat),
        (test, part.x_test, part.y_test, 1),
    ):
        temporary, content = path.with_suffix(".new"), table(x, y[-len(x) :])
        with pq.ParquetWriter(temporary, content.schema, compression="zstd") as writer:
            for _ in range(times):
                writer.write_table(content, row_group_size=ROW_GROUP)
        os.replace(temporary, path)
    return train, test


def predictive(model: HybridRegressor, X: Any) -> Predictive:
    """p(y|x) of every row in the form in which the study scores all methods."""
    response = model.predictor_.response(model.predictor_.encode(X))

    def units(values: Any) -> np.ndarray:
        return model.y_location_ + model.y_scale_ * np.asarray(values, float)

    def spread(values: Any) -> np.ndarray:
        return model.y_scale_ * np.asarray(values, float)

    match response:
        case heads.Gaussian():
            return Gaussian(units(response.loc), spread(response.scale))
        case heads.StudentT():
            df = float(np.ravel(np.asarray(response.df))[0])
            return StudentT(units(response.loc), spread(response.scale), df)
        case heads.GaussianMixture():
            shares = softmax(np.asarray(response.logits, float), axis=-1)
            return GaussianMixture(units(response.locs).T, spread(response.scales).T, shares.T)
    raise TypeError(f"The study has no scores for {type(response).__name__}.")


def run(
    recipe: str,
    split: str,
    *,
    out: Path,
    work: Path,
    data_dir: str | None = None,
    seed: int = 0,
    epochs: int | None = None,
    rows: int | None = None,
    repeat: int = 1,
    verbose: bool | str = "auto",
) -> dict[str, Any]:
    """Fit one recipe on one split, score it, and write its result; returns the metrics."""
    pq = require("pyarrow.parquet", "The flight study", extra="files")
    train, test = prepare(split, work, data_dir, rows, repeat)
    model = RECIPES[recipe].estimator(seed, verbose)
    if epochs is not None:
        model.set_params(n_epochs=epochs, patience=epochs)
    tag = train.stem + f"-{recipe}-{model.n_epochs}-{seed}"
    started = time.perf_counter()
    model.fit_file(train, TARGET, checkpoint=work / f"run-{tag}")
    fitted = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # GiB, of the whole process
    n_train = pq.ParquetFile(train).metadata.num_rows
    held = pq.read_table(test)
    x_test, y_test = held.select(list(ATTRIBUTES)), held[TARGET].to_numpy().astype(float)
    y_train = pq.read_table(train, columns=[TARGET])[TARGET].to_numpy().astype(float)
    log_px = _log_px_of_a_sample(model, train, seed), model.score_samples(x_test)
    metrics = scores(predictive(model, x_test), y_test, y_train) | {
        "log_px_train": float(np.mean(log_px[0])),
        "log_px_test": float(np.mean(log_px[1])),
        "log_px_shift": float(np.mean(log_px[1]) - np.mean(log_px[0])),
        "refused_test": float(np.mean(model.rejects(x_test))),
        "fit_seconds": fitted,
        "train_seconds": model.fit_seconds_,
        "waited_seconds": model.wait_seconds_,
        "seconds_per_million_rows": 1e6 * model.fit_seconds_ / (n_train * model.n_epochs_),
        "peak_memory_gib": peak,
        "train_rows": n_train,
        "epochs": model.n_epochs_,
        "histogram": _histogram(*log_px),
    }
    config = {"recipe": recipe, "split": split, "rows": rows, "repeat": repeat}
    config |= {k: v for k, v in model.get_params().items() if isinstance(v, int | float | str)}
    name = f"hybrid-{split}-{recipe}" + (f"-rows{n_train}" if rows or repeat > 1 else "")
    seconds = time.perf_counter() - started
    write_result(out / f"{name}.json", config=config, seed=seed, seconds=seconds, metrics=metrics)
    model.save(work / f"{name}.diglm")
    return metrics


def _log_px_of_a_sample(model: HybridRegressor, train: Path, seed: int) -> np.ndarray:
    pq = require("pyarrow.parquet", "The flight study", extra="files")
    table = pq.read_table(train, columns=list(ATTRIBUTES))
    n = min(HISTOGRAM_ROWS, table.num_rows)
    picked = np.sort(np.random.default_rng(seed).choice(table.num_rows, n, replace=False))
    return model.score_samples(table.take(picked))


def _histogram(train: np.ndarray, test: np.ndarray) -> dict[str, list[float]]:
    """Densities of log p(x) over common bins; the farthest half percent go to the first bin."""
    low, high = np.quantile(np.concatenate([train, test]), [0.005, 1.0])
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
    counts = [
        np.histogram(np.clip(v, low, high), edges, density=True)[0].tolist() for v in (train, test)
    ]
    return {"edges": edges.tolist(), "train": counts[0], "test": counts[1]}


def draw(out: Path, path: Path, recipe: str = "ours") -> None:
    """The histograms of log p(x) on both splits, from the results in `out`."""
    figure, axes = new_figure(9.0, 3.2, len(SPLITS))
    titles = {"700k": "first 700,000 rows", "all": "all rows"}
    for one, split in zip(axes, SPLITS, strict=True):
        metrics = json.loads((out / f"hybrid-{split}-{recipe}.json").read_text())["metrics"]
        shift_histogram(one, **metrics["histogram"], shift=metrics["log_px_shift"])
        one.set_title(titles[split], loc="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipe", choices=RECIPES, default="paper")
    parser.add_argument("--split", choices=SPLITS, default="700k")
    parser.add_argument("--out", type=Path, default=Path("results/flights"))
    parser.add_argument("--work", type=Path, help="folder for prepared files and checkpoints")
    parser.add_argument("--data-dir", help="folder of the flights; else DIGLM_DATA, else the cache")
    parser.add_argument("--epochs", type=int, help="passes over the rows; else the recipe's")
    parser.add_argument("--rows", type=int, help="train on the last so many training rows only")
    parser.add_argument("--repeat", type=int, default=1, help="write the training rows many times")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path, help="draw the figure from --out instead of fitting")
    options = parser.parse_args()
    if options.figure is not None:
        draw(options.out, options.figure)
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "diglm" / "flights"
    try:
        metrics = run(
            options.recipe,
            options.split,
            out=options.out,
            work=options.work or cache,
            data_dir=options.data_dir,
            seed=options.seed,
            epochs=options.epochs,
            rows=options.rows,
            repeat=options.repeat,
            verbose=True,
        )
    except (FileNotFoundError, ImportError, ValueError) as error:
        Console(stderr=True).print(f"[bold]error:[/bold] {error}")
        sys.exit(1)
    console = Console()
    for name, value in metrics.items():
        if name != "histogram":
            console.print(f"{name:26s}{value:12.4f}")


if __name__ == "__main__":
    main()
