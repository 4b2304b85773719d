"""Default settings against scikit-learn on real tables: accuracy or RMSE, NLL and seconds.

    python benchmarks/tables.py [--data-dir FOLDER] [--out results/tables.json] [--only NAME ...]

Every model sees the same training rows. Baselines that predict a number get the Gaussian whose
variance is that of their residuals on a tenth of the training rows held out for it, and are then
refitted on all of them. Columns: mean over splits.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from diglm import HybridClassifier, HybridRegressor
from diglm.data.downloads import Split, uci_regression
from diglm.report.results import write_result

EMBEDDED = {
    "iris": (datasets.load_iris, True),
    "wine-cultivars": (datasets.load_wine, True),
    "breast-cancer": (datasets.load_breast_cancer, True),
    "digits": (datasets.load_digits, True),
    "diabetes": (datasets.load_diabetes, False),
}
UCI = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht")
LARGE = {"naval", "protein", "kin8nm", "power"}


def splits(name: str, n_splits: int, seed: int, data_dir: str | None) -> Iterator[Split]:
    """Published splits of a UCI table, seeded 80/20 splits of an embedded one."""
    if name in UCI:
        for split in range(1 if name in LARGE else n_splits):
            yield uci_regression(name, split, data_dir)
        return
    load, is_classes = EMBEDDED[name]
    x, y = load(return_X_y=True)
    maker = StratifiedShuffleSplit if is_classes else ShuffleSplit
    for train, test in maker(n_splits, test_size=0.2, random_state=seed).split(x, y):
        yield Split(x[train], y[train], x[test], y[test])


def classifiers(seed: int) -> dict[str, Callable]:
    """Classifiers at their defaults (the MLP with early stopping, as ours has)."""
    return {
        "diglm": lambda: HybridClassifier(random_state=seed, verbose=False),
        "boosting": lambda: HistGradientBoostingClassifier(random_state=seed),
        "linear": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
        "mlp": lambda: make_pipeline(
            StandardScaler(), MLPClassifier(max_iter=1000, early_stopping=True, random_state=seed)
        ),
    }


def regressors(seed: int) -> dict[str, Callable]:
    """Regressors at their defaults."""
    return {
        "diglm": lambda: HybridRegressor(random_state=seed, verbose=False),
        "boosting": lambda: HistGradientBoostingRegressor(random_state=seed),
        "linear": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
        "mlp": lambda: make_pipeline(
            StandardScaler(), MLPRegressor(max_iter=1000, early_stopping=True, random_state=seed)
        ),
    }


def judge_classifier(make: Callable, split: Split) -> dict[str, float]:
    """Error rate and NLL on the test rows."""
    started = time.perf_counter()
    model = make().fit(split.x_train, split.y_train)
    seconds = time.perf_counter() - started
    probabilities = np.clip(model.predict_proba(split.x_test), 1e-15, 1.0)
    place = np.searchsorted(model.classes_, split.y_test)
    nll = -np.mean(np.log(probabilities[np.arange(len(place)), place]))
    wrong = np.mean(model.predict(split.x_test) != split.y_test)
    return {"error": float(wrong), "nll": float(nll), "seconds": seconds}


def judge_regressor(make: Callable, split: Split, seed: int) -> dict[str, float]:
    """RMSE and NLL on the test rows."""
    started = time.perf_counter()
    model = make()
    if isinstance(model, HybridRegressor):
        dist = model.fit(split.x_train, split.y_train).predict_dist(split.x_test)
        mean, log_prob = dist.mean, dist.log_prob(split.y_test)
    else:
        # The multilayer perceptron needs targets of unit scale; the others do not mind.
        centre, spread = np.mean(split.y_train), np.std(split.y_train)
        y = (split.y_train - centre) / spread
        fit_x, held_x, fit_y, held_y = train_test_split(
            split.x_train, y, test_size=0.1, random_state=seed
        )
        residual = held_y - model.fit(fit_x, fit_y).predict(held_x)
        sd = spread * np.sqrt(np.mean(residual**2))
        mean = centre + spread * make().fit(split.x_train, y).predict(split.x_test)
        log_prob = stats.norm(mean, sd).logpdf(split.y_test)
    seconds = time.perf_counter() - started
    rmse = np.sqrt(np.mean((mean - split.y_test) ** 2))
    return {"rmse": float(rmse), "nll": float(-np.mean(log_prob)), "seconds": seconds}


def run(names: list[str], n_splits: int, seed: int, data_dir: str | None) -> dict:
    """Means over splits for each table and model, and the mean rank of each model in NLL."""
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for name in track(names, "tables", console=Console(stderr=True)):
        is_classes = name in EMBEDDED and EMBEDDED[name][1]
        models = classifiers(seed) if is_classes else regressors(seed)
        scores: dict[str, list[dict[str, float]]] = {model: [] for model in models}
        for split in splits(name, n_splits, seed, data_dir):
            for model, make in models.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # scikit-learn's notes on convergence
                    score = (
                        judge_classifier(make, split)
                        if is_classes
                        else judge_regressor(make, split, seed)
                    )
                scores[model].append(score)
        tables[name] = {
            model: {key: float(np.mean([s[key] for s in found])) for key in found[0]}
            for model, found in scores.items()
        }
        print(
            name,
            {m: {k: round(v, 4) for k, v in s.items()} for m, s in tables[name].items()},
            file=sys.stderr,
            flush=True,
        )
    ranks = np.array(
        [stats.rankdata([s["nll"] for s in scores.values()]) for scores in tables.values()]
    )
    mean_rank = dict(zip(next(iter(tables.values())), ranks.mean(axis=0).tolist(), strict=True))
    return {"tables": tables, "mean_rank_nll": mean_rank}


def show(metrics: dict) -> None:
    """Print the tables for people."""
    models = list(metrics["mean_rank_nll"])
    table = Table("table", "measure", *models)
    for name, scores in metrics["tables"].items():
        for key in next(iter(scores.values())):
            table.add_row(name, key, *(f"{scores[model][key]:.4g}" for model in models))
    table.add_row("mean rank", "nll", *(f"{metrics['mean_rank_nll'][m]:.2f}" for m in models))
    Console().print(table)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder with the UCI file (else DIGLM_DATA)")
    parser.add_argument("--out", default="results/tables.json")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="names of tables")
    options = parser.parse_args()
    names = options.only or [*EMBEDDED, *UCI]
    started = time.perf_counter()
    metrics = run(names, options.splits, options.seed, options.data_dir)
    show(metrics)
    config = {"tables": names, "splits": options.splits, "large_tables_one_split": sorted(LARGE)}
    seconds = time.perf_counter() - started
    write_result(
        Path(options.out), config=config, seed=options.seed, seconds=seconds, metrics=metrics
    )


if __name__ == "__main__":
    main()
