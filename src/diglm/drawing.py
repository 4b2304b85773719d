"""Figures without matplotlib's global state, and the colours that all of them share.

Groups differ in lightness, hatch or line style besides colour, so that figures read in grey.
matplotlib is the extra `diglm[plot]`, so it is imported only when a figure is made.
"""

from typing import Any

Axes = Any  # matplotlib.axes.Axes, which may not be installed
Figure = Any  # matplotlib.figure.Figure
DARK, LIGHT, WARM, GREY = "#1f4e79", "#9cc3e6", "#d9622b", "#666666"
LINES = (("#1f4e79", "-"), ("#d9622b", "--"), ("#222222", ":"), ("#7a7a7a", "-."))


def require_matplotlib() -> None:
    """Raise a clear error when matplotlib is missing; call it before work that ends in figures."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "figures are drawn with matplotlib, which is not installed.\n\n"
            "hint: pip install 'diglm[plot]'"
        ) from error


def new_figure(width: float, height: float, n_columns: int = 1) -> tuple[Any, list[Axes]]:
    """A figure of `width` by `height` inches and its axes, side by side."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained")
    axes = list(figure.subplots(1, n_columns, squeeze=False)[0])
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes
