"""What every recipe offers: sizes, a hybrid to start from, and how it is trained."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from diglm.bijections import AbstractBijection
from diglm.data.encoder import AbstractEncoder
from diglm.heads import AbstractHead
from diglm.hybrid import Hybrid
from diglm.parameters import Constraints, OneOf, Parameters
from diglm.training import Settings
from diglm.types import Batch

BASES = OneOf("auto", "normal", "mixture")
Augment = Callable[..., jax.Array]


class AskedSizes(NamedTuple):
    """Sizes as they were asked for; "auto" leaves one to the recipe."""

    n_blocks: int | list[int] | tuple[int, ...] | str = "auto"
    width: int | list[int] | tuple[int, ...] | str = "auto"
    depth: int | str = "auto"
    dropout: float | str = "auto"
    n_epochs: int | str = "auto"
    batch_size: int | str = "auto"
    learning_rate: float | str = "auto"
    patience: int | str = "auto"


@dataclass(frozen=True)
class Sizes:
    """How large the network is and how long it trains."""

    n_blocks: int | list[int] | tuple[int, ...]
    width: int | list[int] | tuple[int, ...]
    depth: int
    dropout: float
    n_epochs: int
    batch_size: int
    learning_rate: float
    patience: int

    @classmethod
    def chosen(cls, asked: AskedSizes, automatic: dict[str, float | int | tuple]) -> "Sizes":
        """What was asked for, and what the recipe chooses where that is "auto"."""
        given = asked._asdict()
        return cls(
            **{k: automatic[k] if isinstance(v, str) else v for k, v in given.items()}  # type: ignore
        )


class Material(NamedTuple):
    """What a hybrid is built from.

    Attributes:
        encoder: of the rows.
        head: at the marginal of the targets.
        train: rows to start from: all training rows, or a sample of them.
        n_rows: how many training rows there are in all.
        variance: of the base.
        seed: of starting weights.
        relation: what linear methods would predict of the rows of `train`, a column a number or
            class; NaN where there is no label, None where there is no target.
    """

    encoder: AbstractEncoder
    head: AbstractHead
    train: Batch
    n_rows: int
    variance: float
    seed: int
    relation: np.ndarray | None = None


class AbstractRecipe(Parameters, ABC):
    """How a flow is built, sized and trained, for rows of one layout. A dataclass of parameters.

    Attributes:
        layout: of the encoded rows that it takes.
        chunked: whether epochs are trained in chunks, so that a run can be kept within one.
        smooths: whether the flow bends enough for rows without a label to shape what is read of it.
        base: the density of features: "normal"; "mixture", after training, with a normal for each
            class; "auto" is the recipe's own choice.
    """

    layout: ClassVar[str]
    chunked: ClassVar[bool] = False
    smooths: ClassVar[bool] = False
    base: str
    constraints: ClassVar[Constraints] = {"base": [BASES]}

    @abstractmethod
    def sizes(self, asked: AskedSizes, n_rows: int, *, drops_features: bool) -> Sizes:
        """Sizes with "auto" resolved for so many rows."""

    @abstractmethod
    def build(self, material: Material, sizes: Sizes) -> Hybrid:
        """An untrained hybrid, its first layers set from the rows."""

    def density(self, material: Material, sizes: Sizes) -> Hybrid | None:
        """An untrained hybrid without a head, whose p(x) is the model's; None for the paper's."""
        return None

    def n_members(self, n_rows: int) -> int:
        """How many networks answer together, where rows and head allow for more than one."""
        return 1

    def others(self, model: Hybrid, sizes: Sizes, seeds: Sequence[int]) -> list[Hybrid]:
        """Hybrids that set out as `model` did but for the random numbers of its network."""
        raise ValueError(f"{type(self).__name__} trains one network.")

    def density_sizes(self, asked: AskedSizes, n_rows: int) -> Sizes:
        """Sizes of a density that is asked for by itself."""
        return self.sizes(asked, n_rows, drops_features=False)

    @abstractmethod
    def settings(
        self, sizes: Sizes, encoder: AbstractEncoder, generative_weight: float | None
    ) -> Settings:
        """How it is trained; the weight is None where lambda weighs the volume alone."""

    def augmentation(self, encoder: AbstractEncoder) -> Augment | None:
        """What changes the rows of each step, and leaves their labels true; None for nothing."""
        return None

    @property
    def class_base(self) -> str:
        """Whether each class gets a normal of its own: "never", "if better" or "always"."""
        return {"auto": "never", "normal": "never", "mixture": "always"}[self.base]


def begun_from(bijection: AbstractBijection, points: jax.Array) -> AbstractBijection:
    """Layers that start from data (actnorm, batch norm) see the rows once."""
    _, _, started = eqx.filter_jit(bijection.forward_batch)(jnp.asarray(points), start=True)
    return started
