"""Drift: how often does a monitor cry wolf, and how soon does it find and name what moved?

    python benchmarks/drift.py [--streams 500] [--out results/drift.json]

Streams of ten columns, as the monitor of a density sees them: log p(x) and columns, of rows drawn
from a normal distribution with correlated columns, whose log p(x) is exact. Against a reference of
n rows, 2,000 rows of null streams are watched from the first row on; an alarm at any time is false.
Then one column, chosen at random, moves by half a standard deviation from the first row on: found
is what raises the alarm within 1,000 rows, named if that column has the most evidence when it does.
"""

import argparse
import time

import numpy as np
from scipy.special import logsumexp

from diglm.predictor.betting import Capital
from diglm.predictor.ranking import Ranking
from diglm.report.results import write_result

LEVEL, COLUMNS, SHIFT = 0.05, 10, 0.5
NULL_ROWS, MOVED_ROWS = 2000, 1000
AT_A_TIME = 50  # streams
CORRELATION = 0.3


def evidence(
    n_reference: int, n_rows: int, moved: np.ndarray, shift: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Log capital of each column (rows, streams, columns), and of the whole (rows, streams)."""
    covariance = CORRELATION + (1 - CORRELATION) * np.eye(COLUMNS)
    root = np.linalg.cholesky(covariance)
    n_streams = len(moved)
    rows = rng.normal(size=(n_reference + n_rows, n_streams, COLUMNS)) @ root.T
    rows[n_reference:, np.arange(n_streams), moved] += shift
    surprise = 0.5 * np.sum(rows * np.linalg.solve(covariance, rows[..., None])[..., 0], axis=-1)
    scores = np.concatenate([surprise[..., None], rows], axis=-1)
    scores = scores.reshape(len(rows), -1)
    p, _ = Ranking.of(scores[:n_reference], seed=int(rng.integers(2**31))).update(
        scores[n_reference:]
    )
    logs = Capital.at_start(p.shape[1]).update(p).reshape(n_rows, n_streams, 1 + COLUMNS)
    weights = np.concatenate([[0.5], np.full(COLUMNS, 0.5 / COLUMNS)])
    return logs[..., 1:], np.asarray(logsumexp(logs, b=weights, axis=-1))


def judge(n_reference: int, n_streams: int, seed: int) -> dict[str, float]:
    """Rates over many streams, against references of one size."""
    rng, needed = np.random.default_rng(seed), np.log(2 / LEVEL)  # half for inputs, half for y
    false, found, named, first = [], [], [], []
    for _ in range(0, n_streams, AT_A_TIME):
        moved = rng.integers(COLUMNS, size=AT_A_TIME)
        _, total = evidence(n_reference, NULL_ROWS, moved, 0.0, rng)
        false += (total.max(axis=0) >= needed).tolist()
        columns, total = evidence(n_reference, MOVED_ROWS, moved, SHIFT, rng)
        alarm = total >= needed
        row = np.argmax(alarm, axis=0)
        most = np.argmax(columns[row, np.arange(AT_A_TIME)], axis=1)
        found += alarm.any(axis=0).tolist()
        named += (alarm.any(axis=0) & (most == moved)).tolist()
        first += (row[alarm.any(axis=0)] + 1).tolist()
    return {
        "false_alarms": float(np.mean(false)),
        "found": float(np.mean(found)),
        "found_and_named": float(np.mean(named)),
        "median_row": float(np.median(first)),
        "streams": len(false),
    }


def main() -> None:
    """Judge references of several sizes, print and keep."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--streams", type=int, default=500)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", default="results/drift.json")
    asked = options.parse_args()
    started, metrics = time.perf_counter(), {}
    for n_reference in (200, 300, 1000, 3000):
        metrics[f"reference of {n_reference}"] = judge(n_reference, asked.streams, asked.seed)
        print(n_reference, metrics[f"reference of {n_reference}"], flush=True)
    config = {"streams": asked.streams, "level": LEVEL, "columns": COLUMNS, "shift": SHIFT}
    seconds = time.perf_counter() - started
    write_result(asked.out, config=config, seed=asked.seed, seconds=seconds, metrics=metrics)


if __name__ == "__main__":
    main()
