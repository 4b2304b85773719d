"""The paper's Figure 2: one Bayesian hybrid beside a Gaussian process and a density estimate.

    python -m diglm.experiments.toy_regression

Draws 250 points, x from three normals and y = x^3 with noise that depends on which, and trains one
model of three planar flows with standard normal priors on z and on the weights, through the exact
evidence. Writes results/toy_regression.json and docs/images/toy_regression.png. The claim to check
is the paper's: its predictions are like those of a Gaussian process, its density like a kernel
density estimate, and no x beyond the data is as probable as the least probable row.
"""

import argparse
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

from diglm import HybridRegressor, flows
from diglm.data.toy import toy_regression
from diglm.heads import Bayesian
from diglm.report import new_figure, require_matplotlib
from diglm.report.bands import density_line, predictive_band
from diglm.report.results import write_result


@dataclass(frozen=True)
class Config:
    """Settings; those of the paper where it states them."""

    seed: int = 0
    n_rows: int = 250
    n_planar: int = 3
    prior_precision: float = 1.0  # standard normal, for the standardised target
    generative_weight: float = 1.0  # one column, so the plain joint likelihood
    n_steps: int = 1000
    learning_rate: float = 2e-2
    n_starts: int = 3  # planar layers have poor local optima; the likeliest start is kept
    n_tables: int = 5  # drawn alike, over which coverage is averaged; the first is shown
    n_test: int = 20_000
    grid: tuple[float, float] = (-8.0, 8.0)
    far: float = 60.0  # how far out a probable x is looked for


def train(config: Config, x: np.ndarray, y: np.ndarray) -> HybridRegressor:
    """The likeliest of a few Bayesian hybrids of planar flows."""
    models = []
    for start in range(config.n_starts):
        key = jax.random.key(config.seed + start)
        models.append(
            HybridRegressor(
                flows.planar(1, n_blocks=config.n_planar, key=key),
                head=Bayesian(config.prior_precision, inference="exact"),
                generative_weight=config.generative_weight,
                n_epochs=config.n_steps,
                learning_rate=config.learning_rate,
                validation_fraction=0.0,
                reject="minimum",
                random_state=config.seed,
                verbose=False,
            ).fit(x, y)
        )
    return max(models, key=lambda m: m.log_evidence(x, y) + m.score_samples(x).sum())


def gaussian_process(x: np.ndarray, y: np.ndarray) -> GaussianProcessRegressor:
    """With a squared exponential kernel, its numbers found by the marginal likelihood."""
    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(1.0, (1e-2, 1e3)) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2)
    return process.fit(x, y)


def density_estimate(x: np.ndarray) -> Any:
    """With a squared exponential kernel, its width found by cross-validation."""
    widths = {"bandwidth": np.geomspace(0.05, 2.0, 25)}
    return GridSearchCV(KernelDensity(), widths, cv=10).fit(x).best_estimator_


