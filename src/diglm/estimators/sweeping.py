"""`sweep`: the trade-off between p(y|x) and p(x), as fitted models from one training run."""

import math
import numbers
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.utils.validation import column_or_1d

from diglm.data.table.encoder import Encoded
from diglm.estimators import engine
from diglm.estimators.base import AbstractHybridEstimator, Prepared
from diglm.estimators.classifier import HybridClassifier
from diglm.estimators.frames import table_like
from diglm.estimators.regressor import HybridRegressor
from diglm.estimators.targets import AbstractTarget
from diglm.training import FitResult, ProgressBar
from diglm.training.together import fit_together

HIGHER_IS_BETTER = {"accuracy": True, "rmse": False, "nll": False}
HIGHER_IS_BETTER |= {"log_px": True, "bits_per_dim": False}
LINE, GRID = "#1f4e79", "#dddddd"


@dataclass(frozen=True)
class Sweep:
    """What `sweep` gives.

    Attributes:
        models: fitted estimators, in the order of the weights given.
        table: one row a model: `generative_weight`, `epochs`, and on the held-out rows `accuracy`
            or `rmse`, `nll` (mean -log p(y|x)), `log_px` (mean, in the user's units),
            `bits_per_dim` and `refused` (share of rows). The held-out rows chose each model's
            epoch, confidence and threshold, so they flatter a little; the columns of the test
            rows, which begin with `test_`, do not.
    """

    models: tuple[AbstractHybridEstimator, ...]
    table: Any

    def best(self, by: str = "nll") -> AbstractHybridEstimator:
        """The model that leads the column `by`: highest accuracy or log_px, lowest of the others.

        Columns of the test rows are named with their `test_`.
        """
        judged = [name for name in self._names if name.removeprefix("test_") in HIGHER_IS_BETTER]
        if by not in judged:
            raise ValueError(f"by must be one of {judged}; got {by!r}.")
        values = self._column(by)
        if not np.any(np.isfinite(values)):
            raise ValueError(
                f"No row was held out with a label, so {by!r} is unknown. Set validation_fraction, "
                "or give X_test and y_test and choose by a column that begins with test_."
            )
        sign = 1 if HIGHER_IS_BETTER[by.removeprefix("test_")] else -1
        return self.models[int(np.nanargmax(sign * values))]

    def plot(self, ax: Any = None) -> Any:
        """Draw the trade-off, nll over log p(x), a point a weight; returns the matplotlib axes.

        Shows the test rows where they were given, else the held-out rows. Without `ax` a figure is
        made; it is `.figure` of the axes returned.
        """
        prefix = "test_" if "test_nll" in self._names else ""
        log_px, nll = self._column(prefix + "log_px"), self._column(prefix + "nll")
        if not np.any(np.isfinite(nll)):
            raise ValueError(
                "No row was held out with a label, so there is no trade-off to draw. Set "
                "validation_fraction, or give X_test and y_test."
            )
        ax = _new_axes() if ax is None else ax
        ax.plot(log_px, nll, "o-", color=LINE, linewidth=2, markersize=6)
        for weight, x, y in zip(self._column("generative_weight"), log_px, nll, strict=True):
            ax.annotate(f"{weight:g}", (x, y), (6, 6), textcoords="offset points")
        rows = "test" if prefix else "held-out"
        ax.set(
            xlabel=f"mean log p(x) of {rows} rows, in nats (right is better)",
            ylabel="mean \N{MINUS SIGN}log p(y|x), in nats (lower is better)",
            title="generative_weight from discriminative to generative",
        )
        ax.margins(0.12)
        ax.grid(color=GRID, linewidth=0.6)
        ax.set_axisbelow(True)
        return ax

    @property
    def _names(self) -> list[str]:
        names = self.table.dtype.names if isinstance(self.table, np.ndarray) else self.table.columns
        return list(names)

    def _column(self, name: str) -> np.ndarray:
        return np.asarray(self.table[name], float)


