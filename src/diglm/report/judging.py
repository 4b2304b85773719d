"""Accuracy, calibration, and what refusing buys: figures for classes and for numbers."""

from collections.abc import Callable

import numpy as np

from diglm.drawing import DARK, GREY, LINES, WARM, Axes, new_figure
from diglm.refusal import risk_coverage
from diglm.report.figures import LEAST_COVERAGE
from diglm.report.measures import LEVELS, membership, probabilities
from diglm.report.page import Section, embed, table
from diglm.report.subject import Subject
from diglm.targets import AbstractTarget, ClassTarget, NoTarget, NumberTarget

MOST_CLASSES = 12  # in a table of confusions
MOST_POINTS = 2_000  # in a cloud
REFUSING = "What refusing buys"


def quality_section(subject: Subject) -> Section | None:
    """How right the predictions are, and how right they are about how sure they are."""
    return QUALITY[type(subject.predictor.target)](subject) if subject.labelled.any() else None


def _classes(subject: Subject) -> Section:
    target: ClassTarget = subject.predictor.target  # type: ignore[assignment]
    assert subject.y is not None
    probability = probabilities(target, subject.known)[subject.labelled]
    truth = membership(target.classes, subject.y[subject.labelled])
    told = np.argmax(probability, axis=1)
    right = truth[np.arange(len(told)), told]
    figure, (axes,) = new_figure(4.4, 3.6)
    _reliability(axes, probability.max(axis=1), right)
    figure_html = embed(figure, "Accuracy against confidence.")
    return Section(
        "Is it right, and does it know?",
        "The figure: among rows of equal confidence, the share that is right; a calibrated model "
        "follows the dashed line, and lies below it where it is too sure; bars are what chance "
        "allows. The table: what was true (rows) and what was said (columns).",
        f'<div class="figures">{figure_html}{_confusions(target.classes, truth, told)}</div>',
    )


def _reliability(axes: Axes, sure: np.ndarray, right: np.ndarray) -> None:
    n_bins = int(np.clip(len(sure) // 25, 2, 10))
    parts = np.array_split(np.argsort(sure, kind="stable"), n_bins)
    places = np.array([100 * sure[part].mean() for part in parts])
    shares = np.array([100 * right[part].mean() for part in parts])
    ends = np.array([_wilson(right[part]) for part in parts]).T
    spread = np.abs(100 * ends - shares)
    low = max(0.0, min(places.min(), 100 * ends.min()) - 3)
    axes.plot([low, 100], [low, 100], "--", color=GREY, linewidth=1.2)
    axes.errorbar(
        places, shares, spread, fmt="o", color=DARK, capsize=3, markersize=6, clip_on=False
    )
    axes.set(xlim=(low, 100), ylim=(low, 100), xlabel="confidence, in %", ylabel="right, in %")
    axes.grid(color="#dddddd", linewidth=0.6)


def _wilson(right: np.ndarray, z: float = 1.96) -> tuple[float, float]:
    """Ends of the 95 % interval of a share, by Wilson: sensible also where all are right."""
    n, share = len(right), float(np.mean(right))
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return centre - half, centre + half


def _confusions(classes: np.ndarray, truth: np.ndarray, told: np.ndarray) -> str:
    counts = truth.astype(int).T @ np.eye(len(classes), dtype=int)[told]
    frequent = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:MOST_CLASSES])
    names = [str(classes[i]) for i in frequent]
    rows = [
        (name, *(f"{n:,}" for n in counts[i, frequent]))
        for name, i in zip(names, frequent, strict=True)
    ]
    return table(("truth \\ said", *names), rows)


