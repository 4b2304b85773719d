"""UCI regression tables on their published splits: diglm and NGBoost here, others as published.

    python -m diglm.experiments.uci --splits 5 --out results/uci

Splits are those of Hernandez-Lobato and Adams (2015). Each table's result is written as soon as it
is known, and a table whose result is there is passed over, so an interrupted run goes on. The
published numbers are means over all splits (20; 5 for protein), with the standard errors or
deviations that the papers give:

- NGBoost: Duan et al. (2020), https://arxiv.org/abs/1910.03225, Table 1;
- deep ensembles: Lakshminarayanan et al. (2017), https://arxiv.org/abs/1612.01474, Table 1.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy import stats

from diglm import HybridRegressor
from diglm.data.downloads import Split, uci_regression
from diglm.experiments.flights_protocol import require
from diglm.report.results import write_result

N_SPLITS = {"protein": 5}  # all others have 20
# (RMSE, its spread, NLL, its spread)
PUBLISHED = {
    "NGBoost": {
        "boston": (2.94, 0.53, 2.43, 0.15),
        "concrete": (5.06, 0.61, 3.04, 0.17),
        "energy": (0.46, 0.06, 0.60, 0.45),
        "kin8nm": (0.16, 0.00, -0.49, 0.02),
        "naval": (0.00, 0.00, -5.34, 0.04),
        "power": (3.79, 0.18, 2.79, 0.11),
        "protein": (4.33, 0.03, 2.81, 0.03),
        "wine": (0.63, 0.04, 0.91, 0.06),
        "yacht": (0.50, 0.20, 0.20, 0.26),
    },
    "deep ensembles": {
        "boston": (3.28, 1.00, 2.41, 0.25),
        "concrete": (6.03, 0.58, 3.06, 0.18),
        "energy": (2.09, 0.29, 1.38, 0.22),
        "kin8nm": (0.09, 0.00, -1.20, 0.02),
        "naval": (0.00, 0.00, -5.63, 0.05),
        "power": (4.11, 0.17, 2.79, 0.04),
        "protein": (4.71, 0.06, 2.83, 0.02),
        "wine": (0.64, 0.04, 0.94, 0.12),
        "yacht": (1.58, 0.48, 1.18, 0.21),
    },
}
TABLES = tuple(PUBLISHED["NGBoost"])


def hybrid(rows: Split, seed: int, head: str = "auto") -> dict[str, float]:
    """diglm at its defaults."""
    model = HybridRegressor(head=head, random_state=seed, verbose=False)
    model.fit(rows.x_train, rows.y_train)
    dist = model.predict_dist(rows.x_test)
    low, high = dist.interval(0.9)
    return scores(rows.y_test, dist.mean, dist.log_prob(rows.y_test), low, high)


def mixture(rows: Split, seed: int) -> dict[str, float]:
    """diglm with a mixture of Gaussians for the target."""
    return hybrid(rows, seed, "mixture")


def ngboost(rows: Split, seed: int) -> dict[str, float]:
    """NGBoost at its defaults, stopped early on a tenth of the training rows."""
    module = require("ngboost", "The NGBoost baseline", extra="study")
    order = np.random.default_rng(seed).permutation(len(rows.y_train))
    held, learn = np.split(order, [max(1, len(order) // 10)])
    booster = module.NGBRegressor(
        n_estimators=2000, learning_rate=0.01, random_state=seed, verbose=False
    )
    booster.fit(
        rows.x_train[learn],
        rows.y_train[learn],
        X_val=rows.x_train[held],
        Y_val=rows.y_train[held],
        early_stopping_rounds=50,
    )
    found = booster.pred_dist(rows.x_test)
    normal: Any = stats.norm(found.loc, found.scale)
    low, high = normal.interval(0.9)
    return scores(rows.y_test, found.loc, normal.logpdf(rows.y_test), low, high)


METHODS: dict[str, Callable[[Split, int], dict[str, float]]] = {
    "diglm": hybrid,
    "diglm, mixture": mixture,
    "NGBoost, run here": ngboost,
}


def scores(
    y: np.ndarray, mean: np.ndarray, log_prob: np.ndarray, low: np.ndarray, high: np.ndarray
) -> dict[str, float]:
    """RMSE, NLL, and the share of targets between `low` and `high`."""
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "nll": float(-np.mean(log_prob)),
        "coverage_90": float(np.mean((low <= y) & (y <= high))),
    }


Methods = dict[str, Callable[[Split, int], dict[str, float]]]


def run_table(
    methods: Methods, name: str, n_splits: int, data_dir: str | None, seed: int
) -> dict[str, Any]:
    """Every method on the first `n_splits` splits of one table."""
    console = Console(stderr=True)
    found: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
    for split in range(n_splits):
        rows = uci_regression(name, split, data_dir)
        for method, fit in methods.items():
            started = time.perf_counter()
            scored = fit(rows, seed) | {"seconds": time.perf_counter() - started}
            found[method].append(scored)
            console.print(
                f"{name} {split}: {method:18s} NLL {scored['nll']:.3f}  RMSE {scored['rmse']:.4g}"
                f"  in the 90 % interval {scored['coverage_90']:.3f}"
            )
    return {
        method: {key: [one[key] for one in runs] for key in runs[0]}
        for method, runs in found.items()
    }


def command_line(about: str | None, methods: Methods, tables: tuple[str, ...], out: str) -> None:
    """The command of a study of these tables.

    A table whose result has as many splits as are asked for, or more, is passed over.
    """
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=tables, default=tables)
    parser.add_argument("--splits", type=int, default=20, help="at most so many of each table")
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--data-dir", help="folder of the tables; else DIGLM_DATA, else the cache")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        for name in options.tables:
            path = options.out / f"{name}.json"
            n_splits = min(options.splits, N_SPLITS.get(name, 20))
            if path.exists() and json.loads(path.read_text())["config"]["splits"] >= n_splits:
                continue
            started = time.perf_counter()
            metrics = run_table(methods, name, n_splits, options.data_dir, options.seed)
            config = {"table": name, "splits": n_splits}
            seconds = time.perf_counter() - started
            write_result(path, config=config, seed=options.seed, seconds=seconds, metrics=metrics)
    except (FileNotFoundError, ImportError, ValueError) as error:
        Console(stderr=True).print(f"[bold]error:[/bold] {error}")
        sys.exit(1)


if __name__ == "__main__":
    command_line(__doc__, METHODS, TABLES, "results/uci")
