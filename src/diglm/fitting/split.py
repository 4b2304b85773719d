"""Which rows are trained on, and which are held out."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

FEWEST_TO_SPLIT = 20


class Split(NamedTuple):
    """Numbers of the rows to train on, and of those held out."""

    train: Int[np.ndarray, " n"]
    held_out: Int[np.ndarray, " m"]


def split_rows(fraction: float, strata: np.ndarray | None, weights: np.ndarray, seed: int) -> Split:
    """Rows to train on and rows to hold out; classes keep their shares.

    Fewer than 20 rows are all trained on: what one could hold out would settle nothing.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.flatnonzero(weights > 0))
    n_held = round(fraction * len(order))
    if fraction == 0 or len(order) < FEWEST_TO_SPLIT:
        return Split(np.sort(order), np.zeros(0, int))
    n_held = max(n_held, 4)
    if strata is not None:
        # Deal the rows out class by class, then take every k-th: shares are kept to one row.
        order = order[np.argsort(strata[order], kind="stable")]
        start = rng.random()
        places = np.floor((np.arange(n_held) + start) * len(order) / n_held).astype(int)
    else:
        places = np.arange(n_held)
    held = np.zeros(len(order), bool)
    held[places] = True
    return Split(np.sort(order[~held]), np.sort(order[held]))
