"""Images before training: the recipe, its sizes, and layers that start from some of the images."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from diglm import flows
from diglm.bases import Normal
from diglm.bijections import AbstractBijection
from diglm.completion import PixelCells, fixed_offsets
from diglm.data.chunks import ArrayPlan
from diglm.data.image import ImageEncoder
from diglm.estimators.start import (
    Beginning,
    objective_of,
    started,
    with_fitted_head,
)
from diglm.estimators.targets import AbstractTarget
from diglm.flows import Flow
from diglm.hybrid import Hybrid
from diglm.training import FitResult, ProgressBar, Settings
from diglm.training.augment import Translate
from diglm.training.checkpoint import Checkpoints
from diglm.training.stream import fit_stream
from diglm.types import Batch

IMAGE_OFFSETS = 2  # places in the cells of pixels at which log p(x) is looked at
ROWS_FOR_START = 512
STEPS_A_CHUNK = 100
MANY_IMAGES = 10_000  # from here on a longer compilation pays for itself
AUTOMATIC = {
    "n_blocks": 8,
    "width": (48, 128, 128),
    "depth": 1,
    "batch_size": 64,
    "learning_rate": 1.5e-3,
}
LEVELS_TO_FACTOR = 3  # channels grow fourfold a level, and a third one would cost most of all
STARTING_WEIGHTS = {"grey": 1.0, "colour": 10.0}
MARGINS = {"grey": 1e-6, "colour": 0.05}  # of the logit; drawings are black and white to the end
READERS = {"grey": 0, "colour": 48}  # widths
HEAD_RATE = 0.1  # of the flow's, where there is a reader
STEPS = 12_000  # of training, where the number of epochs is not given


def begin_images(
    parameters: dict[str, Any],
    encoder: ImageEncoder,
    target: AbstractTarget,
    train: Batch,
    held_out: Batch,
    *,
    n_rows: int,
    seed: int,
) -> Beginning:
    """What `begin` gives for tables: the model started from images, its objective, its settings."""
    chosen = _sizes(parameters, n_rows, classes=target.metric == "accuracy")
    reader = _reader(parameters, encoder.shape)
    volume_weight = parameters["volume_weight"]
    variance = 1.0 if volume_weight is None else float(volume_weight)
    known = np.flatnonzero(train.labelled)
    if len(known) == 0:
        raise ValueError("No training image has a label, so there is nothing to predict.")
    head = started(target.head(encoder.dim), Batch(*(column[known] for column in train)))
    flow = Flow(
        _bijection(parameters["flow"], encoder.shape, chosen, reader, n_rows, seed),
        Normal(encoder.dim, variance),
    )
    guided = flows.n_read(encoder.shape) if reader else None
    model = _started(Hybrid(flow, head, PixelCells(), chosen["dropout"], guided), train, seed)
    offsets = fixed_offsets(encoder.shape, IMAGE_OFFSETS)
    model = with_fitted_head(model, train, held_out, offsets, exactly=False)
    objective = objective_of(parameters, encoder.dim, n_rows)
    settings = Settings(
        n_epochs=chosen["n_epochs"],
        batch_size=chosen["batch_size"],
        learning_rate=chosen["learning_rate"],
        head_rate=HEAD_RATE if reader else 1.0,
        patience=chosen["patience"],
        averaging=0.998,
        final_rate=0.02,
        emphasis=(
            _emphasis(parameters["generative_weight"], encoder.shape)
            if volume_weight is None and not reader
            else 1.0
        ),
        emphasis_share=0.5,
    )
    augment = _translation(parameters["augment"], encoder.shape)
    return Beginning(model, objective, settings, exact=False, augment=augment)


def train_images(
    begun: Beginning,
    train: Batch,
    held_out: Batch,
    *,
    seed: int,
    progress: ProgressBar,
    checkpoints: Checkpoints | None = None,
) -> FitResult:
    """Train by chunks of images, so that progress is told, and the run kept, within an epoch."""
    n_steps = max(1, len(train.weight) // begun.settings.batch_size)
    batch_size = min(begun.settings.batch_size, len(train.weight))
    plan = ArrayPlan(train, batch_size, min(STEPS_A_CHUNK, n_steps), seed)
    return fit_stream(
        begun.model,
        plan,
        plan.read,
        objective=begun.objective,
        validation=held_out if len(held_out.weight) else None,
        settings=begun.settings,
        augment=begun.augment,
        checkpoints=checkpoints,
        save_every=5 * STEPS_A_CHUNK,
        progress=progress,
    )


def _emphasis(weight: float, shape: tuple[int, int, int]) -> float:
    """By how much more log p(x) counts at first: lambda starts at 1/D at least, of colours at 10/D.

    Classes pull harder than the density. Where they are slow to learn they keep it from taking
    shape: at 1/D from the start, SVHN's stays for long that of hardly more than a linear flow. With
    a reader there is no need: labels do not reach the part of the flow that holds the density.
    """
    least = STARTING_WEIGHTS[_kind(shape)]
    return max(1.0, least / weight) if weight > 0.0 else 1.0


def _kind(shape: tuple[int, int, int]) -> str:
    return "grey" if shape[2] == 1 else "colour"


def _reader(parameters: dict[str, Any], shape: tuple[int, int, int]) -> int:
    """The reader's width, 0 for none; a bijection that is given stays as it is."""
    width = parameters["reader"]
    if width is not None and width != "auto":
        if isinstance(width, bool) or not isinstance(width, int | np.integer) or width < 1:
            raise ValueError(
                f"reader must be a whole number of at least 1, 'auto', or None; got {width!r}."
            )
    if width is None or isinstance(parameters["flow"], AbstractBijection):
        return 0
    return READERS[_kind(shape)] if width == "auto" else int(width)


