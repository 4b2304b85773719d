"""One epoch as one compiled loop of steps, then a look at the rows held out."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int

from diglm.compiling import MANY_STEPS, jit_loop
from diglm.objectives.joint import JointObjective, Terms
from diglm.rows import DEVICES, sum_over_devices
from diglm.training.clock import Clock, Pace
from diglm.training.settings import Schedule
from diglm.training.state import State, advance, keep_best, restore
from diglm.types import Batch, Key, Scalar, partition

VALIDATION_CHUNK = 128


def validation_terms(
    model: Any, objective: JointObjective, rows: Batch, offsets: Float[Array, "n ..."] | None
) -> Terms:
    """The objective as users will see it: frozen statistics, centres for y, fixed offsets for x."""

    def chunk(part: Batch):
        outputs = model.forward_rows(part.x)
        added = objective.terms_by_row(model, outputs, part, _fixed_noise())
        if model.completion is None:
            return outputs.log_px, outputs.response, added
        return model.log_mass(part.x, offsets), outputs.response, added

    # Padded sizes are powers of two, so chunks come out even.
    size = min(VALIDATION_CHUNK, len(rows.x))
    parts = jax.tree.map(lambda column: column.reshape(-1, size, *column.shape[1:]), rows)
    found = jax.lax.map(chunk, parts)
    log_px, response, added = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)
    return objective.with_terms(objective.means(log_px, response, rows), added)


def _fixed_noise() -> Key:
    """The key of what terms draw for held-out rows: the same after every epoch."""
    return jax.random.key(0, impl="unsafe_rbg")


class Shared(NamedTuple):
    """What every step reads and none changes.

    `mesh` where devices divide the rows of a batch, `augment(xs, key=)` where rows are changed,
    `shares` of the rate where not all weights learn at the same one.
    """

    model: Any
    objective: JointObjective
    schedule: Schedule
    mesh: Mesh | None = None
    augment: Any = None
    shares: Float[Array, " n"] | None = None

    @property
    def small(self) -> bool:
        """Whether a step's operations are small, or several devices keep the cores busy."""
        return self.mesh is not None or len(self.model.flow.bijection.in_shape) == 1

    @property
    def brief(self) -> bool:
        """Whether rows of a table are given so few steps that their program should come soon."""
        few = np.max(np.asarray(self.schedule.total_steps)) < MANY_STEPS
        return bool(few) and len(self.model.flow.bijection.in_shape) == 1


class Common(NamedTuple):
    """What every epoch reads: rows to train on, `batch_size` a step, and rows to look at after."""

    shared: Shared
    rows: Batch
    validation: Batch | None
    offsets: Float[Array, "n ..."] | None
    batch_size: int

    def in_time(self, clock: Clock, pace: Pace) -> "Common":
        """The same with a schedule that comes to its end before time does."""
        schedule = clock.in_time(self.shared.schedule, pace)
        return self._replace(shared=self.shared._replace(schedule=schedule))

    @property
    def small(self) -> bool:
        """Whether a step's operations are small."""
        return self.shared.small

    @property
    def brief(self) -> bool:
        """Whether there are few steps."""
        return self.shared.brief


class Turn(NamedTuple):
    """What one epoch reads: row numbers in their order, how many steps, the noise.

    The number of steps is not part of the program, so tables of similar size share it.
    """

    order: Int[Array, " slots"]
    n_steps: Int[Array, ""]
    key: Key


@jit_loop
def run_epoch(fixed: tuple[Common, Turn], state: State) -> tuple[State, Terms, Terms | None]:
    """All steps of an epoch, then the validation objective; returns the mean training terms."""
    common, turn = fixed
    return take_epoch(common, turn, common.shared, state)


def take_epoch(
    common: Common, turn: Turn, shared: Shared, state: State
) -> tuple[State, Terms, Terms | None]:
    """`run_epoch` inside of compiled code, with what is shared given apart."""

    def batch_at(i: Array) -> Batch:
        picked = jax.lax.dynamic_slice_in_dim(turn.order, i * common.batch_size, common.batch_size)
        return jax.tree.map(lambda column: column[picked], common.rows)

    state, sums = take_steps(shared, state, batch_at, turn.n_steps, turn.key)
    return _end_epoch(shared, common.validation, common.offsets, state, sums)


class Sums(NamedTuple):
    """Terms added up over the good steps, and how many there were."""

    terms: Terms
    n_good: Scalar

    @classmethod
    def zero(cls, dtype: Any) -> "Sums":
        """Before the first step; separate arrays, because they are donated."""
        return cls(Terms(*(jnp.zeros((), dtype) for _ in Terms._fields)), jnp.zeros((), dtype))

    def means(self) -> Terms:
        """The terms of a step on average; NaN when no step was good."""
        return jax.tree.map(lambda total: total / self.n_good, self.terms)


