"""The Bayesian head on UCI tables: beside ridge and a Gaussian process run here, others published.

    diglm reproduce uci_bayesian --budget full

Small tables on the splits of Hernandez-Lobato and Adams (2015), as `diglm.experiments.uci`. NGBoost
on the same splits is in that study's results. The published numbers are means over 20 splits:

- MC dropout: Gal and Ghahramani (2016), https://arxiv.org/abs/1506.02142, with the deviations of
  Lakshminarayanan et al. (2017), https://arxiv.org/abs/1612.01474, Table 1;
- deep ensembles: the same table, in `diglm.experiments.uci`.
"""

import warnings
from typing import Any

import numpy as np
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.preprocessing import StandardScaler

from diglm import HybridRegressor
from diglm.data.downloads import Split
from diglm.experiments import uci
from diglm.experiments.frame import Run, Study
from diglm.heads import AbstractHeadChoice, Bayesian

TABLES = ("boston", "concrete", "energy", "wine", "yacht")
ROWS_FOR_KERNEL = 400  # a Gaussian process's numbers are found on so many rows, then it sees all
# (RMSE, its spread, NLL, its spread)
PUBLISHED = {
    "MC dropout": {
        "boston": (2.97, 0.85, 2.46, 0.25),
        "concrete": (5.23, 0.53, 3.04, 0.09),
        "energy": (1.66, 0.19, 1.99, 0.09),
        "wine": (0.62, 0.04, 0.93, 0.06),
        "yacht": (1.11, 0.38, 1.55, 0.12),
    },
}


def bayesian(
    rows: Split, seed: int, head: str | AbstractHeadChoice = "bayesian"
) -> dict[str, float]:
    """diglm with the conjugate Bayesian head, at its defaults."""
    model = HybridRegressor(head=head, random_state=seed, verbose=False)
    model.fit(rows.x_train, rows.y_train)
    dist = model.predict_dist(rows.x_test)
    return uci.scores(rows.y_test, dist.mean, dist.log_prob(rows.y_test), *dist.interval(0.9))


def effects(rows: Split, seed: int) -> dict[str, float]:
    """diglm with random effects of observations, so that the noise varies."""
    return bayesian(rows, seed, "mixed")


def exactly(rows: Split, seed: int) -> dict[str, float]:
    """diglm with the conjugate Bayesian head, every step along the evidence of all rows."""
    return bayesian(rows, seed, Bayesian(inference="exact"))


def ridge(rows: Split, seed: int) -> dict[str, float]:
    """scikit-learn's Bayesian ridge regression of the standardised columns."""
    scaler = StandardScaler().fit(rows.x_train)
    model = BayesianRidge().fit(scaler.transform(rows.x_train), rows.y_train)
    mean, sd = model.predict(scaler.transform(rows.x_test), return_std=True)
    return _normal(rows, mean, sd)


def gaussian_process(rows: Split, seed: int) -> dict[str, float]:
    """A squared exponential kernel with a length for each column."""
    scaler = StandardScaler().fit(rows.x_train)
    x, y = np.asarray(scaler.transform(rows.x_train)), rows.y_train
    # scikit-learn's stubs know neither lengths for each column nor an absent optimiser.
    lengths: Any = np.full(x.shape[1], 3.0)
    unchanged: Any = None
    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(lengths, (1e-1, 1e4))
    kernel = kernel + WhiteKernel(0.1, (1e-7, 1e1))
    few = np.random.default_rng(seed).permutation(len(y))[:ROWS_FOR_KERNEL]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = GaussianProcessRegressor(kernel, normalize_y=True).fit(x[few], y[few])
    process: Any = GaussianProcessRegressor(
        found.kernel_, optimizer=unchanged, normalize_y=True
    ).fit(x, y)
    mean, sd = process.predict(scaler.transform(rows.x_test), return_std=True)
    return _normal(rows, mean, sd)


METHODS: dict[str, uci.Method] = {
    "diglm, Bayesian": bayesian,
    "diglm, exact steps": exactly,
    "diglm, with effects": effects,
    "Bayesian ridge": ridge,
    "Gaussian process": gaussian_process,
}


def _normal(rows: Split, mean: Any, sd: Any) -> dict[str, float]:
    normal: Any = stats.norm(mean, sd)
    return uci.scores(rows.y_test, mean, normal.logpdf(rows.y_test), *normal.interval(0.9))


def runs(config: uci.Config) -> list[Run]:
    """A table each."""
    return uci.table_runs("uci_bayesian", METHODS, config)


REPRODUCE = Study(
    about="UCI tables with Bayesian heads",
    full=uci.Config(tables=TABLES, splits=3),
    small=uci.Config(tables=("yacht",), splits=1),
    runs=runs,
    needs=("uci",),
)
