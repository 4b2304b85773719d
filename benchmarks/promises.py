"""Do promises hold? Refusals at a rate, errors among answered rows, coverage, over random splits.

    python benchmarks/promises.py [--splits 200] [--only "refusals of continuous, 300"] [--out FILE]

Each split draws a table anew from a population, fits a model and asks it about 500 new rows of the
same population. Fits are cheap: one matrix (`flow="linear"`) for two epochs, or none (`"identity"`,
for answers), so that what is judged is the calibration and not the model; promises do not depend on
how good that is. Populations are of five columns: continuous ones, skewed and heavy in their tails;
categories with rare levels that many tables do not show; and continuous ones with two fifths of the
rows lacking a value.

Refusals: the share refused at the default rate, 1 %, and at rates of 5 and 10 % by p-values. The
band is exact for rows held out: of m new rows a beta-binomial number is refused, its mean over the
splits at most the rate; the upper end has a probability of 1 in 1,000 to be exceeded.
Risk: how often the error among answered new rows exceeds the limit, against a binomial band.
Coverage: of sets and intervals at 90 %, among answered new rows, against the same kind of band.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from diglm import HybridClassifier, HybridDensity, HybridRegressor
from diglm.refusal import Conformal, RiskControl
from diglm.report.results import write_result

NEW, RATES, SIZES, LEVEL = 500, (0.05, 0.1), (30, 300, 3000), 0.9
ERROR, CONFIDENCE = 0.15, 0.9
SURE = 0.999
LINEAR = {"flow": "linear", "n_epochs": 2, "verbose": False}
EXACT = {"flow": "identity", "verbose": False}


def continuous(n: int, rng: np.random.Generator) -> np.ndarray:
    """Five columns that depend on two, one skewed, all with heavy tails."""
    z = rng.normal(size=(n, 2))
    noise = rng.standard_t(4, size=(n, 5))
    x = z @ np.array([[1.0, 0.5, -1.0, 0.2, 0.0], [0.0, 1.0, 1.0, -0.5, 2.0]]) + 0.5 * noise
    x[:, 4] = np.exp(0.5 * x[:, 4])
    return x


def categorical(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Five columns of levels whose frequencies fall, two of them following the first."""
    first = rng.geometric(0.3, n)
    columns = {f"c{j}": rng.geometric(0.2 + 0.1 * j, n) for j in (1, 2)}
    columns |= {
        f"d{j}": np.where(rng.random(n) < 0.8, first, rng.geometric(0.4, n)) for j in (1, 2)
    }
    return pd.DataFrame({"first": first} | columns).astype(str).astype("category")


def missing(n: int, rng: np.random.Generator) -> np.ndarray:
    """The continuous rows with gaps: some at random, some where another column is large."""
    x = continuous(n, rng)
    gaps = rng.random(x.shape) < 0.07
    gaps[:, 1] |= (x[:, 0] > 1) & (rng.random(n) < 0.5)
    gaps[:, 0] &= ~gaps[:, 1]
    return np.where(gaps, np.nan, x)


POPULATIONS: dict[str, Callable] = {
    "continuous": continuous,
    "categorical": categorical,
    "missing": missing,
}


