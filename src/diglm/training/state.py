"""What training changes, and how one step changes it: guard, Adam, average, the best so far."""

from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from diglm.training.settings import Schedule
from diglm.types import Scalar, partition

# Module-level, so that every fit of one shape shares one compiled epoch.
ADAM = optax.scale_by_adam(b1=0.9, b2=0.99)


class State(eqx.Module):
    """Everything that training changes. All arrays: it is donated, saved and restored whole."""

    weights: Float[Array, " n"]
    average: Float[Array, " n"]
    best: Float[Array, " n"]
    fixed: Any
    best_fixed: Any
    moments: Any
    step: Scalar
    skipped: Int[Array, ""]
    bad_run: Int[Array, ""]
    best_loss: Scalar
    epochs_since_best: Int[Array, ""]

    @classmethod
    def start(cls, model: Any) -> "State":
        """The state of a model before its first step."""
        trainable, fixed = partition(model)
        weights, _ = ravel_pytree(trainable)
        if weights.size == 0:
            raise ValueError("The model has no trainable numbers, so there is nothing to fit.")
        arrays = eqx.filter(fixed, eqx.is_array)
        zero = jnp.zeros((), jnp.int32)
        # Copies: the state's buffers are donated, and no two may be the same.
        return cls(
            weights=jnp.array(weights),
            average=jnp.array(weights),
            best=jnp.array(weights),
            fixed=jax.tree.map(jnp.array, arrays),
            best_fixed=jax.tree.map(jnp.array, arrays),
            moments=ADAM.init(weights),
            step=jnp.zeros((), weights.dtype),
            skipped=zero,
            bad_run=jnp.array(zero),
            best_loss=jnp.asarray(jnp.inf, weights.dtype),
            epochs_since_best=jnp.array(zero),
        )


def restore(model: Any, weights: Float[Array, " n"], fixed: Any) -> Any:
    """The model with these flat weights and fixed arrays in place of its own."""
    trainable, own_fixed = partition(model)
    _, unravel = ravel_pytree(trainable)
    return eqx.combine(unravel(weights), fixed, eqx.filter(own_fixed, eqx.is_array, inverse=True))


def shares_of(model: Any, head_rate: float) -> Float[Array, " n"] | None:
    """The share of the rate at which each weight learns: `head_rate` for the head's, else one."""
    if head_rate == 1.0:
        return None
    trainable = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), partition(model)[0])
    slower = jax.tree.map(lambda ones: head_rate * ones, trainable.head)
    return ravel_pytree(eqx.tree_at(lambda m: m.head, trainable, slower))[0]


def advance(
    state: State,
    schedule: Schedule,
    loss: Scalar,
    gradient: Float[Array, " n"],
    fixed: Any,
    shares: Float[Array, " n"] | None = None,
) -> tuple[State, Bool[Array, ""]]:
    """One Adam step from a clipped gradient; a non-finite one leaves the state as it was."""
    norm = jnp.sqrt(jnp.sum(jnp.square(gradient)))
    good = jnp.isfinite(loss) & jnp.isfinite(norm)
    shrink = jnp.minimum(1.0, schedule.clip / jnp.maximum(norm, 1e-12))
    gradient = jnp.where(good, gradient * shrink, 0.0)
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes its count with floats
        direction, moments = ADAM.update(gradient, state.moments)
    rate = schedule.rate_at(state.step)
    step = cast(Array, direction) + schedule.weight_decay * state.weights
    weights = state.weights - rate * (step if shares is None else shares * step)
    decay = schedule.averaging_at(state.step)
    average = decay * state.average + (1 - decay) * weights

    def choose(new, old):
        return jnp.where(good, new, old)

    state = eqx.tree_at(
        lambda s: (s.weights, s.average, s.fixed, s.moments, s.step, s.skipped, s.bad_run),
        state,
        (
            choose(weights, state.weights),
            choose(average, state.average),
            jax.tree.map(choose, fixed, state.fixed),
            jax.tree.map(choose, moments, state.moments),
            state.step + 1,  # a skipped step still moves along the schedule
            state.skipped + jnp.where(good, 0, 1).astype(state.skipped.dtype),
            jnp.where(good, 0, state.bad_run + 1).astype(state.bad_run.dtype),
        ),
    )
    return state, good


def keep_best(state: State, loss: Scalar, *, always: bool) -> State:
    """The state with its average as the best weights if the loss is the least yet, or `always`."""
    better = jnp.isfinite(loss) & ((loss < state.best_loss) | always)

    def choose(new, old):
        return jnp.where(better, new, old)

    since = jnp.where(better, 0, state.epochs_since_best + 1)
    return eqx.tree_at(
        lambda s: (s.best, s.best_fixed, s.best_loss, s.epochs_since_best),
        state,
        (
            choose(state.average, state.best),
            jax.tree.map(choose, state.fixed, state.best_fixed),
            choose(loss, state.best_loss),
            since.astype(state.epochs_since_best.dtype),
        ),
    )