def measure(config: Config, model: HybridRegressor, process: Any, kde: Any) -> dict[str, Any]:
    """Coverage, likelihoods and what lies beyond the data, on rows that no model has seen."""
    x, _ = toy_regression(config.n_rows, config.seed)
    x_new, y_new = toy_regression(config.n_test, config.seed + 1)
    dist = model.predict_dist(x_new)
    mean, sd = process.predict(x_new, return_std=True)
    inside = np.abs(y_new - mean) < 1.6448536269514722 * sd
    gp_log_py = -0.5 * ((y_new - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    least = float(model.score_samples(x).min())
    # A density is continuous: unless the outermost row is also the least probable one, places just
    # beyond it are as probable. So what is beyond begins a kernel's width away from the rows.
    width = float(kde.bandwidth)
    steps = np.geomspace(1e-3, config.far, 4000)
    distance = np.concatenate([steps, steps])
    places = np.concatenate([x.min() - steps, x.max() + steps])[:, None]
    outside = model.score_samples(places)
    reached = distance[outside >= least]
    beyond = outside[distance > width]
    truth = x_new[:, 0] ** 3
    return {
        "hybrid": {
            "coverage_90": covered(config, model),
            "rmse_to_truth": float(np.sqrt(np.mean((dist.mean - truth) ** 2))),
            "log_py": float(dist.log_prob(y_new).mean()),
            "log_px": float(model.score_samples(x_new).mean()),
            "log_evidence": model.log_evidence(x, toy_regression(config.n_rows, config.seed)[1]),
        },
        "gaussian_process": {
            "coverage_90": float(np.mean(inside)),
            "rmse_to_truth": float(np.sqrt(np.mean((mean - truth) ** 2))),
            "log_py": float(gp_log_py.mean()),
        },
        "kernel_density": {"log_px": float(kde.score(x_new) / len(x_new))},
        "range_of_x": [float(x.min()), float(x.max())],
        "kernel_width": width,
        "least_log_px_of_rows": least,
        "greatest_log_px_beyond": float(beyond.max()),
        "as_probable_beyond": int(np.sum(beyond >= least)),
        "as_probable_within": float(reached.max(initial=0.0)),
    }


def covered(config: Config, model: HybridRegressor) -> float:
    """Share of new targets within their 90 % intervals."""
    x_new, y_new = toy_regression(config.n_test, config.seed + 1)
    low, high = model.predict_dist(x_new).interval(0.9)
    return float(np.mean((low < y_new) & (y_new < high)))


def draw(config: Config, model: HybridRegressor, process: Any, kde: Any, path: Path) -> None:
    """Three panels: the process, the hybrid's predictions, the hybrid's density."""
    x, y = toy_regression(config.n_rows, config.seed)
    places = np.linspace(*config.grid, 400)
    rows = places[:, None]
    figure, (left, middle, right) = new_figure(13.0, 4.2, 3)
    mean, sd = process.predict(rows, return_std=True)
    shared: dict[str, Any] = {"points": (x[:, 0], y), "truth": places**3}
    reach = 1.6448536269514722 * sd
    predictive_band(
        left, places, mean, mean - reach, mean + reach, title="Gaussian process", **shared
    )
    dist = model.predict_dist(rows)
    predictive_band(
        middle, places, dist.mean, *dist.interval(0.9), title="hybrid: p(y|x)", **shared
    )
    for axes in (left, middle):
        axes.set_ylim(-200, 200)
    density_line(
        right,
        places,
        np.exp(model.score_samples(rows)),
        np.exp(kde.score_samples(rows)),
        inside=(float(x.min()), float(x.max())),
        least=float(np.exp(model.score_samples(x).min())),
        names=("the same hybrid: p(x)", "kernel density estimate"),
        title="hybrid: p(x)",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)


def run(config: Config, results: Path, image: Path) -> dict[str, Any]:
    """Train, measure, write and draw; returns what was measured."""
    require_matplotlib()
    started = time.perf_counter()
    x, y = toy_regression(config.n_rows, config.seed)
    model = train(config, x, y)
    process, kde = gaussian_process(x, y), density_estimate(x)
    metrics = measure(config, model, process, kde)
    shares = [metrics["hybrid"]["coverage_90"]]
    for seed in range(config.seed + 2, config.seed + 1 + config.n_tables):
        shares.append(covered(config, train(config, *toy_regression(config.n_rows, seed))))
    metrics["hybrid"]["coverage_90_of_tables"] = shares
    draw(config, model, process, kde, image)
    seconds = time.perf_counter() - started
    write_result(results, config=asdict(config), seed=config.seed, seconds=seconds, metrics=metrics)
    return metrics


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description="Draw the paper's one-dimensional regression.")
    parser.add_argument("--out", type=Path, default=Path("results/toy_regression.json"))
    parser.add_argument("--image", type=Path, default=Path("docs/images/toy_regression.png"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    try:
        metrics = run(Config(seed=given.seed), given.out, given.image)
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, numbers in metrics.items():
        print(f"{name}: {numbers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
