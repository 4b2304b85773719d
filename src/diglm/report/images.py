"""Rows of small images with captions, drawn on one set of axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from diglm.drawing import WARM, Axes, require_matplotlib

TILE_INCHES = 0.68
TILE_GAP = 0.14  # between tiles, in tiles
ROW_GAP = 0.20  # between rows
CAPTION_LINE = 0.20  # room for one line of 8-point caption, in tiles


def new_grid(n_rows: int, n_columns: int, caption_lines: int = 0) -> tuple[Any, Axes]:
    """A figure whose one set of axes has just the room `image_grid` needs."""
    require_matplotlib()
    from matplotlib.figure import Figure

    across = n_columns * (1 + TILE_GAP) - TILE_GAP
    down = n_rows * _row_pitch(caption_lines)
    figure = Figure((TILE_INCHES * across, TILE_INCHES * down))
    return figure, figure.add_axes((0.0, 0.0, 1.0, 1.0))


def image_grid(
    axes: Axes,
    images: Sequence[Sequence[np.ndarray | None]],
    *,
    top: float | int,
    captions: Sequence[Sequence[str]] | None = None,
    framed: Sequence[Sequence[bool]] | None = None,
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
) -> None:
    """Images in rows, grey ones white for 0 and black for `top`; None leaves a place empty.

    `captions` stand below the images. Those that are `framed` get a thick dashed frame.
    """
    from matplotlib.patches import Rectangle

    lines = max((c.count("\n") + 1 for row in captions or () for c in row if c), default=0)
    across, down = 1 + TILE_GAP, _row_pitch(lines)
    n_columns = max(len(row) for row in images)
    for i, row in enumerate(images):
        for j, image in enumerate(row):
            if image is None:
                continue
            x, y = j * across, i * down
            axes.imshow(image, cmap="Greys", vmin=0, vmax=top, extent=(x, x + 1, y + 1, y))
            marked = framed is not None and framed[i][j]
            style = {"linewidth": 1.8, "linestyle": (0, (2, 1)), "edgecolor": WARM}
            plain = {"linewidth": 0.5, "edgecolor": "#999999"}
            axes.add_patch(Rectangle((x, y), 1, 1, fill=False, **(style if marked else plain)))
            if captions is not None:
                axes.text(x + 0.5, y + 1.05, captions[i][j], ha="center", va="top", fontsize=8)
    for i, label in enumerate(row_labels):
        axes.text(-0.15, i * down + 0.5, label, ha="right", va="center", fontsize=10)
    for j, label in enumerate(column_labels):
        axes.text(j * across + 0.5, -0.1, label, ha="center", va="bottom", fontsize=10)
    edge = 0.03  # half a frame's line would be cut off otherwise
    axes.set(
        xlim=(-edge, n_columns * across - TILE_GAP + edge),
        ylim=(len(images) * down + edge, -edge),
        aspect="equal",
    )
    axes.axis("off")


def _row_pitch(caption_lines: int) -> float:
    return 1 + (ROW_GAP if caption_lines else TILE_GAP) + CAPTION_LINE * caption_lines
