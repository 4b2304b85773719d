"""Figures of the image studies: densities, confidence against accuracy, samples, interpolations."""

from pathlib import Path

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

FOLDER = Path("docs/images")
ACROSS, PAIRS = 10, 5
WHITE = 255
TEMPERATURES, DRAWS = (1.0, 0.7), 3
DOTS = 130  # per inch


def draw(
    model: HybridClassifier, test: Labelled, strange: dict[str, Labelled], name: str
) -> list[Path]:
    """Every figure of a study, as PNG files in docs/images."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    makers = {
        "densities": lambda: densities(model, test, strange, name),
        "confidence": lambda: confidence(model, test, strange, name),
        "samples": lambda: samples(model),
        "interpolations": lambda: interpolations(model, test),
    }
    paths = []
    for kind, make in makers.items():
        path = FOLDER / f"{name}_{kind}.png"
        make().savefig(path, dpi=DOTS, bbox_inches="tight")
        paths.append(path)
    return paths


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


def samples(model: HybridClassifier):
    """Images drawn given each class, a column a class: as they come, then at lower temperature."""
    classes = model.classes_
    drawn = [
        model.sample(len(classes), y=classes, random_state=seed, temperature=temperature)
        for temperature in TEMPERATURES
        for seed in range(DRAWS)
    ]
    figure, axes = new_grid(len(drawn), len(classes))
    labels = [f"{temperature:g}" for temperature in TEMPERATURES for _ in range(DRAWS)]
    image_grid(
        axes, [[_shown(image) for image in row] for row in drawn], top=WHITE, row_labels=labels
    )
    return figure


def interpolations(model: HybridClassifier, test: Labelled):
    """Ways through feature space between pairs of test images."""
    rows = []
    for i in range(PAIRS):
        first = test.x[test.y == i % 10][i]
        second = test.x[test.y == (i + 5) % 10][i]
        rows.append([_shown(image) for image in model.interpolate(first, second, ACROSS)])
    figure, axes = new_grid(PAIRS, ACROSS)
    image_grid(axes, rows, top=WHITE)
    return figure


def _shown(image: np.ndarray) -> np.ndarray:
    return image[..., 0] if image.shape[-1] == 1 else image
