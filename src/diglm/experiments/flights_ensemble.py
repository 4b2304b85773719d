"""A deep ensemble as a baseline of the flight-delay study.

Reference: Lakshminarayanan, Pritzel and Blundell (2017), https://arxiv.org/abs/1612.01474
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from diglm.experiments.flights_metrics import GaussianMixture
from diglm.experiments.flights_protocol import Fitted, Progress
from diglm.networks import MLP
from diglm.types import Key, Scalar, split_key


@dataclass(frozen=True)
class Ensemble:
    """Settings of the ensemble. Batches are drawn with replacement, each member its own."""

    n_members: int = 5
    width: int = 100
    depth: int = 2
    batch_size: int = 1000
    n_steps: int = 20_000
    learning_rate: float = 1e-3
    clip: float = 1.0  # of the gradient's norm: delays of a day and more occur
    least_variance: float = 1e-4  # in units of the variance of y


def ensemble(
    x_train: np.ndarray,
    y_train: np.ndarray,
    x_test: np.ndarray,
    seed: int,
    progress: Progress,
    settings: Ensemble | None = None,
) -> Iterator[Fitted]:
    """`ensemble`: networks with outputs m(x) and v(x), trained apart, mixed with equal weights."""
    settings = settings or Ensemble()
    started = time.perf_counter()
    progress(f"training {settings.n_members} networks for {settings.n_steps:,} steps")
    centre, unit = np.mean(y_train), np.std(y_train)
    x_centre, x_unit = np.mean(x_train, axis=0), np.std(x_train, axis=0)
    x_unit = np.where(x_unit > 0, x_unit, 1.0)
    xs, x_new = (jnp.asarray((x - x_centre) / x_unit, float) for x in (x_train, x_test))
    key_build, key_train = split_key(jax.random.key(seed), 2)
    members = [
        MLP(xs.shape[1], 2, settings.width, settings.depth, activation="relu", key=key)
        for key in split_key(key_build, settings.n_members)
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    keys = jax.random.split(key_train, settings.n_members)
    stacked = _train(stacked, xs, jnp.asarray((y_train - centre) / unit, float), keys, settings)
    means, variances = _predict(stacked, x_new, settings.least_variance)
    predictive = GaussianMixture(
        centre + unit * np.asarray(means, np.float64),
        unit * np.sqrt(np.asarray(variances, np.float64)),
    )
    yield Fitted("ensemble", predictive, time.perf_counter() - started, asdict(settings))


@eqx.filter_jit
def _train(
    stacked: MLP,
    xs: Float[Array, "rows dim"],
    ys: Float[Array, " rows"],
    keys: Array,
    settings: Ensemble,
) -> MLP:
    optimiser = optax.chain(
        optax.clip_by_global_norm(settings.clip),
        optax.adam(optax.cosine_decay_schedule(settings.learning_rate, settings.n_steps)),
    )

    def loss(member: MLP, rows: Array) -> Scalar:
        mean, variance = jax.vmap(lambda x: _moments(member, x, settings.least_variance))(xs[rows])
        return 0.5 * jnp.mean(jnp.log(variance) + (ys[rows] - mean) ** 2 / variance)

    def step(carry, key: Key):
        member, state = carry
        rows = jax.random.randint(key, (settings.batch_size,), 0, len(ys))
        gradient = eqx.filter_grad(loss)(member, rows)
        with jax.numpy_dtype_promotion("standard"):  # Adam raises a float to a whole number
            updates, state = optimiser.update(gradient, state)
        return (eqx.apply_updates(member, updates), state), None

    def train_one(member: MLP, key: Key) -> MLP:
        start = member, optimiser.init(eqx.filter(member, eqx.is_array))
        (member, _), _ = jax.lax.scan(step, start, jax.random.split(key, settings.n_steps))
        return member

    return eqx.filter_vmap(train_one)(stacked, keys)


@eqx.filter_jit
def _predict(
    stacked: MLP, xs: Float[Array, "rows dim"], least_variance: float
) -> tuple[Float[Array, "members rows"], Float[Array, "members rows"]]:
    def one(member: MLP) -> tuple[Array, Array]:
        return jax.vmap(lambda x: _moments(member, x, least_variance))(xs)

    return eqx.filter_vmap(one)(stacked)


def _moments(member: MLP, x: Array, least_variance: float) -> tuple[Scalar, Scalar]:
    mean, raw = member(x)
    return mean, jax.nn.softplus(raw) + least_variance
