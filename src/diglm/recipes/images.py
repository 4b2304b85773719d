"""Glow for images: its sizes, layers that start from some of the images, and how it is trained."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from diglm import flows
from diglm.bases import Normal
from diglm.bijections import AbstractBijection
from diglm.completion import PixelCells
from diglm.data.encoder import AbstractEncoder
from diglm.flows import Flow
from diglm.hybrid import Hybrid
from diglm.parameters import AUTO, Constraints, Like, OneOf, Whole
from diglm.recipes.base import (
    BASES,
    AbstractRecipe,
    AskedSizes,
    Augment,
    Material,
    Sizes,
    begun_from,
)
from diglm.training import Settings
from diglm.training.augment import Translate
from diglm.types import seeded_key

ROWS_FOR_START = 512
MANY_IMAGES = 10_000  # from here on a longer compilation pays for itself
AUTOMATIC = {
    "n_blocks": 8,
    "width": (48, 128, 128),
    "depth": 1,
    "batch_size": 64,
    "learning_rate": 1.5e-3,
    "patience": 10_000,
}
LEVELS_TO_FACTOR = 3  # channels grow fourfold a level, and a third one would cost most of all
STARTING_WEIGHTS = {"grey": 1.0, "colour": 10.0}
MARGINS = {"grey": 1e-6, "colour": 0.05}  # of the logit; drawings are black and white to the end
READERS = {"grey": 0, "colour": 48}  # widths
HEAD_RATE = 0.1  # of the flow's, where it reads what the density makes of images beside a reader
STEPS = 12_000  # of training, where the number of epochs is not given
Shape = tuple[int, int, int]


class AbstractImageRecipe(AbstractRecipe):
    """What recipes for images share; each says which layers it has."""

    layout: ClassVar[str] = "image"
    chunked: ClassVar[bool] = True
    base: str
    augment: int | str

    @abstractmethod
    def layers(self, material: Material, sizes: Sizes) -> AbstractBijection:
        """The untrained flow, before it has seen any image."""

    def reads(self, shape: Shape) -> int:
        """Width of the network that reads whole images for the head; 0 for none."""
        return 0

    @property
    def reads_alone(self) -> bool:
        """Whether the head reads what that network writes, and nothing else."""
        return False

    def sizes(self, asked: AskedSizes, n_rows: int, *, drops_features: bool) -> Sizes:
        batch_size = AUTOMATIC["batch_size"]
        if not isinstance(asked.batch_size, str):
            batch_size = asked.batch_size
        automatic = {
            **AUTOMATIC,
            "dropout": 0.3 if drops_features else 0.0,
            "n_epochs": int(np.clip(STEPS * batch_size / n_rows, 5, 100)),  # type: ignore
        }
        return Sizes.chosen(asked, automatic)

    def build(self, material: Material, sizes: Sizes) -> Hybrid:
        shape = image_shape(material.encoder)
        dim = material.encoder.dim
        flow = Flow(self.layers(material, sizes), Normal(dim, material.variance))
        guided = flows.n_read(shape) if self.reads(shape) else None
        alone = self.reads_alone and guided is not None
        completion, head = PixelCells(), material.head
        model = Hybrid(flow, head, completion, sizes.dropout, guided, reads_guided=alone)
        rng = np.random.default_rng(material.seed)
        n_rows = len(material.train.weight)
        picked = rng.choice(n_rows, min(ROWS_FOR_START, n_rows), replace=False)
        images = np.asarray(material.train.x)[np.sort(picked)]
        points = jnp.asarray(images + rng.uniform(size=images.shape), jnp.result_type(float))
        started = begun_from(model.flow.bijection, points)
        return eqx.tree_at(lambda m: m.flow.bijection, model, started)

    def settings(
        self, sizes: Sizes, encoder: AbstractEncoder, generative_weight: float | None
    ) -> Settings:
        shape = image_shape(encoder)
        reads = self.reads(shape) > 0
        emphasis = 1.0
        if generative_weight is not None and not reads:
            emphasis = _emphasis(generative_weight, shape)
        return Settings(
            n_epochs=sizes.n_epochs,
            batch_size=sizes.batch_size,
            learning_rate=sizes.learning_rate,
            head_rate=HEAD_RATE if reads and not self.reads_alone else 1.0,
            patience=sizes.patience,
            averaging=0.998,
            final_rate=0.02,
            emphasis=emphasis,
            emphasis_share=0.5,
        )

    @property
    def class_base(self) -> str:
        return {"auto": "if better", "normal": "never", "mixture": "always"}[self.base]


@dataclass
class Glow(AbstractImageRecipe):
    """Glow (Kingma and Dhariwal, 2018), started from some of the images.

    Args:
        reader: width of the network that reads whole images for the head, while the rest of the
            flow learns their density; None for none, so that labels shape the whole flow; "auto"
            is 48 for images in colour. See `diglm.flows.reading`.
        head: what the head reads: "all" features, or those of the "reader" alone, if there is one.
            Then terms that ask for more answers, such as those of unlabelled images, cost no more
            passes through the rest of the flow.
        augment: pixels by which training images are moved at most, at random; "auto" chooses.
        base: the density of features: "normal", "mixture" (after training, a normal for each
            class and, up to 4,096 features, one covariance), or "auto", the one of the two that
            makes held-out images more probable.
    """

    reader: int | str | None = "auto"
    augment: int | str = "auto"
    base: str = "auto"
    head: str = "all"

    constraints: ClassVar[Constraints] = {
        "reader": [AUTO, OneOf(None), Whole(1)],
        "head": [OneOf("all", "reader")],
        "augment": [AUTO, Whole(0)],
        "base": [BASES],
    }

    def reads(self, shape: Shape) -> int:
        if isinstance(self.reader, str):
            return READERS[_kind(shape)]
        return 0 if self.reader is None else self.reader

    @property
    def reads_alone(self) -> bool:
        return self.head == "reader"

    def layers(self, material: Material, sizes: Sizes) -> AbstractBijection:
        shape = image_shape(material.encoder)
        n_blocks, width = sizes.n_blocks, sizes.width
        most = n_blocks if isinstance(n_blocks, int) else max(n_blocks)
        levels = flows.n_levels(shape) if isinstance(n_blocks, int) else len(n_blocks)
        return flows.glow(
            shape,
            n_blocks=n_blocks,
            width=width,
            depth=sizes.depth,
            factor_out=levels >= LEVELS_TO_FACTOR,
            alpha=MARGINS[_kind(shape)],
            reader=self.reads(shape),
            unroll=most if material.n_rows >= MANY_IMAGES else 1,
            key=seeded_key(material.seed),
        )

    def augmentation(self, encoder: AbstractEncoder) -> Augment | None:
        return _translation(self.augment, image_shape(encoder))


@dataclass
class GivenImages(AbstractImageRecipe):
    """A bijection of the user's own, from images to a vector."""

    bijection: AbstractBijection
    augment: int | str = "auto"
    base: str = "auto"
    constraints: ClassVar[Constraints] = {
        "bijection": [Like((AbstractBijection,), "a bijection")],
        "augment": [AUTO, Whole(0)],
        "base": [BASES],
    }

    def layers(self, material: Material, sizes: Sizes) -> AbstractBijection:
        shape, given = material.encoder.shape, self.bijection
        if given.in_shape != shape or given.out_shape != (material.encoder.dim,):
            raise ValueError(
                f"The images have shape {shape}, so `flow` must map that to a vector; got one "
                f"that maps {given.in_shape} to {given.out_shape}."
            )
        return given

    def augmentation(self, encoder: AbstractEncoder) -> Augment | None:
        return _translation(self.augment, image_shape(encoder))


def image_shape(encoder: AbstractEncoder) -> Shape:
    """Height, width and channels."""
    height, width, channels = encoder.shape
    return height, width, channels


def _emphasis(weight: float, shape: Shape) -> float:
    """By how much more log p(x) counts at first: lambda starts at 1/D at least, of colours at 10/D.

    Classes pull harder than the density. Where they are slow to learn they keep it from taking
    shape: at 1/D from the start, SVHN's stays for long that of hardly more than a linear flow. With
    a reader there is no need: labels do not reach the part of the flow that holds the density.
    """
    least = STARTING_WEIGHTS[_kind(shape)]
    return max(1.0, least / weight) if weight > 0.0 else 1.0


def _kind(shape: Shape) -> str:
    return "grey" if shape[2] == 1 else "colour"


def _translation(pixels: int | str, shape: Shape) -> Translate | None:
    pixels = min(shape[:2]) // 14 if isinstance(pixels, str) else pixels
    if pixels >= min(shape[:2]):
        raise ValueError(f"augment must be smaller than the image, {shape[:2]}; got {pixels}.")
    return Translate(int(pixels)) if pixels > 0 else None
