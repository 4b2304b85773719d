"""The refusal of the shipped model of MNIST, fitted anew to images that its weights have not seen.

    python -m diglm.experiments.shipped [--data-dir FOLDER] [--out FILE]

The weights stay as they are. The images that were held out when they were trained are found by the
seed of that fit; half of them teach the score what familiar digits are like, the other half set the
threshold: see `diglm.refusal.fit_refusal`.
"""

import argparse
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
from rich.console import Console

from diglm import HybridClassifier, load
from diglm.data.image_sets import Labelled, load_images
from diglm.estimators.common import seed_of
from diglm.fitting.split import Split, split_rows
from diglm.refusal import Known, fit_refusal, rule_of, score_of

SHIPPED = Path(str(files("diglm"))) / "models" / "mnist.safetensors"


def refitted(model: HybridClassifier, images: Labelled, score: str = "auto") -> HybridClassifier:
    """The model with its refusal fitted anew; `images` are those of its fit."""
    split, predictor = split_of(model, images), model.predictor_
    asked, rule = score_of(score), rule_of(model.get_params()["reject"])
    n_wanted = min(asked.wants_training, len(split.train))
    training = split.train[np.linspace(0, len(split.train) - 1, n_wanted).astype(int)]

    def known(rows: np.ndarray) -> Known:
        return predictor.known(predictor.encode(images.x[rows]))

    seen = known(training) if len(training) else None
    refusal = fit_refusal(asked, rule, known(split.held_out), seen)
    model.predictor_ = replace(predictor, refusal=refusal)
    return model.set_params(score=score)


def split_of(model: HybridClassifier, images: Labelled) -> Split:
    """Which images the weights were trained on, and which were held out."""
    asked = model.get_params()
    fraction, seed = asked["validation_fraction"], seed_of(asked["random_state"])
    return split_rows(fraction, images.y, np.ones(len(images.y)), seed)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-dir", default=None, help="where the images are, else DIGLM_DATA")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="file of the model")
    options = parser.parse_args()
    model = load(SHIPPED)
    assert isinstance(model, HybridClassifier), "the shipped model is a classifier"
    refitted(model, load_images("mnist", "train", options.data_dir)).save(options.out)
    size = options.out.stat().st_size / 1e6
    Console().print(f"{options.out}: {size:.2f} MB, threshold {model.threshold_:.3f}")


if __name__ == "__main__":
    main()
