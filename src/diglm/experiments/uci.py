"""UCI regression tables on their published splits: diglm and NGBoost here, others as published.

    diglm reproduce uci --budget full

Splits are those of Hernandez-Lobato and Adams (2015). The published numbers are means over all
splits (20; 5 for protein), with the standard errors or deviations that the papers give:

- NGBoost: Duan et al. (2020), https://arxiv.org/abs/1910.03225, Table 1;
- deep ensembles: Lakshminarayanan et al. (2017), https://arxiv.org/abs/1612.01474, Table 1.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from diglm import HybridRegressor
from diglm.data.downloads import Split
from diglm.experiments.flights_protocol import require
from diglm.experiments.frame import Run, Study, Work
from diglm.experiments.frame.stand_ins import uci_split

N_SPLITS = {"protein": 5}  # all others have 20
# (RMSE, its spread, NLL, its spread)
PUBLISHED = {
    "NGBoost": {
        "boston": (2.94, 0.53, 2.43, 0.15),
        "concrete": (5.06, 0.61, 3.04, 0.17),
        "energy": (0.46, 0.06, 0.60, 0.45),
        "kin8nm": (0.16, 0.00, -0.49, 0.02),
        "naval": (0.00, 0.00, -5.34, 0.04),
        "power": (3.79, 0.18, 2.79, 0.11),
        "protein": (4.33, 0.03, 2.81, 0.03),
        "wine": (0.63, 0.04, 0.91, 0.06),
        "yacht": (0.50, 0.20, 0.20, 0.26),
    },
    "deep ensembles": {
        "boston": (3.28, 1.00, 2.41, 0.25),
        "concrete": (6.03, 0.58, 3.06, 0.18),
        "energy": (2.09, 0.29, 1.38, 0.22),
        "kin8nm": (0.09, 0.00, -1.20, 0.02),
        "naval": (0.00, 0.00, -5.63, 0.05),
        "power": (4.11, 0.17, 2.79, 0.04),
        "protein": (4.71, 0.06, 2.83, 0.02),
        "wine": (0.64, 0.04, 0.94, 0.12),
        "yacht": (1.58, 0.48, 1.18, 0.21),
    },
}
TABLES = tuple(PUBLISHED["NGBoost"])


def hybrid(rows: Split, seed: int, head: str = "auto") -> dict[str, float]:
    """diglm at its defaults."""
    model = HybridRegressor(head=head, random_state=seed, verbose=False)
    model.fit(rows.x_train, rows.y_train)
    dist = model.predict_dist(rows.x_test)
    low, high = dist.interval(0.9)
    return scores(rows.y_test, dist.mean, dist.log_prob(rows.y_test), low, high)


def mixture(rows: Split, seed: int) -> dict[str, float]:
    """diglm with a mixture of Gaussians for the target."""
    return hybrid(rows, seed, "mixture")


def ngboost(rows: Split, seed: int) -> dict[str, float]:
    """NGBoost at its defaults, stopped early on a tenth of the training rows."""
    module = require("ngboost", "The NGBoost baseline", extra="study")
    order = np.random.default_rng(seed).permutation(len(rows.y_train))
    held, learn = np.split(order, [max(1, len(order) // 10)])
    booster = module.NGBRegressor(
        n_estimators=2000, learning_rate=0.01, random_state=seed, verbose=False
    )
    booster.fit(
        rows.x_train[learn],
        rows.y_train[learn],
        X_val=rows.x_train[held],
        Y_val=rows.y_train[held],
        early_stopping_rounds=50,
    )
    found = booster.pred_dist(rows.x_test)
    normal: Any = stats.norm(found.loc, found.scale)
    low, high = normal.interval(0.9)
    return scores(rows.y_test, found.loc, normal.logpdf(rows.y_test), low, high)


Method = Callable[[Split, int], dict[str, float]]
OWN: dict[str, Method] = {"diglm": hybrid, "diglm, mixture": mixture}
METHODS: dict[str, Method] = OWN | {"NGBoost, run here": ngboost}


def scores(
    y: np.ndarray, mean: np.ndarray, log_prob: np.ndarray, low: np.ndarray, high: np.ndarray
) -> dict[str, float]:
    """RMSE, NLL, and the share of targets between `low` and `high`."""
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "nll": float(-np.mean(log_prob)),
        "coverage_90": float(np.mean((low <= y) & (y <= high))),
    }


@dataclass(frozen=True)
class Config:
    """Which tables, and how many of their splits."""

    tables: tuple[str, ...] = TABLES
    splits: int = 5  # of the published 20, or of protein's 5
    seed: int = 0
    embedded: tuple[str, ...] = ()
    beside: bool = True  # whether NGBoost, a package of its own, runs too


def table_runs(folder: str, methods: dict[str, Method], config: Config) -> list[Run]:
    """A run a table, every method on its first splits."""

    def of_table(name: str) -> Run:
        def measure(work: Work) -> dict[str, Any]:
            found: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
            for split in range(min(config.splits, N_SPLITS.get(name, 20))):
                for method in methods:
                    fitted = functools.partial(_fitted, methods[method], name, split, config)
                    found[method].append(work.step(f"{split} {method}", fitted))
                    work.say(f"{name} {split} {method}", found[method][-1])
            return {
                method: {key: [one[key] for one in some] for key in some[0]}
                for method, some in found.items()
            }

        about = {"table": name, "splits": min(config.splits, N_SPLITS.get(name, 20))}
        about |= {"embedded": config.embedded} if config.embedded else {}
        about |= {} if config.beside else {"beside": False}
        return Run(f"{folder}/{name}", about, measure, seed=config.seed)

    return [of_table(name) for name in config.tables]


def _fitted(fit: Method, name: str, split: int, config: Config) -> dict[str, float]:
    started = time.perf_counter()
    scored = fit(uci_split(name, split, bool(config.embedded)), config.seed)
    return scored | {"seconds": time.perf_counter() - started}


def runs(config: Config) -> list[Run]:
    """diglm and, beside it, NGBoost, a table each."""
    return table_runs("uci", METHODS if config.beside else OWN, config)


REPRODUCE = Study(
    about="UCI tables beside NGBoost",
    full=Config(),
    small=Config(tables=("yacht",), splits=1, beside=False),
    runs=runs,
    needs=("uci",),
)
