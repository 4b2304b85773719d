"""How good a model is on rows whose targets are known, in numbers."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from diglm.predictor import Predictor
from diglm.refusal import Known
from diglm.targets import AbstractTarget, ClassTarget, NoTarget, NumberTarget
from diglm.targets.base import Column, is_missing

Measures = dict[str, float | int]
LEVELS = (0.5, 0.8, 0.9, 0.95)  # of the intervals whose coverage is told
SHARE, NUMBER, COUNT = "{:.1%}", "{:.4g}", "{:,}"
# How people read each measure: its words, and whether it is a share, a number or a count.
WORDS: dict[str, tuple[str, str]] = {
    "rows": ("rows", COUNT),
    "labelled": ("rows with a known target", COUNT),
    "accuracy": ("accuracy", SHARE),
    "accuracy_when_answered": ("accuracy among the rows answered", SHARE),
    "baseline_accuracy": ("accuracy of always saying the commonest class", SHARE),
    "r2": ("R²", NUMBER),
    "rmse": ("root mean squared error", NUMBER),
    "rmse_when_answered": ("the same among the rows answered", NUMBER),
    "mae": ("mean absolute error", NUMBER),
    "baseline_rmse": ("root mean squared error of always saying the mean", NUMBER),
    "nll": ("negative log-likelihood, nats a row", NUMBER),
    "brier": ("Brier score", NUMBER),
    "calibration_error": ("calibration error", SHARE),
    "coverage_50": ("truth inside the 50 % interval", SHARE),
    "coverage_80": ("truth inside the 80 % interval", SHARE),
    "coverage_90": ("truth inside the 90 % interval", SHARE),
    "coverage_95": ("truth inside the 95 % interval", SHARE),
    "width_90": ("mean width of the 90 % interval", NUMBER),
    "refused": ("refused as too strange", SHARE),
    "log_px": ("mean log p(x), nats a row", NUMBER),
}


def measure(predictor: Predictor, X: object, y: Column | None = None) -> Measures:
    """The measures of rows `X` with targets `y`; without targets those of the density alone."""
    encoded = predictor.encode(X, extra="ignore")  # type: ignore[arg-type]
    return measured(predictor, predictor.known(encoded), y)


def worded(measures: Measures) -> dict[str, str]:
    """Measures as people read them."""
    return {
        words: kind.format(measures[name])
        for name, (words, kind) in WORDS.items()
        if name in measures
    }


def measured(predictor: Predictor, known: Known, y: Column | None) -> Measures:
    """The same of rows that were looked at already."""
    refused = predictor.refusal.rejects(known)
    found: Measures = {"rows": len(refused), "refused": float(np.mean(refused))}
    if y is not None:
        labelled = ~is_missing(y)
        found |= {"labelled": int(labelled.sum())}
        if labelled.any():
            found |= OF_TARGETS[type(predictor.target)](predictor, known, y, labelled, refused)
    return found | {"log_px": float(np.mean(known.log_px))}


def of_classes(
    predictor: Predictor, known: Known, y: Column, labelled: np.ndarray, refused: np.ndarray
) -> Measures:
    """Accuracy, that among the rows answered, NLL in nats, Brier score, calibration error."""
    target: ClassTarget = predictor.target  # type: ignore[assignment]
    probability = probabilities(target, known)
    truth = membership(target.classes, y[labelled])
    told = np.argmax(probability[labelled], axis=1)
    right = truth[np.arange(len(told)), told]
    answered = ~refused[labelled]
    sure = probability.max(axis=1)[labelled]
    own = np.sum(probability[labelled] * truth, axis=1)
    own = own[truth.any(axis=1)]  # a class never seen has no probability to take the log of
    return {
        "accuracy": float(right.mean()),
        "accuracy_when_answered": _mean(right[answered]),
        "nll": _mean(-np.log(np.maximum(own, 1e-300))),
        "brier": float(np.mean(np.sum((probability[labelled] - truth) ** 2, axis=1))),
        "calibration_error": calibration_error(sure, right),
        "baseline_accuracy": float(truth.mean(axis=0).max()),
    }


def of_numbers(
    predictor: Predictor, known: Known, y: Column, labelled: np.ndarray, refused: np.ndarray
) -> Measures:
    """R^2, RMSE, that among the rows answered, NLL in nats, coverage and width of intervals."""
    target: NumberTarget = predictor.target  # type: ignore[assignment]
    dist = target.distribution(known.response)
    truth = np.asarray(y, float)
    error = (dist.mean - truth)[labelled]
    answered = ~refused[labelled]
    spread = float(np.var(truth[labelled]))
    found: Measures = {
        "r2": float(1 - np.mean(error**2) / spread) if spread > 0 else float("nan"),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "rmse_when_answered": float(np.sqrt(_mean(error[answered] ** 2))),
        "mae": float(np.mean(np.abs(error))),
        "nll": float(-np.mean(dist.log_prob(truth)[labelled])),
        "baseline_rmse": float(np.sqrt(spread)),
    }
    for level in LEVELS:
        low, high = predictor.interval(known.response, level)
        inside = (truth >= low) & (truth <= high)
        found[f"coverage_{100 * level:.0f}"] = float(np.mean(inside[labelled]))
    low, high = predictor.interval(known.response, 0.9)
    found["width_90"] = float(np.mean(high - low))
    return found


def of_nothing(
    predictor: Predictor, known: Known, y: Column, labelled: np.ndarray, refused: np.ndarray
) -> Measures:
    """Nothing is predicted."""
    return {}


def log_prob(predictor: Predictor, known: Known, y: Column) -> Float[np.ndarray, " rows"]:
    """log p(y|x) of each row; minus infinity for classes that training never saw."""
    return LOG_PROBS[type(predictor.target)](predictor.target, known, y)


def _log_prob_of_classes(target: ClassTarget, known: Known, y: Column) -> np.ndarray:
    own = np.sum(probabilities(target, known) * membership(target.classes, y), axis=1)
    with np.errstate(divide="ignore"):
        return np.log(own)


def _log_prob_of_numbers(target: NumberTarget, known: Known, y: Column) -> np.ndarray:
    return target.distribution(known.response).log_prob(np.asarray(y, float))


def _log_prob_of_nothing(target: NoTarget, known: Known, y: Column) -> np.ndarray:
    return np.full(len(known.log_px), np.nan)


def probabilities(target: ClassTarget, known: Known) -> Float[np.ndarray, "rows classes"]:
    """p(y|x) of rows that were looked at."""
    logits = np.asarray(target.logits(known.response), float)
    logits = logits - logits.max(axis=1, keepdims=True)
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def membership(classes: np.ndarray, y: Column) -> np.ndarray:
    """Whether each row is of each class; numbers are compared as numbers, all else as text."""
    if classes.dtype.kind in "biuf":
        return np.asarray(y, float)[:, None] == classes.astype(float)[None, :]
    return y.astype(str)[:, None] == classes.astype(str)[None, :]


def calibration_error(
    sure: Float[np.ndarray, " rows"], right: np.ndarray, n_bins: int = 10
) -> float:
    """Mean distance of confidence and accuracy over bins of equally many rows."""
    parts = np.array_split(np.argsort(sure, kind="stable"), min(n_bins, max(1, len(sure) // 10)))
    gaps = [abs(sure[part].mean() - right[part].mean()) * len(part) for part in parts if len(part)]
    return float(np.sum(gaps) / len(sure))


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


OF_TARGETS: dict[type[AbstractTarget], Callable[..., Measures]] = {
    ClassTarget: of_classes,
    NumberTarget: of_numbers,
    NoTarget: of_nothing,
}
LOG_PROBS: dict[type[AbstractTarget], Callable[..., np.ndarray]] = {
    ClassTarget: _log_prob_of_classes,
    NumberTarget: _log_prob_of_numbers,
    NoTarget: _log_prob_of_nothing,
}
