"""The paper's Figure 1: the model, drawn.

    diglm reproduce model --budget full

One invertible network maps x to features z; a generalized linear model reads y off z; z and the
log-determinants give log p(x), by which an x may be refused.
"""

from dataclasses import dataclass
from typing import Any

from diglm.drawing import DARK, GREY, LIGHT, WARM, Axes, new_figure
from diglm.experiments.frame import Run, Study, Work

FIGURE = "figure_1.png"


@dataclass(frozen=True)
class Config:
    """How large."""

    width: float = 9.0
    height: float = 3.9
    dots: int = 150  # per inch


@dataclass(frozen=True)
class Box:
    """A part of the model: its middle, its size, and what is written in it."""

    x: float
    y: float
    text: str
    colour: str = LIGHT
    width: float = 1.5
    height: float = 0.72

    def end(self, side: str) -> tuple[float, float]:
        """The middle of a side, where arrows begin and end."""
        across = {"left": -1, "right": 1}.get(side, 0) * self.width / 2
        up = {"below": -1, "above": 1}.get(side, 0) * self.height / 2
        return self.x + across, self.y + up


BOXES = {
    "x": Box(0.7, 2.0, "input\n$x$", "white", 0.95),
    "f": Box(2.75, 2.0, "invertible network\n$f(x;\\ \\phi)$", LIGHT, 2.0, 0.9),
    "z": Box(4.75, 2.0, "features\n$z = f(x)$", "white", 1.15),
    "glm": Box(7.2, 2.9, "generalized linear model\n$g^{-1}(\\beta^T z)$", "#f6d3bf", 2.7, 0.85),
    "base": Box(7.2, 1.1, "base density\n$p_z(z)$", "#f6d3bf", 2.7, 0.85),
    "py": Box(9.75, 2.9, "$p(y\\,|\\,x)$", "white", 1.3),
    "px": Box(9.75, 1.1, "$p(x)$", "white", 1.3),
    "joint": Box(11.75, 2.0, "$p(y, x)$", "white", 1.2),
    "det": Box(4.75, 0.42, "$\\log|\\partial f / \\partial x|$", "white", 1.6, 0.6),
}
ARROWS = (
    ("x", "right", "f", "left"),
    ("f", "right", "z", "left"),
    ("z", "right", "glm", "left"),
    ("z", "right", "base", "left"),
    ("glm", "right", "py", "left"),
    ("base", "right", "px", "left"),
    ("f", "below", "det", "left"),
    ("py", "right", "joint", "left"),
    ("px", "right", "joint", "left"),
)


def draw(axes: Axes) -> None:
    """Boxes and arrows."""
    from matplotlib.patches import FancyBboxPatch

    for box in BOXES.values():
        corner = box.x - box.width / 2, box.y - box.height / 2
        style = {"boxstyle": "round,pad=0.02,rounding_size=0.08", "linewidth": 1.3}
        patch = FancyBboxPatch(
            corner, box.width, box.height, facecolor=box.colour, edgecolor=DARK, **style
        )
        axes.add_patch(patch)
        axes.text(box.x, box.y, box.text, ha="center", va="center", fontsize=10)
    for first, side, second, other in ARROWS:
        _arrow(axes, BOXES[first].end(side), BOXES[second].end(other), DARK)
    # The log-determinant joins the base density on its way to p(x).
    _arrow(axes, BOXES["det"].end("right"), (BOXES["px"].x - 0.5, 0.72), DARK, bend=0.12)
    _arrow(axes, (4.75, 2.42), (0.7, 2.42), WARM, bend=0.3, line="--")
    axes.text(2.75, 3.3, "$x = f^{-1}(z)$: samples, counterfactuals", color=WARM, ha="center")
    refused = "less probable than a threshold: refused, answered by $p(y)$"
    axes.text(9.75, -0.05, refused, color=GREY, ha="center", fontsize=9)
    axes.set(xlim=(0.1, 12.5), ylim=(-0.2, 3.6), aspect="equal")
    axes.axis("off")


def _arrow(axes: Axes, start, end, colour: str, *, bend: float = 0.0, line: str = "-") -> None:
    look: dict[str, Any] = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.3}
    look |= {"shrinkA": 2, "shrinkB": 2, "linestyle": line, "mutation_scale": 13}
    look["connectionstyle"] = f"arc3,rad={bend}"
    axes.annotate("", end, start, arrowprops=look)


def runs(config: Config) -> list[Run]:
    """One."""

    def measure(work: Work) -> dict[str, int]:
        figure, (axes,) = new_figure(config.width, config.height)
        draw(axes)
        figure.savefig(work.figure(FIGURE), dpi=config.dots, bbox_inches="tight")
        return {"boxes": len(BOXES), "arrows": len(ARROWS)}

    return [Run("model", vars(config), measure, figures=(FIGURE,))]


REPRODUCE = Study(
    about="the model, drawn",
    full=Config(),
    small=Config(),
    runs=runs,
    shows=("Figure 1",),
)
