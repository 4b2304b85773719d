"""Columns that are absent when a model is asked: do its intervals have the right width?

    python benchmarks/absent.py [--splits 5] [--out results/absent.json]

Default regressors of two tables: diabetes (scikit-learn's, 442 rows of ten numbers) and a made one
with every kind of column (1,500 rows). In test rows one, two, or half of the columns are left out.
Of the central intervals of 90 % the share of targets inside is judged, and the NLL, beside those of
a model that was fitted without these columns, the best that can be had, and of the model that is
told their means or commonest levels instead.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from diglm import HybridRegressor
from diglm.data.toy import mixed_table
from diglm.report.results import write_result

LEVEL = 0.9


def _diabetes() -> tuple[pd.DataFrame, np.ndarray]:
    found = load_diabetes(as_frame=True, scaled=False)
    return found.data, found.target.to_numpy(float)


def _mixed() -> tuple[pd.DataFrame, np.ndarray]:
    table = mixed_table(1500, 0)
    return pd.DataFrame(table.x), table.response


TABLES = {"diabetes": _diabetes, "mixed kinds": _mixed}


def scores(model: HybridRegressor, X: pd.DataFrame, y: np.ndarray) -> dict[str, float]:
    """Share of targets inside, and NLL."""
    dist = model.predict_dist(X)
    low, high = dist.interval(LEVEL)
    return {
        "inside": float(np.mean((y >= low) & (y <= high))),
        "nll": float(-np.mean(dist.log_prob(y))),
    }


def filled(train: pd.DataFrame, X: pd.DataFrame, gone: list[str]) -> pd.DataFrame:
    """Absent columns at their means, or at the commonest level."""
    usual = {
        name: train[name].mean() if train[name].dtype.kind == "f" else train[name].mode()[0]
        for name in gone
    }
    return X.assign(**usual)


def judge(name: str, seed: int) -> dict[str, dict[str, float]]:
    """One split of one table."""
    X, y = TABLES[name]()
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    model = HybridRegressor(absent="draw", random_state=seed, verbose=False, reject=0.05)
    model.fit(train, y_train)
    found = {"none absent": scores(model, test, y_test)}
    columns = np.random.default_rng(seed).permutation(X.columns)
    for n_gone in (1, 2, len(columns) // 2):
        gone = list(columns[:n_gone])
        without = HybridRegressor(random_state=seed, verbose=False, reject=0.05)
        without.fit(train.drop(columns=gone), y_train)
        left = test.drop(columns=gone)
        found[f"{n_gone} absent, drawn"] = scores(model, left, y_test)
        found[f"{n_gone} absent, refitted"] = scores(without, left, y_test)
        told = filled(train, left, gone)[list(X.columns)]
        found[f"{n_gone} absent, usual values"] = scores(model, told, y_test)
    return found


def main() -> None:
    """Judge both tables, print and keep."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--out", default="results/absent.json")
    asked = options.parse_args()
    warnings.simplefilter("ignore")
    started, metrics = time.perf_counter(), {}
    for name in TABLES:
        each = [judge(name, seed) for seed in range(asked.splits)]
        metrics[name] = {
            case: {key: float(np.mean([one[case][key] for one in each])) for key in numbers}
            for case, numbers in each[0].items()
        }
        for case, numbers in metrics[name].items():
            print(f"{name:12} {case:26} inside {numbers['inside']:.3f} nll {numbers['nll']:.3f}")
    seconds = time.perf_counter() - started
    config = {"splits": asked.splits, "level": LEVEL}
    write_result(asked.out, config=config, seed=0, seconds=seconds, metrics=metrics)


if __name__ == "__main__":
    main()
