"""Flows for tables: margins made normal, columns whitened, then the layers of a recipe."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diglm import flows
from diglm.bases import Normal
from diglm.bijections import AbstractBijection, Chain, LULinear, MarginalMap
from diglm.completion import Completion
from diglm.data.encoder import AbstractEncoder
from diglm.flows import Flow
from diglm.heads import NoHead
from diglm.hybrid import Hybrid
from diglm.parameters import AUTO, Constraints, Like, Whole
from diglm.recipes.base import (
    BASES,
    AbstractRecipe,
    AskedSizes,
    Material,
    Sizes,
    begun_from,
)
from diglm.recipes.margins import reads_better
from diglm.recipes.starting import clumps, normal_scores, starting_rows
from diglm.training import Settings
from diglm.types import Key, seeded_key

USUAL_TAIL = 8
OWN_DENSITY = 1  # tells its seed from that of the head's couplings


class AbstractTableRecipe(AbstractRecipe):
    """What recipes for rows of numbers share; each says which layers it has."""

    layout: ClassVar[str] = "vector"
    usual_blocks: ClassVar[int] = 8

    @abstractmethod
    def layers(
        self, rows: Float[np.ndarray, "rows dim"], sizes: Sizes, key: Key
    ) -> AbstractBijection:
        """The untrained flow of encoded, completed rows."""

    def sizes(self, asked: AskedSizes, n_rows: int, *, drops_features: bool) -> Sizes:
        """Small tables get small networks and small batches; large ones as many steps as pay."""
        for name in ("n_blocks", "width"):
            if isinstance(getattr(asked, name), list | tuple):
                raise ValueError(
                    f"{name} of a table's flow is one whole number; got {getattr(asked, name)!r}."
                )
        batch_size = int(np.clip(2 ** round(np.log2(max(n_rows, 1) / 20)), 32, 512))
        steps_an_epoch = -(-n_rows // batch_size)
        fewest_epochs = np.clip(60_000 / steps_an_epoch, 2, 15)  # of many rows, few are enough
        return Sizes.chosen(
            asked,
            {
                "n_blocks": self.usual_blocks,
                "width": int(np.clip(2 ** round(np.log2(2 * np.sqrt(n_rows))), 32, 64)),
                "depth": 2,
                "dropout": 0.1 if drops_features else 0.0,
                "n_epochs": int(np.clip(4000 / steps_an_epoch, fewest_epochs, 250)),
                "batch_size": batch_size,
                "learning_rate": 5e-3,
                "patience": int(np.clip(1300 / steps_an_epoch, 8, 80)),
            },
        )

    def build(self, material: Material, sizes: Sizes) -> Hybrid:
        completion, rows, _ = starting_rows(material)
        layers = self.layers(rows, sizes, seeded_key(material.seed))
        return _with_flow(material, layers, completion, sizes)

    def settings(
        self, sizes: Sizes, encoder: AbstractEncoder, generative_weight: float | None
    ) -> Settings:
        return Settings(
            n_epochs=sizes.n_epochs,
            batch_size=sizes.batch_size,
            learning_rate=sizes.learning_rate,
            patience=sizes.patience,
        )


class AbstractCouplingRecipe(AbstractTableRecipe):
    """Couplings for the head, and others for a density of its own.

    Attributes:
        tail: couplings of the density's own, "auto" for as many as do; 0 for the paper's model, in
            which the head reads the very features that the density is of.
        kind: of couplings.
    """

    tail: int | str
    kind: ClassVar[str]
    constraints: ClassVar[Constraints] = {"base": [BASES], "tail": [AUTO, Whole(0)]}

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
        return _with_flow(material, Chain(layers), completion, sizes)

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
    """

    base: str = "auto"
    tail: int | str = "auto"
    kind: ClassVar[str] = "affine"


@dataclass
class SplineFlow(AbstractCouplingRecipe):
    """Couplings with monotone splines: sharp edges, several modes; slower.

    Args:
        base: as for `CouplingFlow`.
        tail: as for `CouplingFlow`.
    """

    base: str = "auto"
    tail: int | str = "auto"
    kind: ClassVar[str] = "spline"


@dataclass
class PlanarFlow(AbstractTableRecipe):
    """Planar layers, as in the paper's Figure 2.

    Args:
        base: "normal", or "mixture" for a normal of its own for each class, after training.
    """

    base: str = "auto"
    usual_blocks: ClassVar[int] = 3

    def layers(
        self, rows: Float[np.ndarray, "rows dim"], sizes: Sizes, key: Key
    ) -> AbstractBijection:
        planar = flows.planar(rows.shape[1], n_blocks=_one(sizes.n_blocks), key=key)
        return Chain([MarginalMap.fit(rows), planar])


@dataclass
class LinearFlow(AbstractTableRecipe):
    """One invertible matrix: a Gaussian density and an ordinary GLM.

    Args:
        base: "normal", or "mixture" for a normal of its own for each class, after training.
    """

    base: str = "auto"

    def layers(
        self, rows: Float[np.ndarray, "rows dim"], sizes: Sizes, key: Key
    ) -> AbstractBijection:
        return LULinear.whitening(rows)


@dataclass
class IdentityFlow(AbstractTableRecipe):
    """Nothing: the head alone, on the standardised columns.

    Args:
        base: "normal", or "mixture" for a normal of its own for each class.
    """

    base: str = "auto"

    def layers(
        self, rows: Float[np.ndarray, "rows dim"], sizes: Sizes, key: Key
    ) -> AbstractBijection:
        return flows.identity(rows.shape[1])


@dataclass
class GivenVector(AbstractTableRecipe):
    """A bijection of the user's own."""

    bijection: AbstractBijection
    base: str = "auto"
    constraints: ClassVar[Constraints] = {
        "base": [BASES],
        "bijection": [Like((AbstractBijection,), "a bijection")],
    }

    def layers(
        self, rows: Float[np.ndarray, "rows dim"], sizes: Sizes, key: Key
    ) -> AbstractBijection:
        dim, given = rows.shape[1], self.bijection
        if given.in_shape != (dim,) or given.out_shape != (dim,):
            raise ValueError(
                f"The table has {dim} encoded dimensions, so `flow` must map ({dim},) to ({dim},); "
                f"got {given.in_shape} to {given.out_shape}."
            )
        return begun_from(given, jnp.asarray(rows))


def _with_flow(
    material: Material, layers: AbstractBijection, completion: Completion, sizes: Sizes
) -> Hybrid:
    flow = Flow(layers, Normal(material.encoder.dim, material.variance))
    return Hybrid(flow, material.head, completion, sizes.dropout)


def _couplings(rows: np.ndarray, sizes: Sizes, key: Key, kind: str) -> AbstractBijection:
    """Margins made normal, columns whitened, then couplings."""
    dim = rows.shape[1]
    layers: list[AbstractBijection] = [MarginalMap.fit(rows)]
    if 1 < dim <= flows.LARGEST_LEARNED_MIXING:
        layers.append(LULinear.whitening(normal_scores(rows)))
    return Chain([*layers, _mixed(dim, sizes, key, kind)])


def _mixed(dim: int, sizes: Sizes, key: Key, kind: str) -> AbstractBijection:
    return flows.coupling(
        dim,
        n_blocks=_one(sizes.n_blocks),
        width=_one(sizes.width),
        depth=sizes.depth,
        kind=kind,
        key=key,
    )


def _one(number: int | list[int] | tuple[int, ...]) -> int:
    """The number; lists were refused."""
    return int(number)  # type: ignore[arg-type]
