"""The flight-delay study's rows, splits, and what every baseline is given and gives back.

The rows are the US flights of January to April 2008 that arrived and whose eight attributes are all
known, in order of date and departure time. The test rows follow the training rows in time:

    "700k"  the first 700,000 rows train, the next 100,000 test
    "all"   the last 100,000 rows test, all before them train
"""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from diglm.data.downloads import Split, flights
from diglm.experiments.flights_metrics import Predictive
from diglm.experiments.frame.stand_ins import made_flights

ATTRIBUTES = (
    "Month",
    "DayofMonth",
    "DayOfWeek",
    "DepTime",
    "ArrTime",
    "AirTime",
    "Distance",
    "PlaneAge",
)
CLOCKS = ("DepTime", "ArrTime")  # stored as hhmm
TARGET = "ArrDelay"
SPLITS = ("700k", "all")
N_TEST = 100_000
N_FIRST = 700_000

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Fitted:
    """A baseline's answer: the distribution of every test row, its cost, and how it was made."""

    name: str
    predictive: Predictive
    seconds: float  # of fitting and predicting, from the training rows on
    settings: dict[str, Any]


def load_split(
    name: str, data_dir: str | os.PathLike | None = None, *, embedded: bool = False
) -> Split:
    """Rows of split "700k" or "all"; attributes in minutes, miles, years and calendar numbers.

    `embedded` is for made-up rows.
    """
    if name not in SPLITS:
        raise ValueError(f"Expected a split of {list(SPLITS)}; got {name!r}.")
    x, y = made_flights() if embedded else load_rows(data_dir)
    first = N_FIRST if name == "700k" else len(x) - N_TEST
    test = slice(first, first + N_TEST)
    return Split(x[:first], y[:first], x[test], y[test])


def load_rows(data_dir: str | os.PathLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """All complete rows in order of time: eight attributes, and minutes late on arrival."""
    parquet = require("pyarrow.parquet", "Reading the flights", extra="files")
    table = parquet.read_table(flights(data_dir), columns=[*ATTRIBUTES, TARGET]).drop_null()
    columns = {name: table[name].to_numpy().astype(np.float64) for name in table.column_names}
    for name in CLOCKS:
        columns[name] = clock_minutes(columns[name])
    return np.stack([columns[name] for name in ATTRIBUTES], axis=1), columns[TARGET]


def clock_minutes(hhmm: np.ndarray) -> np.ndarray:
    """Minutes since midnight of times written as hhmm: 1,305 is five past one, 785 minutes."""
    return 60.0 * (hhmm // 100) + hhmm % 100


def hold_out(n_rows: int, seed: int, share: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to learn from and a random tenth to hold out, for variances and stopping."""
    order = np.random.default_rng(seed).permutation(n_rows)
    n_held = max(1, round(share * n_rows))
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def require(module: str, purpose: str, *, extra: str) -> Any:
    """The optional module; an `ImportError` says how to install it where it is missing."""
    package = module.split(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (package, module):  # the package is there, and lacks something itself
            raise
        raise ImportError(
            f"{purpose} needs the package {package}, which is not installed. "
            f'Install it with: pip install "diglm[{extra}]"'
        ) from error
