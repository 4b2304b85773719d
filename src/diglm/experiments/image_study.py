"""What the studies of images share: train one model a lambda, judge it, draw it.

Each lambda's result is written as soon as it is known, and one whose result is there is passed
over. Training is kept in a folder of its own and goes on from there when it is called again.
"""

import argparse
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.metrics import average_precision_score

from diglm import HybridClassifier
from diglm.data.image_sets import Labelled, load_images
from diglm.experiments.image_figures import draw
from diglm.recipes import Glow
from diglm.refusal import auroc
from diglm.report.results import write_result
from diglm.training.devices import use_every_core

PACE_STEPS, PACE_EPOCHS = 200, 2  # images enough for the program that the whole set is given
VALIDATION_IMAGES = 2_000


@dataclass(frozen=True)
class ImageStudy:
    """A set to learn, sets to be refused, and how to learn it.

    Attributes:
        name: of the set, and of the results.
        strange: sets that should be refused, by name.
        weights: generative weights w of lambda = w / D.
        shown: the weight that the figures show.
        minutes: of training, for each weight.
        borrowed: images of the test part to train on, where the training part is not to be had; the
            others are judged.
        flow: Glow, with its own parameters.
        settings: of the classifier, where they are not its defaults.
        seed: of everything random.
    """

    name: str
    strange: tuple[str, ...]
    weights: tuple[float, ...]
    shown: float
    minutes: float
    borrowed: int = 0
    flow: Glow = field(default_factory=Glow)
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0


def run(
    study: ImageStudy,
    out: Path,
    *,
    kept: Path,
    minutes: float,
    weights: tuple[float, ...],
    n_epochs: int | None = None,
    data_dir: str | None = None,
) -> None:
    """Train and judge a model for each weight; results, models and figures are written to files.

    Training takes `n_epochs`, or as many as fit into `minutes`.
    """
    console = Console(stderr=True)
    train, test = _parts(study, data_dir)
    strange = {name: load_images(name, "test", data_dir) for name in study.strange}
    for weight in weights:
        stem = f"{study.name}_{weight:g}"
        path = out / f"{stem}.json"
        if path.exists():
            console.print(f"{path} is there; delete it to run lambda = {weight:g}/D again")
            continue
        folder = kept / stem
        plan = _plan(study, weight, folder, train, minutes, n_epochs, console)
        model = _classifier(study, weight, plan["n_epochs"], len(train.y))
        console.print(f"lambda = {weight:g}/D: {plan['n_epochs']} epochs; kept in {folder}")
        model.fit(train.x, train.y, checkpoint=folder / "states")
        model.save(folder / "model.safetensors")
        seconds = model.history_[-1]["seconds"]
        metrics = judge(model, train, test, strange)
        config = asdict(study) | {"weight": weight} | plan
        write_result(path, config=config, seed=study.seed, seconds=seconds, metrics=metrics)
        console.print(json.dumps(metrics, indent=2))
        if weight == study.shown:
            draw(model, test, strange, study.name)


def _parts(study: ImageStudy, data_dir: str | None) -> tuple[Labelled, Labelled]:
    """Images to learn and images to be judged by."""
    test = load_images(study.name, "test", data_dir)
    if study.borrowed == 0:
        return load_images(study.name, "train", data_dir), test
    n = study.borrowed
    return Labelled(test.x[:n], test.y[:n]), Labelled(test.x[n:], test.y[n:])


def judge(
    model: HybridClassifier, train: Labelled, test: Labelled, strange: dict[str, Labelled]
) -> dict[str, Any]:
    """The columns of the paper's tables, under its reject rule and under ours, and more."""
    familiar = _answers(model, test)
    lowest = float(np.min(model.score_samples(train.x)))
    prior = model.class_prior_
    rules = {"minimum": lowest, "conformal": model.threshold_}
    found: dict[str, Any] = {
        **_scores(familiar, test),
        "refused": {name: float(np.mean(familiar.log_px < tau)) for name, tau in rules.items()},
        "train_seconds_an_image": model.history_[-1]["seconds"]
        / (len(model.history_) * len(train.y)),
        "strange": {},
    }
    for name, images in strange.items():
        answers = _answers(model, images)
        guarded = {
            rule: np.where((answers.log_px < tau)[:, None], prior, answers.probabilities)
            for rule, tau in rules.items()
        }
        found["strange"][name] = {
            "bits_per_dimension": _bits(answers.log_px, images.x),
            "nll": {rule: _nll(p, images.y) for rule, p in guarded.items()},
            "entropy": {rule: _entropy(p) for rule, p in guarded.items()},
            "refused": {rule: float(np.mean(answers.log_px < t)) for rule, t in rules.items()},
            **separation(familiar.log_px, answers.log_px),
        }
    return found


