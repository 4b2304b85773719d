"""Which rows a model has learned, so that it can tell whether it may unlearn one."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Int, UInt


class Seen(NamedTuple):
    """Which rows the posterior knows, as marks of 64 bits and how often each was learned."""

    marks: UInt[np.ndarray, " n"]
    counts: Int[np.ndarray, " n"]

    @classmethod
    def of(cls, marks: UInt[np.ndarray, " rows"]) -> "Seen":
        """Marks, counted."""
        return cls(*np.unique(marks, return_counts=True))

    def plus(self, other: "Seen", sign: int = 1) -> "Seen":
        """All of both; with `sign=-1` what remains, or an error if something was never there."""
        marks, places = np.unique(np.concatenate([self.marks, other.marks]), return_inverse=True)
        counts = np.zeros(len(marks), np.int64)
        np.add.at(counts, places, np.concatenate([self.counts, sign * other.counts]))
        if np.any(counts < 0):
            raise ValueError(
                f"downdate() was given {np.sum(-counts[counts < 0])} rows that this model has not "
                "learned, or not so often. Give rows with the features, target and weight with "
                "which they were learned; nothing has been changed."
            )
        return Seen(marks[counts > 0], counts[counts > 0])


def mark_rows(*columns: np.ndarray | Array) -> UInt[np.ndarray, " rows"]:
    """A mark of 64 bits a row: equal rows have equal marks, others all but never."""
    if len(columns[0]) == 0:
        return np.zeros(0, np.uint64)
    with np.errstate(over="ignore"):
        total = np.zeros(len(columns[0]), np.uint64)
        for column in map(np.asarray, columns):
            bits = np.ascontiguousarray(column.reshape(len(total), -1) + 0.0, float).view(np.uint64)
            for part in bits.T:  # -0.0 became 0.0 by the sum; the mixing is splitmix64's
                total = (total ^ part) + np.uint64(0x9E3779B97F4A7C15)
                total = (total ^ (total >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                total = (total ^ (total >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                total = total ^ (total >> np.uint64(31))
    return total
