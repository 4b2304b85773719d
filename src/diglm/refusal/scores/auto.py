"""The score "auto": one calibrated combination for tables, and one for images.

The parts were chosen for tables on every second table of ADBench and for images on seven kinds of
strange images, the others being seen meanwhile.
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
from diglm.refusal.scores.samples import NearestOfSamples
from diglm.refusal.scores.simplicity import Simplicity
from diglm.registry import Registry

IMAGES = 2_000  # kept as a reference
FEW_COLUMNS = 2  # in which log p(x) says all


def for_tables() -> Combined:
    """Distance to samples of training rows, and log p(x) where it is far out.

    Neighbours find what lies apart, whatever its margins; the density also what lies among them and
    breaks a relation that all of them keep.
    """
    return Combined([NearestOfSamples(), Evidence(Density(), beyond=5.0)])


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


def _usual_of_rows(training: Known | None) -> AbstractScore:
    few = training is not None and training.flat.shape[1] <= FEW_COLUMNS
    return Density() if few else for_tables()


def _usual_of_images(training: Known | None) -> AbstractScore:
    return for_images()


USUAL: Registry[Callable[[Known | None], AbstractScore]] = Registry(
    "layout", {"vector": _usual_of_rows, "image": _usual_of_images}
)


@dataclass
class AutoScore(AbstractScore):
    """What suits the rows: `for_tables`, of one or two columns log p(x), `for_images`.

    In one or two columns the density is known well, and a row that lies apart is improbable.
    """

    chosen: AbstractScore | None = learned()

    wants_training: ClassVar[int] = 4_000

    def reads_head(self, layout: str) -> bool:
        return USUAL[layout](None).reads_head(layout)

    def fit(self, training: Known, aside: Known) -> "AutoScore":
        return replace(self, chosen=USUAL[training.layout](training).fit(training, aside))

    def weighed(self, familiar: Known, strange: Known) -> "AutoScore":
        assert self.chosen is not None, "fit() comes first"
        return replace(self, chosen=self.chosen.weighed(familiar, strange))

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.chosen is not None, "fit() comes first"
        return self.chosen(known)
