"""`fit`: epochs until the validation objective stops improving, with the best weights kept."""

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.completion import fixed_offsets
from diglm.data.mixing import Mixing, in_turn
from diglm.objectives.joint import JointObjective, Terms
from diglm.training.clock import NO_LIMIT, Clock, Pace
from diglm.training.progress import Progress
from diglm.training.settings import Schedule, Settings
from diglm.training.state import State, finished, shares_of
from diglm.training.step import Common, Shared, Turn, run_epoch
from diglm.types import Batch, Key, bucket, pad, placed

VALIDATION_OFFSETS = 2  # enough to rank epochs; scoring uses more


class NonFiniteTrainingWarning(UserWarning):
    """Training stopped at its last good state because its steps stopped being finite."""


@dataclass
class FitResult:
    """The fitted model and how it came about.

    Attributes:
        model: with the best weights found.
        history: one record an epoch.
        stopped: why training ended: "epochs", "patience", "time", "non-finite" or "exact".
        skipped_steps: steps whose gradient was not finite.
        seconds: of training.
        waited: seconds of them in which the device waited for rows to be read.
        density_history: one record an epoch of a density of its own, if there is one.
    """

    model: Any
    history: list[dict[str, float | int]] = field(default_factory=list)
    stopped: str | None = "epochs"
    skipped_steps: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    density_history: list[dict[str, float | int]] = field(default_factory=list)


def _epoch_key(seed: int, epoch: int) -> Key:
    """The key of an epoch's noise: XLA's own generator, quicker to compile and to run."""
    words = np.random.SeedSequence([seed, epoch]).generate_state(4, np.uint32)
    return jax.random.wrap_key_data(placed(words), impl="unsafe_rbg")


def fit(
    model: Any,
    rows: Batch,
    *,
    objective: JointObjective,
    validation: Batch | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    clock: Clock = NO_LIMIT,
) -> FitResult:
    """Train `model` on `rows`, watching `validation`; the same seed gives the same weights.

    Args:
        model: a `Hybrid`, already started from data where its layers want that.
        rows: NumPy arrays; rows of weight zero are never drawn.
        objective: what is minimised.
        validation: rows on which the best epoch is chosen; without them the last average is kept.
        settings: lengths and rates.
        seed: of the order of the rows and of all noise.
        progress: told of every epoch.
        clock: says when to stop.
    """
    settings = Settings() if settings is None else settings
    started = time.perf_counter()
    common, turns = epochs(model, rows, objective, validation, settings, seed)
    state, result = State.start(model), FitResult(model)
    for epoch, turn in turns:
        begun = time.perf_counter()
        state, terms, checked = run_epoch((common, turn), state)
        if epoch < 0:
            continue
        record = epoch_record(epoch, started, terms, checked)
        result.history.append(record)
        if progress is not None:
            progress(record)
        n_steps = int(turn.n_steps)
        pace = Pace((epoch + 1) * n_steps, n_steps, time.perf_counter() - begun)
        reason = stop_reason(state, settings, n_steps, checked=checked is not None)
        reason = reason or clock.over(pace)
        if reason is not None:
            result.stopped = reason
            break
        common = common.in_time(clock, pace)
    return ended(result, model, state, started)


def epochs(
    model: Any,
    rows: Batch,
    objective: JointObjective,
    validation: Batch | None,
    settings: Settings,
    seed: int,
) -> tuple[Common, Iterator[tuple[int, Turn]]]:
    """What all epochs read, and what each: padded rows, orders, keys.

    Epoch -1 takes no step: the starting model is the first candidate for the best. Where few rows
    have a label, an epoch is one pass over the others, with labelled rows in every batch.
    """
    used = np.flatnonzero(rows.weight > 0)
    if len(used) == 0:
        raise ValueError("No training row has a positive weight. Check sample_weight.")
    batch_size = min(settings.batch_size, bucket(len(used), smallest=8))
    known = np.asarray(rows.labelled)[used]
    labelled, others = used[known], used[~known]
    mixture = Mixing.of(len(labelled), len(others), batch_size)
    passing = others if mixture.apart else used
    n_steps = -(-len(passing) // mixture.n_others)
    rows = rows._replace(weight=mixture.counted(np.asarray(rows.weight), np.asarray(rows.labelled)))
    checked_rows = None
    if validation is not None and len(validation.weight) > 0:
        checked_rows = jax.tree.map(placed, pad(validation, bucket(len(validation.weight))))
    schedule = Schedule.of(settings, n_steps * settings.n_epochs)
    common = Common(
        Shared(model, objective, schedule, shares=shares_of(model, settings.head_rate)),
        jax.tree.map(placed, pad(rows, bucket(len(rows.weight)))),
        checked_rows,
        validation_offsets(model),
        batch_size,
    )

    def turns() -> Iterator[tuple[int, Turn]]:
        rng = np.random.default_rng(seed)
        slots = bucket(n_steps * batch_size + batch_size)
        for epoch in range(-1 if checked_rows is not None else 0, settings.n_epochs):
            order = np.zeros(slots, np.int32)
            dealt = np.resize(rng.permutation(passing), n_steps * mixture.n_others)
            if mixture.apart:
                repeated = in_turn(labelled, n_steps * mixture.n_labelled, rng)
                dealt = mixture.laid_out(
                    repeated.reshape(n_steps, -1), dealt.reshape(n_steps, -1)
                ).ravel()
            order[: n_steps * batch_size] = dealt
            steps = placed(np.asarray(n_steps if epoch >= 0 else 0, np.int32))
            yield epoch, Turn(placed(order), steps, _epoch_key(seed, epoch + 1))

    return common, turns()


def ended(result: FitResult, model: Any, state: State, started: float) -> FitResult:
    """The result of a run that is over: the best weights in the model, steps and time counted."""
    if not np.isfinite(float(state.best_loss)):
        raise FloatingPointError(
            "Training never reached a finite loss, so there is no model to keep. "
            "Try a smaller learning_rate, or look for extreme values in the data."
        )
    result.model = finished(model, state.best, state.best_fixed)
    result.skipped_steps = int(state.skipped)
    result.seconds = time.perf_counter() - started
    return result


def validation_offsets(model: Any) -> Float[Array, "n ..."] | None:
    """The places in cells at which validation looks; None for a model of points."""
    if model.completion is None:
        return None
    shape = model.flow.bijection.in_shape
    return jnp.asarray(fixed_offsets(shape, VALIDATION_OFFSETS), jnp.result_type(float))


def epoch_record(
    epoch: int, started: float, terms: Terms, checked: Terms | None
) -> dict[str, float | int]:
    """What `history` and progress bars say of an epoch."""
    record: dict[str, float | int] = {"epoch": epoch, "seconds": time.perf_counter() - started}
    record |= {name: float(value) for name, value in terms._asdict().items()}
    if checked is not None:
        record |= {f"val_{name}": float(value) for name, value in checked._asdict().items()}
    return record


def stop_reason(
    state: State, settings: Settings, n_steps: int, *, checked: bool = True
) -> str | None:
    """Why training should end after an epoch, or None; a warning where the numbers went astray."""
    bad_run = int(state.bad_run)
    if bad_run >= min(settings.max_bad_steps, n_steps):
        warnings.warn(
            f"The loss was not finite for the last {bad_run} steps; training stopped at the last "
            "good state. Try a smaller learning_rate, or look for extreme values in the data.",
            NonFiniteTrainingWarning,
            stacklevel=3,
        )
        return "non-finite"
    patience = settings.patience
    if checked and patience is not None and int(state.epochs_since_best) >= patience:
        return "patience"
    return None
