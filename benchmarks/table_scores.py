"""What benchmarks/tables.py measures of one model on one table, and how it sums up many.

NLL of numbers. A target that is rounded, or zero in half of the rows, has no density: a model that
puts a needle on zero could have any NLL it likes. So every model is judged by the probability of
the interval of width h around y, divided by h, where h is the step of the target (1 for whole
numbers) or a thousandth of its standard deviation, whichever is larger. For smooth densities this
is the density; for counts it is the probability of the count.

NLL of classes. Probabilities of every model are kept above 1 / (n + K), n rows and K classes:
nobody can know more after n rows, and none is ruined by one row that it called impossible.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

Scores = dict[str, float]
Results = Mapping[str, Mapping[str, Scores]]  # table → model → scores
LEAST_MASS = 1e-8  # differences of CDFs below this have lost their digits


@dataclass(frozen=True)
class Numbers:
    """Predictive distributions of test rows: mean, CDF, log density, 90 % interval."""

    mean: np.ndarray
    cdf: Callable[[np.ndarray], np.ndarray]
    log_prob: Callable[[np.ndarray], np.ndarray]
    interval: tuple[np.ndarray, np.ndarray]


def normal(mean: np.ndarray, sd: np.ndarray | float) -> Numbers:
    """Normal distributions."""
    found = stats.norm(mean, np.maximum(sd, 1e-12))
    return Numbers(mean, found.cdf, found.logpdf, found.interval(0.9))


def step_of(y: np.ndarray) -> float:
    """The width h: the largest of 1, 0.1, ... 0.0001 that divides all y, or sd / 1,000."""
    finest = float(np.std(y)) / 1000
    for step in (1.0, 0.1, 0.01, 0.001, 0.0001):
        if np.all(np.abs(y / step - np.round(y / step)) < 1e-6 * np.maximum(1.0, np.abs(y / step))):
            return max(step, finest)
    return finest


def log_density(found: Numbers, y: np.ndarray, step: float) -> np.ndarray:
    """Log of the probability of the interval around y, divided by its width."""
    reach = 0.5 * step
    mass = found.cdf(y + reach) - found.cdf(y - reach)
    with np.errstate(divide="ignore"):
        return np.where(mass > LEAST_MASS, np.log(mass / step), found.log_prob(y))


def score_numbers(found: Numbers, y: np.ndarray, step: float) -> Scores:
    """NLL, RMSE and coverage of 90 % intervals."""
    low, high = found.interval
    return {
        "nll": _finite(-np.mean(log_density(found, y, step))),
        "rmse": _finite(np.sqrt(np.mean((found.mean - y) ** 2))),
        "coverage_90": float(np.mean((low <= y) & (y <= high))),
    }


def score_classes(
    probabilities: np.ndarray, classes: np.ndarray, y: np.ndarray, n_train: int
) -> Scores:
    """NLL and share of errors."""
    least = 1.0 / (n_train + len(classes))
    kept = np.maximum(probabilities, least)
    kept = kept / kept.sum(axis=1, keepdims=True)
    right = np.asarray(classes).astype(str)[None, :] == np.asarray(y).astype(str)[:, None]
    chosen = right[np.arange(len(y)), probabilities.argmax(axis=1)]
    nll = -np.mean(np.log(np.where(right.any(axis=1), (kept * right).sum(axis=1), least)))
    return {"nll": _finite(nll), "error": float(np.mean(~chosen))}


def _finite(value: float) -> float:
    if not np.isfinite(value):
        raise ValueError(f"a score is {value}")
    return float(value)


# ------------------------------------------------------------------ many tables


def mean_ranks(results: Results, models: list[str], measure: str) -> dict[str, float]:
    """Mean rank of each model, over the tables that have this measure and all these models.

    A model that failed on a table comes last there.
    """
    ranks = []
    for scores in results.values():
        if not all(model in scores for model in models):
            continue
        values = [scores[model].get(measure, np.inf) for model in models]
        if np.isfinite(values).any():
            ranks.append(stats.rankdata(values))
    return dict(zip(models, np.mean(ranks, axis=0).tolist(), strict=True)) if ranks else {}


def wins(results: Results, models: list[str], measure: str) -> dict[str, int]:
    """On how many tables each model is the best; ties count for all."""
    counts = dict.fromkeys(models, 0)
    for scores in results.values():
        values = {m: scores[m][measure] for m in models if measure in scores.get(m, {})}
        for model, value in values.items():
            counts[model] += value <= min(values.values())
    return counts


def worst_ratio(results: Results, model: str) -> tuple[float, str]:
    """The largest ratio of the model's RMSE to the best one, and where."""
    ratios = {
        name: scores[model]["rmse"] / best
        for name, scores in results.items()
        if "rmse" in scores.get(model, {})
        and (best := min(each["rmse"] for each in scores.values() if "rmse" in each)) > 0
    }
    where = max(ratios, key=ratios.__getitem__, default="")
    return ratios.get(where, float("nan")), where


def gaps_to_linear(results: Results, model: str) -> dict[str, float]:
    """NLL of the model less that of the linear model, a table each."""
    return {
        name: scores[model]["nll"] - scores["linear"]["nll"]
        for name, scores in results.items()
        if "nll" in scores.get(model, {}) and "nll" in scores.get("linear", {})
    }


def summary(results: Results, models: list[str]) -> dict[str, dict]:
    """Everything that is reported of each model; the process ranks only where it was run."""
    everywhere = [m for m in models if all(m in scores for scores in results.values())]
    found: dict[str, dict] = {model: {} for model in models}
    for measure in ("nll", "error", "rmse"):
        for label, group in (("", everywhere), ("_where_all_ran", models)):
            for model, rank in mean_ranks(results, group, measure).items():
                found[model][f"mean_rank_{measure}{label}"] = rank
        for model, count in wins(results, models, measure).items():
            found[model][f"wins_{measure}"] = count
    for model in models:
        ratio, where = worst_ratio(results, model)
        found[model] |= {"worst_rmse_ratio": ratio, "worst_rmse_ratio_on": where}
        if gaps := gaps_to_linear(results, model):
            worst = max(gaps, key=gaps.__getitem__)
            found[model] |= {
                "mean_gap_to_linear": float(np.mean([*gaps.values()])),
                "worst_gap_to_linear": gaps[worst],
                "worst_gap_to_linear_on": worst,
                "behind_linear": sum(gap > 0 for gap in gaps.values()),
            }
        found[model] |= _coverage(results, model)
        times = [s[model]["seconds"] for s in results.values() if "seconds" in s.get(model, {})]
        found[model]["total_seconds"] = float(np.sum(times))
        found[model]["failed_on"] = [n for n, s in results.items() if "failed" in s.get(model, {})]
    return found


def _coverage(results: Results, model: str) -> Scores:
    """Of 90 % intervals: the mean on tables below 500 rows, the least where 50 rows test."""
    met = {n: s[model] for n, s in results.items() if "coverage_90" in s.get(model, {})}
    small = [s["coverage_90"] for s in met.values() if s["n_train"] + s["n_test"] < 500]
    tested = {n: s["coverage_90"] for n, s in met.items() if s["n_test"] >= 50}
    found: dict = {}
    if small:
        found["mean_coverage_small"] = float(np.mean(small))
    if tested:
        where = min(tested, key=tested.__getitem__)
        found |= {"least_coverage": tested[where], "least_coverage_on": where}
    return found
