"""What each part of the recipe for images is worth: one change at a time, few images, few epochs.

    python -m diglm.experiments.image_recipes [--only NAME ...]

Every variant sees the same 12,000 training images of MNIST the same number of times, at
lambda = 1/D, and is judged on the first 2,000 test images; CPU seconds are of training alone.
Writes results/image_recipes.json after each variant, and passes over those that are in it.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

from diglm import HybridClassifier, flows
from diglm.data.image_sets import Labelled, load_images
from diglm.experiments.image_study import in_distribution
from diglm.recipes import GivenImages
from diglm.report.results import write_result
from diglm.training.devices import use_every_core

N_TRAIN, N_TEST, N_EPOCHS, SEED = 12_000, 2_000, 4, 0
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


def judged(
    layers: dict[str, Any], options: dict[str, Any], train: Labelled, test: Labelled
) -> dict[str, float]:
    """One variant trained and judged."""
    flow = flows.glow(train.x.shape[1:], key=jax.random.key(SEED), **layers)
    model = HybridClassifier(
        GivenImages(flow, augment=2),
        n_epochs=N_EPOCHS,
        validation_fraction=0.05,
        random_state=SEED,
    ).set_params(**options)
    since = time.process_time()
    model.fit(train.x, train.y)
    cpu_seconds = time.process_time() - since
    return in_distribution(model, test) | {"cpu_seconds": cpu_seconds}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("results/image_recipes.json"))
    parser.add_argument("--data-dir", default=None, help="where the images are, else DIGLM_DATA")
    options = parser.parse_args()
    use_every_core()
    console = Console(stderr=True)
    train, test = (
        Labelled(images.x[:n], images.y[:n])
        for images, n in (
            (load_images("mnist", "train", options.data_dir), N_TRAIN),
            (load_images("mnist", "test", options.data_dir), N_TEST),
        )
    )
    stored = json.loads(options.out.read_text()) if options.out.exists() else {}
    found, seconds = stored.get("metrics", {}), stored.get("seconds", 0.0)
    config = {"n_train": N_TRAIN, "n_test": N_TEST, "n_epochs": N_EPOCHS, "weight": 1.0}
    for name in options.only:
        if name in found:
            console.print(f"{name} is in {options.out}")
            continue
        since = time.perf_counter()
        found[name] = judged(*VARIANTS[name], train, test)
        seconds += time.perf_counter() - since
        console.print(name, found[name])
        write_result(options.out, config=config, seed=SEED, seconds=seconds, metrics=found)


if __name__ == "__main__":
    main()