def _translation(pixels: Any, shape: tuple[int, int, int]) -> Translate | None:
    pixels = min(shape[:2]) // 14 if pixels == "auto" else 0 if pixels is None else pixels
    if not isinstance(pixels, int | np.integer) or not 0 <= pixels < min(shape[:2]):
        raise ValueError(
            "augment must be a number of pixels smaller than the image, 'auto', or None; got "
            f"{pixels!r}."
        )
    return Translate(int(pixels)) if pixels > 0 else None


def _bijection(
    flow: Any,
    shape: tuple[int, int, int],
    chosen: dict[str, Any],
    reader: int,
    n_rows: int,
    seed: int,
) -> AbstractBijection:
    if isinstance(flow, AbstractBijection):
        if flow.in_shape != shape or flow.out_shape != (int(np.prod(shape)),):
            raise ValueError(
                f"The images have shape {shape}, so `flow` must map that to a vector; got one "
                f"that maps {flow.in_shape} to {flow.out_shape}."
            )
        return flow
    if flow not in ("auto", "glow"):
        raise ValueError(
            f"Images take flow='glow' or a bijection; got {flow!r}, which is for tables. To treat "
            "each pixel as a column, give X.reshape(len(X), -1)."
        )
    n_blocks = chosen["n_blocks"]
    most = n_blocks if isinstance(n_blocks, int) else max(n_blocks)
    levels = flows.n_levels(shape) if isinstance(n_blocks, int) else len(n_blocks)
    return flows.glow(
        shape,
        n_blocks=n_blocks,
        width=chosen["width"],
        depth=chosen["depth"],
        factor_out=levels >= LEVELS_TO_FACTOR,
        alpha=MARGINS[_kind(shape)],
        reader=reader,
        unroll=most if n_rows >= MANY_IMAGES else 1,
        key=jax.random.key(seed),
    )


def _started(model: Hybrid, train: Batch, seed: int) -> Hybrid:
    """Layers that start from data see some images, with noise in the cells of their pixels."""
    rng = np.random.default_rng(seed)
    picked = rng.choice(len(train.weight), min(ROWS_FOR_START, len(train.weight)), replace=False)
    images = np.asarray(train.x)[np.sort(picked)]
    points = jnp.asarray(images + rng.uniform(size=images.shape), jnp.result_type(float))
    _, _, bijection = eqx.filter_jit(model.flow.bijection.forward_batch)(points, start=True)
    return eqx.tree_at(lambda m: m.flow.bijection, model, bijection)


def _sizes(given: dict[str, Any], n_rows: int, *, classes: bool) -> dict[str, Any]:
    """Sizes from the constructor's parameters, with "auto" resolved."""
    automatic = AUTOMATIC | {"dropout": 0.3 if classes else 0.0}
    batch_size = given["batch_size"]
    batch_size = AUTOMATIC["batch_size"] if batch_size == "auto" else batch_size
    n_epochs = int(np.clip(STEPS * batch_size / n_rows, 5, 100))
    automatic |= {"n_epochs": n_epochs, "patience": 10_000}
    chosen = {}
    for name, value in automatic.items():
        chosen[name] = value if given[name] == "auto" else given[name]
        if name in ("dropout", "learning_rate"):
            if not isinstance(chosen[name], int | float):
                raise ValueError(f"{name} must be a number or 'auto'; got {given[name]!r}.")
            continue
        several = isinstance(chosen[name], Sequence) and not isinstance(chosen[name], str)
        numbers = chosen[name] if several and name in ("n_blocks", "width") else [chosen[name]]
        if not all(isinstance(n, int | np.integer) and n >= 1 for n in numbers):
            raise ValueError(
                f"{name} must be a whole number of at least 1, 'auto', or for n_blocks and width "
                f"one such number a level; got {given[name]!r}."
            )
    return chosen
