"""Figures of models, in the way of scikit-learn's displays: from an estimator, or from numbers.

Each display holds what it shows, `plot(ax=None)` draws it, and `ax_` and `figure_` are what it was
drawn on. Without axes a figure of pyplot is made, as scikit-learn does. Needs `diglm[plot]`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from diglm.data.encoder import Rows
from diglm.drawing import DARK, GREY, LIGHT, LINES, Axes, Figure, require_matplotlib
from diglm.refusal import (
    aupr,
    aurc,
    auroc,
    calibration_error,
    crps,
    fpr_at,
    precision_recall,
    reliability,
    risk_coverage,
    roc,
)
from diglm.report.figures import LEAST_COVERAGE, log_density_histogram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from diglm.estimators import Estimator, HybridClassifier, HybridRegressor
else:
    ArrayLike = Estimator = HybridClassifier = HybridRegressor = object


class AbstractDisplay(ABC):
    """Something to be drawn."""

    ax_: Axes
    figure_: Figure

    def plot(self, ax: Axes = None) -> "AbstractDisplay":
        """Draw on axes, or on a figure of its own."""
        require_matplotlib()
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(layout="constrained")
        ax.spines[["top", "right"]].set_visible(False)
        self._draw(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @abstractmethod
    def _draw(self, ax: Axes) -> None: ...


class RiskCoverageDisplay(AbstractDisplay):
    """Error among the rows answered, against the share of rows answered.

    Args:
        confidences: what rows are answered in the order of, by name.
        wrong: whether each row is answered wrongly, or its squared error.
    """

    def __init__(self, confidences: Mapping[str, Float[np.ndarray, " rows"]], wrong: np.ndarray):
        self.confidences, self.wrong = confidences, np.asarray(wrong, float)
        self.aurc = {name: aurc(sure, wrong) for name, sure in confidences.items()}

    @classmethod
    def from_estimator(
        cls,
        estimator: HybridClassifier | HybridRegressor,
        X: Rows,
        y: ArrayLike,
        *,
        ax: Axes = None,
    ) -> "RiskCoverageDisplay":
        """By how sure the model is, and by how familiar the row is to it."""
        predictor = estimator.predictor_
        known = predictor.known(predictor.encode(X, extra=estimator.extra))
        loss, sure = predictor.target.losses(known.response, np.asarray(y))
        familiar = -predictor.refusal.strangeness(known)
        display = cls({"sure": sure, "familiar": familiar}, loss)
        display.plot(ax)
        return display

    @classmethod
    def from_predictions(
        cls, wrong: ArrayLike, confidence: ArrayLike, *, name: str = "", ax: Axes = None
    ) -> "RiskCoverageDisplay":
        """From what was right or wrong, and how sure that was."""
        display = cls({name: np.asarray(confidence, float)}, np.asarray(wrong, float))
        display.plot(ax)
        return display

    def _draw(self, ax: Axes) -> None:
        for (name, sure), (colour, line) in zip(self.confidences.items(), LINES, strict=False):
            coverage, risk = risk_coverage(sure, self.wrong)
            shown = coverage >= min(LEAST_COVERAGE, coverage[-1])
            label = f"{name} (AURC {self.aurc[name]:.3g})".strip()
            ax.plot(coverage[shown], risk[shown], line, color=colour, linewidth=2, label=label)
        ax.set(xlim=(0, 1), xlabel="rows answered", ylabel="mean loss among them")
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False)


class ReliabilityDisplay(AbstractDisplay):
    """How often answers are right against how sure the model is; the diagonal is honest.

    Args:
        confidence: probability of the answer.
        right: whether it was right.
        n_bins: bins of confidence.
    """

    def __init__(self, confidence: Float[np.ndarray, " rows"], right: np.ndarray, n_bins: int = 10):
        self.bins = reliability(confidence, right, n_bins)
        self.ece = calibration_error(confidence, right)

    @classmethod
    def from_estimator(
        cls,
        estimator: HybridClassifier,
        X: Rows,
        y: ArrayLike,
        *,
        n_bins: int = 10,
        ax: Axes = None,
    ) -> "ReliabilityDisplay":
        """Of a classifier's answers."""
        probabilities = estimator.predict_proba(X)
        right = estimator.classes_[probabilities.argmax(axis=1)] == np.asarray(y)
        return cls.from_predictions(right, probabilities.max(axis=1), n_bins=n_bins, ax=ax)

    @classmethod
    def from_predictions(
        cls, right: ArrayLike, confidence: ArrayLike, *, n_bins: int = 10, ax: Axes = None
    ) -> "ReliabilityDisplay":
        """From what was right, and how sure that was."""
        sure = np.minimum(np.asarray(confidence, float), 1.0)  # sums may round above
        display = cls(sure, np.asarray(right, float), n_bins)
        display.plot(ax)
        return display

    def _draw(self, ax: Axes) -> None:
        ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.2)
        sizes = 20 + 180 * self.bins.count / self.bins.count.max()
        ax.plot(self.bins.confidence, self.bins.accuracy, color=DARK, linewidth=1.5)
        ax.scatter(self.bins.confidence, self.bins.accuracy, s=sizes, color=LIGHT, edgecolors=DARK)
        ax.set(xlim=(0, 1.03), ylim=(0, 1.03), xlabel="confidence", ylabel="accuracy")
        ax.set_title(f"ECE {self.ece:.3f}", fontsize=10)


