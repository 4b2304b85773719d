"""Known densities: how far from the truth are log p(x), log p(y|x) and draws?

    python benchmarks/densities.py [--seeds 3] [--out results/densities.json]

2,000 rows train; 5,000 fresh rows judge, and 5,000 draws. KL is the mean of log p_true(x) less that
of log p(x), the excess that of log p_true(y|x) less that of log p(y|x), in nats: 0 is perfect. A
draw lies outside if one of its numbers is outside the range of the training rows; how far, in
widths of that range. The truth's own rows stand beside. "mixture" is scikit-learn's Gaussian
mixture, with as many components, up to twenty, as have the least BIC.
"""

import argparse
import time
from functools import partial

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.mixture import GaussianMixture

from diglm import HybridDensity, HybridRegressor
from diglm.report.results import write_result
from kept import Kept, Result, diglm_source, library, means, read_options
from known_densities import DENSITIES, Rows

N_TRAIN, N_TEST = 2000, 5000
PROTOCOL = "densities 1"  # part of every key: change it with the way of judging
MODELS = ("regressor", "density", "mixture")


def outside(drawn: np.ndarray, train: np.ndarray) -> tuple[float, float]:
    """Share of rows that leave the training rows' range, and the farthest, in ranges."""
    low, high = train.min(axis=0), train.max(axis=0)
    beyond = np.maximum(np.maximum(low - drawn, drawn - high), 0.0) / (high - low)
    return float(np.mean(np.any(beyond > 0, axis=1))), float(np.max(beyond))


def judge(model: str, name: str, seed: int) -> Result:
    """Scores of one model of one density; a mixture has no columns but numbers, and no targets."""
    rng = np.random.default_rng(seed)
    train, test = (DENSITIES[name].rows(n, rng) for n in (N_TRAIN, N_TEST))
    if model == "mixture" and isinstance(train.x, pd.DataFrame):
        return {"left_out": True}
    started = time.perf_counter()
    log_px, drawn, found = FITS[model](train, test, seed)
    seconds = time.perf_counter() - started
    share, farthest = outside(drawn, train.numbers)
    true_share, true_farthest = outside(test.numbers, train.numbers)
    return found | {
        "kl": float(np.mean(test.log_px - log_px)),
        "outside": share,
        "outside_of_truth": true_share,
        "farthest": farthest,
        "farthest_of_truth": true_farthest,
        "seconds": seconds,
    }


Fitted = tuple[np.ndarray, np.ndarray, Result]


def _regressor(train: Rows, test: Rows, seed: int) -> Fitted:
    model = HybridRegressor(random_state=seed, verbose=False).fit(train.x, train.y)
    dist = model.predict_dist(test.x)
    nll = -np.mean(dist.log_prob(test.y))
    found = {"nll": float(nll), "excess_nll": float(nll + np.mean(test.log_py))}
    return model.score_samples(test.x), _numbers(model.sample(N_TEST, random_state=seed)), found


def _density(train: Rows, test: Rows, seed: int) -> Fitted:
    model = HybridDensity(random_state=seed, verbose=False).fit(train.x)
    return model.score_samples(test.x), _numbers(model.sample(N_TEST, random_state=seed)), {}


def _mixture(train: Rows, test: Rows, seed: int) -> Fitted:
    fits = [GaussianMixture(k, random_state=seed).fit(train.x) for k in range(1, 21)]
    best = min(fits, key=lambda fit: fit.bic(train.x))
    return best.score_samples(test.x), best.sample(N_TEST)[0], {"components": best.n_components}


FITS = {"regressor": _regressor, "density": _density, "mixture": _mixture}


def _numbers(drawn) -> np.ndarray:
    return pd.DataFrame(drawn).select_dtypes("number").to_numpy(float)


def mean_of(runs: list[Result]) -> Result:
    """Means over seeds, of the farthest draw the maximum."""
    return {
        key: float((np.max if key.startswith("farthest") else np.mean)([run[key] for run in runs]))
        for key in runs[0]
    }


def show(metrics: dict) -> None:
    """Print a row for each density and model."""
    columns = ("kl", "excess_nll", "outside", "outside_of_truth", "farthest", "farthest_of_truth")
    table = Table(
        "density", "model", *(column.replace("_", " ") for column in (*columns, "seconds"))
    )
    for name, models in metrics["densities"].items():
        for model, found in models.items():
            if "failed" in found:
                table.add_row(name, model, found["failed"])
                continue
            cells = (f"{found[c]:.3f}" if c in found else "" for c in columns)
            table.add_row(name, model, *cells)
    Console(width=140).print(table)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=DENSITIES, default=[*DENSITIES])
    options, models = read_options(parser, MODELS, "results/densities.json")
    started = time.perf_counter()
    tasks, meaning = {}, {}
    for name in options.only:
        for seed in range(options.seeds):
            for model in models:
                code = library("scikit-learn") if model == "mixture" else diglm_source()
                key = (PROTOCOL, name, seed, model, code)
                tasks[key] = partial(judge, model, name, seed)
                meaning[key] = (name, seed, model)
    kept = Kept(options.cache or options.out.with_suffix(".jsonl"))
    results = kept.run(tasks, jobs=options.jobs)
    metrics = {
        "densities": means({meaning[key]: result for key, result in results.items()}, mean_of)
    }
    show(metrics)
    config = {"train": N_TRAIN, "test": N_TEST, "seeds": options.seeds, "models": models}
    seconds = time.perf_counter() - started
    write_result(options.out, config=config, seed=0, seconds=seconds, metrics=metrics)


if __name__ == "__main__":
    main()
