"""Couplings for tables: those that the head reads, one network or several, and a density's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from diglm import flows
from diglm.bases import Normal
from diglm.bijections import AbstractBijection, Chain, MarginalMap
from diglm.flows import Flow
from diglm.heads import NoHead
from diglm.hybrid import Hybrid
from diglm.parameters import AUTO, Constraints, Whole
from diglm.recipes.base import BASES, AskedSizes, Material, Sizes
from diglm.recipes.margins import reads_better
from diglm.recipes.starting import clumps, first_layers, normal_scores, starting_rows
from diglm.recipes.tables import AbstractTableRecipe, Pace, as_one, with_flow
from diglm.types import Key, seeded_key

USUAL_TAIL = 8
USUAL_MEMBERS = 4
OWN_DENSITY = 1  # tells its seed from that of the head's couplings


class AbstractCouplingRecipe(AbstractTableRecipe):
    """Couplings for the head, and others for a density of its own.

    Attributes:
        tail: couplings of the density's own, "auto" for as many as do; 0 for the paper's model, in
            which the head reads the very features that the density is of.
        members: networks whose answers are averaged, "auto" for as many as pay; one with tail=0.
        kind: of couplings.
    """

    tail: int | str
    members: int | str
    kind: ClassVar[str]
    smooths: ClassVar[bool] = True
    # On twelve tables, beside four times the steps at half the rate: as good answers, and a better
    # density of most, in a third of the time. Tables of hundreds of rows want the lower rate.
    pace: ClassVar[Pace] = Pace(10, 256, 1000, 500, 1e-2, rows=2000)
    constraints: ClassVar[Constraints] = {
        "base": [BASES],
        "tail": [AUTO, Whole(0)],
        "members": [AUTO, Whole(1)],
    }

    def layers(
        self, rows: Float[np.ndarray, "rows dim"], sizes: Sizes, key: Key
    ) -> AbstractBijection:
        return _couplings(rows, sizes, key, self.kind)

    def build(self, material: Material, sizes: Sizes) -> Hybrid:
        """The head reads columns as they are, or made normal where a linear model says so.

        They are not whitened, which would make as much of directions in which rows hardly differ
        as of any other, and a prior on the head's weights could not tell noise from signal. That
        p(x) has no use for this does not matter: it has couplings of its own.
        """
        if self.tail == 0:
            return super().build(material, sizes)
        completion, rows, relation = starting_rows(material)
        layers = [_mixed(rows.shape[1], sizes, seeded_key(material.seed), self.kind)]
        if relation is None or reads_better(normal_scores(rows), rows, relation):
            layers.insert(0, MarginalMap.fit(rows))
        return with_flow(material, Chain(layers), completion, sizes)

    def n_members(self, n_rows: int) -> int:
        if self.tail == 0:
            return 1
        return USUAL_MEMBERS if isinstance(self.members, str) else self.members

    def others(self, model: Hybrid, sizes: Sizes, seeds: Sequence[int]) -> list[Hybrid]:
        (dim,) = model.flow.bijection.in_shape
        return [
            eqx.tree_at(
                lambda m: m.flow.bijection.layers[-1],
                model,
                _mixed(dim, sizes, seeded_key(seed), self.kind),
            )
            for seed in seeds
        ]

    def density(self, material: Material, sizes: Sizes) -> Hybrid | None:
        if self.tail == 0:
            return None
        completion, rows, _ = starting_rows(material)
        seed = int(np.random.SeedSequence([material.seed, OWN_DENSITY]).generate_state(1)[0])
        layers = self.layers(rows, sizes, seeded_key(seed))
        flow = Flow(layers, Normal(material.encoder.dim))
        if self.base == "auto":
            flow = Flow(layers, clumps(layers, rows, seed))
        return Hybrid(flow, NoHead(), completion)

    def density_sizes(self, asked: AskedSizes, n_rows: int) -> Sizes:
        if self.tail == 0:
            return super().density_sizes(asked, n_rows)
        if isinstance(asked.n_blocks, str):
            asked = asked._replace(n_blocks=USUAL_TAIL if self.tail == "auto" else self.tail)
        return super().density_sizes(asked, n_rows)


@dataclass
class CouplingFlow(AbstractCouplingRecipe):
    """Affine couplings (RealNVP), each after a mixing of the columns: fast and robust.

    Args:
        base: of the density: "auto", a mixture of normals where rows lie in clumps; "normal"; or,
            with tail=0, "mixture" for a normal of its own for each class, after training.
        tail: couplings of the density's own, beside those of the head; 0 for the paper's model.
        members: networks with a head of their own, whose answers are averaged; each leaves out
            other rows, on which its best epoch is chosen. "auto" chooses; with tail=0 there is one.
    """

    base: str = "auto"
    tail: int | str = "auto"
    members: int | str = "auto"
    kind: ClassVar[str] = "affine"


@dataclass
class SplineFlow(AbstractCouplingRecipe):
    """Couplings with monotone splines: sharp edges, several modes; slower.

    Args:
        base: as for `CouplingFlow`.
        tail: as for `CouplingFlow`.
        members: as for `CouplingFlow`.
    """

    base: str = "auto"
    tail: int | str = "auto"
    members: int | str = "auto"
    kind: ClassVar[str] = "spline"


def _couplings(rows: np.ndarray, sizes: Sizes, key: Key, kind: str) -> AbstractBijection:
    """Margins made normal, columns whitened, then couplings."""
    return Chain([*first_layers(rows), _mixed(rows.shape[1], sizes, key, kind)])


def _mixed(dim: int, sizes: Sizes, key: Key, kind: str) -> AbstractBijection:
    return flows.coupling(
        dim,
        n_blocks=as_one(sizes.n_blocks),
        width=as_one(sizes.width),
        depth=sizes.depth,
        kind=kind,
        key=key,
    )
