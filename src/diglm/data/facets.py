"""What a person can name in a row: a column of a table, a patch of an image."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Facet:
    """One part of a row, in the user's terms.

    Cells are the numbers that a person reads in a row: values of numbers, codes of levels, pixels.
    Most facets are one cell; a patch of an image is several.

    Attributes:
        name: the column's name or position, or where a patch lies.
        places: of its cells.
        spread: how far values lie apart in the data, in the user's unit.
        step: distance between neighbouring values; 0 where they are continuous.
        low: smallest value seen.
        high: largest value seen.
        decimals: places behind the point that write every value of a grid; None if more than nine.
        levels: what its codes stand for; empty for numbers.
        time: "datetime" or "timedelta" where its numbers are seconds.
    """

    name: str | int
    places: tuple[int, ...]
    spread: float
    step: float = 0.0
    low: float = 0.0
    high: float = 0.0
    decimals: int | None = None
    levels: tuple[str | bool | int | float | None, ...] = ()
    time: str = ""

    @property
    def changes(self) -> bool:
        """Whether the data show more than one value."""
        return self.high > self.low or len(self.places) > 1

    def text(self, value: float) -> str:
        """A value as people read it."""
        if self.levels:
            code = -1 if np.isnan(value) else int(round(value))
            return str(self.levels[code]) if code >= 0 else "never seen"
        if np.isnan(value):
            return "missing"
        if self.time:
            unit = np.datetime64 if self.time == "datetime" else np.timedelta64
            return str(unit(int(round(value)), "s"))
        return f"{value:.4g}"

    def point(self, steps: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """The value that many steps above the lowest, as people write it."""
        values = self.low + steps * self.step
        return values if self.decimals is None else np.round(values, self.decimals)

    def far(
        self, a: Float[np.ndarray, " rows"], b: Float[np.ndarray, " rows"]
    ) -> Float[np.ndarray, " rows"]:
        """How far values are apart: in spreads for numbers, 0 or 1 for levels and gaps."""
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(a - b) / self.spread
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if self.levels:
            return np.where(same, 0.0, 1.0)
        return np.where(same, 0.0, np.where(np.isnan(apart), 1.0, apart))
