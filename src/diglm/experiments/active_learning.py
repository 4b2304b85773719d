"""Which rows to have labelled: `most_informative` beside chance and uncertainty.

    diglm reproduce active_learning --budget full

A model begins with a few labels and asks for more, a handful at a time, from a pool; it is judged
on rows of neither. Half of the rest are rows without a label, from which it knows what rows are
like. The three ways of asking start from the same labels: at random; the rows whose answer is least
sure (entropy of p(y|x), or the standard deviation); and `most_informative`, which asks for rows
that together teach most and for none that would be refused. In a second pool a share of rows is
broken: their values are those of other columns, and their labels mean nothing.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import entropy
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

from diglm import HybridClassifier, HybridRegressor
from diglm.drawing import LINES
from diglm.experiments.frame import Run, Study, Work
from diglm.heads import Bayesian
from diglm.report import new_figure, require_matplotlib

FIGURE = "active_learning.png"
WAYS = ("random", "uncertainty", "most_informative")
POOLS = ("usual", "broken")


@dataclass(frozen=True)
class Config:
    """Tables, and how many labels are asked for."""

    tables: tuple[str, ...] = ("breast cancer", "diabetes")
    n_start: int = 10
    n_step: int = 10
    n_labels: int = 60
    share_broken: float = 0.1
    n_pool: int = 300
    first_seed: int = 0
    n_seeds: int = 6


@dataclass(frozen=True)
class Parts:
    """Rows of one seed: those to ask about, those that are only seen, those to be judged by."""

    pool: tuple[np.ndarray, np.ndarray]
    seen: np.ndarray
    test: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Task:
    """A table, its model, how sure that is of rows, and how it is judged."""

    load: Callable[..., Any]
    model: Callable[[int], Any]
    spread: Callable[[Any, np.ndarray], Float[np.ndarray, " rows"]]
    loss: str
    judge: Callable[[Any, np.ndarray, np.ndarray], float]


def classifier(seed: int) -> HybridClassifier:
    """A linear flow, and classes with a posterior of the weights."""
    head = Bayesian(inference="laplace")
    return HybridClassifier("linear", head=head, reject=0.05, random_state=seed, verbose=False)


def regressor(seed: int) -> HybridRegressor:
    """A linear flow, and numbers with a posterior of the weights."""
    return HybridRegressor("linear", head="bayesian", reject=0.05, random_state=seed, verbose=False)


def error(model: HybridClassifier, X: np.ndarray, y: np.ndarray) -> float:
    """Share of wrong answers."""
    return 1 - float(model.score(X, y))


def rmse(model: HybridRegressor, X: np.ndarray, y: np.ndarray) -> float:
    """Root of the mean squared error."""
    return float(np.sqrt(np.mean((np.asarray(model.predict(X)) - y) ** 2)))


def of_classes(model: HybridClassifier, X: np.ndarray) -> Float[np.ndarray, " rows"]:
    """Entropy of p(y|x)."""
    return np.asarray(entropy(model.predict_proba(X), axis=1))


def of_numbers(model: HybridRegressor, X: np.ndarray) -> Float[np.ndarray, " rows"]:
    """Standard deviation of p(y|x)."""
    return np.asarray(model.predict(X, return_std=True)[1])


TASKS = {
    "breast cancer": Task(load_breast_cancer, classifier, of_classes, "error", error),
    "diabetes": Task(load_diabetes, regressor, of_numbers, "RMSE", rmse),
}


def parts(config: Config, table: str, pool: str, seed: int) -> Parts:
    """The rows of a seed; columns have one scale."""
    X, y = TASKS[table].load(return_X_y=True)
    X = np.asarray(scale(X))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    n_pool = min(config.n_pool, len(X) // 3)
    asked, seen, test = np.split(order, [n_pool, 2 * n_pool])
    X_pool, y_pool = X[asked], y[asked]
    if pool == POOLS[1]:
        broken = rng.choice(n_pool, round(config.share_broken * n_pool), replace=False)
        broken = broken[broken >= config.n_start]  # the first labels are sound
        X_pool[broken] = 2 * rng.permuted(X_pool[broken], axis=1)
        y_pool[broken] = rng.permutation(y)[: len(broken)]
    return Parts((X_pool, y_pool), X[seen], (X[test], y[test]))


def asked_for(
    way: str, task: Task, model: Any, X: np.ndarray, n: int, rng: np.random.Generator
) -> Int[np.ndarray, " chosen"]:
    """Which rows to have labelled next."""
    if way == WAYS[0]:
        return rng.choice(len(X), n, replace=False)
    if way == WAYS[1]:
        return np.argsort(-task.spread(model, X))[:n]
    return model.most_informative(X, n)


def curve(config: Config, table: str, pool: str, way: str, seed: int) -> list[float]:
    """The loss after each round of labels."""
    task, rows = TASKS[table], parts(config, table, pool, seed)
    (X, y), rng = rows.pool, np.random.default_rng(seed)
    known, losses = list(range(config.n_start)), []
    while True:
        model = task.model(seed).fit(X[known], y[known], X_unlabelled=rows.seen)
        losses.append(task.judge(model, *rows.test))
        if len(known) >= config.n_labels:
            return losses
        left = np.setdiff1d(np.arange(len(X)), known)
        known += left[asked_for(way, task, model, X[left], config.n_step, rng)].tolist()


def summary(config: Config, curves: dict[str, dict[str, list[list[float]]]]) -> dict[str, Any]:
    """Mean curves, and how much each way gains on chance over all rounds, by seed."""
    told = {}
    for name, by_way in curves.items():
        means = {way: np.asarray(of_way) for way, of_way in by_way.items()}
        chance = means[WAYS[0]].mean(axis=1)
        told[name] = {
            way: {
                "mean": of_way.mean(axis=0).tolist(),
                "standard_error": _standard_error(of_way).tolist(),
                "last": of_way[:, -1].tolist(),
                "gain_on_random": (1 - of_way.mean(axis=1) / chance).tolist(),
            }
            for way, of_way in means.items()
        }
    labels = list(range(config.n_start, config.n_labels + 1, config.n_step))
    return {"labels": labels, "curves": told}


def _standard_error(curves: Float[np.ndarray, "seeds rounds"]) -> Float[np.ndarray, " rounds"]:
    """That of the mean over seeds; zero where there is one."""
    n = len(curves)
    return curves.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(curves.shape[1])


def draw(told: dict[str, Any], path: Path) -> None:
    """A panel for each table and pool."""
    figure, panels = new_figure(3.4 * len(told["curves"]), 3.8, len(told["curves"]))
    for axes, (name, by_way) in zip(panels, told["curves"].items(), strict=True):
        for (way, of_way), (colour, line) in zip(by_way.items(), LINES, strict=False):
            mean, spread = (np.asarray(of_way[key]) for key in ("mean", "standard_error"))
            axes.plot(told["labels"], mean, line, color=colour, label=way.replace("_", " "))
            axes.fill_between(
                told["labels"], mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0
            )
        axes.set(xlabel="labels", ylabel=TASKS[name.partition(",")[0]].loss, title=name)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(WAYS),
        frameon=False,
        title="mean over seeds, and its standard error",
    )
    figure.savefig(path, dpi=110)


def runs(config: Config) -> list[Run]:
    """One, in which each curve is a step."""

    def measure(work: Work) -> dict[str, Any]:
        require_matplotlib()
        curves: dict[str, dict[str, list[list[float]]]] = {}
        for table in config.tables:
            for pool in POOLS:
                name = f"{table}, {pool} pool"
                by_way = curves[name] = {way: [] for way in WAYS}
                for seed in range(config.first_seed, config.first_seed + config.n_seeds):
                    for way in WAYS:
                        compute = functools.partial(curve, config, table, pool, way, seed)
                        by_way[way].append(work.step(f"{name}, {way}, {seed}", compute))
                work.say(name, {way: round(float(np.mean(c)), 4) for way, c in by_way.items()})
        told = summary(config, curves)
        draw(told, work.figure(FIGURE))
        return told

    about = vars(config)
    return [Run("active_learning", about, measure, seed=config.first_seed, figures=(FIGURE,))]


REPRODUCE = Study(
    about="which rows to have labelled",
    full=Config(),
    small=Config(("diabetes",), n_labels=30, n_seeds=2),
    runs=runs,
)
