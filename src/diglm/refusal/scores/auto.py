"""The score "auto": log p(x) for tables, for images one calibrated combination.

The parts of combinations were chosen for tables on every second table of ADBench and for images on
seven kinds of strange images, the others being seen meanwhile.
Tables keep log p(x) unless one is asked for: rows with gaps have no
neighbours that can be compared with them, and all would be refused.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from diglm.refusal.known import Known
from diglm.refusal.scores.answers import Energy
from diglm.refusal.scores.base import AbstractScore, learned
from diglm.refusal.scores.combined import Combined, Evidence
from diglm.refusal.scores.density import Density, HighDensity
from diglm.refusal.scores.neighbours import Neighbours
from diglm.refusal.scores.simplicity import Simplicity
from diglm.registry import Registry

IMAGES = 2_000  # kept as a reference


def for_tables() -> Combined:
    """Distance to the nearest rows of training, and log p(x) where it is far out.

    Neighbours find what lies apart, whatever its margins; the density also what lies among them and
    breaks a relation that all of them keep.
    """
    return Combined([Neighbours(), Evidence(Density(), beyond=5.0)])


def for_images() -> Combined:
    """Density on either side, neighbours of strokes and of features, classes, and simplicity."""
    strokes = Neighbours("pixels", exact=True, most=IMAGES)
    features = Neighbours("features", unit=True, exact=True, most=IMAGES)
    return Combined(
        [
            Density(),
            HighDensity(),
            Simplicity(),
            Energy(),
            features,
            replace(features, local=True),
            strokes,
            replace(strokes, local=True),
            replace(strokes, unit=True),
        ]
    )


USUAL: Registry[Callable[[], AbstractScore]] = Registry(
    "layout", {"vector": Density, "image": for_images}
)


@dataclass
class AutoScore(AbstractScore):
    """What suits the rows: log p(x) for tables, `for_images` for images."""

    chosen: AbstractScore | None = learned()

    wants_training: ClassVar[int] = 4_000

    def reads_head(self, layout: str) -> bool:
        return USUAL[layout]().reads_head(layout)

    def fit(self, training: Known, aside: Known) -> "AutoScore":
        return replace(self, chosen=USUAL[training.layout]().fit(training, aside))

    def weighed(self, familiar: Known, strange: Known) -> "AutoScore":
        assert self.chosen is not None, "fit() comes first"
        return replace(self, chosen=self.chosen.weighed(familiar, strange))

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.chosen is not None, "fit() comes first"
        return self.chosen(known)
