"""How strange the rows are: a histogram beside that of rows held out in training."""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from diglm.drawing import DARK, LIGHT, WARM, Axes, new_figure
from diglm.report.page import Section, embed
from diglm.report.subject import Subject

N_BINS = 48


def strangeness_section(subject: Subject) -> Section:
    """These rows, those of training that were held out, and the threshold."""
    threshold = subject.predictor.refusal.threshold
    familiar = np.concatenate([threshold.ranks.usual, threshold.ranks.alone])
    groups = {f"{len(familiar):,} rows held out in training": familiar}
    groups[f"{len(subject):,} rows of this report"] = subject.strangeness
    figure, (axes,) = new_figure(5.8, 3.1)
    strangeness_histogram(axes, groups, threshold.limit)
    return Section(
        "How strange are the rows?",
        "Shares of rows by their strangeness, which refusals are judged by. What lies right of the "
        f"dashed line is refused: {np.mean(subject.refused):.1%} of the rows of this report. "
        f"{_rule(subject)}",
        embed(figure, "Histograms of strangeness, with the threshold."),
    )


def strangeness_histogram(
    axes: Axes, groups: Mapping[str, Float[np.ndarray, " _"]], limit: float
) -> None:
    """The first group filled, the others as lines; what is far out is gathered in the last bin."""
    first = next(iter(groups.values()))
    finite = np.concatenate([values[np.isfinite(values)] for values in groups.values()])
    low, high = np.quantile(first, [0.0, 1.0]) if len(first) else (finite.min(), finite.max())
    low = min(low, finite.min())
    top = max(high, limit) if math.isfinite(limit) else high
    end = min(finite.max(), top + 0.6 * max(top - low, 1e-9))
    edges = np.linspace(low, max(end, low + 1e-9), N_BINS + 1)
    looks, last = ((LIGHT, True, "-"), (DARK, False, "-"), (WARM, False, "--")), 0.0
    for (name, values), (colour, filled, line) in zip(groups.items(), looks, strict=False):
        clipped = np.clip(np.nan_to_num(values, posinf=edges[-1]), edges[0], edges[-1])
        counts, _ = np.histogram(clipped, edges)
        shares = 100 * counts / max(1, len(values))
        last = max(last, float(shares[-1]))
        style = {"fill": filled, "color": colour, "label": name}
        axes.stairs(shares, edges, **style, **({} if filled else {"lw": 1.8, "ls": line}))
    if math.isfinite(limit):
        axes.axvline(limit, color="black", linestyle="--", linewidth=1.4)
        axes.annotate(
            "refused →",
            (limit, 0.97),
            (5, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            va="top",
            fontsize=9,
        )
    if finite.max() > edges[-1]:
        axes.annotate(
            "and beyond",
            (edges[-1], last),
            (0, 4),
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])  # room for the legend
    axes.set(xlabel="strangeness (further right: stranger)", ylabel="rows, in %")
    axes.legend(frameon=False, loc="upper left", fontsize=9)


def _rule(subject: Subject) -> str:
    return {
        "tail": "Too few rows were held out to promise a share, so it is an estimate: where "
        "strangeness would reach at that share if it faded exponentially.",
        "conformal": "It was set so that at most a promised share of familiar rows is refused.",
        "minimum": "The line is the strangest row of training.",
        "quantile": "The line leaves a share of the rows of training beyond it.",
        "contamination": "The line leaves a share of the rows of training beyond it.",
        "risk": "It was set so that the error among the answered stays below what was asked.",
        "cost": "It was set where wrong answers and refusals of held-out rows cost least.",
        "never": "This model refuses nothing.",
    }.get(subject.predictor.refusal.threshold.rule, "")
