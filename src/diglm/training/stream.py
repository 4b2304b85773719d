"""`fit_stream`: training from chunks of rows, with checkpoints, on every device."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diglm.data.chunks import AbstractPlan, ChunkReader
from diglm.objectives.joint import JointObjective
from diglm.training.checkpoint import Checkpoints, Position, Saved
from diglm.training.clock import NO_LIMIT, Clock, Pace
from diglm.training.devices import Layout
from diglm.training.loop import (
    FitResult,
    ended,
    epoch_record,
    stop_reason,
    validation_offsets,
)
from diglm.training.progress import Progress
from diglm.training.settings import Schedule, Settings
from diglm.training.state import State, shares_of
from diglm.training.step import Shared, Sums, end_epoch, run_chunk
from diglm.types import Batch, Key, bucket, pad


def fit_stream(
    model: Any,
    plan: AbstractPlan,
    read: Callable[..., ChunkReader],
    *,
    objective: JointObjective,
    validation: Batch | None = None,
    settings: Settings | None = None,
    augment: Any = None,
    checkpoints: Checkpoints | None = None,
    save_every: int = 20_000,
    progress: Progress | None = None,
    clock: Clock = NO_LIMIT,
) -> FitResult:
    """Train `model` on chunks of rows; what `fit` does for tables in memory.

    The result is a function of the model, the plan and the settings alone: a run that was killed
    and called again ends with the weights, bit for bit, of one that was not; several processes end
    with the weights of one, up to rounding.

    Args:
        model: a `Hybrid`, already started from data.
        plan: which rows make up which batch.
        read: `read(shards=, start=, stop_epoch=)` gives the chunks of the plan.
        objective: what is minimised.
        validation: rows in memory on which the best epoch is chosen.
        settings: lengths and rates; the batch size is the plan's.
        augment: `augment(xs, key=)` changes the rows of a step; None leaves them.
        checkpoints: where the run is kept; on SIGTERM it is kept too, before the process ends.
        save_every: steps between checkpoints, rounded up to whole chunks.
        progress: told of every chunk and every epoch.
        clock: says when to stop; a run that is kept goes on from there when called again.
    """
    settings = Settings() if settings is None else settings
    layout, started = Layout(), time.perf_counter()
    if plan.batch_size % layout.n_devices:
        raise ValueError(
            f"A batch of {plan.batch_size} rows cannot be divided over {layout.n_devices} devices; "
            "use a batch_size that is a multiple of their number."
        )
    schedule = Schedule.of(settings, plan.n_steps * settings.n_epochs)
    checked = None
    if validation is not None and len(validation.weight) > 0:
        checked = pad(validation, bucket(len(validation.weight)))
    shares = shares_of(model, settings.head_rate)
    shared = layout.replicate(Shared(model, objective, schedule, layout.mesh, augment, shares))
    ending = layout.replicate((checked, validation_offsets(model)))
    state, sums = layout.replicate((State.start(model), Sums.zero(jnp.result_type(float))))
    result, position = FitResult(model), Position(0, 0)
    found = None if checkpoints is None else checkpoints.latest((state, sums))
    if found is not None:
        (state, sums), position, result.history, seconds = found
        started -= seconds  # the clock goes on from where the state was kept
    elif checked is not None:  # the starting model is the first candidate for the best
        state, _, _ = end_epoch((shared, *ending), state, sums)
        sums = layout.replicate(Sums.zero(jnp.result_type(float)))
    # Asked where the uninterrupted run asked: at the ends of epochs.
    at_end = position.epoch > 0 and position.chunk == 0
    result.stopped = stop_reason(state, settings, plan.n_steps) if at_end else None

    def keep() -> None:
        if checkpoints is not None:
            step = position.epoch * plan.n_steps + position.chunk * plan.steps_per_chunk
            seconds = time.perf_counter() - started
            checkpoints.save(step, Saved((state, sums), position, result.history, seconds))

    own = own_shards(plan.n_shards, layout.n_processes, layout.process)
    unsaved = 0
    with (
        read(shards=own, start=position, stop_epoch=settings.n_epochs) as chunks,
        _noting_sigterm(wanted=checkpoints is not None) as asked_to_stop,
    ):
        while result.stopped is None and position.epoch < settings.n_epochs:
            begun, chunk = time.perf_counter(), next(chunks)
            with layout.working_together():
                rows = layout.spread(_padded(chunk.rows, plan.steps_per_chunk))
                n_steps = jnp.asarray(chunk.n_steps, jnp.int32)
                key = _chunk_key(plan.seed, chunk.epoch, chunk.index)
                fixed = (shared, rows, *layout.replicate((n_steps, key)))
                state, sums = jax.block_until_ready(run_chunk(fixed, state, sums))
                unsaved += chunk.n_steps
                position = Position(chunk.epoch, chunk.index + 1)
                done = position.epoch * plan.n_steps + position.chunk * plan.steps_per_chunk
                pace = Pace(done, chunk.n_steps, time.perf_counter() - begun)
                reason = clock.over(pace)
                if layout.n_processes > 1 and clock.is_set:  # all must stop at the same chunk
                    reason = "time" if layout.any(reason is not None) else None
                elif clock.is_set:
                    planned = layout.replicate(clock.in_time(schedule, pace))
                    shared = shared._replace(schedule=planned)
                if position.chunk == plan.n_chunks or reason is not None:
                    state, terms, verdict = end_epoch((shared, *ending), state, sums)
                    sums = layout.replicate(Sums.zero(jnp.result_type(float)))
                    record = epoch_record(chunk.epoch, started, terms, verdict)
                    result.history.append(record)
                    position = Position(chunk.epoch + 1, 0)
                    result.stopped = stop_reason(state, settings, plan.n_steps) or reason
                else:
                    record = epoch_record(chunk.epoch, started, sums.means(), None)
                    record["share"] = position.chunk / plan.n_chunks
            if progress is not None:
                progress(record)
            finished = result.stopped is not None or position.epoch == settings.n_epochs
            # The signal reaches processes at different chunks, and all must write the same state.
            ending_early = checkpoints is not None and layout.any(asked_to_stop.is_set())
            if unsaved >= save_every or ending_early or finished:
                keep()
                unsaved = 0
            if ending_early and not finished:
                raise SystemExit(128 + signal.SIGTERM)
        result.waited = chunks.waited
    result.stopped = result.stopped or "epochs"
    return ended(result, model, layout.gather(state), started)


def own_shards(n_shards: int, n_processes: int, process: int) -> list[int]:
    """The shards that a process reads: as many as any other, side by side."""
    return np.array_split(np.arange(n_shards), n_processes)[process].tolist()


def _padded(rows: Batch, n_steps: int) -> Batch:
    """The last chunk of an epoch with as many steps as the others, so that they share a program."""
    missing = n_steps - len(rows.weight)
    if missing == 0:
        return rows
    return Batch(
        *(np.pad(column, [(0, missing)] + [(0, 0)] * (column.ndim - 1)) for column in rows)
    )


def _chunk_key(seed: int, epoch: int, chunk: int) -> Key:
    """The key of a chunk's noise; this generator gives every row the same on any mesh."""
    words = np.random.SeedSequence([seed, epoch, chunk]).generate_state(2, np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


@contextmanager
def _noting_sigterm(*, wanted: bool) -> Iterator[threading.Event]:
    """An event that SIGTERM sets, so that the run is kept before the process ends."""
    asked = threading.Event()
    # Only the main thread may handle signals; a run that is not kept ends at once, as ever.
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)
