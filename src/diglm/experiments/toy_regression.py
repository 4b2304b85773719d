"""The paper's Figure 2: one Bayesian hybrid beside a Gaussian process and a density estimate.

    diglm reproduce toy_regression --budget full

Draws 250 points, x from three normals and y = x^3 with noise that depends on which, and trains
planar flows with standard normal priors on z and on the weights, through the exact evidence. The
claim to check is the paper's: its predictions are like those of a Gaussian process, its density
like a kernel density estimate, and no x beyond the data is as probable as the least probable row.

In the paper's model one flow serves both. Features linear in y = x^3 crowd the middle third of the
rows together, where normal ones spread them out: so the mean of y is bent in the middle. Like
diglm's tables, the model that is drawn has a density of its own beside the flow that the head
reads; the shared flow is measured as well. Numbers of layers were chosen on seeds 201 to 204.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

from diglm import HybridRegressor, flows
from diglm.bases import Normal
from diglm.bijections import AbstractBijection
from diglm.data.toy import toy_regression
from diglm.experiments.frame import Run, Study, Work
from diglm.flows import Flow
from diglm.heads import Bayesian, NoHead
from diglm.hybrid import Hybrid
from diglm.recipes.base import Material, Sizes
from diglm.recipes.tables import AbstractTableRecipe, as_one
from diglm.report import new_figure, require_matplotlib
from diglm.report.bands import density_line, predictive_band
from diglm.types import Key

FIGURE = "figure_2.png"
REACH_90 = 1.6448536269514722  # standard deviations of a normal


@dataclass(frozen=True)
class Config:
    """Settings; those of the paper where it states them."""

    seed: int = 0
    n_rows: int = 250
    n_planar: int = 3
    n_own: int = 10  # more, for a density of its own
    prior_precision: float = 1.0  # standard normal, for the standardised target
    generative_weight: float = 1.0  # one column, so the plain joint likelihood
    n_steps: int = 1000
    learning_rate: float = 2e-2
    n_starts: int = 3  # planar layers have poor local optima; the likeliest start is kept
    n_tables: int = 5  # drawn alike, over which coverage is averaged; the first is shown
    n_test: int = 20_000
    grid: tuple[float, float] = (-8.0, 8.0)
    far: float = 60.0  # how far out a probable x is looked for


@dataclass
class PlanarSides(AbstractTableRecipe):
    """Planar layers that the head reads and, beside them, others for a density of its own.

    Args:
        start: the seed of the layers.
        n_own: layers of the density's own; 0 for the paper's model, in which one flow does both.
    """

    start: int = 0
    n_own: int = 0
    base: str = "normal"

    def layers(
        self, rows: Float[np.ndarray, "rows dim"], sizes: Sizes, key: Key
    ) -> AbstractBijection:
        return flows.planar(1, n_blocks=as_one(sizes.n_blocks), key=jax.random.key(self.start))

    def density(self, material: Material, sizes: Sizes) -> Hybrid | None:
        if not self.n_own:
            return None
        first, _ = jax.random.split(jax.random.key(self.start))
        return Hybrid(Flow(flows.planar(1, n_blocks=self.n_own, key=first), Normal(1)), NoHead())


def train(config: Config, x: np.ndarray, y: np.ndarray, n_own: int) -> HybridRegressor:
    """The likeliest of a few Bayesian hybrids of planar flows."""
    models = []
    for start in range(config.seed, config.seed + config.n_starts):
        models.append(
            HybridRegressor(
                PlanarSides(start, n_own),
                n_blocks=config.n_planar,
                head=Bayesian(config.prior_precision, inference="exact"),
                # A density of its own leaves nothing for the head's flow to do but the evidence.
                generative_weight=0.0 if n_own else config.generative_weight,
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


def of_hybrid(config: Config, model: HybridRegressor) -> dict[str, Any]:
    """How near a hybrid comes to the truth, and its likelihoods, on rows that it has not seen."""
    x_new, y_new = toy_regression(config.n_test, config.seed + 1)
    dist = model.predict_dist(x_new)
    return {
        "coverage_90": covered(config, model),
        "rmse_to_truth": float(np.sqrt(np.mean((dist.mean - x_new[:, 0] ** 3) ** 2))),
        "log_py": float(dist.log_prob(y_new).mean()),
        "log_px": float(model.score_samples(x_new).mean()),
        "log_evidence": model.log_evidence(*toy_regression(config.n_rows, config.seed)),
    }


def of_process(config: Config, process: Any) -> dict[str, float]:
    """The same of a Gaussian process."""
    x_new, y_new = toy_regression(config.n_test, config.seed + 1)
    mean, sd = process.predict(x_new, return_std=True)
    log_py = -0.5 * ((y_new - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    return {
        "coverage_90": float(np.mean(np.abs(y_new - mean) < REACH_90 * sd)),
        "rmse_to_truth": float(np.sqrt(np.mean((mean - x_new[:, 0] ** 3) ** 2))),
        "log_py": float(log_py.mean()),
    }


def beyond(config: Config, model: HybridRegressor, kde: Any) -> dict[str, Any]:
    """What is as probable as a row, beyond them.

    A density is continuous: unless the outermost row is also the least probable one, places just
    beyond it are as probable. So what is beyond begins a kernel's width away from the rows.
    """
    x, _ = toy_regression(config.n_rows, config.seed)
    least, width = float(model.score_samples(x).min()), float(kde.bandwidth)
    steps = np.geomspace(1e-3, config.far, 4000)
    distance = np.concatenate([steps, steps])
    places = np.concatenate([x.min() - steps, x.max() + steps])[:, None]
    outside = model.score_samples(places)
    farther = outside[distance > width]
    return {
        "range_of_x": [float(x.min()), float(x.max())],
        "kernel_width": width,
        "least_log_px_of_rows": least,
        "greatest_log_px_beyond": float(farther.max()),
        "as_probable_beyond": int(np.sum(farther >= least)),
        "as_probable_within": float(distance[outside >= least].max(initial=0.0)),
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
    reach = REACH_90 * sd
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


def runs(config: Config) -> list[Run]:
    """One, which draws the figure."""

    def measure(work: Work) -> dict[str, Any]:
        require_matplotlib()
        x, y = toy_regression(config.n_rows, config.seed)
        model = train(config, x, y, config.n_own)
        process, kde = gaussian_process(x, y), density_estimate(x)
        draw(config, model, process, kde, work.figure(FIGURE))
        x_new, _ = toy_regression(config.n_test, config.seed + 1)
        hybrid = of_hybrid(config, model)
        others = range(config.seed + 2, config.seed + 1 + config.n_tables)
        hybrid["coverage_90_of_tables"] = [hybrid["coverage_90"]] + [
            covered(config, train(config, *toy_regression(config.n_rows, seed), config.n_own))
            for seed in others
        ]
        return {
            "hybrid": hybrid,
            "shared_flow": of_hybrid(config, train(config, x, y, 0)),
            "gaussian_process": of_process(config, process),
            "kernel_density": {"log_px": float(kde.score(x_new) / len(x_new))},
        } | beyond(config, model, kde)

    return [Run("toy_regression", vars(config), measure, config.seed, (FIGURE,))]


REPRODUCE = Study(
    about="the paper's one-dimensional regression",
    full=Config(),
    small=Config(n_steps=400, n_starts=1, n_tables=1, n_test=5_000),
    runs=runs,
    shows=("Figure 2",),
)
