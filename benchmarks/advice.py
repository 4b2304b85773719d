"""Counterfactuals under constraints: are they valid, familiar, and cheap?

    python benchmarks/advice.py [--rows 100] [--out results/advice.json]

Default models of four tables. Rows that were not seen are to be answered with another class, or
with a mean one deviation of the targets higher. A third of the columns, chosen at random, is fixed;
one more can only rise, one only fall, one has bounds about its middle half. An answer counts as
valid if a fresh look at it says so: answered as asked, not refused, and no constraint broken.
Beside it stands brute force: all training rows, moved to where they are allowed. Where one of these
is valid and the search found nothing, the search has missed an answer.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.model_selection import train_test_split

from diglm import HybridClassifier, HybridRegressor
from diglm.data.toy import mixed_table
from diglm.predictor.actions import Actions
from diglm.predictor.search import Search
from diglm.report.results import write_result


def _frame(load) -> tuple[pd.DataFrame, np.ndarray]:
    found = load(as_frame=True)
    return found.data, found.target.to_numpy()


def _mixed() -> tuple[pd.DataFrame, np.ndarray]:
    table = mixed_table(1500, 0)
    return pd.DataFrame(table.x), table.label


TABLES = {
    "wine": (lambda: _frame(datasets.load_wine), HybridClassifier),
    "breast cancer": (lambda: _frame(datasets.load_breast_cancer), HybridClassifier),
    "mixed kinds": (_mixed, HybridClassifier),
    "diabetes": (lambda: _frame(datasets.load_diabetes), HybridRegressor),
}


def constraints(train: pd.DataFrame, rng: np.random.Generator) -> dict:
    """Fixed columns, directions and bounds, drawn at random."""
    columns = rng.permutation(train.columns)
    n_fixed = max(1, len(columns) // 3)
    fixed, others = list(columns[:n_fixed]), columns[n_fixed:]
    numbers = [name for name in others if train[name].dtype.kind in "iuf"]
    found: dict = {"fixed": fixed}
    if len(numbers) > 3:
        up, down, between = numbers[:3]
        low, high = train[between].quantile([0.25, 0.75])
        found |= {"direction": {up: "up", down: "down"}, "bounds": {between: (low, high)}}
    return found


def kept(rows: pd.DataFrame, found: pd.DataFrame, asked: dict) -> np.ndarray:
    """Which answers break no constraint."""
    rows, found = rows.reset_index(drop=True), found.reset_index(drop=True)
    good = np.ones(len(rows), bool)
    for name in asked["fixed"]:
        good &= (rows[name] == found[name]) | (rows[name].isna() & found[name].isna())
    for name, way in asked.get("direction", {}).items():
        rise = (found[name] - rows[name]).to_numpy(float)
        good &= np.nan_to_num(rise if way == "up" else -rise) >= -1e-9
    for name, (low, high) in asked.get("bounds", {}).items():
        values = found[name].to_numpy(float)
        good &= np.isnan(values) | ((values >= low - 1e-9) & (values <= high + 1e-9))
    return good


def judge(name: str, n_rows: int, seed: int) -> dict[str, float]:
    """Shares and costs on one table."""
    load, kind = TABLES[name]
    X, y = load()
    train, test, y_train, _ = train_test_split(X, y, test_size=0.3, random_state=seed)
    model = kind(random_state=seed, verbose=False, reject=0.05).fit(train, y_train)
    rng = np.random.default_rng(seed)
    rows = test[~model.rejects(test)][:n_rows]
    now = model.predict(rows)
    if kind is HybridClassifier:
        wanted = np.array([rng.choice([c for c in model.classes_ if c != p]) for p in now])
    else:
        wanted = now + y_train.std()
    asked = constraints(train, rng)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.counterfactual(rows, wanted, **asked)
    seconds = time.perf_counter() - started
    again = model.predict(found.x)
    right = again == wanted
    if kind is HybridRegressor:
        right = np.abs(again - wanted) <= 0.0101 * y_train.std()
    strange, within = model.rejects(found.x), kept(rows, found.x, asked)
    honest = ~found.valid | (right & ~strange & within)
    forced, cost = brute_force(model, train, rows, wanted, asked)
    both = found.valid & forced
    return {
        "valid": float(np.mean(found.valid)),
        "valid_or_said_to_be_impossible": float(np.mean(honest)),
        "strange_among_valid": float(np.mean(strange[found.valid])) if found.valid.any() else 0.0,
        "possible_by_brute_force": float(np.mean(forced)),
        "missed": float(np.mean(forced & ~found.valid)),
        "cost_by_that_of_brute_force": float(np.median(found.cost[both] / cost[both])),
        "columns_changed": float(np.mean(_changed(rows, found.x)[found.valid])),
        "rows": len(rows),
        "seconds": seconds,
    }


def brute_force(
    model: HybridClassifier | HybridRegressor,
    train: pd.DataFrame,
    rows: pd.DataFrame,
    wanted: np.ndarray,
    asked: dict,
) -> tuple[np.ndarray, np.ndarray]:
    """Whether a training row, moved to where it is allowed, is valid; and the least cost."""
    predictor = model.predictor_
    actions = Actions.of(predictor.encoder.facets, predictor.cells(rows), **asked)
    tried, cost = predictor.cells(train[:500]), np.full(len(rows), np.inf)
    for i in range(len(rows)):
        own = actions.take(np.array([i]))
        moved = own.project(tried[None])
        judged = Search(predictor, wanted[[i]], 0.0, False).judged(own, moved)
        paid = own.cost(moved).sum(axis=2)
        cost[i] = np.min(np.where(judged.valid, paid, np.inf))
    return np.isfinite(cost), cost


def _changed(rows: pd.DataFrame, found: pd.DataFrame) -> np.ndarray:
    rows, found = rows.reset_index(drop=True), found.reset_index(drop=True)
    return np.sum([(rows[c] != found[c]) & ~rows[c].isna() for c in rows.columns], axis=0)


def main() -> None:
    """Judge all tables, print and keep."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--rows", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", default="results/advice.json")
    asked = options.parse_args()
    started, metrics = time.perf_counter(), {}
    for name in TABLES:
        metrics[name] = judge(name, asked.rows, asked.seed)
        print(name, metrics[name], flush=True)
    seconds = time.perf_counter() - started
    config = {"rows": asked.rows}
    write_result(asked.out, config=config, seed=asked.seed, seconds=seconds, metrics=metrics)


if __name__ == "__main__":
    main()
