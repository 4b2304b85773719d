"""Figures of one-dimensional regressions: a predictive band, a density beside a histogram."""

from typing import Any

import numpy as np
from jaxtyping import Float

from diglm.drawing import DARK, GREY, LIGHT, WARM, Axes


def predictive_band(
    axes: Axes,
    x: Float[np.ndarray, " places"],
    mean: Float[np.ndarray, " places"],
    low: Float[np.ndarray, " places"],
    high: Float[np.ndarray, " places"],
    *,
    points: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    truth: Float[np.ndarray, " places"] | None = None,
    title: str = "",
) -> None:
    """The mean as a line and an interval as a band, over the rows that were learned from."""
    axes.fill_between(x, low, high, color=LIGHT, alpha=0.6, linewidth=0, label="90 % of y")
    axes.scatter(*points, s=10, color=GREY, linewidths=0, label="training rows", zorder=2)
    axes.plot(x, mean, color=DARK, linewidth=2, label="mean of y", zorder=3)
    if truth is not None:
        axes.plot(x, truth, color=WARM, linestyle="--", linewidth=1.4, label="truth", zorder=3)
    axes.set(xlim=(x[0], x[-1]), xlabel="x", ylabel="y", title=title)
    axes.legend(frameon=False, loc="upper left")


def density_line(
    axes: Axes,
    x: Float[np.ndarray, " places"],
    density: Float[np.ndarray, " places"],
    reference: Float[np.ndarray, " places"],
    *,
    inside: tuple[float, float],
    least: float,
    names: tuple[str, str],
    title: str = "",
) -> None:
    """A density as a line over another one, shaded; the range of the data and a least density."""
    axes.fill_between(x, reference, color="#cccccc", linewidth=0, label=names[1])
    axes.plot(x, density, color="black", linewidth=2, label=names[0])
    style: dict[str, Any] = {"color": WARM, "linestyle": ":", "linewidth": 1.2}
    highest, room = max(np.max(density), np.max(reference)), 1.45  # for the legend
    for end in inside:
        axes.axvline(end, ymax=1 / room, **style)
    axes.axhline(least, **style, label="range of the rows, least p(x) among them")
    axes.set(xlim=(x[0], x[-1]), ylim=(0, room * highest), xlabel="x", ylabel="p(x)", title=title)
    axes.legend(frameon=False, loc="upper left")
