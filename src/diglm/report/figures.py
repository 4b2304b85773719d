"""Figures from results: each function takes axes and draws on them; all of them read in grey.

Groups differ in lightness, hatch or line style besides colour. matplotlib is the extra
`diglm[plot]`, so it is imported only when a figure is made, and without its global state.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from diglm.drawing import DARK, GREY, LIGHT, LINES, WARM, Axes
from diglm.refusal import risk_coverage

LEAST_COVERAGE = 0.05  # the error among fewer rows than this share is chance


def shift_histogram(
    axes: Axes, edges: Sequence[float], train: Sequence[float], test: Sequence[float], shift: float
) -> None:
    """Densities of log p(x) for training and later rows, with the move of the mean named.

    The first bin holds all that lies farther out.
    """
    axes.stairs(train, edges, fill=True, color=LIGHT, label="training rows")
    axes.stairs(test, edges, color=WARM, linewidth=1.8, label=f"test rows, {shift:+.2f} nats")
    axes.set_xlabel("log p(x), in nats; the first bar is all below")
    axes.set_ylabel("density")
    axes.set_ylim(top=1.35 * max(*train, *test))  # room for the legend
    axes.legend(frameon=False, loc="upper left")


def log_density_histogram(
    axes: Axes, groups: Mapping[str, Float[np.ndarray, " _"]], threshold: float
) -> None:
    """One row of bars a group, the first being the familiar one; the threshold is a dashed line.

    Strange inputs can lie many thousands of nats lower than familiar ones. Where they do, the axis
    is linear around the familiar ones and logarithmic below them.
    """
    finite = [np.asarray(values)[np.isfinite(values)] for values in groups.values()]
    edges = _set_log_density_scale(axes, finite, threshold)
    for row, (name, values) in enumerate(groups.items()):
        counts, _ = np.histogram(values, edges)
        axes.bar(
            edges[:-1],
            0.8 * counts / max(counts.max(), 1),
            width=np.diff(edges),
            bottom=-row,
            align="edge",
            color=DARK if row == 0 else LIGHT,
            hatch=None if row == 0 else "////",
            edgecolor=DARK,
            linewidth=0.4,
        )
        axes.axhline(-row, color=GREY, linewidth=0.6)
        refused = np.mean(np.asarray(values) < threshold)
        axes.annotate(
            f"{refused:.1%} refused",
            (1.01, -row + 0.3),
            xycoords=("axes fraction", "data"),
            va="center",
        )
        axes.annotate(
            name, (-0.01, -row + 0.3), xycoords=("axes fraction", "data"), va="center", ha="right"
        )
    if math.isfinite(threshold):
        axes.axvline(threshold, color="black", linestyle="--", linewidth=1.4)
        for word, side, shift in (("refused", "right", -4), ("answered", "left", 4)):
            axes.annotate(
                word, (threshold, 1.05), (shift, 0), textcoords="offset points", ha=side, fontsize=9
            )
    axes.set(xlim=(edges[0], edges[-1]), ylim=(1 - len(groups), 1.25), yticks=[])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("log p(x), in nats")


def risk_coverage_curves(
    axes: Axes, confidences: Mapping[str, Float[np.ndarray, " rows"]], wrong: np.ndarray
) -> None:
    """Error among the rows answered, as rows are answered in order of each confidence."""
    for (name, confidence), (colour, line) in zip(confidences.items(), LINES, strict=False):
        coverage, risk = risk_coverage(confidence, wrong)
        shown = coverage >= LEAST_COVERAGE
        axes.plot(
            100 * coverage[shown], 100 * risk[shown], line, color=colour, linewidth=2, label=name
        )
    axes.set(
        xlim=(100 * LEAST_COVERAGE, 100),
        xlabel="rows answered, in % (most trusted first)",
        ylabel="wrong among the answered, in %",
    )
    axes.set_ylim(bottom=0)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)


def confidence_accuracy_curves(
    axes: Axes, answers: Mapping[str, tuple[Float[np.ndarray, " rows"], np.ndarray]]
) -> None:
    """Accuracy among the rows whose confidence reaches each level; `answers` are (sure, right)."""
    levels = np.linspace(0.0, 0.99, 100)
    for (name, (sure, right)), (colour, line) in zip(answers.items(), LINES, strict=False):
        kept = [sure >= level for level in levels]
        accuracy = [np.mean(right[mask]) if np.any(mask) else np.nan for mask in kept]
        axes.plot(levels, 100 * np.array(accuracy), line, color=colour, linewidth=2, label=name)
    axes.set(
        xlim=(0, 1),
        ylim=(0, 101),
        xlabel="confidence of at least",
        ylabel="right among the answered, in %",
    )
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="lower right")


def density_decision_picture(
    axes: Axes,
    grid: tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " rows"]],
    log_px: Float[np.ndarray, "rows columns"],
    probability: Float[np.ndarray, "rows columns"],
    threshold: float,
    *,
    points: Float[np.ndarray, "n 2"],
    classes: np.ndarray,
    refused: Float[np.ndarray, "m 2"],
) -> None:
    """The plane of a two-class model: density, decision, and where it will not answer.

    Args:
        axes: where to draw.
        grid: abscissae and ordinates at which the model was evaluated.
        log_px: log p(x) there.
        probability: p(y = second class | x) there.
        threshold: below it inputs are refused.
        points: training rows.
        classes: their classes, 0 or 1.
        refused: new rows that the model refuses.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    looks = (("o", WARM, "#fdeee4", "#f3b48e"), ("^", DARK, "#eaf2fa", "#93bbe0"))
    # The highest level is a little above the highest density, which contourf would leave out.
    steps = np.linspace(threshold, np.max(log_px) + 1e-6, 7)
    for second, (_, _, pale, strong) in enumerate(looks):
        shades = LinearSegmentedColormap.from_list("density", [pale, strong])
        # The first class lies below the whole of the second: no gap where they meet.
        density = np.ma.masked_where(bool(second) & (probability < 0.5), log_px)
        axes.contourf(*grid, density, levels=steps, cmap=shades)
    axes.contour(*grid, log_px, levels=steps[1:-1], colors=GREY, linewidths=0.6, linestyles="solid")
    axes.contour(*grid, log_px, levels=steps[:1], colors="black", linewidths=1, linestyles="solid")
    if np.min(log_px) < threshold:
        region = axes.contourf(
            *grid, log_px, levels=[np.min(log_px) - 1, threshold], colors="none", hatches=["///"]
        )
        region.set(edgecolor="#aaaaaa", linewidth=0)
    answered = np.ma.masked_where(log_px < threshold, probability)
    axes.contour(*grid, answered, levels=[0.5], colors="black", linewidths=2, linestyles="--")
    for label, (marker, colour, *_) in enumerate(looks):
        axes.scatter(
            *points[classes == label].T, s=14, marker=marker, c=colour, edgecolors="white", lw=0.3
        )
    axes.scatter(*refused.T, s=60, marker="X", c="black", edgecolors="white", linewidths=0.9)
    keys = [
        *(Line2D([], [], ls="", marker=m, color=c, label=f"class {i}, trained on")
          for i, (m, c, *_) in enumerate(looks)),
        Line2D([], [], color="black", ls="--", lw=1.8, label="decision: p(y|x) = 1/2"),
        Line2D([], [], color=GREY, lw=1, label="density: equal steps of log p(x)"),
        Patch(facecolor="white", edgecolor=GREY, hatch="///", label="refused region"),
        Line2D([], [], ls="", marker="X", color="black", label="new inputs, refused"),
    ]  # fmt: skip
    axes.legend(
        handles=keys, loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=3, frameon=False
    )
    axes.set(
        xlim=(grid[0][0], grid[0][-1]),
        ylim=(grid[1][0], grid[1][-1]),
        xlabel="first column of x",
        ylabel="second column of x",
        aspect="equal",
    )