def in_distribution(model: HybridClassifier, test: Labelled) -> dict[str, float]:
    """Bits per dimension, error and NLL on images like those of training."""
    return _scores(_answers(model, test), test)


def separation(familiar: np.ndarray, strange: np.ndarray) -> dict[str, float]:
    """How well log p(x) tells strange images from familiar ones.

    `aupr` has strange images as the positives; `fpr95` is the share of familiar images refused at
    the threshold that refuses 95 % of the strange ones.
    """
    labels = np.r_[np.zeros(len(familiar)), np.ones(len(strange))]
    return {
        "auroc": auroc(familiar, strange),
        "aupr": float(average_precision_score(labels, -np.r_[familiar, strange])),
        "fpr95": float(np.mean(familiar <= np.quantile(strange, 0.95))),
    }


@dataclass(frozen=True)
class _Answers:
    probabilities: np.ndarray
    log_px: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        return np.argmax(self.probabilities, axis=1)


def _answers(model: HybridClassifier, images: Labelled) -> _Answers:
    return _Answers(model.predict_proba(images.x), model.score_samples(images.x))


def _scores(answers: _Answers, images: Labelled) -> dict[str, float]:
    return {
        "bits_per_dimension": _bits(answers.log_px, images.x),
        "error": float(np.mean(answers.predicted != images.y)),
        "nll": _nll(answers.probabilities, images.y),
    }


def _bits(log_px: np.ndarray, images: np.ndarray) -> float:
    return float(-np.mean(log_px) / (np.prod(images.shape[1:]) * np.log(2)))


def _nll(probabilities: np.ndarray, y: np.ndarray) -> float:
    return float(-np.mean(np.log(np.maximum(probabilities[np.arange(len(y)), y], 1e-300))))


def _entropy(probabilities: np.ndarray) -> float:
    return float(
        -np.mean(np.sum(probabilities * np.log(np.maximum(probabilities, 1e-300)), axis=1))
    )


def _classifier(study: ImageStudy, weight: float, n_epochs: int, n_images: int) -> HybridClassifier:
    return HybridClassifier(
        study.flow,
        generative_weight=weight,
        n_epochs=n_epochs,
        validation_fraction=min(0.2, VALIDATION_IMAGES / n_images),
        score="density",  # the paper's; for others see `diglm.experiments.ood`
        random_state=study.seed,
        **study.settings,
    )


def _plan(
    study: ImageStudy,
    weight: float,
    folder: Path,
    train: Labelled,
    minutes: float,
    n_epochs: int | None,
    console: Console,
) -> dict[str, Any]:
    """Epochs, and the minutes they are to fit into, noted once so that a run can go on."""
    note = folder / "plan.json"
    if note.exists():
        return json.loads(note.read_text())
    plan = {"n_epochs": n_epochs, "minutes": None}
    if n_epochs is None:
        console.print("measuring the pace of training")
        n = PACE_STEPS * study.settings.get("batch_size", 64) + VALIDATION_IMAGES
        few = _classifier(study, weight, PACE_EPOCHS, n).fit(train.x[:n], train.y[:n])
        seconds = few.history_[-1]["seconds"] - few.history_[-2]["seconds"]
        an_epoch = seconds * len(train.y) / (n - VALIDATION_IMAGES)
        plan = {"n_epochs": max(1, int(60 * minutes / an_epoch)), "minutes": minutes}
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(plan))
    return plan


def command_line(study: ImageStudy, about: str) -> None:
    """The command of a study."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of results")
    parser.add_argument("--kept", type=Path, default=Path("runs"), help="folder of unfinished runs")
    parser.add_argument("--minutes", type=float, default=study.minutes, help="for each lambda")
    parser.add_argument("--epochs", type=int, default=None, help="instead of minutes")
    parser.add_argument("--weights", type=float, nargs="+", default=list(study.weights))
    parser.add_argument("--data-dir", default=None, help="where the images are, else DIGLM_DATA")
    options = parser.parse_args()
    use_every_core()
    run(
        study,
        options.out,
        kept=options.kept,
        minutes=options.minutes,
        weights=tuple(options.weights),
        n_epochs=options.epochs,
        data_dir=options.data_dir,
    )
