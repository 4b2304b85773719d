"""The paper's study of flight delays and its Figure 3: a hybrid streamed from a file of flights.

    diglm reproduce flights --budget full

The paper's recipe is RealNVP with networks of one layer of 100 units, a mean and a variance linear
in the features, Adam at 1e-3, ten epochs in batches of 100. Ours differs where it pays: margins
made normal first, other couplings, a mixture of Gaussians for the delay, larger batches. Other
runs, of one epoch each, measure how the cost of the paper's recipe grows with the rows.
"""

import json
import os
import resource
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
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
from diglm.experiments.frame import Folders, Run, Study, Work
from diglm.report.figures import shift_histogram

ROW_GROUP = 131_072
HISTOGRAM_BINS = 80
HISTOGRAM_ROWS = 100_000
ALL_ROWS = 1_955_733  # that train on the split "all"
TITLES = {"700k": "first 700,000 rows", "all": "all rows"}
FIGURE = "figure_3.png"


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


@dataclass(frozen=True)
class Config:
    """Which recipes on which splits, and how many rows.

    Attributes:
        recipes: of `RECIPES`.
        splits: of `flights_protocol`.
        growth: numbers of training rows at which the paper's recipe is timed for an epoch; beyond
            those that there are, rows are written several times.
        epochs: instead of the recipe's; 0 for those.
        n_train: train on the last so many training rows only; 0 for all.
        n_test: judge by the first so many test rows; 0 for all.
        seed: of everything random.
        embedded: data sets that made-up rows stand in for.
    """

    recipes: tuple[str, ...] = ("ours", "paper")
    splits: tuple[str, ...] = SPLITS
    growth: tuple[int, ...] = (300_000, 1_000_000, 1_955_732, 19_557_330)
    epochs: int = 0
    n_train: int = 0
    n_test: int = 0
    seed: int = 0
    embedded: tuple[str, ...] = ()


def prepare(folder: Path, split: str, rows: int | None, repeat: int, config: Config) -> list[Path]:
    """Training and test rows of a split as Parquet files, written once."""
    pa, pq = (require(m, "The flight study", extra="files") for m in ("pyarrow", "pyarrow.parquet"))
    name = "-".join(map(str, (split, rows or "all", config.n_test or "all", *config.embedded)))
    train, test = (folder / f"{name}-x{repeat}-{part}.parquet" for part in ("train", "test"))
    if train.exists() and test.exists():
        return [train, test]
    folder.mkdir(parents=True, exist_ok=True)
    part = load_split(split, embedded=bool(config.embedded))

    def table(x: np.ndarray, y: np.ndarray) -> Any:
        columns = {name: x[:, j].astype(np.int32) for j, name in enumerate(ATTRIBUTES)}
        return pa.table(columns | {TARGET: y.astype(np.int32)})

    last, first = -rows if rows else 0, config.n_test or None
    for path, x, y, times in (
        (train, part.x_train[last:], part.y_train[last:], repeat),
        (test, part.x_test[:first], part.y_test[:first], 1),
    ):
        temporary, content = path.with_suffix(".new"), table(x, y)
        with pq.ParquetWriter(temporary, content.schema, compression="zstd") as writer:
            for _ in range(times):
                writer.write_table(content, row_group_size=ROW_GROUP)
        os.replace(temporary, path)
    return [train, test]


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