def sweep(
    estimator: Any,
    X: Any,
    y: Any,
    generative_weight: Any = (0.0, 0.01, 0.1, 1.0, 10.0),
    *,
    X_test: Any = None,
    y_test: Any = None,
    sample_weight: Any = None,
) -> Sweep:
    r"""Fit `estimator` once for each weight w of $\log p(y|x) + (w / D) \log p(x)$, all together.

    Every model is the one that `fit` would give with that weight and the same seed, up to
    rounding: all share the encoder, the split, the start, the order of the rows and the noise. They
    train as one compiled program, in much less time than one after another.

    Args:
        estimator: a `HybridClassifier` or `HybridRegressor`, which stays unfitted; its own
            generative_weight is ignored.
        X: rows, as for `fit`.
        y: their targets, as for `fit`.
        generative_weight: the weights; 0 is the purely discriminative model.
        X_test: more rows, on which the table tells the truth.
        y_test: their targets; without them the table has their densities alone.
        sample_weight: weights of the rows of X.
    """
    weights = _checked_weights(estimator, generative_weight)
    models = [cast(AbstractHybridEstimator, clone(estimator)) for _ in weights]
    if y is None:
        raise ValueError("sweep requires y to be passed, but the target y is None.")
    if X_test is None and y_test is not None:
        raise ValueError("y_test was given without X_test. Give both, or neither.")
    for model, weight in zip(models, weights, strict=True):
        model.generative_weight = weight
        checked = model._validate(X, reset=True)  # each remembers the columns
    first, y = models[0], _one_a_row("y", y, checked)
    row_weights = first._weights(checked, sample_weight)
    target = first._learn_target(y, row_weights)
    ready = first._prepared(checked, y, target, row_weights)
    if ready.begun.exact:
        raise ValueError(
            f"flow={estimator.flow!r} has nothing to train but the head, which is fitted exactly: "
            "generative_weight makes no difference. Call fit(), or choose a flow that trains, such "
            "as 'linear' or 'coupling'."
        )
    parts = {"": _held_out(ready, target, y, row_weights)}
    if X_test is not None:
        parts["test_"] = _test_rows(first, ready, target, X_test, y_test)
    results = _train(first, ready, target, weights)
    for model, result in zip(models, results, strict=True):
        model._finish(ready, result)
        model._remember(target, y, row_weights)
    records = [_record(model, parts, target) for model in models]
    columns = {name: np.array([record[name] for record in records]) for name in records[0]}
    return Sweep(tuple(models), table_like(None, columns))


def _checked_weights(estimator: Any, weights: Any) -> list[float]:
    """The weights as floats; an error for what cannot be swept."""
    if not isinstance(estimator, HybridClassifier | HybridRegressor):
        raise TypeError(
            "sweep takes a HybridClassifier or a HybridRegressor; got "
            f"{type(estimator).__name__}. Apply the other steps of a pipeline to X first."
        )
    if estimator.volume_weight is not None:
        raise ValueError(
            f"volume_weight={estimator.volume_weight!r} replaces generative_weight, so sweeping "
            "that would change nothing. Use volume_weight=None."
        )
    if isinstance(weights, str) or not np.iterable(weights):
        raise ValueError(
            f"generative_weight must be several numbers, such as [0, 0.1, 1]; got {weights!r}."
        )
    weights = list(weights)
    if not weights:
        raise ValueError("generative_weight is empty; give at least one weight, such as [1.0].")
    for weight in weights:
        is_number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
        if not (is_number and math.isfinite(weight) and float(weight) >= 0):
            raise ValueError(f"Each generative_weight must be finite and >= 0; got {weight!r}.")
    floats = [float(weight) for weight in weights]
    twice = [weight for i, weight in enumerate(floats) if weight in floats[:i]]
    if twice:
        raise ValueError(f"generative_weight {twice[0]:g} is given twice; give each weight once.")
    return floats


class _Judged(NamedTuple):
    """Rows on which models are compared; `labelled` is all False where no targets are known."""

    encoded: Encoded
    y: np.ndarray
    labelled: np.ndarray
    weights: np.ndarray


