"""`fit_evidence`: steps along the exact gradient of the evidence of all rows."""

import math
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from diglm.hybrid import Hybrid
from diglm.objectives.joint import JointObjective, Terms
from diglm.objectives.two_passes import Chunks, in_chunks, two_passes
from diglm.training.clock import NO_LIMIT, Clock, Pace
from diglm.training.loop import FitResult, epoch_record, validation_offsets
from diglm.training.progress import Progress
from diglm.training.settings import Schedule, Settings
from diglm.training.state import State, advance, restore
from diglm.training.step import validation_terms
from diglm.types import Batch, bucket, pad

CHUNK = 8192


def fit_evidence(
    model: Hybrid,
    rows: Batch | Chunks,
    *,
    objective: JointObjective,
    validation: Batch | None = None,
    settings: Settings,
    seed: int = 0,
    progress: Progress | None = None,
    clock: Clock = NO_LIMIT,
) -> FitResult:
    """Train `model` through the evidence; every step sees all rows, in two passes over chunks.

    The head's posterior is exact at every step, and in the model returned. Where there are rows
    for validation the step at which they are best predicted is kept, the first of them being the
    model as it came.

    Args:
        model: a hybrid with a `ConjugateHead`, whose posterior mean is trained again afterwards.
        rows: NumPy arrays, or a function that gives them in pieces as often as it is called.
        objective: its lambda weighs log p(x); its terms judge the validation rows.
        validation: rows on which the best step is chosen; without them the last one is kept.
        settings: `n_epochs` is the number of steps, `patience` that without improvement.
        seed: of the noise in cells and gaps.
        progress: told of every step.
        clock: says when to stop.
    """
    started = time.perf_counter()
    if objective.terms:
        raise ValueError(
            f"The exact evidence has no room for {objective.terms}; use inference='minibatch'."
        )
    model = eqx.tree_at(lambda m: m.head, model, model.head.frozen())  # type: ignore[attr-defined]
    chunks = rows if callable(rows) else _in_memory(rows)
    checked_rows = None
    if validation is not None and len(validation.weight) > 0:
        padded = pad(validation, bucket(len(validation.weight)))
        checked_rows = jax.tree.map(jnp.asarray, padded)
    offsets = validation_offsets(model)
    schedule = Schedule.of(settings, settings.n_epochs)
    state, key = State.start(model), jax.random.key(seed)
    result = FitResult(model)
    best, since = np.inf, 0
    for step in range(settings.n_epochs + 1):
        begun = time.perf_counter()
        current = _current(model, state)
        # The same noise at every step: an objective that stands still can be followed to its top.
        found = two_passes(
            current, chunks, generative_weight=float(objective.generative_weight), key=key
        )
        loss, judged = found.loss, None
        if checked_rows is not None:
            judged = _judged(found.model, objective, checked_rows, offsets)
            loss = float(judged.loss)
        if step > 0:
            per_row = found.log_evidence / max(found.n_labelled, 1e-12)
            means = Terms(*map(jnp.asarray, (found.loss, found.log_px, per_row, math.nan)))
            record = epoch_record(step - 1, started, means, judged)
            result.history.append(record | {"log_evidence": found.log_evidence})
            if progress is not None:
                progress(result.history[-1])
        since += 1
        if np.isfinite(loss) and (loss < best or checked_rows is None):
            best, since, result.model = loss, 0, found.model
        if settings.patience is not None and since > settings.patience:
            result.stopped = "patience"
            break
        pace = Pace(step, 1, time.perf_counter() - begun)
        if (reason := clock.over(pace)) is not None:
            result.stopped = reason
            break
        schedule = clock.in_time(schedule, pace)
        loss = jnp.asarray(found.loss, state.weights.dtype)
        state = _moved(state, schedule, loss, found.gradient)
    result.model = eqx.tree_at(lambda m: m.head, result.model, result.model.head.thawed())
    result.skipped_steps = int(state.skipped)
    result.seconds = time.perf_counter() - started
    return result


def _in_memory(rows: Batch) -> Chunks:
    size = bucket(len(rows.weight))
    return in_chunks(pad(rows, size), size) if size <= CHUNK else in_chunks(rows, CHUNK)


@eqx.filter_jit
def _judged(
    model: Hybrid, objective: JointObjective, rows: Batch, offsets: Float[Array, "n ..."] | None
) -> Terms:
    return validation_terms(model, objective, rows, offsets)


@eqx.filter_jit
def _moved(state: State, schedule: Schedule, loss: Array, gradient: Any) -> State:
    return advance(state, schedule, loss, ravel_pytree(gradient)[0], state.fixed)[0]


@eqx.filter_jit
def _current(model: Hybrid, state: State) -> Hybrid:
    return restore(model, state.weights, state.fixed)
