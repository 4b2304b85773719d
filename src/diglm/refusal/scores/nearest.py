"""Nearest rows of a bounded reference, by matrix products over a few candidates for each row."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

ROWS_A_CELL = 64
CANDIDATES = 256  # rows that are compared with each row of a cell
FEWEST_FOR_CELLS = 1_024  # of fewer rows, all are candidates
ROUNDS = 5  # of Lloyd's algorithm
BLOCK = 2_048  # rows that are compared at a time
PIECE = 256  # rows whose distances are computed at a time


@dataclass(frozen=True)
class Nearest:
    """Rows, and for each of some cells of space the rows that are nearest to its centre.

    A row is compared with the candidates of the cell that it lies in: one small matrix product
    instead of one with all rows. What is found are rows as near as the nearest ones, or hardly
    farther; distances to them are exact.

    Attributes:
        rows: of the reference, as they are stored.
        centres: of the cells.
        candidates: numbers of the rows that each cell's rows are compared with.
    """

    rows: Shaped[np.ndarray, "n dim"]
    centres: Float[np.ndarray, "cells dim"]
    candidates: Int[np.ndarray, "cells m"]

    @classmethod
    def of(cls, rows: Shaped[np.ndarray, "n dim"], *, exact: bool = False) -> "Nearest":
        """From a reference; where it is small or all is to be `exact`, every row is a candidate."""
        n, points = len(rows), rows.astype(np.float32)
        if exact or n < FEWEST_FOR_CELLS:
            return cls(
                rows, np.zeros((1, rows.shape[1]), np.float32), np.arange(n, dtype=np.int32)[None]
            )
        n_cells = n // ROWS_A_CELL
        centres = points[np.linspace(0, n - 1, n_cells).astype(int)]
        for _ in range(ROUNDS):
            cell = _nearest_centre(points, centres)
            sums = np.zeros_like(centres)
            np.add.at(sums, cell, points)
            counts = np.bincount(cell, minlength=n_cells)[:, None]
            centres = np.where(counts > 0, sums / np.maximum(counts, 1), centres)
            centres = centres.astype(np.float32)
        apart = _squares(centres, points)
        candidates = np.argsort(apart, axis=1, kind="stable")[:, :CANDIDATES]
        return cls(rows, centres, candidates.astype(np.int32))

    def __call__(
        self, queries: Float[np.ndarray, "rows dim"], k: int
    ) -> tuple[Float[np.ndarray, "rows near"], Int[np.ndarray, "rows near"]]:
        """Distances to the k nearest rows of the reference, ascending, and their numbers.

        A row at no distance at all is taken for the row itself, of which there is one to pass
        over: rows that the reference holds are then judged as rows that it does not hold.
        """
        queries = queries.astype(np.float32)
        n_near = min(k + 1, self.candidates.shape[1])
        found = np.zeros((len(queries), n_near), int)
        reference = self.rows.astype(np.float32)
        squares = np.sum(reference**2, axis=1)
        cell = np.zeros(len(queries), int)
        if len(self.centres) > 1:
            cell = _nearest_centre(queries, self.centres)
        order = np.argsort(cell, kind="stable")
        for rows in _blocks(order, cell[order]):
            those = self.candidates[cell[rows[0]]]
            some = queries[rows]
            apart = some @ (-2 * reference[those].T) + squares[those]
            apart += np.einsum("ij,ij->i", some, some)[:, None]
            found[rows] = those[_smallest(apart, n_near)]
        distances = np.empty(found.shape, np.float32)
        for start in range(0, len(queries), PIECE):
            some = slice(start, start + PIECE)
            gaps = reference[found[some]]
            gaps -= queries[some, None]
            distances[some] = np.sqrt(np.einsum("ijk,ijk->ij", gaps, gaps))
        order = np.argsort(distances, axis=1, kind="stable")
        distances = np.take_along_axis(distances, order, axis=1)
        found = np.take_along_axis(found, order, axis=1)
        if n_near == 1:
            return distances, found
        itself = distances[:, :1] == 0
        return (
            np.where(itself, distances[:, 1:], distances[:, :-1]),
            np.where(itself, found[:, 1:], found[:, :-1]),
        )


def _smallest(squares: Float[np.ndarray, "rows m"], n: int) -> Int[np.ndarray, "rows n"]:
    """Places of the n smallest in each row, in any order.

    Bits of positive floats are ordered as the floats are. With the last of them replaced by the
    place, the n smallest are found by a partition of values, several times as fast as one of
    places. Numbers that differ by less than the bits replaced are taken for equal.
    """
    bits = np.maximum(squares, 0).astype(np.float32).view(np.int32)
    last = (1 << max(1, (squares.shape[1] - 1).bit_length())) - 1
    bits &= ~np.int32(last)
    bits |= np.arange(squares.shape[1], dtype=np.int32)
    return np.partition(bits, n - 1, axis=1)[:, :n] & np.int32(last)


def _blocks(order: np.ndarray, cell: np.ndarray) -> list[np.ndarray]:
    """Rows of one cell each, in pieces that fit into the cache."""
    starts = np.flatnonzero(np.r_[True, cell[1:] != cell[:-1]]) if len(cell) else []
    pieces = []
    for rows in np.split(order, starts[1:]) if len(cell) else []:
        pieces += [rows[i : i + BLOCK] for i in range(0, len(rows), BLOCK)]
    return pieces


def _nearest_centre(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.argmin(points @ (-2 * centres.T) + np.sum(centres**2, axis=1), axis=1)


def _squares(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    crossed = first @ second.T
    return np.sum(first**2, axis=1)[:, None] + np.sum(second**2, axis=1) - 2 * crossed
