"""Which rows of a table `train` holds out; the same rows are found again when it is judged."""

import numpy as np

from diglm.cli.work.data import AbstractData, ImageData, TableData
from diglm.fitting.sources import fingerprint

MOST_TESTED = 20_000  # rows for the scores at the end; more would only cost memory
FEWEST_TESTED = 10


def held_out(n_rows: int, share: float, seed: int) -> np.ndarray:
    """A mask of the rows held out: a share of them, at most `MOST_TESTED`, or none of few."""
    n_test, held = min(int(share * n_rows), MOST_TESTED), np.zeros(n_rows, bool)
    if n_test >= FEWEST_TESTED:
        held[np.random.default_rng(seed).choice(n_rows, n_test, replace=False)] = True
    return held


def mark_of(data: AbstractData) -> str:
    """What rows are known by: names, sizes and counts of tables, pixels of images."""
    marks = {TableData: _mark_of_table, ImageData: _mark_of_images}
    return marks[type(data)](data)


def unseen_part(data: AbstractData, card: dict[str, object]) -> AbstractData | None:
    """The rows that training held out, if these are the rows of training; None if they are not."""
    split = card.get("split")
    if not isinstance(split, dict) or type(data) not in (TableData, ImageData):
        return None
    if split.get("mark") != mark_of(data) or split.get("rows") != data.n_rows:
        return None
    places = np.flatnonzero(held_out(data.n_rows, float(split["share"]), int(split["seed"])))
    return data.take(places) if len(places) else None


def _mark_of_table(data: TableData) -> str:
    return data.table.fingerprint()


def _mark_of_images(data: ImageData) -> str:
    return fingerprint([data.images.pixels])
