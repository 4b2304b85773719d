"""Five weights of log p(x) in one sweep, beside one fit, as a ratio.

    python benchmarks/sweep.py [--out results/sweep.json] [--rounds 3]

Tables are scikit-learn's `make_classification`, with the estimator's default sizes; the number of
epochs is fixed and patience is off, so that all train equally long. The first calls compile
("cold"); then fit and sweep take turns ("warm"). Only ratios within a round are claims. A sweep
uses the cores of the CPU, a fit one of them: `sweep_cores` says how many the sweep was granted.
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


def seconds(job: Callable[[], object]) -> tuple[float, float]:
    """How long a job takes, and how much time of cores it used."""
    started, used = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - started, time.process_time() - used


def measure(n_rows: int, n_epochs: int, rounds: int) -> dict:
    """Cold seconds of a fit and of a sweep, then their warm seconds in turns."""
    X, y = make_classification(n_rows, 20, n_informative=10, random_state=SEED)
    settings = dict(n_epochs=n_epochs, patience=n_epochs, random_state=SEED, verbose=False)
    jobs = {
        "fit": lambda: HybridClassifier(**settings).fit(X, y),
        "sweep": lambda: sweep(HybridClassifier(**settings), X, y, WEIGHTS),
    }
    cold = {name: seconds(job)[0] for name, job in jobs.items()}
    rng = np.random.default_rng(SEED)
    turns = [
        {name: seconds(jobs[name]) for name in rng.permutation(list(jobs)).tolist()}
        for _ in range(rounds)
    ]
    ratios = [turn["sweep"][0] / turn["fit"][0] for turn in turns]
    return {
        "epochs": n_epochs,
        "fit_s": float(np.median([turn["fit"][0] for turn in turns])),
        "sweep_s": float(np.median([turn["sweep"][0] for turn in turns])),
        "sweep_cores": float(np.median([turn["sweep"][1] / turn["sweep"][0] for turn in turns])),
        "ratio": float(np.median(ratios)),
        "ratio_range": [min(ratios), max(ratios)],
        "cold_fit_s": cold["fit"],
        "cold_sweep_s": cold["sweep"],
        "cold_ratio": cold["sweep"] / cold["fit"],
    }


def show(found: dict) -> None:
    """Print the ratios for people."""
    table = Table("table", "one fit, s", "five together, s", "ratio", "cold ratio", "cores granted")
    for name, numbers in found.items():
        columns = ("fit_s", "sweep_s", "ratio", "cold_ratio", "sweep_cores")
        table.add_row(name, *(f"{numbers[column]:.2f}" for column in columns))
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
