"""Five weights of log p(x) in one sweep, beside one fit and beside five fits, as ratios.

    python benchmarks/sweep.py [--out results/sweep.json] [--rounds 3]

Tables are scikit-learn's `make_classification`, with the estimator's default sizes; the number of
epochs is fixed and patience is off, so that all train equally long. The first calls of a process
compile ("cold"); then sweep, fit and five fits take turns ("warm"). Only ratios within a round are
claims.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_classification

from diglm import HybridClassifier, sweep
from diglm.report.results import write_result

WEIGHTS = (0.0, 0.01, 0.1, 1.0, 10.0)
TABLES = {"1,500 x 20": (1_500, 190), "10,000 x 20": (10_000, 30)}  # rows and epochs
SEED = 0


def seconds(job: Callable[[], object]) -> float:
    """How long a job takes."""
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def measure(n_rows: int, n_epochs: int, rounds: int) -> dict:
    """Cold seconds of a fit and of a sweep, then their warm seconds in turns."""
    X, y = make_classification(n_rows, 20, n_informative=10, random_state=SEED)
    settings = dict(n_epochs=n_epochs, patience=n_epochs, random_state=SEED, verbose=False)

    def fit(weight: float = 1.0) -> object:
        return HybridClassifier(generative_weight=weight, **settings).fit(X, y)

    jobs = {
        "fit": fit,
        "sweep": lambda: sweep(HybridClassifier(**settings), X, y, WEIGHTS),
        "five fits": lambda: [fit(weight) for weight in WEIGHTS],
    }
    cold = {name: seconds(jobs[name]) for name in ("fit", "sweep")}
    rng, warm = np.random.default_rng(SEED), {name: [] for name in jobs}
    for _ in range(rounds):
        for name in rng.permutation(list(jobs)):
            warm[name].append(seconds(jobs[name]))
    ratios = {name: np.divide(warm["sweep"], warm[name]) for name in ("fit", "five fits")}
    return {
        "epochs": n_epochs,
        "warm_seconds": {name: float(np.median(times)) for name, times in warm.items()},
        "cold_seconds": cold,
        "sweep_over_fit": float(np.median(ratios["fit"])),
        "sweep_over_fit_range": [float(np.min(ratios["fit"])), float(np.max(ratios["fit"]))],
        "sweep_over_five_fits": float(np.median(ratios["five fits"])),
        "sweep_over_fit_cold": cold["sweep"] / cold["fit"],
    }


def show(found: dict) -> None:
    """Print the ratios for people."""
    table = Table("table", "fit, s", "sweep, s", "sweep / fit", "sweep / five fits", "cold / cold")
    for name, numbers in found.items():
        table.add_row(
            name,
            f"{numbers['warm_seconds']['fit']:.1f}",
            f"{numbers['warm_seconds']['sweep']:.1f}",
            f"{numbers['sweep_over_fit']:.2f}",
            f"{numbers['sweep_over_five_fits']:.2f}",
            f"{numbers['sweep_over_fit_cold']:.2f}",
        )
    Console().print(table)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="results/sweep.json")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    started = time.perf_counter()
    found = {name: measure(*sizes, options.rounds) for name, sizes in TABLES.items()}
    show(found)
    config = {"rounds": options.rounds, "weights": WEIGHTS}
    total = time.perf_counter() - started
    write_result(options.out, config=config, seed=SEED, seconds=total, metrics=found)


if __name__ == "__main__":
    main()
