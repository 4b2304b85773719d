r"""Several models trained side by side: under weights of log p(x), or as members of a committee.

Their states are stacked and the epoch is mapped over them, so what `fit` does for one model becomes
one compiled program for all, and an operation's fixed cost is paid once. Models that are to be
compared share the start, the rows, their order and all noise; members of a committee differ in all
of these, and each leaves out rows of its own, on which its best epoch is chosen. A CPU runs such
a loop on one core, so there the models are dealt out to the cores in groups of one size.
"""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from diglm.compiling import jit_loop
from diglm.hybrid import Hybrid
from diglm.objectives.joint import JointObjective, Terms
from diglm.training.clock import NO_LIMIT, Clock, Pace
from diglm.training.loop import FitResult, epoch_record, epochs, stop_reason
from diglm.training.progress import Progress, Record
from diglm.training.settings import Settings
from diglm.training.state import State, finished
from diglm.training.step import Common, Turn, take_epoch
from diglm.types import Batch, bucket, entry, pad, placed


class Run(NamedTuple):
    """One of several models.

    Attributes:
        model: from which it sets out.
        generative_weight: its lambda.
        seed: of the order of its rows and of its noise.
        left_out: rows that it is not trained on; as many for each; None for none.
        judges: those of them by which its best epoch is chosen; None for all.
    """

    model: Hybrid
    generative_weight: float
    seed: int
    left_out: Int[np.ndarray, " some"] | None = None
    judges: Int[np.ndarray, " some"] | None = None


class Own(NamedTuple):
    """What each model has for itself in an epoch, stacked; None for what they share.

    Attributes:
        weights: lambdas.
        active: who still trains.
        turn: order of rows and noise.
        validation: what judges it.
    """

    weights: Float[Array, " models"]
    active: Bool[Array, " models"]
    turn: Turn | None
    validation: Batch | None


@jit_loop
def run_epoch_together(
    fixed: tuple[Common, Turn, Own], states: State
) -> tuple[State, Terms, Terms | None]:
    """`run_epoch` for stacked states; a state that is not active stays as it is.

    Stopped models are computed along, since the program has one shape, but keep what they had: the
    best weights at the epoch where a fit of their own would have ended.
    """
    common, turn, own = fixed

    def one(state: State, own: Own) -> tuple[State, Terms, Terms | None]:
        objective = eqx.tree_at(lambda o: o.generative_weight, common.shared.objective, own.weights)
        rows = common if own.validation is None else common._replace(validation=own.validation)
        # How many steps there are is not mapped over: a loop would wait for the longest anyway.
        order = turn if own.turn is None else own.turn._replace(n_steps=turn.n_steps)
        shared = common.shared._replace(objective=objective)
        after, terms, checked = take_epoch(rows, order, shared, state)
        kept = jax.tree.map(lambda new, old: jnp.where(own.active, new, old), after, state)
        return kept, terms, checked

    if own.weights.shape[0] == 1:  # XLA multiplies a stack of one slower than a matrix
        only = one(*jax.tree.map(lambda leaf: leaf[0], (states, own)))
        return jax.tree.map(lambda leaf: leaf[None], only)
    return jax.vmap(one)(states, own)


@dataclass
class _Group:
    """Models stacked into one state: their numbers, states, and who still trains.

    A last group that is short is filled up with copies, which never train.
    """

    members: np.ndarray
    places: np.ndarray
    weights: Array
    states: State
    active: np.ndarray
    validation: Batch | None

    @classmethod
    def of(cls, members: np.ndarray, size: int, runs: Sequence[Run], seen: Sequence[Common]):
        """The group of some runs; `seen` is what each of them reads."""
        # A second size would compile a second program, which takes longer than a spare model.
        places = np.resize(members, size)
        starts = {place: State.start(runs[place].model) for place in dict.fromkeys(places)}
        weights, validation = np.array([runs[i].generative_weight for i in places]), None
        if runs[0].left_out is not None:
            validation = _stacked([seen[place].validation for place in places])
        return cls(
            members,
            places,
            placed(weights),
            _stacked([starts[place] for place in places]),
            np.arange(size) < len(members),
            validation,
        )

    def advance(self, common: Common, turns: Sequence[Turn]) -> tuple[Terms, Terms | None]:
        """One epoch of all members; their terms, as NumPy arrays."""
        own = None if self.validation is None else _stacked([turns[i] for i in self.places])
        given = Own(self.weights, placed(self.active), own, self.validation)
        self.states, *told = run_epoch_together((common, turns[0], given), self.states)
        return jax.device_get(tuple(told))

    def alone(self, place: int) -> State:
        """The state of one member."""
        return entry(self.states, place)


def _stacked(trees: Sequence[Any]) -> Any:
    """Trees of equal arrays as one, through NumPy: JAX would compile a program for each shape."""
    return jax.tree.map(_stack, *trees)


def _stack(*leaves: Array) -> Array:
    if jnp.issubdtype(leaves[0].dtype, jax.dtypes.prng_key):
        words = _stack(*(jax.random.key_data(leaf) for leaf in leaves))
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaves[0]))
    return placed(np.stack(jax.device_get(leaves)))


