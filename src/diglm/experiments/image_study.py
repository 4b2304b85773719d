"""What the studies of images share: train models of each lambda, judge them, draw them.

All are trained by one recipe for as many epochs; each lambda and seed is a run of its own, with a
result of its own. Figures are those of the first seed.
"""

import functools
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from diglm import HybridClassifier
from diglm.data.image_sets import Labelled
from diglm.experiments.frame import Run, Work, images
from diglm.experiments.image_figures import FIGURES
from diglm.recipes import Glow
from diglm.refusal import auroc

VALIDATION_IMAGES = 2_000
DOTS = 130  # per inch


@dataclass(frozen=True)
class ImageStudy:
    """A set to learn, sets to be refused, and how to learn it.

    Attributes:
        name: of the set, and of the results.
        strange: sets that should be refused, by name.
        weights: generative weights w of lambda = w / D.
        epochs: of training, whatever the weight.
        figures: weight, kind and file of each figure; kinds are those of `image_figures`.
        borrowed: images of the test part to train on, where the training part is not to be had; the
            others are judged.
        n_train: the first so many images are learned; 0 for all.
        n_test: the first so many are judged; 0 for all.
        flow: Glow, with its own parameters.
        settings: of the classifier, where they are not its defaults.
        embedded: sets that data of scikit-learn stand in for.
        seeds: of everything random; a model of each for each weight.
    """

    name: str
    strange: tuple[str, ...]
    weights: tuple[float, ...]
    epochs: int
    figures: tuple[tuple[float, str, str], ...] = ()
    borrowed: int = 0
    n_train: int = 0
    n_test: int = 0
    flow: Glow = field(default_factory=Glow)
    settings: dict[str, Any] = field(default_factory=dict)
    embedded: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1)


def file_of(name: str, weight: float, seed: int) -> str:
    """What a run is called."""
    return f"{name}_{weight:g}" + (f"_seed{seed}" if seed else "")


def runs(study: ImageStudy) -> list[Run]:
    """One for each weight, seed by seed."""
    sets = functools.cache(lambda: _sets(study))
    return [_run(study, weight, seed, sets) for seed in study.seeds for weight in study.weights]


def _run(study: ImageStudy, weight: float, seed: int, sets: Any) -> Run:
    names = ("weights", "epochs", "figures", "seeds")
    about = {k: v for k, v in asdict(study).items() if k not in names}
    name = file_of(study.name, weight, seed)
    shown = study.figures if seed == study.seeds[0] else ()
    drawn = {kind: file for of, kind, file in shown if of == weight}

    def measure(work: Work) -> dict[str, Any]:
        train, test, strange = sets()
        model = _classifier(study, weight, seed, len(train.y))
        work.say(f"lambda = {weight:g}/D, seed {seed}: {study.epochs} epochs; in {work.folder}")
        model.fit(train.x, train.y, checkpoint=work.folder / "states")
        model.save(work.model(name))
        work.seconds = model.history_[-1]["seconds"]
        for kind, file in drawn.items():
            figure = FIGURES[kind](model, test, strange, study.name)
            figure.savefig(work.figure(file), dpi=DOTS, bbox_inches="tight")
        return judge(model, train, test, strange)

    config = about | {"weight": weight, "n_epochs": study.epochs}
    return Run(name, config, measure, seed=seed, figures=tuple(drawn.values()))


def _sets(study: ImageStudy) -> tuple[Labelled, Labelled, dict[str, Labelled]]:
    """Images to learn, images to be judged by, and those that are strange."""
    test = images(study.name, "test", study.embedded)
    if study.borrowed and study.name not in study.embedded:
        n = study.borrowed
        train, test = Labelled(test.x[:n], test.y[:n]), Labelled(test.x[n:], test.y[n:])
    else:
        train = images(study.name, "train", study.embedded)
    others = {name: images(name, "test", study.embedded) for name in study.strange}
    few = {name: _first(other, study.n_test) for name, other in others.items()}
    return _first(train, study.n_train), _first(test, study.n_test), few


def _first(some: Labelled, n: int) -> Labelled:
    return Labelled(some.x[:n], some.y[:n]) if n else some


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
    for name, some in strange.items():
        answers = _answers(model, some)
        guarded = {
            rule: np.where((answers.log_px < tau)[:, None], prior, answers.probabilities)
            for rule, tau in rules.items()
        }
        found["strange"][name] = {
            "bits_per_dimension": _bits(answers.log_px, some.x),
            "nll": {rule: _nll(p, some.y) for rule, p in guarded.items()},
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


def _classifier(study: ImageStudy, weight: float, seed: int, n_images: int) -> HybridClassifier:
    return HybridClassifier(
        study.flow,
        generative_weight=weight,
        n_epochs=study.epochs,
        validation_fraction=min(0.2, VALIDATION_IMAGES / n_images),
        score="density",  # the paper's; for others see `diglm.experiments.ood`
        random_state=seed,
        **study.settings,
    )
