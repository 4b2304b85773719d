"""What each part of the recipe for images is worth: one change at a time, few images, few epochs.

    diglm reproduce image_recipes --budget full

Every variant sees the same 12,000 training images of MNIST the same number of times, at
lambda = 1/D, and is judged on the first 2,000 test images; CPU seconds are of training alone.
"""

import functools
import time
from dataclasses import dataclass
from typing import Any

import jax

from diglm import HybridClassifier, flows
from diglm.data.image_sets import Labelled
from diglm.experiments.frame import Run, Study, Work, images
from diglm.experiments.image_study import in_distribution
from diglm.recipes import GivenImages

SEED = 0
# For each variant, options of `flows.glow` and of the classifier that differ from the recipe's.
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "recipe": ({}, {}),
    "base of one normal": ({}, {"base": "normal"}),
    "no spline after the logit": ({"n_bins": 0}, {}),
    "last kernel 1 x 1": ({"last": 1}, {}),
    "widths 32, 96": ({"width": (32, 96)}, {}),
    "widths 64, 192": ({"width": (64, 192)}, {}),
    "4 blocks a level": ({"n_blocks": 4}, {}),
    "half factored out": ({"factor_out": True}, {}),
    "log-scales up to 1": ({"bound": 1.0}, {}),
    "paper's networks": (
        {"highway": True, "depth": 3, "dropout": 0.1, "batch_norm": True},
        {},
    ),
    "rate 3e-3": ({}, {"learning_rate": 3e-3}),
    "rate 7e-4": ({}, {"learning_rate": 7e-4}),
    "batches of 128": ({}, {"batch_size": 128}),
    "batches of 32": ({}, {"batch_size": 32}),
    "no dropout of features": ({}, {"dropout": 0.0}),
    "images not moved": ({}, {"flow__augment": 0}),
}


@dataclass(frozen=True)
class Config:
    """How many images, how often, and which variants."""

    n_train: int = 12_000
    n_test: int = 2_000
    n_epochs: int = 4
    variants: tuple[str, ...] = tuple(VARIANTS)
    embedded: tuple[str, ...] = ()


def judged(
    layers: dict[str, Any],
    options: dict[str, Any],
    train: Labelled,
    test: Labelled,
    n_epochs: int,
) -> dict[str, float]:
    """One variant trained and judged."""
    flow = flows.glow(train.x.shape[1:], key=jax.random.key(SEED), **layers)
    model = HybridClassifier(
        GivenImages(flow, augment=2),
        n_epochs=n_epochs,
        validation_fraction=0.05,
        random_state=SEED,
    ).set_params(**options)
    since = time.process_time()
    model.fit(train.x, train.y)
    cpu_seconds = time.process_time() - since
    return in_distribution(model, test) | {"cpu_seconds": cpu_seconds}


def runs(config: Config) -> list[Run]:
    """One, in which each variant is a step."""

    def measure(work: Work) -> dict[str, Any]:
        whole = (images("mnist", part, config.embedded) for part in ("train", "test"))
        sizes = (config.n_train, config.n_test)
        train, test = (Labelled(i.x[:n], i.y[:n]) for i, n in zip(whole, sizes, strict=True))
        found = {}
        for name in config.variants:
            compute = functools.partial(judged, *VARIANTS[name], train, test, config.n_epochs)
            found[name] = work.step(name, compute)
            work.say(name, found[name])
        return found

    about = {k: v for k, v in vars(config).items() if k != "embedded" or v} | {"weight": 1.0}
    return [Run("image_recipes", about, measure, seed=SEED)]


REPRODUCE = Study(
    about="what each part of the recipe for images is worth",
    full=Config(),
    small=Config(1_000, 300, 1, ("recipe", "no spline after the logit")),
    runs=runs,
    needs=("mnist",),
    every_core=True,
)
