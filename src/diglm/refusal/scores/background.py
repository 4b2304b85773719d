"""log p(x) against a background that knows no relations between columns or pixels."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from diglm.refusal.known import Known
from diglm.refusal.scores.base import AbstractScore, learned


@dataclass
class LikelihoodRatio(AbstractScore):
    r"""$\log p_0(x) - \log p(x)$ with a background $p_0$ of independent columns or pixels.

    What both densities know cancels: how bright an image or how large a number is. Left is how well
    a row keeps to the relations that only the model knows. Each number has a normal of its own in
    the background.

    Reference: Ren et al. (2019), https://arxiv.org/abs/1906.02845
    """

    location: Float[np.ndarray, " numbers"] | None = learned()
    scale: Float[np.ndarray, " numbers"] | None = learned()

    wants_training: ClassVar[int] = 4_000

    def fit(self, training: Known, aside: Known) -> "LikelihoodRatio":
        values = training.flat.astype(float)
        known = np.maximum(np.sum(~np.isnan(values), axis=0), 1)
        location = np.nansum(values, axis=0) / known
        scale = np.sqrt(np.nansum((values - location) ** 2, axis=0) / known)
        return replace(self, location=location, scale=scale + 0.01 * np.mean(scale) + 1e-9)

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.location is not None and self.scale is not None, "fit() comes first"
        apart = (known.flat.astype(float) - self.location) / self.scale
        logs = -0.5 * apart**2 - np.log(self.scale) - 0.5 * np.log(2 * np.pi)
        return np.nansum(logs, axis=1) - known.log_px
