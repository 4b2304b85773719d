"""Rows from elsewhere: covariate shift weighed by two densities, label shift by EM.

    diglm reproduce shift --budget full

*Inputs.* Rows lie on a curved band; along it the new place is narrower and lies farther out, by a
shift that is known, so the right weights are known too. A straight line, which is wrong everywhere,
is fitted to old rows and judged on new ones: unweighted, weighted by two densities that were
learned at their defaults, and by the true ratio; and beside it a regressor at its defaults, which
bends.

*Labels.* A classifier of digits is used where digits have other frequencies, drawn anew each time.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from diglm import HybridClassifier, HybridDensity, HybridRegressor, adapt
from diglm.experiments.frame import Run, Study, Work

NEW_SD = 0.7


@dataclass(frozen=True)
class Config:
    """How far rows move, and how often."""

    shifts: tuple[float, ...] = (0.5, 1.0, 2.0)
    n_rows: int = 1_000
    n_test: int = 5_000
    bends: bool = True  # whether the regressor at its defaults is fitted as well
    first_seed: int = 0
    n_seeds: int = 3
    n_places: int = 20
    n_new: int = 400  # digits at each place
    concentration: float = 1.0  # of the Dirichlet distribution of their frequencies


def band(
    n: int, centre: float, sd: float, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "rows 2"], Float[np.ndarray, " rows"]]:
    """Rows about a parabola, and what is to be predicted."""
    along = rng.normal(centre, sd, n)
    X = np.stack([along, 0.5 * along**2 + 0.5 * rng.normal(size=n)], axis=1)
    return X, np.sin(1.5 * along) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)


def off(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Root of the mean squared error."""
    return float(np.sqrt(np.mean((np.asarray(model.predict(X)) - y) ** 2)))


def inputs(config: Config, shift: float, seed: int) -> dict[str, float]:
    """Errors on new rows of models that were fitted to old ones."""
    rng = np.random.default_rng([seed, int(1000 * shift)])
    X, y = band(config.n_rows, 0.0, 1.0, rng)
    X_new, _ = band(config.n_rows, shift, NEW_SD, rng)
    X_test, y_test = band(config.n_test, shift, NEW_SD, rng)
    old, new = (HybridDensity(random_state=seed, verbose=False).fit(rows) for rows in (X, X_new))
    found = adapt.covariate_weights(old, new, X)
    log_ratios = stats.norm.logpdf(X[:, 0], shift, NEW_SD) - stats.norm.logpdf(X[:, 0])
    true = np.exp(log_ratios)
    told = {
        "learned_share": found.effective_rows / len(X),
        "true_share": adapt.effective_rows(true) / len(X),
        "correlation": rank_correlation(found.log_ratios, log_ratios),
        "uncovered": float(np.mean(old.rejects(X_new))),
        "line": off(LinearRegression().fit(X, y), X_test, y_test),
        "line_learned": off(LinearRegression().fit(X, y, found.weights), X_test, y_test),
        "line_true": off(LinearRegression().fit(X, y, true), X_test, y_test),
        "line_new": off(LinearRegression().fit(*band(config.n_rows, shift, NEW_SD, rng)),
                        X_test, y_test),
    }  # fmt: skip
    if config.bends:
        for name, weights in {"bends": None, "bends_learned": found.weights}.items():
            model = HybridRegressor(random_state=seed, verbose=False)
            told[name] = off(model.fit(X, y, sample_weight=weights), X_test, y_test)
    return told


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's."""
    return float(np.corrcoef(stats.rankdata(a), stats.rankdata(b))[0, 1])


def labels(config: Config, seed: int) -> list[dict[str, float]]:
    """What is found at places where digits have other frequencies, by one classifier."""
    X, y = load_digits(return_X_y=True)
    X_train, X_rest, y_train, y_rest = train_test_split(
        X, y, train_size=0.5, random_state=seed, stratify=y
    )
    model = HybridClassifier("linear", random_state=seed, verbose=False).fit(X_train, y_train)
    rng, told = np.random.default_rng(seed), []
    for _ in range(config.n_places):
        wanted = rng.dirichlet(np.full(10, config.concentration))
        classes = rng.choice(10, config.n_new, p=wanted)
        picked = np.array([rng.choice(np.flatnonzero(y_rest == c)) for c in classes])
        true = np.bincount(classes, minlength=10) / config.n_new
        adapted, shift = model.adapt_labels(X_rest[picked])
        off_by = np.abs(shift.frequencies - wanted)
        guessed = np.bincount(model.predict(X_rest[picked]).astype(int), minlength=10)
        told.append(
            {
                "off": float(np.sum(np.abs(shift.frequencies - true)) / 2),
                "counted_off": float(np.sum(np.abs(guessed / config.n_new - true)) / 2),
                "moved": float(np.sum(np.abs(true - 0.1)) / 2),
                "within_two_errors": float(np.mean(off_by < 2 * shift.standard_errors)),
                "accuracy": float(model.score(X_rest[picked], classes)),
                "accuracy_adapted": float(adapted.score(X_rest[picked], classes)),
                "nll": _nll(model, X_rest[picked], classes),
                "nll_adapted": _nll(adapted, X_rest[picked], classes),
            }
        )
    return told


def _nll(model: HybridClassifier, X: np.ndarray, y: np.ndarray) -> float:
    return -float(np.mean(model.predict_log_proba(X)[np.arange(len(y)), y]))


def runs(config: Config) -> list[Run]:
    """One, in which each shift of each seed is a step."""

    def measure(work: Work) -> dict[str, Any]:
        seeds = range(config.first_seed, config.first_seed + config.n_seeds)
        moved: dict[str, list[dict[str, float]]] = {}
        for shift in config.shifts:
            for seed in seeds:
                compute = functools.partial(inputs, config, shift, seed)
                moved.setdefault(str(shift), []).append(
                    work.step(f"inputs, {shift}, {seed}", compute)
                )
            work.say(shift, moved[str(shift)][-1])
        places = []
        for seed in seeds:
            places += work.step(f"labels, {seed}", functools.partial(labels, config, seed))
        return {"inputs": moved, "labels": places}

    return [Run("shift", vars(config), measure, seed=config.first_seed)]


REPRODUCE = Study(
    about="rows from elsewhere: covariate and label shift",
    full=Config(),
    small=Config((1.0,), n_rows=500, bends=False, n_seeds=1, n_places=5),
    runs=runs,
)
