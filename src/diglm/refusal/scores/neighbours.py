"""How far a row is from the rows of training that are nearest to it."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Shaped

from diglm.parameters import Constraints, OneOf, Whole
from diglm.refusal.known import Known
from diglm.refusal.scores.base import AbstractScore, learned
from diglm.refusal.scores.nearest import Nearest
from diglm.refusal.scores.spaces import SPACES, USUAL_SPACES, AbstractSpace

YES_OR_NO = OneOf(True, False)


@dataclass
class Neighbours(AbstractScore):
    r"""Mean distance to the k nearest of some rows of training, $\frac1k \sum_i |r_{(i)} - s(x)|$.

    Args:
        space: where: "columns", "latents", "features" or "pixels"; "auto" for the usual one.
        k: how many.
        unit: whether points are brought to length one, so that directions are compared.
        local: whether the distance is divided by the mean of what it is for those neighbours
            themselves: a row between tight clusters is then strange, one in a wide one is not.
        exact: whether all rows are compared; else those of a cell, which is faster.
        most: rows of training that are kept.
    """

    space: str = "auto"
    k: int = 5
    unit: bool = False
    local: bool = False
    exact: bool = False
    most: int = 4_000
    points: AbstractSpace | None = learned()
    nearest: Nearest | None = learned()
    usual: Float[np.ndarray, " n"] | None = learned()

    wants_training: ClassVar[int] = 4_000
    constraints: ClassVar[Constraints] = {
        "space": [OneOf("auto", *SPACES)],
        "k": [Whole()],
        "unit": [YES_OR_NO],
        "local": [YES_OR_NO],
        "exact": [YES_OR_NO],
        "most": [Whole()],
    }

    def why_not(self, known: Known) -> str:
        if self.space == "pixels" and known.values.ndim != 4:
            return "its space is that of pixels, and these rows are no images. Use space='auto'."
        return ""

    def reads_head(self, layout: str) -> bool:
        return self._space(layout) == "features"

    def fit(self, training: Known, aside: Known) -> "Neighbours":
        points = SPACES[self._space(training.layout)](training)
        rows = points(training)
        rows = rows[np.linspace(0, len(rows) - 1, min(self.most, len(rows))).astype(int)]
        nearest = Nearest.of(self._compared(rows), exact=self.exact)
        fitted = replace(self, points=points, nearest=replace(nearest, rows=rows))
        if not self.local:
            return fitted
        return replace(fitted, usual=fitted._distances(rows)[0])

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.points is not None, "fit() comes first"
        distances, found = self._distances(self.points(known))
        if self.usual is None:
            return distances.astype(float)
        around = np.mean(self.usual[found], axis=1)
        smallest = 1e-6 * float(np.mean(self.usual)) + 1e-12
        return (distances / np.maximum(around, smallest)).astype(float)

    def _space(self, layout: str) -> str:
        return {"auto": USUAL_SPACES[layout]}.get(self.space, self.space)

    def _distances(
        self, rows: Shaped[np.ndarray, "rows dim"]
    ) -> tuple[Float[np.ndarray, " rows"], np.ndarray]:
        assert self.nearest is not None, "fit() comes first"
        reference = replace(self.nearest, rows=self._compared(self.nearest.rows))
        distances, found = reference(self._compared(rows), self.k)
        return np.mean(distances, axis=1), found

    def _compared(self, rows: Shaped[np.ndarray, "rows dim"]) -> Float[np.ndarray, "rows dim"]:
        """Points as they are compared; stored are those that every choice can be made from."""
        points = rows.astype(np.float32)
        if not self.unit:
            return points
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        return points / np.where(lengths > 0, lengths, 1.0).astype(np.float32)
