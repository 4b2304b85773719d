"""One epoch as one compiled loop: gradient, guard against non-finite steps, Adam, average."""

from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from diglm.objectives.joint import JointObjective, Terms
from diglm.training.settings import Schedule
from diglm.types import Batch, Key, Scalar, partition

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


def validation_terms(
    model: Any, objective: JointObjective, rows: Batch, offsets: Float[Array, "n dim"] | None
) -> Terms:
    """The objective as users will see it: frozen statistics, centres for y, fixed offsets for x."""

    def one(x):
        outputs = model(x)
        if model.completion is None:
            return outputs.log_px, outputs.response
        return model.log_mass(x, offsets), outputs.response

    log_px, response = jax.lax.map(one, rows.x, batch_size=min(256, rows.x.shape[0]))
    return objective.terms(log_px, response, rows)


@eqx.filter_jit(donate="all-except-first")
def run_epoch(
    shared: tuple[Any, JointObjective, Batch, Batch | None, Schedule, Float[Array, "n dim"] | None],
    state: State,
    order: Int[Array, " slots"],
    n_steps: Int[Array, ""],
    batch_size: int,
    key: Key,
) -> tuple[State, Terms, Terms | None]:
    """All steps of an epoch, then the validation objective; returns the mean training terms.

    `order` holds row numbers, `batch_size` a step, of which the first `n_steps` batches are used;
    the number of steps is not part of the program, so tables of similar size share it.
    """
    model, objective, rows, validation, schedule, offsets = shared

    def one_step(i: Array, carry: tuple[State, Terms]) -> tuple[State, Terms]:
        state, sums = carry
        picked = jax.lax.dynamic_slice_in_dim(order, i * batch_size, batch_size)
        batch = jax.tree.map(lambda column: column[picked], rows)
        key_step = jax.random.fold_in(key, i)

        def loss_of(weights):
            current = restore(model, weights, state.fixed)
            loss, (terms, moved) = objective(
                current, batch, key=key_step, emphasis=schedule.emphasis_at(state.step)
            )
            moved_fixed = eqx.filter(partition(moved)[1], eqx.is_array)
            return loss, (terms, jax.lax.stop_gradient(moved_fixed))

        (loss, (terms, fixed)), gradient = jax.value_and_grad(loss_of, has_aux=True)(state.weights)
        state = _advance(state, schedule, loss, gradient, fixed)
        good = jnp.isfinite(loss)
        sums = jax.tree.map(lambda total, term: total + jnp.where(good, term, 0.0), sums, terms)
        return state, sums

    zero = jnp.zeros((), state.weights.dtype)
    before = state.skipped
    state, sums = jax.lax.fori_loop(0, n_steps, one_step, (state, Terms(zero, zero, zero, zero)))
    counted = (n_steps - (state.skipped - before)).astype(zero.dtype)
    means = jax.tree.map(lambda total: total / counted, sums)  # NaN when no step was good
    if validation is None:
        return _keep_best(state, means.loss, always=True), means, None
    current = restore(model, state.average, state.fixed)
    checked = validation_terms(current, objective, validation, offsets)
    return _keep_best(state, checked.loss, always=False), means, checked


def _advance(
    state: State, schedule: Schedule, loss: Scalar, gradient: Float[Array, " n"], fixed: Any
) -> State:
    """One Adam step from a clipped gradient; a non-finite one leaves the state as it was."""
    norm = jnp.sqrt(jnp.sum(jnp.square(gradient)))
    good = jnp.isfinite(loss) & jnp.isfinite(norm)
    shrink = jnp.minimum(1.0, schedule.clip / jnp.maximum(norm, 1e-12))
    gradient = jnp.where(good, gradient * shrink, 0.0)
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes its count with floats
        direction, moments = ADAM.update(gradient, state.moments)
    rate = schedule.rate_at(state.step)
    step = cast(Array, direction) + schedule.weight_decay * state.weights
    weights = state.weights - rate * step
    decay = schedule.averaging_at(state.step)
    average = decay * state.average + (1 - decay) * weights

    def choose(new, old):
        return jnp.where(good, new, old)

    return eqx.tree_at(
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


def _keep_best(state: State, loss: Scalar, *, always: bool) -> State:
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
