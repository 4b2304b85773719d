"""Anomalies of ADBench's tables: HybridDensity at its defaults against PyOD's detectors at theirs.

    python benchmarks/anomalies.py [--data-dir FOLDER] [--seeds 3] [--out results/anomalies.json]

One-class protocol: train on half of the normal rows, judge by AUROC on the other half and all
anomalies. Of more than 10,000 training rows a fixed random 10,000 train, for all models alike.
PyOD's detectors see columns standardised by the training rows, without which those by distance
would be handicapped; diglm sees the columns as they are. The tables are found in DIGLM_DATA.
"""

import argparse
import time
import warnings
from functools import partial
from importlib import import_module

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from diglm import HybridDensity
from diglm.data.downloads import ADBENCH_TABLES, adbench
from diglm.report.results import write_result
from kept import Kept, Result, diglm_source, library, read_options

MOST_ROWS = 10_000  # that train
PROTOCOL = "anomalies 1"  # part of every key: change it with the way of judging
# Detectors of PyOD that need neither PyTorch nor hours: class, and whether it takes a seed.
DETECTORS = {
    "CBLOF": True,
    "COPOD": False,
    "ECOD": False,
    "GMM": True,
    "HBOS": False,
    "IForest": True,
    "INNE": True,
    "KDE": False,
    "KNN": False,
    "LODA": False,
    "LOF": False,
    "MCD": True,
    "OCSVM": False,
    "PCA": True,
}
MODELS = ("diglm", *DETECTORS)


def rows_of(name: str, seed: int, data_dir: str | None) -> tuple[np.ndarray, ...]:
    """Training rows, test rows, and which of the latter are anomalies."""
    x, strange = adbench(name, data_dir)
    normal = np.random.default_rng(seed).permutation(np.flatnonzero(~strange))
    train, test = np.split(normal, [len(normal) // 2])
    test = np.concatenate([test, np.flatnonzero(strange)])
    return x[train[:MOST_ROWS]], x[test], strange[test]


def judge(model: str, name: str, seed: int, data_dir: str | None) -> Result:
    """AUROC of one model on one table, and how long it took to fit and to score."""
    train, test, strange = rows_of(name, seed, data_dir)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns, singular covariances
        started = time.perf_counter()
        if model == "diglm":
            scores = HybridDensity(random_state=seed, verbose=False).fit(train).strangeness(test)
        else:
            scale = StandardScaler().fit(train)
            settings = {"random_state": seed} if DETECTORS[model] else {}
            detector = getattr(import_module(f"pyod.models.{model.lower()}"), model)(**settings)
            np.random.seed(seed)  # noqa: NPY002  LODA takes no seed of its own
            scores = detector.fit(scale.transform(train)).decision_function(scale.transform(test))
    seconds = time.perf_counter() - started
    if np.any(np.isnan(scores)):
        raise ValueError(f"{np.sum(np.isnan(scores))} of {len(scores)} scores are not numbers.")
    limits = np.finfo(np.float64)
    auroc = roc_auc_score(strange, np.clip(scores, limits.min, limits.max))
    return {"auroc": float(auroc), "seconds": seconds, "n_train": len(train), "n_test": len(test)}


def summary(found: dict[tuple[str, int, str], Result]) -> dict:
    """Means over seeds, over tables, and mean ranks; a model that failed has an AUROC of 1/2.

    Means and ranks are over the tables that every model has met, so that all face the same ones.
    """
    models = list(dict.fromkeys(model for _, _, model in found))
    tables: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(name for name, _, _ in found):
        tables[name] = {}
        for model in models:
            runs = [result for key, result in found.items() if key[::2] == (name, model)]
            if runs:
                tables[name][model] = float(np.mean([run.get("auroc", 0.5) for run in runs]))
    shared = [scores for scores in tables.values() if len(scores) == len(models)]
    by_table = np.array([[scores[model] for model in models] for scores in shared])
    ranks = stats.rankdata(-by_table, axis=1).mean(axis=0)
    return {
        "tables": tables,
        "mean_auroc": dict(zip(models, by_table.mean(axis=0).tolist(), strict=True)),
        "mean_rank": dict(zip(models, ranks.tolist(), strict=True)),
        "failed": [
            f"{n} {s} {m}: {r['failed']}" for (n, s, m), r in found.items() if "failed" in r
        ],
    }


def show(metrics: dict) -> None:
    """Print models in order of rank, and each table's AUROC beside the best of the others."""
    models = sorted(metrics["mean_rank"], key=metrics["mean_rank"].__getitem__)
    overall = Table("model", "mean AUROC, %", "mean rank")
    for model in models:
        mean, rank = metrics["mean_auroc"][model], metrics["mean_rank"][model]
        overall.add_row(model, f"{100 * mean:.2f}", f"{rank:.2f}")
    each = Table("table", "diglm", "best of the others", "which")
    for name, scores in metrics["tables"].items():
        ours = f"{100 * scores['diglm']:.1f}" if "diglm" in scores else ""
        others = {model: score for model, score in scores.items() if model != "diglm"}
        best = max(others, key=others.__getitem__, default="")
        each.add_row(name, ours, f"{100 * others[best]:.1f}" if best else "", best)
    Console().print(overall, each, *metrics["failed"])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of adbench_odd.npz (else DIGLM_DATA)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=ADBENCH_TABLES, default=ADBENCH_TABLES)
    options, models = read_options(parser, MODELS, "results/anomalies.json")
    started = time.perf_counter()
    tasks, names = {}, {}
    for name in options.only:
        for seed in range(options.seeds):
            for model in models:
                code = diglm_source() if model == "diglm" else library("pyod")
                key = (PROTOCOL, name, seed, model, code)
                tasks[key] = partial(judge, model, name, seed, options.data_dir)
                names[key] = (name, seed, model)
    kept = Kept(options.cache or options.out.with_suffix(".jsonl"))
    results = kept.run(tasks, jobs=options.jobs)
    metrics = summary({names[key]: result for key, result in results.items()})
    show(metrics)
    config = {"tables": [*options.only], "seeds": options.seeds, "models": models}
    seconds = time.perf_counter() - started
    write_result(options.out, config=config, seed=0, seconds=seconds, metrics=metrics)


if __name__ == "__main__":
    main()
