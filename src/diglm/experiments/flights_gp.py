"""A sparse variational Gaussian process as a baseline of the flight-delay study, by GPJax.

Reference: Hensman, Fusi and Lawrence (2013), https://arxiv.org/abs/1309.6835
"""

import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.cluster import MiniBatchKMeans

from diglm.experiments.flights_metrics import Gaussian
from diglm.experiments.flights_protocol import Fitted, Progress, require


@dataclass(frozen=True)
class GaussianProcess:
    """Settings of the sparse Gaussian process with a squared-exponential kernel."""

    n_inducing: int = 500  # centres of k-means, then trained
    batch_size: int = 1024
    n_steps: int = 2_000
    learning_rate: float = 0.02
    jitter: float = 1e-4  # keeps single-precision Cholesky factors of the kernel finite
    n_clustered: int = 20_000  # rows the inducing points are clustered from


def gaussian_process(
    x_train: np.ndarray,
    y_train: np.ndarray,
    x_test: np.ndarray,
    seed: int,
    progress: Progress,
    settings: GaussianProcess | None = None,
) -> Iterator[Fitted]:
    """`svgp`: one length scale a column and one noise variance, by the stochastic bound."""
    settings = settings or GaussianProcess()
    started = time.perf_counter()
    progress(f"training {settings.n_inducing} inducing points for {settings.n_steps:,} steps")
    centre, unit = np.mean(y_train), np.std(y_train)
    x_centre, x_unit = np.mean(x_train, axis=0), np.std(x_train, axis=0)
    x_unit = np.where(x_unit > 0, x_unit, 1.0)
    xs, x_new = ((x - x_centre) / x_unit for x in (x_train, x_test))
    chosen = np.random.default_rng(seed).permutation(len(xs))[: settings.n_clustered]
    clusters = MiniBatchKMeans(
        min(settings.n_inducing, len(chosen)), random_state=seed, batch_size=4096
    ).fit(xs[chosen])
    inducing = np.asarray(clusters.cluster_centers_)
    # GPJax was written for JAX's ordinary promotion rules, and asks for double precision.
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message=".*is not of type float64", category=UserWarning)
        mean, variance = _fit_and_predict(
            xs, (y_train - centre) / unit, x_new, inducing, seed, settings
        )
    predictive = Gaussian(centre + unit * mean, unit * np.sqrt(variance))
    yield Fitted("svgp", predictive, time.perf_counter() - started, asdict(settings))


def _fit_and_predict(
    xs: np.ndarray,
    ys: np.ndarray,
    x_new: np.ndarray,
    inducing: np.ndarray,
    seed: int,
    settings: GaussianProcess,
) -> tuple[np.ndarray, np.ndarray]:
    gpjax = require("gpjax", "The baseline 'svgp'", extra="study")
    dim = xs.shape[1]
    kernel = gpjax.kernels.RBF(
        active_dims=list(range(dim)),
        lengthscale=jnp.full(dim, np.sqrt(dim), float),
        compute_engine=_matrix_product_engine(gpjax),
    )
    prior = gpjax.gps.Prior(
        mean_function=gpjax.mean_functions.Constant(), kernel=kernel, jitter=settings.jitter
    )
    family = gpjax.variational_families.WhitenedVariationalGaussian(
        model=prior * gpjax.likelihoods.Gaussian(obs_stddev=jnp.asarray(1.0, float)),
        inducing_inputs=jnp.asarray(inducing, float),
    )
    family, bounds = gpjax.fit(
        model=family,
        objective=lambda q, rows: -gpjax.objectives.elbo(q, rows) / rows.full_size,
        train_data=gpjax.Dataset(X=jnp.asarray(xs, float), y=jnp.asarray(ys[:, None], float)),
        optim=optax.adam(optax.cosine_decay_schedule(settings.learning_rate, settings.n_steps)),
        key=jax.random.key(seed),
        num_iters=settings.n_steps,
        batch_size=settings.batch_size,
        verbose=False,
    )
    if not bool(jnp.isfinite(bounds[-1])):
        raise FloatingPointError(
            f"The variational bound is not finite after {settings.n_steps} steps; "
            "use a larger jitter or a smaller learning_rate."
        )

    @eqx.filter_jit
    def moments(family, rows):
        latent = family.condition(None)(rows, covariance="diagonal")
        noise = gpjax.parameters.val(family.model.likelihood.obs_stddev) ** 2
        return latent.mean, latent.variance + noise

    blocks = np.array_split(x_new, max(1, len(x_new) // 10_000))
    parts = [moments(family, jnp.asarray(rows, float)) for rows in blocks]
    mean, variance = (np.concatenate(part).astype(np.float64) for part in zip(*parts, strict=True))
    return mean, variance


def _matrix_product_engine(gpjax: Any) -> Any:
    r"""GPJax's kernel matrices by $|a - b|^2 = |a|^2 + |b|^2 - 2 a^T b$.

    The package's own engine forms every difference of two rows, and their gradients, which took
    most of the time of a step.
    """

    class MatrixProductComputation(gpjax.kernels.computations.DenseKernelComputation):
        def _cross_covariance(self, kernel, x, y):
            scale = gpjax.parameters.val(kernel.lengthscale)
            x, y = x / scale, y / scale
            squares = jnp.sum(x**2, 1)[:, None] + jnp.sum(y**2, 1)[None, :] - 2.0 * x @ y.T
            variance = gpjax.parameters.val(kernel.variance)
            return variance * jnp.exp(-0.5 * jnp.maximum(squares, 0.0))

    return MatrixProductComputation()