def measured(model: HybridRegressor, train: Path, test: Path, work: Work) -> dict[str, Any]:
    """A recipe fitted and scored."""
    pq = require("pyarrow.parquet", "The flight study", extra="files")
    started = time.perf_counter()
    model.fit_file(train, TARGET, checkpoint=work.folder / "states")
    fitted = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # GiB, of the whole process
    n_train = pq.ParquetFile(train).metadata.num_rows
    held = pq.read_table(test)
    x_test, y_test = held.select(list(ATTRIBUTES)), held[TARGET].to_numpy().astype(float)
    y_train = pq.read_table(train, columns=[TARGET])[TARGET].to_numpy().astype(float)
    log_px = _log_px_of_a_sample(model, train), model.score_samples(x_test)
    return scores(predictive(model, x_test), y_test, y_train) | {
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


def _log_px_of_a_sample(model: HybridRegressor, train: Path) -> np.ndarray:
    pq = require("pyarrow.parquet", "The flight study", extra="files")
    table = pq.read_table(train, columns=list(ATTRIBUTES))
    n = min(HISTOGRAM_ROWS, table.num_rows)
    picked = np.sort(np.random.default_rng(0).choice(table.num_rows, n, replace=False))
    return model.score_samples(table.take(picked))


def _histogram(train: np.ndarray, test: np.ndarray) -> dict[str, list[float]]:
    """Densities of log p(x) over common bins; the farthest half percent go to the first bin."""
    low, high = np.quantile(np.concatenate([train, test]), [0.005, 1.0])
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
    counts = [
        np.histogram(np.clip(v, low, high), edges, density=True)[0].tolist() for v in (train, test)
    ]
    return {"edges": edges.tolist(), "train": counts[0], "test": counts[1]}


def draw(folders: Folders, recipe: str = "ours") -> None:
    """The paper's Figure 3 on each split, from the results."""
    found = {
        split: folders.results / "flights" / f"hybrid-{split}-{recipe}.json" for split in TITLES
    }
    found = {split: path for split, path in found.items() if path.exists()}
    if not found:
        return
    figure, axes = new_figure(4.5 * len(found), 3.2, len(found))
    for one, (split, path) in zip(axes, found.items(), strict=True):
        metrics = json.loads(path.read_text())["metrics"]
        shift_histogram(one, **metrics["histogram"], shift=metrics["log_px_shift"])
        last = json.loads(path.read_text())["config"]["rows"]
        one.set_title(f"the last {last:,} rows" if last else TITLES[split], loc="left")
    folders.figures.mkdir(parents=True, exist_ok=True)
    figure.savefig(folders.figures / FIGURE, dpi=150)


def runs(config: Config) -> list[Run]:
    """One for each recipe and split, then those that measure growth."""
    n = config.n_train or None
    pairs = [(recipe, split) for split in config.splits for recipe in config.recipes]
    main = [_run(config, recipe, split, n, 1, config.epochs, "") for recipe, split in pairs]
    growth = []
    for rows in config.growth:
        repeat = -(-rows // ALL_ROWS)
        few = rows if repeat == 1 else None
        growth.append(_run(config, "paper", "all", few, repeat, 1, f"-rows{rows}"))
    return main + growth


def _run(
    config: Config, recipe: str, split: str, rows: int | None, repeat: int, epochs: int, mark: str
) -> Run:
    asked = RECIPES[recipe]
    asked = replace(asked, n_epochs=epochs or asked.n_epochs)

    def measure(work: Work) -> dict[str, Any]:
        train, test = prepare(work.folders.kept / "flights", split, rows, repeat, config)
        return measured(asked.estimator(config.seed, True), train, test, work)

    about = {"recipe": recipe, "split": split, "rows": rows, "repeat": repeat}
    names = ("head", "n_epochs", "batch_size", "learning_rate", "n_blocks", "width", "depth")
    about |= {name: getattr(asked, name) for name in (*names, "generative_weight")}
    about |= {"n_test": config.n_test} if config.n_test else {}
    about |= {"embedded": config.embedded} if config.embedded else {}
    return Run(f"flights/hybrid-{split}-{recipe}{mark}", about, measure, seed=config.seed)


REPRODUCE = Study(
    about="delays of two million flights",
    full=Config(),
    small=Config(splits=("all",), growth=(), epochs=2, n_train=40_000, n_test=20_000),
    runs=runs,
    shows=("Figure 3", "flight delays"),
    needs=("flights",),
    draw=draw,
)
