"""Does `explain` find the column that was altered? On five tables of scikit-learn.

    python benchmarks/explanations.py [--rows 100] [--out results/explanations.json]

Half of each table trains a default model. In each of up to `rows` others one column, chosen at
random among those that vary, is moved beyond its conditional range: to what a random forest
predicts from the other columns, plus or minus one and a half times the largest error of that forest
on rows it did not see. The share of rows in which the altered column is the most surprising one is
judged, beside that of the column with the largest distance from its mean, in standard deviations.
"""

import argparse
import time

import numpy as np
from sklearn import datasets
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import cross_val_predict, train_test_split

from diglm import HybridClassifier, HybridRegressor
from diglm.report.results import write_result

TABLES = {
    "iris": (datasets.load_iris, HybridClassifier),
    "wine": (datasets.load_wine, HybridClassifier),
    "breast cancer": (datasets.load_breast_cancer, HybridClassifier),
    "diabetes": (datasets.load_diabetes, HybridRegressor),
    "digits": (datasets.load_digits, HybridClassifier),
}
BEYOND = 1.5  # of the largest error


def altered(
    train: np.ndarray, rows: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with one value moved beyond its conditional range, and the columns of these values."""
    moved, columns = rows.copy(), rng.choice(np.flatnonzero(np.ptp(train, axis=0) > 0), len(rows))
    for j in np.unique(columns):
        forest = RandomForestRegressor(100, min_samples_leaf=3, random_state=0)
        others = np.delete(train, j, axis=1)
        errors = train[:, j] - cross_val_predict(forest, others, train[:, j], cv=5)
        some = np.flatnonzero(columns == j)
        centre = forest.fit(others, train[:, j]).predict(np.delete(rows[some], j, axis=1))
        sign = rng.choice([-1, 1], len(some))
        moved[some, j] = centre + sign * BEYOND * np.max(np.abs(errors))
        if np.all(train[:, j] == np.round(train[:, j])):  # whole numbers stay whole
            moved[some, j] = np.round(moved[some, j])
    return moved, columns


def judge(name: str, n_rows: int, seed: int) -> dict[str, float]:
    """Shares of rows in which the altered column comes first."""
    load, kind = TABLES[name]
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(seed)
    train, test, y_train, _ = train_test_split(X, y, test_size=0.5, random_state=seed)
    rows, columns = altered(train, test[:n_rows], rng)
    model = kind(random_state=seed, verbose=False, reject=0.05).fit(train, y_train)
    started = time.perf_counter()
    found = model.explain(rows)
    seconds = time.perf_counter() - started
    spread = np.where(np.ptp(train, axis=0) > 0, train.std(axis=0), np.inf)
    distance = np.abs(rows - train.mean(axis=0)) / spread
    return {
        "first": float(np.mean(found.ranking()[:, 0] == columns)),
        "first_by_distance": float(np.mean(np.argmax(distance, axis=1) == columns)),
        "refused": float(np.mean(model.rejects(rows))),
        "rows": len(rows),
        "seconds": seconds,
    }


def main() -> None:
    """Judge all tables, print and keep."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--rows", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", default="results/explanations.json")
    asked = options.parse_args()
    started, metrics = time.perf_counter(), {}
    for name in TABLES:
        metrics[name] = judge(name, asked.rows, asked.seed)
        print(name, metrics[name], flush=True)
    counts = [found["rows"] for found in metrics.values()]
    shares = [found["first"] for found in metrics.values()]
    metrics["all rows"] = float(np.average(shares, weights=counts))
    print("all rows", metrics["all rows"])
    config = {"rows": asked.rows, "beyond": BEYOND}
    seconds = time.perf_counter() - started
    write_result(asked.out, config=config, seed=asked.seed, seconds=seconds, metrics=metrics)


if __name__ == "__main__":
    main()