class PITDisplay(AbstractDisplay):
    """Where targets stand in their predicted distributions: flat if these are honest.

    Heaped in the middle they are too wide, at the ends too narrow, on one side off.

    Args:
        places: P(Y < y) of each row.
        crps: mean CRPS, if it is known.
        n_bins: bars.
    """

    def __init__(
        self, places: Float[np.ndarray, " rows"], crps: float | None = None, n_bins: int = 10
    ):
        self.places, self.crps, self.n_bins = np.asarray(places, float), crps, n_bins

    @classmethod
    def from_estimator(
        cls, estimator: HybridRegressor, X: Rows, y: ArrayLike, *, n_bins: int = 10, ax: Axes = None
    ) -> "PITDisplay":
        """Of a regressor with one target; where y has a mass, spread over it evenly."""
        predictor, ys = estimator.predictor_, np.asarray(y, float)
        response = predictor.response(predictor.encode(X, extra=estimator.extra))
        u = np.random.default_rng(0).random(len(ys))
        places = predictor.target.places(response, ys, u)[:, 0]
        score = float(np.mean(crps(estimator.predict_dist(X), ys)))
        display = cls(places, score, n_bins)
        display.plot(ax)
        return display

    def _draw(self, ax: Axes) -> None:
        shares, edges = np.histogram(self.places, self.n_bins, (0.0, 1.0))
        density = shares * self.n_bins / max(len(self.places), 1)
        ax.stairs(density, edges, fill=True, color=LIGHT, edgecolor=DARK)
        ax.axhline(1.0, color=GREY, linestyle=":", linewidth=1.2)
        ax.set(xlim=(0, 1), xlabel="place of y in its predicted distribution", ylabel="density")
        if self.crps is not None:
            ax.set_title(f"mean CRPS {self.crps:.3g}", fontsize=10)


class DensityDisplay(AbstractDisplay):
    """Histograms of log p(x) of groups of rows, with the threshold of refusal.

    Args:
        groups: log p(x), or minus strangeness, by name; the first group is the familiar one.
        threshold: below it rows are refused.
    """

    def __init__(self, groups: Mapping[str, Float[np.ndarray, " _"]], threshold: float):
        self.groups, self.threshold = groups, threshold

    @classmethod
    def from_estimator(
        cls, estimator: Estimator, groups: Mapping[str, Rows], *, ax: Axes = None
    ) -> "DensityDisplay":
        """Of rows in named groups, by what refusals are judged by: minus their strangeness."""
        found = {name: -estimator.strangeness(X) for name, X in groups.items()}
        display = cls(found, estimator.threshold_)
        display.plot(ax)
        return display

    def _draw(self, ax: Axes) -> None:
        log_density_histogram(ax, self.groups, self.threshold)


class StrangerDisplay(AbstractDisplay):
    """How well strange rows are told from familiar ones: ROC or precision against recall.

    Args:
        familiar: scores of familiar rows, the higher the more familiar.
        strange: those of strange rows, by name.
        kind: "roc" or "pr".
    """

    def __init__(
        self,
        familiar: Float[np.ndarray, " n"],
        strange: Mapping[str, Float[np.ndarray, " _"]],
        kind: str = "roc",
    ):
        if kind not in ("roc", "pr"):
            raise ValueError(f"kind must be 'roc' or 'pr'; got {kind!r}.")
        self.familiar, self.strange, self.kind = familiar, strange, kind
        self.auroc = {name: auroc(familiar, scores) for name, scores in strange.items()}
        self.aupr = {name: aupr(familiar, scores) for name, scores in strange.items()}
        self.fpr95 = {name: fpr_at(familiar, scores) for name, scores in strange.items()}

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        familiar: Rows,
        strange: Mapping[str, Rows],
        *,
        kind: str = "roc",
        ax: Axes = None,
    ) -> "StrangerDisplay":
        """By what the model judges refusals by."""
        scores = {name: -estimator.strangeness(X) for name, X in strange.items()}
        display = cls(-estimator.strangeness(familiar), scores, kind)
        display.plot(ax)
        return display

    def _draw(self, ax: Axes) -> None:
        areas, curve = {"roc": (self.auroc, roc), "pr": (self.aupr, precision_recall)}[self.kind]
        for (name, scores), (colour, line) in zip(self.strange.items(), LINES, strict=False):
            label = f"{name} ({areas[name]:.3f})"
            ax.plot(*curve(self.familiar, scores), line, color=colour, linewidth=2, label=label)
        labels = {
            "roc": ("familiar rows refused", "strange rows refused"),
            "pr": ("strange rows refused", "strange among the refused"),
        }[self.kind]
        ax.set(xlim=(0, 1), ylim=(0, 1.03), xlabel=labels[0], ylabel=labels[1])
        ax.legend(frameon=False, loc="lower right" if self.kind == "roc" else "lower left")