def _numbers(subject: Subject) -> Section:
    target: NumberTarget = subject.predictor.target  # type: ignore[assignment]
    dist = target.distribution(subject.known.response)
    truth = np.asarray(subject.y, float)
    some = np.flatnonzero(subject.labelled)[:MOST_POINTS]
    left, (cloud,) = new_figure(4.4, 3.8)
    cloud.scatter(dist.mean[some], truth[some], s=9, color=DARK, alpha=0.45, linewidths=0)
    ends = [np.min(truth[some]), np.max(truth[some])]
    cloud.plot(ends, ends, "--", color=GREY, linewidth=1.2)
    cloud.set(xlabel="predicted", ylabel="true")
    cloud.grid(color="#dddddd", linewidth=0.6)
    right, (axes,) = new_figure(4.4, 3.8)
    levels = np.linspace(0.05, 0.95, 19)
    inside = [_inside(subject, truth, level) for level in levels]
    axes.plot([0, 100], [0, 100], "--", color=GREY, linewidth=1.2)
    axes.plot(100 * levels, 100 * np.array(inside), "o-", color=DARK, markersize=4)
    axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="level of the interval, in %")
    axes.set_ylabel("truth inside, in %")
    axes.grid(color="#dddddd", linewidth=0.6)
    pictures = embed(left, "True against predicted numbers.")
    pictures += embed(right, "Coverage of intervals against their level.")
    rows = [
        (f"{100 * level:.0f} %", f"{subject.measures[f'coverage_{100 * level:.0f}']:.1%}")
        for level in LEVELS
    ]
    return Section(
        "Is it right, and does it know?",
        "First, each row's prediction and the truth; on the dashed line they agree. Then, how "
        "often the truth lies inside intervals of each level: on the dashed line intervals hold "
        "what they promise, below it they are too narrow.",
        f'<div class="figures">{pictures}</div>' + table(("interval", "truth inside"), rows),
    )


def _inside(subject: Subject, truth: np.ndarray, level: float) -> float:
    """How often the truth is in the intervals that the model gives for this level."""
    low, high = subject.predictor.interval(subject.known.response, level)
    return float(np.mean(((truth >= low) & (truth <= high))[subject.labelled]))


def refusing_section(subject: Subject) -> Section | None:
    """The error among the rows answered, as ever less trusted rows are answered."""
    if not subject.labelled.any():
        return None
    wrong, doubt, unit = ERRORS[type(subject.predictor.target)](subject)
    known = subject.labelled
    orders = {
        "by how sure p(y|x) is": -doubt[known],
        "by familiarity": -subject.strangeness[known],
        "by p(y|x), refused ones last": np.where(subject.refused[known], -np.inf, -doubt[known]),
    }
    kept = 100 * float(np.mean(~subject.refused[known]))
    if float(np.max(wrong[known])) == 0:
        reading = f"No row was answered wrongly, so there is nothing to buy: of all {kept:.1f}% "
        reading += "are answered."
        return Section(REFUSING, reading, "")
    figure, (axes,) = new_figure(6.2, 3.4)
    for (name, trust), (colour, line) in zip(orders.items(), LINES, strict=False):
        coverage, risk = risk_coverage(trust, wrong[known])
        shown = coverage >= LEAST_COVERAGE
        axes.plot(100 * coverage[shown], risk[shown], line, color=colour, lw=2, label=name)
    axes.axvline(kept, color=WARM, linewidth=1, linestyle=":")
    axes.set(xlim=(100 * LEAST_COVERAGE, 100), xlabel="rows answered, in % (most trusted first)")
    axes.set_ylabel(unit)
    axes.set_ylim(0)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, fontsize=9)
    return Section(
        REFUSING,
        "Lower is better: follow a curve from left to right as more rows are answered, the most "
        f"trusted first. The dotted line is where this model stops: it answers {kept:.1f}% of the "
        "rows.",
        embed(figure, "Error among answered rows against the share answered."),
    )


def _errors_of_classes(subject: Subject) -> tuple[np.ndarray, np.ndarray, str]:
    target: ClassTarget = subject.predictor.target  # type: ignore[assignment]
    probability = probabilities(target, subject.known)
    assert subject.y is not None
    told = np.argmax(probability, axis=1)
    right = membership(target.classes, _filled(subject))[np.arange(len(told)), told]
    return 100.0 * ~right, -probability.max(axis=1), "wrong among the answered, in %"


def _errors_of_numbers(subject: Subject) -> tuple[np.ndarray, np.ndarray, str]:
    target: NumberTarget = subject.predictor.target  # type: ignore[assignment]
    dist = target.distribution(subject.known.response)
    return np.abs(dist.mean - np.asarray(subject.y, float)), dist.std, "mean absolute error"


def _filled(subject: Subject) -> np.ndarray:
    """The truth, with any value where it is not known."""
    assert subject.y is not None
    return np.where(subject.labelled, subject.y, subject.y[np.argmax(subject.labelled)])


def _nothing(subject: Subject) -> None:
    return None


QUALITY: dict[type[AbstractTarget], Callable[[Subject], Section | None]] = {
    ClassTarget: _classes,
    NumberTarget: _numbers,
    NoTarget: _nothing,
}
ERRORS: dict[type[AbstractTarget], Callable[[Subject], tuple[np.ndarray, np.ndarray, str]]] = {
    ClassTarget: _errors_of_classes,
    NumberTarget: _errors_of_numbers,
}