def _set_log_density_scale(
    axes: Axes, groups: Sequence[Float[np.ndarray, " _"]], threshold: float
) -> Float[np.ndarray, " edges"]:
    """Set the scale of log p(x), and return edges of bins that look equally wide on it."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    near = np.append(groups[0], threshold if math.isfinite(threshold) else groups[0][:1])
    # One odd familiar row must not stretch the linear part.
    knee = 1.15 * np.max(np.abs(np.quantile(near, [0.01, 1.0])))
    high = max(np.max(values) for values in groups)
    low = min(np.min(values) for values in groups)
    high += 0.02 * (high - np.min(near))
    if low > -4 * knee:
        return np.linspace(low, high, 71)
    decades = math.log10(-low / knee)
    # Both parts get about half of the axis. A decade is as long as `linscale` parts of the knee.
    axes.set_xscale("symlog", linthresh=knee, linscale=decades * knee / (high + knee))
    to_axis = axes.xaxis.get_transform()
    left, right = to_axis.transform(np.array([low, high]))
    powers = range(math.floor(math.log10(knee)), math.floor(math.log10(-low)) + 1)
    factors = (1, 2, 5) if low > -1e4 else (1,)
    far = [-factor * 10.0**power for power in powers for factor in factors]
    far = [tick for tick in far if low <= tick < -1.5 * knee]
    linear = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(-knee, high)
    ticks = [*sorted(far), *linear[(linear > -knee) & (linear < high)]]
    axes.set_xticks(ticks, [_tick_label(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    edges = to_axis.inverted().transform(np.linspace(left, right, 71))
    edges[[0, -1]] = low, high  # rounding must not lose the lowest row
    return edges


def _tick_label(value: float) -> str:
    if value <= -1e4:
        return f"$-10^{{{math.log10(-value):.0f}}}$"
    return f"{value:g}".replace("-", "−")
