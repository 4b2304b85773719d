"""Baselines of the flight-delay study: what others predict from the same rows, and how well.

    diglm reproduce flights_baselines --budget full

Each baseline gives every test row a distribution of the delay. All are scored alike (RMSE, NLL,
CRPS, coverage and width of central intervals), and each result is written as soon as it is known.
Variances are estimated on a random tenth of the training rows or by the method itself. The extra
packages are installed by `pip install "diglm[files,study]"`.
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diglm.data.downloads import Split
from diglm.experiments.flights_boosting import boosting, natural_boosting
from diglm.experiments.flights_ensemble import ensemble
from diglm.experiments.flights_gp import gaussian_process
from diglm.experiments.flights_metrics import Gaussian, StudentT, fit_student_t, scores
from diglm.experiments.flights_protocol import (
    SPLITS,
    Fitted,
    Progress,
    hold_out,
    load_split,
    require,
)
from diglm.experiments.frame import Run, Study, Work


def constant(
    x_train: np.ndarray, y_train: np.ndarray, x_test: np.ndarray, seed: int, progress: Progress
) -> Iterator[Fitted]:
    """`constant` and `constant-student-t`: one distribution for all rows, the best of its kind."""
    started, n_test = time.perf_counter(), len(x_test)
    predictive = Gaussian(np.full(n_test, np.mean(y_train)), np.full(n_test, np.std(y_train)))
    yield Fitted("constant", predictive, time.perf_counter() - started, {})

    started = time.perf_counter()
    location, scale, df = fit_student_t(y_train, shifted=True)
    predictive = StudentT(np.full(n_test, location), np.full(n_test, scale), df)
    used = {"scale": scale, "df": df}
    yield Fitted("constant-student-t", predictive, time.perf_counter() - started, used)


def linear(
    x_train: np.ndarray, y_train: np.ndarray, x_test: np.ndarray, seed: int, progress: Progress
) -> Iterator[Fitted]:
    """`linear` and `linear-student-t`: least squares; the errors of held-out rows give the rest."""
    started = time.perf_counter()
    learn, held = hold_out(len(y_train), seed)
    centre, unit = np.mean(x_train, axis=0), np.std(x_train, axis=0)
    unit = np.where(unit > 0, unit, 1.0)

    def design(x: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(x)), (x - centre) / unit])

    weights = np.linalg.lstsq(design(x_train[learn]), y_train[learn], rcond=None)[0]
    mean, errors = design(x_test) @ weights, y_train[held] - design(x_train[held]) @ weights
    sd = float(np.sqrt(np.mean(errors**2)))
    predictive = Gaussian(mean, np.full(len(mean), sd))
    seconds = time.perf_counter() - started
    yield Fitted("linear", predictive, seconds, {"sd": sd})

    started = time.perf_counter()
    shift, scale, df = fit_student_t(errors, shifted=True)
    predictive = StudentT(mean + shift, np.full(len(mean), scale), df)
    used = {"shift": shift, "scale": scale, "df": df}
    seconds += time.perf_counter() - started
    yield Fitted("linear-student-t", predictive, seconds, used)


@dataclass(frozen=True)
class Baseline:
    """A function that yields fitted distributions of these names, and the package it needs."""

    run: Callable[..., Iterator[Fitted]]
    names: tuple[str, ...]
    package: str | None = None


BOOSTED = ("boosting", "boosting-variance", "boosting-student-t", "boosting-median-t")
BASELINES = {
    "constant": Baseline(constant, ("constant", "constant-student-t")),
    "linear": Baseline(linear, ("linear", "linear-student-t")),
    "boosting": Baseline(boosting, BOOSTED),
    "ngboost": Baseline(natural_boosting, ("ngboost", "ngboost-student-t"), "ngboost"),
    "svgp": Baseline(gaussian_process, ("svgp",), "gpjax"),
    "ensemble": Baseline(ensemble, ("ensemble",)),
}


@dataclass(frozen=True)
class Config:
    """Which baselines on which splits, and how many rows; 0 for all of them."""

    splits: tuple[str, ...] = SPLITS
    names: tuple[str, ...] = tuple(BASELINES)
    n_train: int = 0
    n_test: int = 0
    seed: int = 0
    embedded: tuple[str, ...] = ()


def split_of(config: Config, name: str) -> Split:
    """The rows of a split, or the last training and the first test rows of it."""
    rows = load_split(name, embedded=bool(config.embedded))
    last, first = -config.n_train, config.n_test or None
    return Split(rows.x_train[last:], rows.y_train[last:], rows.x_test[:first], rows.y_test[:first])


Answers = dict[str, tuple[Fitted, dict[str, Any]]]


def scored(name: str, rows: Split, seed: int, progress: Progress) -> Answers:
    """Each distribution that a baseline yields, and its scores."""
    found: Answers = {}
    fits = BASELINES[name].run(rows.x_train, rows.y_train, rows.x_test, seed, progress)
    for fitted in fits:
        metrics = scores(fitted.predictive, rows.y_test, rows.y_train)
        found[fitted.name] = fitted, metrics
        progress(
            f"{fitted.name}: RMSE {metrics['rmse']:.2f}, NLL {metrics['nll']:.3f}, "
            f"CRPS {metrics['crps']:.2f}, {fitted.seconds:.0f} s"
        )
    return found


def runs(config: Config) -> list[Run]:
    """One for each distribution on each split; those that a baseline yields it yields at once."""
    return [
        one
        for split in config.splits
        for rows in [functools.cache(functools.partial(split_of, config, split))]
        for name in config.names
        for one in _runs(config, split, name, rows)
    ]


def _runs(config: Config, split: str, name: str, rows: Callable[[], Split]) -> list[Run]:
    @functools.cache
    def answers(progress: Progress) -> Answers:
        return scored(name, rows(), config.seed, progress)

    def of_one(own: str) -> Run:
        def measure(work: Work) -> dict[str, Any]:
            fitted, metrics = answers(work.console.print)[own]
            work.seconds = fitted.seconds
            return metrics | {"settings": fitted.settings}

        about: dict[str, Any] = {"split": split, "name": own}
        for size in ("n_train", "n_test", "embedded"):
            about |= {size: getattr(config, size)} if getattr(config, size) else {}
        return Run(f"flights/baseline-{split}-{own}", about, measure, seed=config.seed)

    return [of_one(own) for own in BASELINES[name].names]


def check_names(names: Sequence[str]) -> None:
    """An error, before anything is trained, if one of the baselines cannot be run."""
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise ValueError(f"Unknown baselines {unknown}; choose from {list(BASELINES)}.")
    for name in names:
        package = BASELINES[name].package
        if package is not None:
            require(package, f"The baseline {name!r}", extra="study")


REPRODUCE = Study(
    about="other models on the same flights",
    full=Config(),
    small=Config(("all",), ("constant", "linear", "boosting"), n_train=40_000, n_test=20_000),
    runs=runs,
    needs=("flights",),
    check=lambda config: check_names(config.names),
)
