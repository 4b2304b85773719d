"""Flows without couplings: differential equations, and invertible residual networks."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from diglm import flows
from diglm.bijections import AbstractBijection, Chain
from diglm.parameters import Constraints, Real, Whole
from diglm.recipes.base import BASES, Sizes
from diglm.recipes.starting import first_layers
from diglm.recipes.tables import AbstractTableRecipe, as_one
from diglm.types import Key

ESTIMATES: Constraints = {
    "base": [BASES],
    "tolerance": [Real(0.0, 0.1, open_low=True)],
    "exact_up_to": [Whole(0)],
    "probes": [Whole(2)],
}


@dataclass
class ContinuousFlow(AbstractTableRecipe):
    """A differential equation takes rows to features (FFJORD); needs diffrax.

    Every smooth, bounded field of velocities gives an invertible map, so that the network in it
    may be any; in exchange it is asked some dozens of times a row. `n_blocks` is the number of
    equations, `width` and `depth` are those of their networks.

    Args:
        base: "normal", or "mixture" for a normal of its own for each class, after training.
        tolerance: of the solver, relative and absolute.
        exact_up_to: dimensions up to which the log-determinant is exact; above it is estimated.
        probes: directions of the estimate, whose spread tells its standard error.
    """

    base: str = "auto"
    tolerance: float = 1e-4
    exact_up_to: int = 16
    probes: int = 8
    usual_blocks: ClassVar[int] = 1
    smooths: ClassVar[bool] = True
    constraints: ClassVar[Constraints] = ESTIMATES

    def layers(
        self, rows: Float[np.ndarray, "rows dim"], sizes: Sizes, key: Key
    ) -> AbstractBijection:
        equations = flows.continuous(
            rows.shape[1],
            n_blocks=as_one(sizes.n_blocks),
            width=as_one(sizes.width),
            depth=sizes.depth,
            tolerance=self.tolerance,
            exact_up_to=self.exact_up_to,
            n_probes=self.probes,
            key=key,
        )
        return Chain([*first_layers(rows), equations])


@dataclass
class ResidualFlow(AbstractTableRecipe):
    """Residual layers that are invertible, because what they add moves less than the row does.

    Args:
        base: "normal", or "mixture" for a normal of its own for each class, after training.
        steepness: by what share of the way between two rows the changes of theirs may differ;
            near one layers bend more, and are slower to invert.
        tolerance: of the inverse, relative.
        exact_up_to: dimensions up to which the log-determinant is exact; above it is estimated.
        probes: directions of the estimate, whose spread tells its standard error.
    """

    base: str = "auto"
    steepness: float = 0.9
    tolerance: float = 1e-6
    exact_up_to: int = 64
    probes: int = 8
    smooths: ClassVar[bool] = True
    constraints: ClassVar[Constraints] = {
        **ESTIMATES,
        "steepness": [Real(0.0, 0.99, open_low=True)],
    }

    def layers(
        self, rows: Float[np.ndarray, "rows dim"], sizes: Sizes, key: Key
    ) -> AbstractBijection:
        network = flows.residual(
            rows.shape[1],
            n_blocks=as_one(sizes.n_blocks),
            width=as_one(sizes.width),
            depth=sizes.depth,
            steepness=self.steepness,
            tolerance=self.tolerance,
            exact_up_to=self.exact_up_to,
            n_probes=self.probes,
            key=key,
        )
        return Chain([*first_layers(rows), network])
