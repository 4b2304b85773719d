"""Which rows are trained on, and which are held out."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

FEWEST_TO_SPLIT = 20
FEWEST_LABELS_TO_SPLIT = 200  # of fewer, what one could hold out would settle nothing


class Split(NamedTuple):
    """Numbers of the rows to train on, and of those held out."""

    train: Int[np.ndarray, " n"]
    held_out: Int[np.ndarray, " m"]


def split_rows(
    fraction: float,
    strata: np.ndarray | None,
    weights: np.ndarray,
    seed: int,
    labelled: Bool[np.ndarray, " rows"] | None = None,
) -> Split:
    """Rows to train on and rows to hold out; classes keep their shares.

    Fewer than 20 rows are all trained on: what one could hold out would settle nothing. So are
    rows with a label, where those without one are more and labels fewer than 200. Where rows
    without a label are there, and rows with one are held out, every class keeps one to train on,
    and so do numbers.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.flatnonzero(weights > 0))
    n_held = round(fraction * len(order))
    if fraction == 0 or len(order) < FEWEST_TO_SPLIT:
        return Split(np.sort(order), np.zeros(0, int))
    n_held = max(n_held, 4)
    known = np.ones(len(order), bool) if labelled is None else labelled[order]
    if not np.all(known):
        n_known = int(np.sum(known))
        if n_known < min(FEWEST_LABELS_TO_SPLIT, len(order) - n_known):
            return _held(order, np.flatnonzero(~known)[:n_held])
    if strata is None and np.all(known):
        return _held(order, np.arange(n_held))
    if strata is None:
        strata = np.asarray(labelled, int)
    # Deal the rows out class by class, then take every k-th: shares are kept to one row.
    order = order[np.argsort(strata[order], kind="stable")]
    start = rng.random()
    places = np.floor((np.arange(n_held) + start) * len(order) / n_held).astype(int)
    split = _held(order, places)
    return split if np.all(known) else _with_every_class(split, strata)


def split_labels(
    split: Split,
    labelled: Bool[np.ndarray, " rows"],
    fraction: float,
    strata: np.ndarray | None,
    weights: np.ndarray,
    seed: int,
) -> Split:
    """The rows of a split that have a label.

    Where labels are so few that none is held out, some of those to train on are set apart.
    """
    train, held_out = (part[labelled[part]] for part in split)
    if len(held_out) or not len(split.held_out):
        return Split(train, held_out)
    return split_rows(fraction, strata, weights * labelled, seed)


def _held(order: np.ndarray, places: np.ndarray) -> Split:
    held = np.zeros(len(order), bool)
    held[places] = True
    return Split(np.sort(order[~held]), np.sort(order[held]))


def deal(
    rows: Int[np.ndarray, " rows"], n_hands: int, strata: np.ndarray | None, seed: int
) -> tuple[Int[np.ndarray, " some"], ...]:
    """Half of the rows to each hand, as many to all, and each row to half of the hands.

    Classes keep their shares. What cannot be divided evenly is dealt to all.
    """
    order = np.random.default_rng(seed).permutation(rows)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
    n_even = len(order) - len(order) % n_hands
    piles = [order[k:n_even:n_hands] for k in range(n_hands)]
    hands = [[piles[(k + j) % n_hands] for j in range((n_hands + 1) // 2)] for k in range(n_hands)]
    return tuple(np.sort(np.concatenate([*hand, order[n_even:]])) for hand in hands)


def _with_every_class(split: Split, strata: np.ndarray) -> Split:
    """The split with one row of each class among those to train on."""
    only_held = np.setdiff1d(strata[split.held_out], strata[split.train])
    moved = [split.held_out[strata[split.held_out] == name][0] for name in only_held]
    train = np.sort(np.concatenate([split.train, np.array(moved, int)]))
    return Split(train, np.setdiff1d(split.held_out, moved))
