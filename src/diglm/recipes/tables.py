"""Flows for tables, and what all of them share; couplings have a module of their own."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diglm import flows
from diglm.bases import Normal
from diglm.bijections import AbstractBijection, Chain, LULinear, MarginalMap
from diglm.completion import Completion
from diglm.data.encoder import AbstractEncoder
from diglm.flows import Flow
from diglm.hybrid import Hybrid
from diglm.parameters import Constraints, Like
from diglm.recipes.base import (
    BASES,
    AbstractRecipe,
    AskedSizes,
    Material,
    Sizes,
    begun_from,
)
from diglm.recipes.starting import starting_rows
from diglm.training import Settings
from diglm.types import Key, seeded_key


class Pace(NamedTuple):
    """How training of a table proceeds.

    Attributes:
        batches: an epoch, between the least and the largest size of one.
        largest: rows a batch.
        steps: at most, where a pass over the rows does not take more.
        patient_steps: without a better validation objective before training ends.
        rate: the highest, for tables of `rows` and more; down to half of it for fewer.
        rows: see `rate`.
    """

    batches: int
    largest: int
    steps: int
    patient_steps: int
    rate: float
    rows: int = 1


class AbstractTableRecipe(AbstractRecipe):
    """What recipes for rows of numbers share; each says which layers it has."""

    layout: ClassVar[str] = "vector"
    usual_blocks: ClassVar[int] = 8
    pace: ClassVar[Pace] = Pace(20, 512, 4000, 1300, 5e-3)

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
        pace, n = self.pace, max(n_rows, 1)
        batch_size = int(np.clip(2 ** round(np.log2(n / pace.batches)), 32, pace.largest))
        steps_an_epoch = -(-n // batch_size)
        fewest_epochs = np.clip(60_000 / steps_an_epoch, 2, 15)  # of many rows, few are enough
        return Sizes.chosen(
            asked,
            {
                "n_blocks": self.usual_blocks,
                "width": int(np.clip(2 ** round(np.log2(2 * np.sqrt(n_rows))), 32, 64)),
                "depth": 2,
                "dropout": 0.1 if drops_features else 0.0,
                "n_epochs": int(np.clip(pace.steps / steps_an_epoch, fewest_epochs, 250)),
                "batch_size": batch_size,
                "learning_rate": pace.rate * float(np.clip(np.sqrt(n / pace.rows), 0.5, 1)),
                "patience": int(np.clip(pace.patient_steps / steps_an_epoch, 8, 80)),
            },
        )

    def build(self, material: Material, sizes: Sizes) -> Hybrid:
        completion, rows, _ = starting_rows(material)
        layers = self.layers(rows, sizes, seeded_key(material.seed))
        return with_flow(material, layers, completion, sizes)

    def settings(
        self, sizes: Sizes, encoder: AbstractEncoder, generative_weight: float | None
    ) -> Settings:
        return Settings(
            n_epochs=sizes.n_epochs,
            batch_size=sizes.batch_size,
            learning_rate=sizes.learning_rate,
            patience=sizes.patience,
        )


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
        planar = flows.planar(rows.shape[1], n_blocks=as_one(sizes.n_blocks), key=key)
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


def with_flow(
    material: Material, layers: AbstractBijection, completion: Completion, sizes: Sizes
) -> Hybrid:
    """A hybrid of such layers and a normal base."""
    flow = Flow(layers, Normal(material.encoder.dim, material.variance))
    return Hybrid(flow, material.head, completion, sizes.dropout)


def as_one(number: int | list[int] | tuple[int, ...]) -> int:
    """The number; lists were refused."""
    return int(number)  # type: ignore[arg-type]