def take_steps(
    shared: Shared,
    state: State,
    batch_at: Callable[[Array], Batch],
    n_steps: Int[Array, ""],
    key: Key,
    sums: Sums | None = None,
) -> tuple[State, Sums]:
    """`n_steps` steps in one compiled loop; step i learns from the rows `batch_at(i)`."""
    model, objective, schedule, _, augment, shares = shared

    def one_step(i: Array, carry: tuple[State, Sums]) -> tuple[State, Sums]:
        state, sums = carry
        batch, key_step = batch_at(i), jax.random.fold_in(key, i)
        if augment is not None:
            key_augment, key_step = jax.random.split(key_step)
            batch = batch._replace(x=augment(batch.x, key=key_augment))

        teacher = restore(model, state.average, state.fixed) if objective.terms else None

        def loss_of(weights):
            current = restore(model, weights, state.fixed)
            loss, (terms, moved) = objective(
                current,
                batch,
                key=key_step,
                emphasis=schedule.emphasis_at(state.step),
                done=state.step / schedule.total_steps,
                teacher=teacher,
                augment=augment,
            )
            moved_fixed = eqx.filter(partition(moved)[1], eqx.is_array)
            return loss, (terms, jax.lax.stop_gradient(moved_fixed))

        terms, fixed, gradient = _differentiate(loss_of, state.weights)
        state, good = advance(state, schedule, terms.loss, gradient, fixed, shares)
        added = jax.tree.map(
            lambda total, term: total + jnp.where(good, term, 0.0), sums.terms, terms
        )
        return state, Sums(added, sums.n_good + good.astype(sums.n_good.dtype))

    start = Sums.zero(state.weights.dtype) if sums is None else sums
    return jax.lax.fori_loop(0, n_steps, one_step, (state, start))


def _differentiate(
    loss_of: Callable[[Array], tuple[Scalar, tuple[Terms, Any]]], weights: Float[Array, " n"]
) -> tuple[Terms, Any, Float[Array, " n"]]:
    """The terms of a batch's loss, moved statistics, and the gradient, be its rows divided or not.

    Each device gives its part of every mean over all rows, so that gradient and terms are summed
    over devices, as one vector: in a step they wait for one another once, but for the weights of
    the rows. Left to the compiler, they would do so for each array of weights.
    """
    (_, (terms, fixed)), gradient = jax.value_and_grad(loss_of, has_aux=True)(weights)
    gradient, terms = sum_over_devices((gradient, terms))
    return terms, fixed, gradient


@jit_loop
def run_chunk(
    fixed: tuple[Shared, Batch, Int[Array, ""], Key], state: State, sums: Sums
) -> tuple[State, Sums]:
    """The steps of one chunk of a stream, whose arrays are (steps, rows of a step, ...).

    The chunk may be padded: how many steps are taken is not part of the program.
    """
    shared, chunk, n_steps, key = fixed

    def take(chunk: Batch, state: State, sums: Sums) -> tuple[State, Sums]:
        def batch_at(i: Array) -> Batch:
            return jax.tree.map(lambda column: column[i], chunk)

        return take_steps(shared, state, batch_at, n_steps, key, sums)

    if shared.mesh is None:
        return take(chunk, state, sums)
    by_rows, everywhere = PartitionSpec(None, DEVICES), PartitionSpec()
    return jax.shard_map(
        take,
        mesh=shared.mesh,
        in_specs=(by_rows, everywhere, everywhere),
        out_specs=everywhere,
        check_vma=False,  # each device computes the same state, from the same sums over devices
    )(chunk, state, sums)


@jit_loop
def end_epoch(
    fixed: tuple[Shared, Batch | None, Float[Array, "n ..."] | None], state: State, sums: Sums
) -> tuple[State, Terms, Terms | None]:
    """The state with its best weights kept, the mean training terms, the validation terms."""
    return _end_epoch(*fixed, state, sums)


def _end_epoch(
    shared: Shared,
    validation: Batch | None,
    offsets: Float[Array, "n ..."] | None,
    state: State,
    sums: Sums,
) -> tuple[State, Terms, Terms | None]:
    means = sums.means()
    if validation is None:
        return keep_best(state, means.loss, always=True), means, None
    current = restore(shared.model, state.average, state.fixed)
    checked = validation_terms(current, shared.objective, validation, offsets)
    return keep_best(state, checked.loss, always=False), means, checked
