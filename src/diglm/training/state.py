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
from diglm.types import Scalar, partition, placed

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
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(trainable)]
        if sum(leaf.size for leaf in leaves) == 0:
            raise ValueError("The model has no trainable numbers, so there is nothing to fit.")
        # In NumPy: JAX would compile a program for each leaf. Copies, because the state's buffers
        # are donated, and no two may be the same.
        weights = np.concatenate([np.ravel(leaf) for leaf in leaves])
        arrays = eqx.filter(fixed, eqx.is_array)

        def copied(array: Any) -> Array:
            return placed(np.array(array))

        def zero(like: Any) -> Array:
            return placed(np.zeros(like.shape, like.dtype))

        count = np.zeros((), np.int32)
        return cls(
            weights=copied(weights),
            average=copied(weights),
            best=copied(weights),
            fixed=jax.tree.map(copied, arrays),
            best_fixed=jax.tree.map(copied, arrays),
            moments=jax.tree.map(zero, jax.eval_shape(ADAM.init, weights)),
            step=placed(np.zeros((), weights.dtype)),
            skipped=copied(count),
            bad_run=copied(count),
            best_loss=placed(np.full((), np.inf, weights.dtype)),
            epochs_since_best=copied(count),
        )


def restore(model: Any, weights: Float[Array, " n"], fixed: Any) -> Any:
    """The model with these flat weights and fixed arrays in place of its own."""
    trainable, own_fixed = partition(model)
    _, unravel = ravel_pytree(trainable)
    return eqx.combine(unravel(weights), fixed, eqx.filter(own_fixed, eqx.is_array, inverse=True))


def finished(model: Any, weights: Float[Array, " n"], fixed: Any) -> Any:
    """What `restore` gives, outside compiled code and without compiling anything."""
    trainable, own_fixed = partition(model)
    leaves, structure = jax.tree.flatten(trainable)
    parts = np.split(np.asarray(weights), np.cumsum([leaf.size for leaf in leaves])[:-1])
    placed_parts = [
        placed(part.reshape(leaf.shape)) for part, leaf in zip(parts, leaves, strict=True)
    ]
    own = jax.tree.unflatten(structure, placed_parts)
    return eqx.combine(own, fixed, eqx.filter(own_fixed, eqx.is_array, inverse=True))


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