def target_of(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A number that follows the columns and what is lacking, its noise growing."""
    known = np.nan_to_num(x)
    return (
        known[:, 0]
        + 0.5 * known[:, 1]
        + (0.3 + 0.3 * np.abs(known[:, 2])) * rng.normal(size=len(x))
    )


def upper(n_seen: int, rate: float, n_splits: int, error: float) -> float:
    """What the mean share refused exceeds once in 1,000 times, if the promise holds."""
    rank = np.floor(rate * (n_seen + 1) + 1e-9)
    if rank < 1:  # nothing is promised; said is whether it held all the same
        return rate + float(stats.norm.ppf(SURE)) * error
    law = stats.betabinom(NEW, rank, n_seen + 1 - rank)
    return float((law.mean() + stats.norm.ppf(SURE) * law.std() / n_splits**0.5) / NEW)


def refusals(kind: str, n: int, n_splits: int) -> dict[str, float]:
    """Shares of new familiar rows that are refused."""
    shares: dict[str, list[float]] = {}
    for seed in range(n_splits):
        rng = np.random.default_rng([seed, n])
        rows = POPULATIONS[kind](n + NEW, rng)
        table, new = rows[:n], rows[n:]
        model = HybridDensity(random_state=seed, **LINEAR).fit(table)
        p = model.p_value(new)
        shares.setdefault("0.01", []).append(float(np.mean(model.rejects(new))))
        for rate in RATES:
            shares.setdefault(str(rate), []).append(float(np.mean(p <= rate)))
        seen = len(model.predictor_.refusal.threshold.ranks)
    found: dict[str, float] = {"rows that set the threshold": seen}
    for rate, each in shares.items():
        mean, error = float(np.mean(each)), float(np.std(each) / n_splits**0.5)
        limit = upper(seen, float(rate), n_splits, error)
        found |= {f"at {rate}": mean, f"at {rate}, standard error": error}
        found |= {f"at {rate}, upper band": limit, f"at {rate}, holds": mean <= limit}
    return found


def errors(kind: str, n: int, n_splits: int) -> dict[str, float]:
    """Risk control, and the coverage of sets of classes among the rows that it answers."""
    broken, answered, errors, covered, sizes = [], [], [], [], []
    rule = RiskControl(error=ERROR, confidence=CONFIDENCE)
    for seed in range(n_splits):
        rng = np.random.default_rng([seed, n])
        x = POPULATIONS[kind](n + NEW, rng)
        y = np.digitize(target_of(x, rng), [-0.7, 0.7])
        model = HybridClassifier(
            score="undecided", reject=rule, random_state=seed, validation_fraction=0.5, **EXACT
        ).fit(x[:n], y[:n])
        kept = ~model.rejects(x[n:])
        wrong = model.predict(x[n:]) != y[n:]
        answered.append(float(np.mean(kept)))
        if np.any(kept):
            sets = model.predict_set(x[n:], LEVEL)[kept]
            errors.append(float(np.mean(wrong[kept])))
            covered.append(float(np.mean(sets[np.arange(len(sets)), y[n:][kept]])))
            sizes.append(float(np.mean(sets.sum(axis=1))))
        # Broken only if the error is above the limit beyond what 500 rows leave open.
        sure = stats.binom.ppf(SURE, kept.sum(), ERROR)
        broken.append(bool(np.sum(wrong[kept]) > sure))
    allowed = stats.binom.ppf(SURE, n_splits, 1 - CONFIDENCE) / n_splits
    return {
        "error among answered": float(np.mean(errors)),
        "above the limit for sure": float(np.mean(broken)),
        "above the limit": float(np.sum(np.array(errors) > ERROR) / n_splits),
        "allowed": float(allowed),
        "answered": float(np.mean(answered)),
        "coverage of sets among answered": float(np.mean(covered)),
        "standard error of coverage": float(np.std(covered) / len(covered) ** 0.5),
        "classes in a set": float(np.mean(sizes)),
    }


def intervals(kind: str, n: int, n_splits: int) -> dict[str, float]:
    """Coverage of intervals of numbers, and of sets of classes, at a small rate of refusals."""
    covered, plain, of_sets = [], [], []
    rule = Conformal(0.05)
    for seed in range(n_splits):
        rng = np.random.default_rng([seed, n])
        x = POPULATIONS[kind](n + NEW, rng)
        y = target_of(x, rng)
        shared = {"random_state": seed, "reject": rule, **EXACT}
        model = HybridRegressor(head="heteroscedastic", **shared).fit(x[:n], y[:n])
        kept = ~model.rejects(x[n:])
        for ends, told in (
            (model.predict_interval(x[n:], LEVEL).T, covered),
            (model.predict_dist(x[n:]).interval(LEVEL), plain),
        ):
            inside = (ends[0] <= y[n:]) & (y[n:] <= ends[1])
            told.append(float(np.mean(inside[kept])))
        classes = np.digitize(y, [-0.7, 0.7])
        told = HybridClassifier(**shared).fit(x[:n], classes[:n])
        kept = ~told.rejects(x[n:])
        sets = told.predict_set(x[n:], LEVEL)
        of_sets.append(float(np.mean(sets[np.arange(NEW), classes[n:]][kept])))
    found = {"intervals that are not calibrated": float(np.mean(plain))}
    for name, each in (("intervals", covered), ("sets", of_sets)):
        error = float(np.std(each) / n_splits**0.5)
        found |= {name: float(np.mean(each)), f"{name}, standard error": error}
        found[f"{name}, holds"] = found[name] >= LEVEL - stats.norm.ppf(SURE) * error
    return found


def cells() -> dict[str, Callable[[int], dict[str, float]]]:
    """What is judged, by name."""
    found: dict[str, Callable[[int], dict[str, float]]] = {}
    for n in SIZES:
        for kind in POPULATIONS:
            found[f"refusals of {kind}, {n}"] = lambda k, kind=kind, n=n: refusals(kind, n, k)
    for n in (300, 3000):
        found[f"risk of continuous, {n}"] = lambda k, n=n: errors("continuous", n, k)
    for kind in ("continuous", "missing"):
        for n in (30, 300):
            found[f"answers of {kind}, {n}"] = lambda k, kind=kind, n=n: intervals(kind, n, k)
    return found


def main() -> None:
    """Judge all, or those asked for, print and keep; what was judged before stays in the file."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--splits", type=int, default=200)
    options.add_argument("--only", action="append", choices=list(cells()))
    options.add_argument("--out", type=Path, default=Path("results/promises.json"))
    asked = options.parse_args()
    warnings.simplefilter("ignore")  # small tables, whose rate cannot be promised
    started = time.perf_counter()
    before = json.loads(asked.out.read_text()) if asked.out.exists() else {"metrics": {}}
    metrics, spent = before["metrics"], before.get("seconds", 0.0)
    for name in asked.only or cells():
        metrics[name] = cells()[name](asked.splits)
        print(name, json.dumps(metrics[name]), flush=True)
        config = {"splits": asked.splits, "new rows": NEW, "linear": LINEAR, "exact": EXACT}
        seconds = spent + time.perf_counter() - started
        write_result(asked.out, config=config, seed=0, seconds=seconds, metrics=metrics)


if __name__ == "__main__":
    main()
