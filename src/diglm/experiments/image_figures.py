"""Figures of the image studies: densities, confidence against accuracy, samples, interpolations."""

from collections.abc import Callable
from typing import Any

import numpy as np

from diglm import HybridClassifier
from diglm.data.image_sets import Labelled
from diglm.report import (
    confidence_accuracy_curves,
    image_grid,
    log_density_histogram,
    new_figure,
    new_grid,
)

ACROSS, PAIRS = 10, 5
WAYS = ("line", "circle")
WHITE = 255
TEMPERATURES, DRAWS = (1.0, 0.7), 3


def densities(model: HybridClassifier, test: Labelled, strange: dict[str, Labelled], name: str):
    """log p(x) of familiar and strange images, and the threshold between them."""
    groups = {name: model.score_samples(test.x)}
    groups |= {other: model.score_samples(images.x) for other, images in strange.items()}
    figure, (axes,) = new_figure(7.5, 1.2 + 0.8 * len(groups))
    log_density_histogram(axes, groups, model.threshold_)
    return figure


def confidence(model: HybridClassifier, test: Labelled, strange: dict[str, Labelled], name: str):
    """Accuracy among images answered with at least some confidence; strange ones are all wrong."""
    images = np.concatenate([test.x, *(other.x for other in strange.values())])
    labels = np.concatenate([test.y, *(np.full(len(o.y), -1) for o in strange.values())])
    figure, (axes,) = new_figure(5.5, 3.6)
    answers = {
        "p(y|x) alone": model.predict_proba(images),
        "refusing the improbable": model.safe_predict_proba(images),
    }
    right = {way: (np.max(p, axis=1), np.argmax(p, axis=1) == labels) for way, p in answers.items()}
    confidence_accuracy_curves(axes, right)
    return figure


def samples(model: HybridClassifier, test: Labelled, strange: dict[str, Labelled], name: str):
    """Images drawn given each class, a column a class: as they come, then at lower temperature."""
    classes = model.classes_
    drawn = [
        model.sample(len(classes), y=classes, random_state=seed, temperature=temperature)
        for temperature in TEMPERATURES
        for seed in range(DRAWS)
    ]
    figure, axes = new_grid(len(drawn), len(classes))
    labels = [f"temperature {temperature:g}" for temperature in TEMPERATURES for _ in range(DRAWS)]
    image_grid(
        axes,
        [[_shown(image) for image in row] for row in drawn],
        top=WHITE,
        row_labels=labels,
        column_labels=[str(name) for name in classes],
    )
    return figure


def interpolations(
    model: HybridClassifier, test: Labelled, strange: dict[str, Labelled], name: str
):
    """Ways through feature space between pairs of test images, straight as the paper's and turned.

    Straight lines cut through the middle, where there are no features of images; great circles do
    not.
    """
    rows, labels = [], []
    classes = model.classes_
    for i in range(PAIRS):
        first = test.x[test.y == classes[i % len(classes)]][i]
        second = test.x[test.y == classes[(i + len(classes) // 2) % len(classes)]][i]
        for way in WAYS:
            images = model.interpolate(first, second, ACROSS, way=way)
            rows.append([_shown(image) for image in images])
            labels.append(way)
    figure, axes = new_grid(len(rows), ACROSS)
    image_grid(axes, rows, top=WHITE, row_labels=labels)
    return figure


def _shown(image: np.ndarray) -> np.ndarray:
    return image[..., 0] if image.shape[-1] == 1 else image


Maker = Callable[[HybridClassifier, Labelled, dict[str, Labelled], str], Any]
FIGURES: dict[str, Maker] = {
    "densities": densities,
    "confidence": confidence,
    "samples": samples,
    "interpolations": interpolations,
}
