"""What fit saw, and how likely something else is: sets of missing cells, rates of novelty."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

# Tables with more patterns than this have little use for each of them; the commonest are kept.
COMMON, MANY = 0.05, 20  # rate and number of patterns from which on new ones are not strange
MOST_PATTERNS = 4096


def good_turing(once: int, n: int) -> float:
    """Probability that a new row shows something never seen in `n` rows: (once + 1/2) / (n + 1).

    What was seen exactly once was new when it came. Half a row more keeps the estimate above zero
    where everything was seen often.

    Reference: Good (1953), https://doi.org/10.1093/biomet/40.3-4.237
    """
    return min((once + 0.5) / (n + 1), 1.0)


@dataclass(frozen=True)
class Patterns:
    """Which sets of columns were missing together in rows of fit.

    Attributes:
        seen: Positions of the missing columns, a tuple for each set, the commonest first; () is
            the complete row. No more than MOST_PATTERNS are kept, the others count as never seen.
        rate: Estimated probability that a new row's set is none of these.
    """

    seen: tuple[tuple[int, ...], ...]
    rate: float

    @classmethod
    def fit(cls, missing: Bool[np.ndarray, "rows columns"]) -> "Patterns":
        """The sets of missing cells in these rows."""
        rows, place = distinct_rows(missing)
        counts = np.bincount(place)
        found = {_places(row): int(k) for row, k in zip(rows, counts, strict=True)}
        order = sorted(found, key=lambda places: (-found[places], len(places), places))
        # Rows whose set is not kept will be met again; those seen once are counted already.
        dropped = sum(found[places] for places in order[MOST_PATTERNS:] if found[places] > 1)
        rate = good_turing(int(np.sum(counts == 1)) + dropped, len(missing))
        return cls(tuple(order[:MOST_PATTERNS]), rate)

    def contain(self, missing: Bool[np.ndarray, "rows columns"]) -> Bool[np.ndarray, " rows"]:
        """For each row, whether its set of missing cells was seen in fit.

        Where cells are missing independently of each other, new sets are nothing strange: if there
        are many and one row in twenty brings another, all sets of cells that were ever missing
        count as seen.
        """
        known = np.full(len(missing), () in self._set)
        partial = np.flatnonzero(missing.any(axis=1))
        if partial.size:
            rows, place = distinct_rows(missing[partial])
            known[partial] = np.array([_places(row) in self._set for row in rows])[place]
        if self.rate >= COMMON and len(self.seen) >= MANY:
            usual = np.zeros(missing.shape[1], bool)
            usual[[place for places in self.seen for place in places]] = True
            known |= ~np.any(missing & ~usual, axis=1)
        return known

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        return {"seen": [list(places) for places in self.seen], "rate": self.rate}

    @classmethod
    def from_dict(cls, content: Any, allowed: set[int]) -> "Patterns":
        """The patterns that `to_dict` described, of columns whose positions are allowed."""
        match content:
            case {"seen": list(seen), "rate": float(rate)} if len(content) == 2 and 0 < rate <= 1:
                pass
            case _:
                raise ValueError(
                    "patterns must hold exactly 'rate', a probability above 0, and 'seen', a list."
                )
        if not 1 <= len(seen) <= MOST_PATTERNS:
            raise ValueError(
                f"patterns must hold 1 to {MOST_PATTERNS} sets of columns; got {len(seen)}."
            )
        for i, places in enumerate(seen):
            plain = isinstance(places, list) and all(type(j) is int for j in places)
            if not plain or sorted(set(places)) != places or not set(places) <= allowed:
                raise ValueError(
                    f"patterns: seen[{i}] must be ascending positions of columns that have an "
                    f"indicator, {sorted(allowed)}; got {places!r}."
                )
        found = tuple(tuple(places) for places in seen)
        if len(set(found)) != len(found):
            raise ValueError("patterns: seen must hold every set of columns once.")
        return cls(found, rate)

    @cached_property
    def _set(self) -> frozenset[tuple[int, ...]]:
        return frozenset(self.seen)


def distinct_rows(
    marks: Bool[np.ndarray, "rows columns"],
) -> tuple[Bool[np.ndarray, "kinds columns"], Int[np.ndarray, " rows"]]:
    """The different rows of a matrix of marks, and which of them each row is."""
    packed = np.ascontiguousarray(np.packbits(marks, axis=1))
    keys = packed.view(f"V{packed.shape[1]}")[:, 0]  # a row's bits as one thing to sort by
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return marks[first], place


def _places(row: Bool[np.ndarray, " columns"]) -> tuple[int, ...]:
    return tuple(np.flatnonzero(row).tolist())
