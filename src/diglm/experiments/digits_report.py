"""The demo's page: every figure of the digits experiment, each with a sentence on reading it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from diglm import HybridClassifier
from diglm.report import (
    Section,
    embed,
    image_grid,
    log_density_histogram,
    new_figure,
    new_grid,
    page,
    risk_coverage_curves,
    table,
)

SIDE, TOP = 8, 16  # pixels a side, and the darkest pixel
FAMILIAR = "test digits"
ACROSS = 10  # images in a row
CHANGES = (
    (3, (8, 9)),
    (4, (9, 1)),
    (7, (1, 9)),
    (0, (6, 8)),
)  # digits, and what each is turned into
PAIRS = ((0, 6), (1, 7), (3, 8), (4, 9))  # ends of the interpolations


@dataclass(frozen=True)
class Group:
    """Inputs of one kind, and what the model says about them."""

    images: np.ndarray
    prediction: np.ndarray
    probability: Float[np.ndarray, " rows"]
    log_px: Float[np.ndarray, " rows"]
    p_value: Float[np.ndarray, " rows"]
    rejected: Bool[np.ndarray, " rows"]


def write_page(
    path: Path,
    model: HybridClassifier,
    groups: dict[str, Group],
    y_test: np.ndarray,
    metrics: dict[str, Any],
    n_train: int,
) -> None:
    """Draw every figure and write the page."""
    familiar = groups[FAMILIAR]
    lead = (
        f"A hybrid model saw {n_train:,} handwritten digits. From one pass over an image it "
        "says which digit it is, and how probable the image itself is; images too improbable it "
        "refuses to answer."
    )
    sections = [
        Section(
            "Numbers",
            "The first table is about digits the model has not seen; the second is about images "
            "that are not whole, upright digits: the more refused the better, AUROC is the chance "
            "that a digit has the higher log p(x) of the two, and the last column is the share "
            "that p(y|x) alone would have been sure of.",
            _numbers(metrics),
        ),
        Section(
            "How probable is the input?",
            "Each row counts images of one kind by their log p(x); what lies left of the dashed "
            "line is refused, and far left the axis is logarithmic.",
            _histogram(groups, metrics["threshold"]),
        ),
        Section(
            "Refused and answered",
            "The first images of each kind, not selected: a dashed frame marks a refusal, the "
            "caption gives the answer, and p is the share of held-out digits at most as probable "
            "as this image.",
            _gallery(groups),
        ),
        Section(
            "What refusing buys",
            "Lower is better: follow a curve from left to right as the model answers more images, "
            "most trusted first; right, half the images are strange and any answer to them is "
            "wrong, and there log p(x) knows what p(y|x) cannot.",
            _risk(groups, y_test),
        ),
        Section(
            "New digits, given the class",
            "Each row holds exact draws of x given the class at its left: none is an image from "
            "the data.",
            _samples(model),
        ),
        Section(
            "From one digit to another",
            "Each row leads in equal steps, in feature space, from a test digit at the left to "
            "another at the right; the captions are the model's answers along the way, and a "
            "dashed frame marks a refusal.",
            _interpolations(model, familiar, y_test),
        ),
        Section(
            "What would have to change?",
            "After each test digit comes the nearest image, in feature space, that the model takes "
            "for another digit, and the change (darker: ink added, lighter: ink removed); a dashed "
            "frame marks an image that would itself be refused.",
            _counterfactuals(model, familiar, y_test),
        ),
    ]
    footer = "Data: the digits and the photographs that come with scikit-learn. Made by diglm."
    title = "diglm: digits, and what is not a digit"
    path.write_text(page(title, lead, sections, footer), encoding="utf-8")


def _numbers(metrics: dict[str, Any]) -> str:
    familiar = table(
        ("test digits", "value"),
        [
            ("accuracy", f"{metrics['accuracy']:.1%}"),
            ("accuracy on those it answers", f"{metrics['accuracy_when_answered']:.1%}"),
            ("NLL, in nats a label", f"{metrics['nll']:.3f}"),
            ("bits per dimension", f"{metrics['bits_per_dimension']:.3f}"),
            ("refused, though familiar", f"{metrics['false_refusals']:.1%}"),
            ("seconds to train", f"{metrics['fit_seconds']:.1f}"),
        ],
    )
    strange = table(
        ("strange inputs", "refused", "AUROC", "p(y|x) > 0.9"),
        [
            (kind, f"{one['refused']:.1%}", f"{one['auroc']:.3f}", f"{one['sure_of_a_digit']:.1%}")
            for kind, one in metrics["strange"].items()
        ],
    )
    return f'<div class="side-by-side">{familiar}{strange}</div>'


def _histogram(groups: dict[str, Group], threshold: float) -> str:
    figure, (axes,) = new_figure(8.4, 0.62 * len(groups) + 0.8)
    log_density_histogram(axes, {kind: one.log_px for kind, one in groups.items()}, threshold)
    return embed(figure, "Histograms of log p(x) for each kind of input, with the threshold.")


def _gallery(groups: dict[str, Group]) -> str:
    def caption(one: Group, i: int) -> str:
        answer = "refused" if one.rejected[i] else f"answer {one.prediction[i]}"
        return f"{answer}\np = {one.p_value[i]:.2g}"

    figure, axes = new_grid(len(groups), ACROSS, caption_lines=2)
    image_grid(
        axes,
        [[_square(row) for row in one.images[:ACROSS]] for one in groups.values()],
        top=TOP,
        captions=[[caption(one, i) for i in range(ACROSS)] for one in groups.values()],
        framed=[one.rejected[:ACROSS].tolist() for one in groups.values()],
        row_labels=list(groups),
    )
    return embed(figure, "Ten images of each kind with answer or refusal.", vector=False)


def _risk(groups: dict[str, Group], y_test: np.ndarray) -> str:
    familiar = groups[FAMILIAR]
    strange = [one for kind, one in groups.items() if kind != FAMILIAR]
    share = len(y_test) // len(strange)  # so that strange and familiar are about as many
    wrong = familiar.prediction != y_test

    def scores(parts: list[Group]) -> dict[str, np.ndarray]:
        probability = np.concatenate([one.probability for one in parts])
        rejected = np.concatenate([one.rejected for one in parts])
        log_px = np.concatenate([one.log_px for one in parts])
        both = np.where(rejected, -1.0, probability)
        return {
            "by largest p(y|x)": probability,
            "by log p(x)": log_px,
            "by p(y|x), refused ones last": both,
        }

    mixed = [familiar, *(_first(one, share) for one in strange)]
    n_strange = sum(len(one.images) for one in mixed[1:])
    figure, (left, right) = new_figure(9.2, 3.6, n_columns=2)
    risk_coverage_curves(left, scores([familiar]), wrong)
    left.set_title("test digits alone", fontsize=11)
    risk_coverage_curves(right, scores(mixed), np.append(wrong, np.ones(n_strange, bool)))
    right.set_title(f"{len(y_test)} test digits and {n_strange} strange inputs", fontsize=11)
    return embed(figure, "Error among answered inputs against the share answered.")


def _samples(model: HybridClassifier) -> str:
    n_each = ACROSS + 1  # the labels are short, so there is room for one more
    labels = np.repeat(model.classes_, n_each)
    drawn = np.asarray(model.sample(len(labels), y=labels, random_state=0))
    rows = drawn.reshape(len(model.classes_), n_each, SIDE, SIDE)
    figure, axes = new_grid(len(rows), n_each)
    image_grid(
        axes, [list(row) for row in rows], top=TOP, row_labels=[str(c) for c in model.classes_]
    )
    return embed(figure, "Drawn images of each digit.", vector=False)


def _interpolations(model: HybridClassifier, familiar: Group, y_test: np.ndarray) -> str:
    walks = np.concatenate(
        [
            model.interpolate(*(_example(familiar, y_test, end) for end in pair), steps=ACROSS)
            for pair in PAIRS
        ]
    )
    answers = model.assess(walks)
    shape = (len(PAIRS), ACROSS)
    figure, axes = new_grid(*shape, caption_lines=1)
    image_grid(
        axes,
        [list(row) for row in walks.reshape(*shape, SIDE, SIDE)],
        top=TOP,
        captions=np.asarray(answers["prediction"]).astype(str).reshape(shape).tolist(),
        framed=np.asarray(answers["rejected"]).reshape(shape).tolist(),
        row_labels=[f"{a} to {b}" for a, b in PAIRS],
    )
    return embed(figure, "Images between pairs of test digits.", vector=False)


def _counterfactuals(model: HybridClassifier, familiar: Group, y_test: np.ndarray) -> str:
    starts = np.stack([_example(familiar, y_test, start) for start, _ in CHANGES])
    before = model.score_samples(starts)
    tiles = [
        [(_square(x), f"a {start}\n{_nats(log_px)}", False)]
        for x, (start, _), log_px in zip(starts, CHANGES, before, strict=True)
    ]
    for turn in range(2):
        wanted = [targets[turn] for _, targets in CHANGES]
        found = model.counterfactual(starts, wanted)
        for i, x in enumerate(np.asarray(found.x)):
            verdict = "refused" if found.rejected[i] else "answered"
            caption = f"as {wanted[i]}\n{_nats(found.log_px[i])}\n{verdict}"
            # Half-way grey is no change, so that one scale serves images and changes alike.
            change = (TOP + x - starts[i]) / 2
            tiles[i].append((_square(x), caption, bool(found.rejected[i])))
            tiles[i].append((_square(change), "change", False))
    rows = [
        left + [(None, "", False)] + right
        for left, right in zip(tiles[::2], tiles[1::2], strict=True)
    ]
    figure, axes = new_grid(len(rows), len(rows[0]), caption_lines=3)
    image_grid(
        axes,
        [[image for image, _, _ in row] for row in rows],
        top=TOP,
        captions=[[caption for _, caption, _ in row] for row in rows],
        framed=[[refused for _, _, refused in row] for row in rows],
    )
    return embed(figure, "Digits before and after the smallest change of answer.", vector=False)


def _example(familiar: Group, y_test: np.ndarray, digit: int) -> np.ndarray:
    """The first test image of a digit, rightly answered if there is one, else any."""
    of_digit = y_test == digit
    good = of_digit & (familiar.prediction == digit) & ~familiar.rejected
    return familiar.images[np.argmax(good if good.any() else of_digit)]


def _first(group: Group, n: int) -> Group:
    return Group(**{name: values[:n] for name, values in vars(group).items()})


def _square(row: np.ndarray) -> np.ndarray:
    return np.asarray(row).reshape(SIDE, SIDE)


def _nats(log_px: float) -> str:
    return f"log p {log_px:.0f}".replace("-", "−")
