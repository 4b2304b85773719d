r"""One model trained under several weights $\lambda$ of log p(x), side by side.

Only $\lambda$ differs between the runs: the start, the rows, their order and all noise are shared.
So the states are stacked and the epoch is mapped over them, and what `fit` does for one model
becomes one compiled program for all. Rows are gathered once, and an operation's fixed cost is paid
once for all models. A CPU runs such a loop on one core, so there the models are dealt out to the
cores in groups of one size, which run the same program.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from diglm.compiling import jit_loop
from diglm.hybrid import Hybrid
from diglm.objectives.joint import JointObjective, Terms
from diglm.training.clock import NO_LIMIT, Clock, Pace
from diglm.training.loop import FitResult, epoch_record, epochs, stop_reason
from diglm.training.progress import Progress, Record
from diglm.training.settings import Settings
from diglm.training.state import State, finished
from diglm.training.step import Common, Turn, take_epoch
from diglm.types import Batch


@jit_loop
def run_epoch_together(
    fixed: tuple[Common, Turn, Float[Array, " models"], Bool[Array, " models"]], states: State
) -> tuple[State, Terms, Terms | None]:
    """`run_epoch` for stacked states, one lambda each; a state that is not active stays as it is.

    Stopped models are computed along, since the program has one shape, but keep what they had: the
    best weights at the epoch where a fit of their own would have ended.
    """
    common, turn, weights, active = fixed
    shared = common.shared

    def one(state: State, weight: Array, is_active: Array) -> tuple[State, Terms, Terms | None]:
        objective = eqx.tree_at(lambda o: o.generative_weight, shared.objective, weight)
        own = shared._replace(objective=objective)
        after, terms, checked = take_epoch(common, turn, own, state)
        kept = jax.tree.map(lambda new, old: jnp.where(is_active, new, old), after, state)
        return kept, terms, checked

    if weights.shape[0] == 1:  # XLA multiplies a stack of one slower than a matrix
        only = one(*jax.tree.map(lambda leaf: leaf[0], (states, weights, active)))
        return jax.tree.map(lambda leaf: leaf[None], only)
    return jax.vmap(one)(states, weights, active)


@dataclass
class _Group:
    """Models stacked into one state: their numbers, lambdas, states, and who still trains.

    A last group that is short is filled up with copies, which never train.
    """

    members: np.ndarray
    weights: Array
    states: State
    active: np.ndarray

    def advance(self, common: Common, turn: Turn) -> tuple[Terms, Terms | None]:
        """One epoch of all members; their terms, as NumPy arrays."""
        self.states, *told = run_epoch_together(
            (common, turn, self.weights, jnp.asarray(self.active)), self.states
        )
        return jax.device_get(tuple(told))

    def alone(self, place: int) -> State:
        """The state of one member."""
        return jax.tree.map(lambda leaf: leaf[place], self.states)


def fit_together(
    model: Hybrid,
    rows: Batch,
    *,
    objective: JointObjective,
    generative_weights: Sequence[float],
    validation: Batch | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    clock: Clock = NO_LIMIT,
) -> list[FitResult]:
    """What `fit` gives with each weight in turn, up to rounding, from one run.

    Args:
        model: from which all set out.
        rows: NumPy arrays; rows of weight zero are never drawn.
        objective: what is minimised, but for its `generative_weight`.
        generative_weights: the lambdas, one a model.
        validation: rows on which each model's best epoch is chosen.
        settings: lengths and rates.
        seed: of the order of the rows and of all noise.
        progress: told of every epoch, with means over the models that still train.
        clock: says when to stop.
    """
    settings = Settings() if settings is None else settings
    started = time.perf_counter()
    common, turns = epochs(model, rows, objective, validation, settings, seed)
    groups = _groups(model, generative_weights)
    results = [FitResult(model) for _ in generative_weights]
    with ThreadPoolExecutor(len(groups)) as pool:
        for n_turns, (epoch, turn) in enumerate(turns):
            running = [group for group in groups if np.any(group.active)]
            if not running:
                break
            begun = time.perf_counter()
            told = _advance(pool, running, common, turn, first=n_turns == 0)
            if epoch < 0:
                continue
            records = []
            for group, (terms, checked) in zip(running, told, strict=True):
                records += _note(group, results, epoch, started, terms, checked)
                _stop_exhausted(group, results, settings, int(turn.n_steps), checked is not None)
            if progress is not None:
                progress(_mean_record(epoch, records))
            n_steps = int(turn.n_steps)
            pace = Pace((epoch + 1) * n_steps, n_steps, time.perf_counter() - begun)
            if (reason := clock.over(pace)) is not None:
                _stop(groups, results, reason)
                break
            common = common.in_time(clock, pace)
    for group in groups:
        _finish(group, model, results, generative_weights, time.perf_counter() - started)
    return results


def _groups(model: Hybrid, generative_weights: Sequence[float]) -> list[_Group]:
    """Models dealt out to the cores of a CPU; an accelerator takes all of them at once."""
    n_models = len(generative_weights)
    n_cores = os.cpu_count() or 1 if jax.default_backend() == "cpu" else 1
    size = -(-n_models // n_cores)
    start, weights = State.start(model), np.asarray(generative_weights, jnp.result_type(float))

    def group(members: np.ndarray) -> _Group:
        # A second size would compile a second program, which takes longer than a spare model.
        places = np.resize(members, size)
        states = jax.tree.map(lambda leaf: jnp.stack([leaf] * size), start)
        active = np.arange(size) < len(members)
        return _Group(members, jnp.asarray(weights[places]), states, active)

    return [group(np.arange(i, min(i + size, n_models))) for i in range(0, n_models, size)]


def _advance(
    pool: ThreadPoolExecutor, groups: list[_Group], common: Common, turn: Turn, *, first: bool
) -> list[tuple[Terms, Terms | None]]:
    """One epoch of every group, each on a core of its own."""
    alone = 1 if first else 0  # one group compiles the program for the others
    told = [group.advance(common, turn) for group in groups[:alone]]
    return told + list(pool.map(lambda group: group.advance(common, turn), groups[alone:]))


def _note(
    group: _Group,
    results: list[FitResult],
    epoch: int,
    started: float,
    terms: Terms,
    checked: Terms | None,
) -> list[Record]:
    """Add the epoch to the history of the members that still train."""
    records = []
    for place in np.flatnonzero(group.active):
        own, own_checked = jax.tree.map(lambda column, i=place: column[i], (terms, checked))
        records.append(epoch_record(epoch, started, own, own_checked))
        results[group.members[place]].history.append(records[-1])
    return records


def _stop_exhausted(
    group: _Group, results: list[FitResult], settings: Settings, n_steps: int, checked: bool
) -> None:
    """Stop the members that a fit of their own would stop after this epoch."""
    states = group.states
    counts = jax.device_get((states.bad_run, states.epochs_since_best))
    for place in np.flatnonzero(group.active):
        counted = eqx.tree_at(
            lambda s: (s.bad_run, s.epochs_since_best),
            states,
            tuple(count[place] for count in counts),
        )
        reason = stop_reason(counted, settings, n_steps, checked=checked)
        if reason is not None:
            group.active[place] = False
            results[group.members[place]].stopped = reason


def _stop(groups: list[_Group], results: list[FitResult], reason: str) -> None:
    """Stop all members that still train."""
    for group in groups:
        for place in np.flatnonzero(group.active):
            results[group.members[place]].stopped = reason


def _mean_record(epoch: int, records: list[Record]) -> Record:
    mean: Record = {name: float(np.mean([r[name] for r in records])) for name in records[0]}
    return mean | {"epoch": epoch}


def _finish(
    group: _Group,
    model: Hybrid,
    results: list[FitResult],
    generative_weights: Sequence[float],
    seconds: float,
) -> None:
    for place, member in enumerate(group.members):
        state, result = group.alone(place), results[member]
        if not np.isfinite(float(state.best_loss)):
            raise FloatingPointError(
                f"Training with lambda = {generative_weights[member]:g} never reached a finite "
                "loss, so there is no model to keep. Leave that weight out, try a smaller "
                "learning_rate, or look for extreme values in the data."
            )
        result.model = finished(model, state.best, state.best_fixed)
        result.skipped_steps, result.seconds = int(state.skipped), seconds
