"""Every score on strange images and strange rows: which of them tell, and which do not.

    diglm reproduce ood --budget full

- mnist: the shipped model; its test images against NotMNIST, Fashion-MNIST and the kinds of
  `diglm.experiments.strange_images`.
- digits: scikit-learn's, a classifier of 0 to 7 at its defaults against 8 and 9.
- adbench: HybridDensity at its defaults on the half of ADBench's tables that "auto" was not chosen
  by, train on half of the normal rows and judge on the others.
"""

import functools
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits

from diglm import HybridClassifier, HybridDensity, load
from diglm.data.downloads import ADBENCH_TABLES
from diglm.experiments.frame import Run, Study, Work, images
from diglm.experiments.frame.stand_ins import anomalies
from diglm.experiments.shipped import split_of
from diglm.experiments.strange_images import KINDS, make
from diglm.predictor import Predictor
from diglm.refusal import SCORES, Conformal, Known, auroc, fit_refusal

Found = dict[str, dict[str, dict[str, float]]]  # score, strange set, measure


@dataclass(frozen=True)
class Config:
    """Sizes of the study.

    Attributes:
        n_familiar: test images that count as familiar.
        n_strange: strange images of each kind.
        most_rows: of a table that train.
        rate: of false refusals.
        parts: of the study.
        tables: of ADBench.
        embedded: data sets that data of scikit-learn stand in for.
    """

    n_familiar: int = 3_000
    n_strange: int = 500
    most_rows: int = 10_000
    rate: float = 0.01
    seed: int = 0
    parts: tuple[str, ...] = ("mnist", "digits", "adbench")
    tables: tuple[str, ...] = ADBENCH_TABLES[1::2]
    embedded: tuple[str, ...] = ()


def on_mnist(config: Config) -> Found:
    """The shipped model of digits; nothing without MNIST, whose images it is judged by."""
    if "mnist" in config.embedded:
        return {}
    model = load("mnist")
    assert isinstance(model, HybridClassifier), "the shipped model is a classifier"
    train, test = (images("mnist", part) for part in ("train", "test"))
    predictor, split = model.predictor_, split_of(model, train)
    n = config.n_familiar
    digits = test.x[n : n + config.n_strange]
    strange = {kind: make(kind, digits, config.seed) for kind in KINDS}
    for name in ("notmnist", "fashion-mnist"):
        strange[name] = images(name, "test", config.embedded).x[: 2 * config.n_strange]
    training = split.train[np.linspace(0, len(split.train) - 1, 4_000).astype(int)]
    return judge(
        config,
        known(predictor, train.x[training]),
        known(predictor, train.x[split.held_out]),
        known(predictor, test.x[:n]),
        {name: known(predictor, rows) for name, rows in strange.items()},
    )


def on_digits(config: Config) -> Found:
    """Classes that were held out, of scikit-learn's digits."""
    x, y = map(np.asarray, load_digits(return_X_y=True))
    mine = np.random.default_rng(config.seed).permutation(np.flatnonzero(y < 8))
    train, held_out, test = np.split(mine, [len(mine) // 2, 3 * len(mine) // 4])
    model = HybridClassifier(random_state=config.seed, verbose=False).fit(x[train], y[train])
    seen, aside, judged = (known(model.predictor_, x[rows]) for rows in (train, held_out, test))
    return judge(config, seen, aside, judged, {"8 and 9": known(model.predictor_, x[y >= 8])})


def on_adbench(config: Config) -> Found:
    """Anomalies of tables that nothing was chosen by."""
    every: Found = {}
    for name in config.tables:
        x, anomalous = anomalies(name, "adbench" in config.embedded)
        normal = np.random.default_rng(config.seed).permutation(np.flatnonzero(~anomalous))
        train, test = np.split(normal, [len(normal) // 2])
        train = train[: config.most_rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant columns, small tables
            model = HybridDensity(random_state=config.seed, verbose=False).fit(x[train])
            seen, aside, judged = (
                known(model.predictor_, x[rows]) for rows in (train, test[::2], test[1::2])
            )
            strange = {name: known(model.predictor_, x[anomalous])}
            for score, found in judge(config, seen, aside, judged, strange).items():
                every.setdefault(score, {}).update(found)
    return every


PARTS = {"mnist": on_mnist, "digits": on_digits, "adbench": on_adbench}


def known(predictor: Predictor, X: np.ndarray) -> Known:
    """Everything about rows."""
    return predictor.known(predictor.encode(X))


def judge(
    config: Config, training: Known, held_out: Known, familiar: Known, strange: dict[str, Known]
) -> Found:
    """AUROC of every score that the model can have, and what it refuses at the rate."""
    found: Found = {}
    for name, make_score in SCORES.items():
        score = make_score()
        if score.why_not(training):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few rows held out
            refusal = fit_refusal(score, Conformal(config.rate), held_out, training)
        usual = refusal.strangeness(familiar)
        found[name] = {"familiar": {"refused": float(np.mean(refusal.rejects(familiar)))}}
        for kind, rows in strange.items():
            found[name][kind] = {
                "auroc": auroc(-usual, -refusal.strangeness(rows)),
                "refused": float(np.mean(refusal.rejects(rows))),
            }
    return found


def runs(config: Config) -> list[Run]:
    """One, in which each part is a step."""

    def measure(work: Work) -> dict[str, Found]:
        parts = {part: functools.partial(PARTS[part], config) for part in config.parts}
        return {part: work.step(part, judged) for part, judged in parts.items()}

    about = {k: v for k, v in vars(config).items() if k != "embedded" or v}
    return [Run("ood", about, measure, seed=config.seed)]


REPRODUCE = Study(
    about="every score on strange images and strange rows",
    full=Config(),
    small=Config(n_familiar=500, n_strange=100, most_rows=500, tables=("Pima", "wine")),
    runs=runs,
    needs=("mnist", "notmnist", "fashion-mnist", "adbench"),
)
