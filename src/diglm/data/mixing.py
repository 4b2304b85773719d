"""Batches of rows with a label and rows without: how many of each, and in which order.

Of a table with few labels, batches drawn at random would hold hardly any: most steps would learn
nothing of y. So where some rows have a label and others not, a part of every batch is kept for
those that have. They come round again, in a new order each time, while the others pass once.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

LABELLED_SHARE = 0.25  # of the places in a batch, at least


@dataclass(frozen=True)
class Mixing:
    """How batches are made up.

    Attributes:
        n_labelled: places in a batch for rows with a label.
        n_others: places for rows without; all of them where rows are not kept apart.
        repeats: how many times as often a row with a label is dealt as one without.
    """

    n_labelled: int
    n_others: int
    repeats: float = 1.0

    @property
    def batch_size(self) -> int:
        """Rows of a step."""
        return self.n_labelled + self.n_others

    @classmethod
    def of(cls, n_labelled: int, n_others: int, batch_size: int, multiple: int = 1) -> "Mixing":
        """Batches of so many rows, of a table with so many of either kind.

        Rows are kept apart where both kinds are there and those with a label are too few to fill
        their places by themselves. Places are shared out in multiples of a number.
        """
        share = n_labelled / max(1, n_labelled + n_others)
        places = multiple * max(1, round(LABELLED_SHARE * batch_size / multiple))
        if not 0 < share < LABELLED_SHARE or batch_size <= places:
            return cls(0, batch_size)
        others = batch_size - places
        return cls(places, others, (places / n_labelled) / (others / n_others))

    @property
    def apart(self) -> bool:
        """Whether rows with a label are kept apart."""
        return self.n_labelled > 0

    def counted(
        self, weights: Float[np.ndarray, " rows"], labelled: Bool[np.ndarray, " rows"]
    ) -> Float[np.ndarray, " rows"]:
        """What rows count, so that what is averaged over all rows is not drawn to labelled ones.

        The mean over labelled rows alone does not change, since all of them count less alike.
        """
        if not self.apart:
            return weights
        return (weights * np.where(labelled, 1 / self.repeats, 1.0)).astype(weights.dtype)

    def places(self) -> Int[np.ndarray, " labelled"]:
        """Which places of a batch are for labelled rows: evenly spread, over devices too."""
        return ((np.arange(self.n_labelled) + 0.5) * self.batch_size / self.n_labelled).astype(int)

    def laid_out(
        self, labelled: Int[np.ndarray, "steps _"], others: Int[np.ndarray, "steps _"]
    ) -> Int[np.ndarray, "steps batch"]:
        """Row numbers of both kinds in their places."""
        order = np.zeros((len(others), self.batch_size), others.dtype)
        kept = np.zeros(self.batch_size, bool)
        kept[self.places()] = True
        order[:, kept], order[:, ~kept] = labelled, others
        return order


def in_turn(
    rows: Int[np.ndarray, " rows"], n: int, rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """`n` of the rows, all of them in a new random order before any comes again."""
    rounds = [rng.permutation(rows) for _ in range(math.ceil(n / len(rows)))]
    return np.concatenate(rounds)[:n]
