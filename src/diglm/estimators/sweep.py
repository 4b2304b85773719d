"""`sweep`: the trade-off between p(y|x) and p(x), as fitted models from one training run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from sklearn.base import clone

from diglm.data.encoder import Container, Encoded, Rows
from diglm.estimators.common import checked_rows, require_length, seed_of
from diglm.estimators.predicting import AbstractPredictingEstimator
from diglm.fitting import Fitted, run_each
from diglm.parameters import Real
from diglm.predictor import Predictor
from diglm.predictor.frames import table_like
from diglm.targets.base import Column, as_column

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike
else:
    Axes = ArrayLike = object

HIGHER_IS_BETTER = {"accuracy": True, "rmse": False, "nll": False}
HIGHER_IS_BETTER |= {"log_px": True, "bits_per_dim": False}
LINE, GRID = "#1f4e79", "#dddddd"
WEIGHT = Real(0.0)


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

    models: tuple[AbstractPredictingEstimator, ...]
    table: Container

    def best(self, by: str = "nll") -> AbstractPredictingEstimator:
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

    def plot(self, ax: Axes | None = None) -> Axes:
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
        if isinstance(self.table, np.ndarray):
            return list(self.table.dtype.names or ())
        return list(self.table.columns)

    def _column(self, name: str) -> np.ndarray:
        return np.asarray(self.table[name], float)


def sweep(
    estimator: AbstractPredictingEstimator,
    X: Rows,
    y: ArrayLike,
    generative_weight: Sequence[float] = (0.0, 0.01, 0.1, 1.0, 10.0),
    *,
    X_test: Rows | None = None,
    y_test: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Sweep:
    r"""Fit `estimator` once for each weight w of $\log p(y|x) + (w / D) \log p(x)$, all together.

    Every model is the one that `fit` would give with that weight and the same seed, up to
    rounding: all share the encoder, the split, the start, the order of the rows and the noise.
    Models of tables train as one compiled program, in much less time than one after another;
    models of images, and those trained by exact steps, one after another.

    Args:
        estimator: a `HybridClassifier` or `HybridRegressor`, which stays unfitted; its own
            generative_weight is ignored.
        X: rows, as for `fit`.
        y: their targets, as for `fit`.
        generative_weight: the weights; 0 is the purely discriminative model.
        X_test: more rows, on which the table tells the truth.
        y_test: their targets; without them the table has their densities alone.
        sample_weight: weights of the rows of X.
        groups: groups of the rows of X, for head="mixed".
    """
    weights = _checked_weights(estimator, generative_weight)
    if y is None:
        raise ValueError("sweep requires y to be passed, but the target y is None.")
    if X_test is None and y_test is not None:
        raise ValueError("y_test was given without X_test. Give both, or neither.")
    if X_test is not None and y_test is not None:  # said before training, not after
        require_length(as_column(y_test), checked_rows(X_test), "y_test")
    source = estimator._memory(X, y, sample_weight, groups)
    request = estimator._request(seed_of(estimator.random_state))
    models, records = [], []
    for weight, fitted in zip(weights, run_each(source, request, weights), strict=True):
        model = cast(AbstractPredictingEstimator, clone(estimator))
        model.set_params(generative_weight=weight)
        model._keep(fitted)
        parts = {"": _held_out(fitted)}
        if X_test is not None:
            parts["test_"] = _test_rows(model, X_test, y_test)
        models.append(model)
        records.append(_record(weight, fitted, parts))
    columns = {name: np.array([record[name] for record in records]) for name in records[0]}
    return Sweep(tuple(models), table_like(None, columns))


def _checked_weights(
    estimator: AbstractPredictingEstimator, weights: Sequence[float]
) -> list[float]:
    """The weights as floats; an error for what cannot be swept."""
    if not isinstance(estimator, AbstractPredictingEstimator):
        raise TypeError(
            "sweep takes a HybridClassifier or a HybridRegressor; got "
            f"{type(estimator).__name__}. Apply the other steps of a pipeline to X first."
        )
    volume = estimator.get_params(deep=False)["volume_weight"]
    if volume is not None:
        raise ValueError(
            f"volume_weight={volume!r} replaces generative_weight, so sweeping "
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
        if not WEIGHT.allows(weight):
            raise ValueError(f"Each generative_weight must be finite and >= 0; got {weight!r}.")
    floats = [float(weight) for weight in weights]
    twice = [weight for i, weight in enumerate(floats) if weight in floats[:i]]
    if twice:
        raise ValueError(f"generative_weight {twice[0]:g} is given twice; give each weight once.")
    return floats


class _Judged(NamedTuple):
    """Rows on which models are compared; `labelled` is all False where no targets are known."""

    encoded: Encoded
    y: Column
    labelled: np.ndarray
    weights: np.ndarray
    codes: np.ndarray | None = None


def _held_out(fitted: Fitted) -> _Judged:
    learned = fitted.prepared.learned
    rows, part = learned.rows, learned.split.held_out
    labelled = learned.labels.labelled[part]
    codes = None if learned.codes is None else learned.codes[part]
    return _Judged(learned.encoded.take(part), rows.y[part], labelled, rows.weights[part], codes)


def _test_rows(model: AbstractPredictingEstimator, X: Rows, y: ArrayLike | None) -> _Judged:
    encoded = model._encode(checked_rows(X))
    nothing = np.zeros(len(encoded), bool)
    if y is None:
        return _Judged(encoded, nothing, nothing, np.ones(len(encoded)))
    targets = model._targets_of(y, encoded)
    labelled = model.predictor_.target.read(targets).labelled
    return _Judged(encoded, targets, labelled, np.ones(len(encoded)))


def _record(weight: float, fitted: Fitted, parts: dict[str, _Judged]) -> dict[str, float | int]:
    """A row of the table."""
    record: dict[str, float | int] = {
        "generative_weight": weight,
        "epochs": len(fitted.result.history),
    }
    for prefix, rows in parts.items():
        measured = _measured(fitted.predictor, rows)
        record |= {prefix + name: value for name, value in measured.items()}
    return record


def _measured(predictor: Predictor, rows: _Judged) -> dict[str, float]:
    """Weighted means over the rows; NaN where there are none."""
    target = predictor.target
    names = (target.metric, "nll", "log_px", "bits_per_dim", "refused")
    if len(rows.weights) == 0:
        return dict.fromkeys(names, math.nan)
    known = predictor.known(rows.encoded, rows.codes)
    mean_px = np.average(known.log_px, weights=rows.weights)
    skill = nll = math.nan
    judged = np.flatnonzero(rows.labelled & (rows.weights > 0))
    if len(judged):
        codes = None if rows.codes is None else rows.codes[judged]
        response = predictor.response(rows.encoded.take(judged), codes)
        y, weights = rows.y[judged], rows.weights[judged]
        nll = -np.average(target.log_prob(response, y), weights=weights)
        skill = target.skill(response, y, weights)
    bits = -mean_px / (predictor.encoder.dim * math.log(2))
    refused = np.average(predictor.refusal.rejects(known), weights=rows.weights)
    return dict(zip(names, map(float, (skill, nll, mean_px, bits, refused)), strict=True))


def _new_axes() -> Axes:
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
