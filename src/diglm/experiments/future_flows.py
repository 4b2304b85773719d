"""What the paper leaves for the future: other flows and the Wasserstein distance.

    diglm reproduce future_flows --budget full

Half moons, whose density is known; scikit-learn's handwritten digits as rows of 64 numbers; and one
UCI table. Every model but the last is the paper's: one network, whose features the head
reads and the density is of, at weight one, for as many epochs as all the others and else at the
library's defaults. The last is the library's own default, with a density of its own and several
networks. Where log-determinants are estimated (64 columns), the standard error of log p(x) is that
of the model's own telling. Seconds are those of the processor, in all threads together.
"""

import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp
from sklearn.datasets import load_digits, make_moons

from diglm import HybridClassifier, HybridRegressor
from diglm.data.downloads import Split
from diglm.experiments.frame import Run, Study, Work
from diglm.experiments.frame.stand_ins import uci_split
from diglm.recipes import ContinuousFlow, CouplingFlow, ResidualFlow

NOISE = 0.1
N_TO_TEST = 2_000  # half moons
DIGITS_TO_LEARN = 1_400
METHODS: dict[str, Callable[[], dict[str, Any]]] = {
    "couplings": lambda: {"flow": CouplingFlow(tail=0)},
    "couplings, Wasserstein term": lambda: {
        "flow": CouplingFlow(tail=0),
        "terms": {"wasserstein": 1.0},
    },
    "continuous": lambda: {"flow": ContinuousFlow()},
    "residual": lambda: {"flow": ResidualFlow()},
    "the default": dict,
}


@dataclass(frozen=True)
class Config:
    """How many rows and epochs, on how many seeds."""

    n_rows: int = 1_000  # half moons
    digits: int = DIGITS_TO_LEARN
    table: str = "concrete"
    moons_epochs: int = 100
    digits_epochs: int = 25
    table_epochs: int = 50
    n_seeds: int = 1
    first_seed: int = 0
    embedded: tuple[str, ...] = ()


def log_density_of_moons(x: Float[np.ndarray, "rows 2"]) -> Float[np.ndarray, " rows"]:
    """What make_moons draws from: points spread evenly over two half circles, and normal noise."""
    t = math.pi * (np.arange(1_000) + 0.5) / 1_000
    outer = np.stack([np.cos(t), np.sin(t)], axis=1)
    centres = np.concatenate([outer, [1.0, 0.5] - outer])
    squares = np.sum((x[:, None] - centres) ** 2, axis=2)
    normal = -0.5 * squares / NOISE**2 - math.log(2 * math.pi * NOISE**2)
    return np.asarray(logsumexp(normal, axis=1)) - math.log(len(centres))


def moons(config: Config, seed: int) -> Split:
    """Points to learn from, and others."""
    told = make_moons(config.n_rows, noise=NOISE, random_state=seed)
    asked = make_moons(N_TO_TEST, noise=NOISE, random_state=10_000 + seed)
    return Split(*map(np.asarray, (*told, *asked)))


def digits(config: Config, seed: int) -> Split:
    """Images as rows, dealt at random; a pixel of value k is spread evenly over [k, k + 1)."""
    x, y = map(np.asarray, load_digits(return_X_y=True))
    rng = np.random.default_rng(seed)
    order, x = rng.permutation(len(x)), x + rng.random(x.shape)
    learn, test = order[: config.digits], order[DIGITS_TO_LEARN:]
    return Split(x[learn], y[learn], x[test], y[test])


def table(config: Config, seed: int) -> Split:
    """A published split of a UCI table."""
    return uci_split(config.table, seed, "uci" in config.embedded)


def classified(model: HybridClassifier, rows: Split) -> dict[str, float]:
    """NLL and error of classes."""
    log_p = model.predict_log_proba(rows.x_test)
    places = np.searchsorted(model.classes_, rows.y_test)
    wrong = model.predict(rows.x_test) != rows.y_test
    nll = -np.mean(log_p[np.arange(len(places)), places])
    return {"nll": float(nll), "error": float(np.mean(wrong))}