def _held_out(
    ready: Prepared, target: AbstractTarget, y: np.ndarray, weights: np.ndarray
) -> _Judged:
    rows = ready.split[1]
    encoded = Encoded(*(column[rows] for column in ready.encoded))
    return _Judged(encoded, y[rows], target.read(y).labelled[rows], weights[rows])


def _test_rows(
    model: AbstractHybridEstimator, ready: Prepared, target: AbstractTarget, X: Any, y: Any
) -> _Judged:
    X = model._validate(X, reset=False)
    encoded = ready.encoder.encode(X, owner=type(model).__name__)
    n = len(encoded.values)
    labelled = np.zeros(n, bool)
    y = labelled if y is None else _one_a_row("y_test", y, X)
    if y is not labelled:
        labelled = target.read(y).labelled
    return _Judged(model._filled(ready.encoder, encoded), y, labelled, np.ones(n))


def _one_a_row(name: str, y: Any, X: Any) -> np.ndarray:
    y = column_or_1d(y, warn=True)
    if len(y) != len(X):
        raise ValueError(f"X has {len(X)} rows, but {name} has {len(y)}; give one target a row.")
    return y


def _train(
    model: AbstractHybridEstimator, ready: Prepared, target: AbstractTarget, weights: list[float]
) -> list[FitResult]:
    begun = ready.begun
    with ProgressBar(begun.settings.n_epochs, target.metric, model.verbose) as bar:
        return fit_together(
            begun.model,
            ready.train,
            objective=begun.objective,
            generative_weights=[weight / ready.encoder.dim for weight in weights],
            validation=ready.held_out if len(ready.held_out.weight) else None,
            settings=begun.settings,
            seed=ready.seed,
            progress=bar,
        )


def _record(
    model: AbstractHybridEstimator, parts: dict[str, _Judged], target: AbstractTarget
) -> dict[str, float | int]:
    """A row of the table."""
    record: dict[str, float | int] = {
        "generative_weight": model.generative_weight,
        "epochs": len(model.history_),
    }
    for prefix, rows in parts.items():
        measured = _measured(model, rows, target)
        record |= {prefix + name: value for name, value in measured.items()}
    return record


def _measured(
    model: AbstractHybridEstimator, rows: _Judged, target: AbstractTarget
) -> dict[str, float]:
    """Weighted means over the rows; NaN where there are none."""
    names = (target.metric, "nll", "log_px", "bits_per_dim", "refused")
    if len(rows.weights) == 0:
        return dict.fromkeys(names, math.nan)
    seen = model._evaluate(engine.look, rows.encoded)
    log_px = model._in_user_units(seen.log_px, rows.encoded)
    mean_px = np.average(log_px, weights=rows.weights)
    skill = nll = math.nan
    known = rows.labelled & (rows.weights > 0)
    if np.any(known):
        predicted = model._answers(seen.response)["prediction"][known]
        y, weights = rows.y[known], rows.weights[known]
        nll = -np.average(_log_py(model, seen.response, rows.y, known), weights=weights)
        if target.metric == "accuracy":
            skill = np.average(predicted == y, weights=weights)
        else:
            skill = math.sqrt(np.average(np.square(predicted - y.astype(float)), weights=weights))
    bits = -mean_px / (model.encoder_.dim * math.log(2))
    refused = np.average(model.reject_rule_.rejects(log_px), weights=rows.weights)
    return dict(zip(names, map(float, (skill, nll, mean_px, bits, refused)), strict=True))


def _log_py(
    model: AbstractHybridEstimator, response: Any, y: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """log p(y|x) of the rows whose target is known, in the user's units."""
    if isinstance(model, HybridClassifier):
        logits = response.logits.astype(float)[known]
        codes = model._codes(y[known], len(logits))
        return log_softmax(logits, axis=1)[np.arange(len(codes)), codes]
    dist = cast(HybridRegressor, model)._dist(response)
    return dist.log_prob(np.where(known, y, 0).astype(float))[known]


def _new_axes() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "plot() draws with matplotlib, which is not installed.\n\nhint: pip install "
            "'diglm[plot]'"
        ) from error
    ax = Figure((5.6, 4.0), layout="constrained").subplots()
    ax.spines[["top", "right"]].set_visible(False)
    return ax