def fit_together(
    runs: Sequence[Run],
    rows: Batch,
    *,
    objective: JointObjective,
    validation: Batch | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
    clock: Clock = NO_LIMIT,
) -> list[FitResult]:
    """What `fit` gives of each run in turn, up to rounding and, where seeds differ, noise.

    Args:
        runs: the models; either all leave out rows, as many each, or none does.
        rows: NumPy arrays; rows of weight zero are never drawn.
        objective: what is minimised, but for its `generative_weight`.
        validation: rows on which best epochs are chosen of those who leave out none.
        settings: lengths and rates.
        progress: told of every epoch, with means over the models that still train.
        clock: says when to stop.
    """
    started, settings = time.perf_counter(), settings or Settings()
    apart = runs if runs[0].left_out is not None else runs[:1]  # the others read the same
    begun = [_begun(run, rows, objective, validation, settings) for run in apart]
    seen, turns_of = zip(*begun, strict=True)
    every = jax.tree.map(placed, pad(rows, bucket(len(rows.weight))))
    common = seen[0]._replace(rows=every)  # with those that the first leaves out
    groups = _groups(runs, seen)
    results = [FitResult(run.model) for run in runs]
    with ThreadPoolExecutor(len(groups)) as pool:
        for n_turns, numbered in enumerate(zip(*turns_of, strict=True)):
            epoch, turns = numbered[0][0], [turn for _, turn in numbered]
            running = [group for group in groups if np.any(group.active)]
            if not running:
                break
            began = time.perf_counter()
            told = _advance(pool, running, common, turns, first=n_turns == 0)
            if epoch < 0:
                continue
            n_steps = int(turns[0].n_steps)
            records = []
            for group, (terms, checked) in zip(running, told, strict=True):
                records += _note(group, results, epoch, started, terms, checked)
                _stop_exhausted(group, results, settings, n_steps, checked is not None)
            if progress is not None:
                progress(_mean_record(epoch, records))
            pace = Pace((epoch + 1) * n_steps, n_steps, time.perf_counter() - began)
            if (reason := clock.over(pace)) is not None:
                _stop(groups, results, reason)
                break
            common = common.in_time(clock, pace)
    for group in groups:
        _finish(group, runs, results, time.perf_counter() - started)
    return results


def _begun(
    run: Run, rows: Batch, objective: JointObjective, validation: Batch | None, settings: Settings
) -> tuple[Common, Iterator[tuple[int, Turn]]]:
    """What a model reads; rows that it leaves out weigh nothing, and are never drawn."""
    if run.left_out is not None:
        judges = run.left_out if run.judges is None else run.judges
        validation = Batch(*(np.asarray(column)[judges] for column in rows))
        weight = np.array(rows.weight)
        weight[run.left_out] = 0
        rows = rows._replace(weight=weight)
    return epochs(run.model, rows, objective, validation, settings, run.seed)


def _groups(runs: Sequence[Run], seen: Sequence[Common]) -> list[_Group]:
    """Models dealt out to the cores of a CPU; an accelerator takes all of them at once."""
    n_models = len(runs)
    n_cores = os.cpu_count() or 1 if jax.default_backend() == "cpu" else 1
    size = -(-n_models // n_cores)
    parts = (np.arange(i, min(i + size, n_models)) for i in range(0, n_models, size))
    return [_Group.of(part, size, runs, seen) for part in parts]


def _advance(
    pool: ThreadPoolExecutor,
    groups: list[_Group],
    common: Common,
    turns: Sequence[Turn],
    *,
    first: bool,
) -> list[tuple[Terms, Terms | None]]:
    """One epoch of every group, each on a core of its own; the first compiles their program."""
    alone = 1 if first else 0
    told = [group.advance(common, turns) for group in groups[:alone]]
    return told + list(pool.map(lambda group: group.advance(common, turns), groups[alone:]))


def _note(
    group: _Group,
    results: list[FitResult],
    epoch: int,
    started: float,
    terms: Terms,
    checked: Terms | None,
) -> list[Record]:
    """Add the epoch to the history of the members that still train."""
    records: list[Record] = []
    for place in np.flatnonzero(group.active):
        own = jax.tree.map(lambda column, i=place: column[i], (terms, checked))
        records.append(epoch_record(epoch, started, *own))
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
    return {k: float(np.mean([r[k] for r in records])) for k in records[0]} | {"epoch": epoch}


def _finish(group: _Group, runs: Sequence[Run], results: list[FitResult], seconds: float) -> None:
    for place, member in enumerate(group.members):
        state, result, run = group.alone(place), results[member], runs[member]
        if not np.isfinite(float(state.best_loss)):
            raise FloatingPointError(
                f"Training with lambda = {run.generative_weight:g} never reached a finite "
                "loss, so there is no model to keep. Leave that weight out, try a smaller "
                "learning_rate, or look for extreme values in the data."
            )
        result.model = finished(run.model, state.best, state.best_fixed)
        result.skipped_steps, result.seconds = int(state.skipped), seconds