def of_moons(model: HybridClassifier, rows: Split, log_px: np.ndarray) -> dict[str, float]:
    """KL divergence of the model from the truth, in nats, with its standard error."""
    gaps = log_density_of_moons(rows.x_test) - log_px
    error = np.std(gaps) / math.sqrt(len(gaps))
    return classified(model, rows) | {"kl": float(np.mean(gaps)), "kl_error": float(error)}


def of_digits(model: HybridClassifier, rows: Split, log_px: np.ndarray) -> dict[str, float]:
    """Bits a pixel, an upper bound of those of the whole numbers on average over the noise."""
    bits = -float(np.mean(log_px)) / (rows.x_test.shape[1] * math.log(2))
    return classified(model, rows) | {"bits_per_dimension": bits}


def of_table(model: HybridRegressor, rows: Split, log_px: np.ndarray) -> dict[str, float]:
    """NLL and RMSE of numbers."""
    found = model.predict_dist(rows.x_test)
    off = np.sqrt(np.mean((found.mean - rows.y_test) ** 2))
    return {"nll": float(-np.mean(found.log_prob(rows.y_test))), "rmse": float(off)}


# Where rows come from, what learns from them, and what is measured besides log p(x).
DATA: dict[str, tuple[Callable[[Config, int], Split], Any, Callable[..., dict[str, float]]]] = {
    "moons": (moons, HybridClassifier, of_moons),
    "digits": (digits, HybridClassifier, of_digits),
    "table": (table, HybridRegressor, of_table),
}


def measured(config: Config, data: str, method: str, seed: int) -> dict[str, float]:
    """A model's numbers on rows that it has not seen."""
    rows_of, estimator, told = DATA[data]
    rows = rows_of(config, seed)
    asked = METHODS[method]()
    n_epochs = getattr(config, f"{data}_epochs")
    model = estimator(**asked, n_epochs=n_epochs, random_state=seed, verbose=False)
    since = time.process_time()
    model.fit(rows.x_train, rows.y_train)
    seconds = time.process_time() - since
    log_px, error = model.score_samples(rows.x_test, return_std=True)
    common = {
        "log_px": float(np.mean(log_px)),
        "log_px_error": float(np.mean(error)),  # of a row
        "seconds": seconds,
    }
    return told(model, rows, log_px) | common


def runs(config: Config) -> list[Run]:
    """One for each data set, in which each model and seed is a step."""

    def of_data(data: str) -> Run:
        def measure(work: Work) -> dict[str, dict[str, list[float]]]:
            found: dict[str, dict[str, list[float]]] = {name: {} for name in METHODS}
            for seed in range(config.first_seed, config.first_seed + config.n_seeds):
                for method, kept in found.items():
                    compute = functools.partial(measured, config, data, method, seed)
                    told = work.step(f"{seed} {method}", compute)
                    work.say(data, seed, method, {k: round(v, 3) for k, v in told.items()})
                    for name, value in told.items():
                        kept.setdefault(name, []).append(value)
            return found

        return Run(f"future_flows/{data}", about[data], measure, seed=config.first_seed)

    embedded = {"embedded": config.embedded} if config.embedded else {}
    about = {
        "moons": {"n_rows": config.n_rows, "moons_epochs": config.moons_epochs},
        "digits": {"digits": config.digits, "digits_epochs": config.digits_epochs},
        "table": {"table": config.table, "table_epochs": config.table_epochs} | embedded,
    }
    about = {data: {"n_seeds": config.n_seeds} | own for data, own in about.items()}
    return [of_data(data) for data in DATA]


REPRODUCE = Study(
    about="flows and a distance that the paper leaves for the future",
    full=Config(),
    # With fewer steps no flow of digits is better than what it starts from.
    small=Config(
        n_rows=300,
        digits=600,
        table="yacht",
        moons_epochs=10,
        digits_epochs=12,
        table_epochs=10,
    ),
    runs=runs,
    needs=("uci",),
)
