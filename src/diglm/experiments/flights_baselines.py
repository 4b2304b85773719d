"""Baselines of the flight-delay study: what others predict from the same rows, and how well.

    python -m diglm.experiments.flights_baselines --split 700k --out results/flights

Each baseline gives every test row a distribution of the delay. All are scored alike (RMSE, NLL,
CRPS, coverage and width of central intervals), and each result is written as soon as it is known.
Variances are estimated on a random tenth of the training rows or by the method itself. The extra
packages are installed by `pip install "diglm[files,study]"`.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

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
from diglm.report.results import write_result


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
    """A function that yields one or several fitted distributions, and the package it needs."""

    run: Callable[..., Iterator[Fitted]]
    package: str | None = None


BASELINES = {
    "constant": Baseline(constant),
    "linear": Baseline(linear),
    "boosting": Baseline(boosting),
    "ngboost": Baseline(natural_boosting, "ngboost"),
    "svgp": Baseline(gaussian_process, "gpjax"),
    "ensemble": Baseline(ensemble),
}


def run_baselines(
    split: str,
    data_dir: str | os.PathLike | None = None,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    *,
    out: str | os.PathLike | None = None,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Fit and score the baselines `names` (all when None) on a split of the flights.

    Args:
        split: "700k" or "all".
        data_dir: the folder of the flights; `DIGLM_DATA` or the user's cache when None.
        names: keys of `BASELINES`.
        progress: is called with a line of text now and then.
        out: a folder that gets `baseline-<split>-<name>.json` as soon as each result is known.
        seed: of the held-out tenth and of the methods.

    Returns:
        For each result its "metrics", "seconds" and "settings".
    """
    check_names(names)
    return score_baselines(
        load_split(split, data_dir), names, progress, out=out, seed=seed, title=split
    )


def score_baselines(
    rows: Split,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    *,
    out: str | os.PathLike | None = None,
    seed: int = 0,
    title: str = "rows",
) -> dict[str, dict[str, Any]]:
    """As `run_baselines`, on any rows."""
    progress = progress or (lambda line: None)
    results = {}
    for name in check_names(names):
        fits = BASELINES[name].run(rows.x_train, rows.y_train, rows.x_test, seed, progress)
        for fitted in fits:
            metrics = scores(fitted.predictive, rows.y_test, rows.y_train)
            results[fitted.name] = {
                "metrics": metrics,
                "seconds": fitted.seconds,
                "settings": fitted.settings,
            }
            progress(
                f"{fitted.name}: RMSE {metrics['rmse']:.2f}, NLL {metrics['nll']:.3f}, "
                f"CRPS {metrics['crps']:.2f}, {fitted.seconds:.0f} s"
            )
            if out is not None:
                sizes = {"train_rows": len(rows.y_train), "test_rows": len(rows.y_test)}
                write_result(
                    Path(out) / f"baseline-{title}-{fitted.name}.json",
                    config={"split": title, "name": fitted.name} | sizes | fitted.settings,
                    seed=seed,
                    seconds=fitted.seconds,
                    metrics=metrics,
                )
    return results


def check_names(names: Sequence[str] | None) -> list[str]:
    """The baselines asked for; an error, before anything is trained, if one cannot be run."""
    chosen = list(BASELINES if names is None else names)
    unknown = [name for name in chosen if name not in BASELINES]
    if unknown:
        raise ValueError(f"Unknown baselines {unknown}; choose from {list(BASELINES)}.")
    for name in chosen:
        package = BASELINES[name].package
        if package is not None:
            require(package, f"The baseline {name!r}", extra="study")
    return chosen


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description="Fit and score the baselines of the flights.")
    parser.add_argument("--split", choices=SPLITS, default="700k")
    parser.add_argument("--out", type=Path, default=Path("results/flights"))
    parser.add_argument("--only", nargs="+", metavar="NAME", help=", ".join(BASELINES))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    console = Console(stderr=True, highlight=False)
    try:
        run_baselines(
            given.split, given.data_dir, given.only, console.print, out=given.out, seed=given.seed
        )
    except (ImportError, ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
