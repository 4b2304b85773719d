"""Every score on strange images and strange rows: which of them tell, and which do not.

    python -m diglm.experiments.ood [--data-dir FOLDER] [--only mnist digits adbench]

- mnist: the shipped model; its test images against NotMNIST, Fashion-MNIST and the kinds of
  `diglm.experiments.strange_images`.
- digits: scikit-learn's, a classifier of 0 to 7 at its defaults against 8 and 9.
- adbench: HybridDensity at its defaults on the half of ADBench's tables that "auto" was not chosen
  by, train on half of the normal rows and judge on the others.

Writes results/ood.json; a part that was not asked for keeps what an earlier run has found.
"""

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from sklearn.datasets import load_digits

from diglm import HybridClassifier, HybridDensity, load
from diglm.data.downloads import ADBENCH_TABLES, adbench
from diglm.data.image_sets import load_images
from diglm.experiments.shipped import split_of
from diglm.experiments.strange_images import KINDS, make
from diglm.predictor import Predictor
from diglm.refusal import SCORES, Conformal, Known, auroc, fit_refusal
from diglm.report.results import write_result

Found = dict[str, dict[str, dict[str, float]]]  # score, strange set, measure


@dataclass(frozen=True)
class Config:
    """Sizes of the study.

    Attributes:
        n_familiar: test images that count as familiar.
        n_strange: strange images of each kind.
        most_rows: of a table that train.
        rate: of false refusals.
    """

    n_familiar: int = 3_000
    n_strange: int = 500
    most_rows: int = 10_000
    rate: float = 0.01
    seed: int = 0


def on_mnist(config: Config, data_dir: str | None) -> Found:
    """The shipped model of digits."""
    model = load("mnist")
    assert isinstance(model, HybridClassifier), "the shipped model is a classifier"
    train, test = (load_images("mnist", part, data_dir) for part in ("train", "test"))
    predictor, split = model.predictor_, split_of(model, train)
    n = config.n_familiar
    digits = test.x[n : n + config.n_strange]
    strange = {kind: make(kind, digits, config.seed) for kind in KINDS}
    for name in ("notmnist", "fashion-mnist"):
        strange[name] = load_images(name, "test", data_dir).x[: 2 * config.n_strange]
    training = split.train[np.linspace(0, len(split.train) - 1, 4_000).astype(int)]
    return judge(
        config,
        known(predictor, train.x[training]),
        known(predictor, train.x[split.held_out]),
        known(predictor, test.x[:n]),
        {name: known(predictor, images) for name, images in strange.items()},
    )


def on_digits(config: Config, data_dir: str | None) -> Found:
    """Classes that were held out, of scikit-learn's digits."""
    x, y = map(np.asarray, load_digits(return_X_y=True))
    mine = np.random.default_rng(config.seed).permutation(np.flatnonzero(y < 8))
    train, held_out, test = np.split(mine, [len(mine) // 2, 3 * len(mine) // 4])
    model = HybridClassifier(random_state=config.seed, verbose=False).fit(x[train], y[train])
    seen, aside, judged = (known(model.predictor_, x[rows]) for rows in (train, held_out, test))
    return judge(config, seen, aside, judged, {"8 and 9": known(model.predictor_, x[y >= 8])})


def on_adbench(config: Config, data_dir: str | None) -> Found:
    """Anomalies of tables that nothing was chosen by."""
    every: Found = {}
    for name in ADBENCH_TABLES[1::2]:
        x, anomalous = adbench(name, data_dir)
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
        Console(stderr=True).print(name, every["auto"][name])
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


def run(config: Config, out: Path, *, parts: list[str], data_dir: str | None = None) -> None:
    """Judge every score on the parts asked for."""
    started = time.perf_counter()
    metrics = json.loads(out.read_text())["metrics"] if out.exists() else {}
    for part in parts:
        metrics[part] = PARTS[part](config, data_dir)
    seconds = time.perf_counter() - started
    write_result(out, config=asdict(config), seed=config.seed, seconds=seconds, metrics=metrics)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-dir", default=None, help="where the data is, else DIGLM_DATA")
    parser.add_argument("--only", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--out", type=Path, default=Path("results/ood.json"))
    options = parser.parse_args()
    run(Config(), options.out, parts=options.only, data_dir=options.data_dir)


if __name__ == "__main__":
    main()
