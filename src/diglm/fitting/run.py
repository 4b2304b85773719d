"""One run: rows to a fitted predictor, wherever the rows come from."""

import functools
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from diglm import __about__
from diglm.compiling import drop_programs, require_own_jax
from diglm.fitting.folds import left_out
from diglm.fitting.prepare import Prepared, prepare
from diglm.fitting.request import Request
from diglm.fitting.settle import settle
from diglm.fitting.sources import AbstractSource, fingerprint
from diglm.fitting.trainers import AbstractTrainer, Begun, EvidenceTrainer, NoTrainer
from diglm.parameters import Parameters
from diglm.predictor import Predictor
from diglm.training import FitResult, ProgressBar
from diglm.training.checkpoint import Checkpoints
from diglm.training.clock import Clock
from diglm.training.devices import Layout
from diglm.training.progress import Record

NOT_DESCRIBED = ("verbose", "random_state")  # they do not change a run, or the seed says it


class Fitted(NamedTuple):
    """What a run gives: the predictor, how training went, and what it set out from."""

    predictor: Predictor
    result: FitResult
    prepared: Prepared


def run(source: AbstractSource, request: Request) -> Fitted:
    """Fit a model to the rows of a source."""
    require_own_jax()
    prepared = _prepared_in_time(source, request)
    trainer, other = trainers_of(source, prepared)
    with (
        _density(source, prepared, other) as with_density,
        left_out(source, prepared, other) as rows_left_out,
    ):
        with _checkpoints(source, prepared) as kept, _bar(prepared) as bar:
            result = trainer.train(prepared.begun, progress=bar, checkpoints=kept)
            _tell(bar, result)
        result, rows = with_density(result), rows_left_out()
    return Fitted(settle(prepared, result, source, rows), result, prepared)


def run_each(
    source: AbstractSource, request: Request, generative_weights: Sequence[float]
) -> list[Fitted]:
    """Fit a model for each weight of log p(x); all share the rows, the start and all noise.

    They also share a density of its own, which does not depend on the weight.
    """
    require_own_jax()
    prepared = _prepared_in_time(source, replace(request, compares=True))
    runs = [prepared.weighing(weight) for weight in generative_weights]
    trainer, other = trainers_of(source, prepared)
    with (
        _density(source, prepared, other) as with_density,
        left_out(source, prepared, other) as rows_left_out,
    ):
        with _bar(prepared) as bar:
            results = trainer.train_each([one.begun for one in runs], progress=bar)
        results, rows = [with_density(result) for result in results], rows_left_out()
    return [
        Fitted(settle(one, result, source, rows), result, one)
        for one, result in zip(runs, results, strict=True)
    ]


def _prepared_in_time(source: AbstractSource, request: Request) -> Prepared:
    """Everything up to training, which takes its share of the time."""
    drop_programs()
    clock = Clock.of(request.max_time, time.perf_counter())
    prepared = prepare(source, request)
    density = prepared.density
    return replace(
        prepared,
        begun=prepared.begun._replace(clock=clock),
        density=None if density is None else density._replace(clock=clock),
    )


def trainers_of(
    source: AbstractSource, prepared: Prepared
) -> tuple[AbstractTrainer, AbstractTrainer]:
    """What trains the model, and what a density beside it, on these rows."""
    begun, seed, choice = prepared.begun, prepared.request.seed, prepared.learned.target.choice
    if begun.exact and not source.holds_all:
        raise ValueError(
            "flow='identity' is fitted exactly from all rows at once: load the table and use "
            "fit(), or choose a flow that trains, such as 'linear'."
        )
    if begun.exact:
        return NoTrainer(), NoTrainer()
    usual = source.trainer(prepared.recipe, prepared.train, begun.settings, prepared.encode, seed)
    if choice is not None and choice.exact_steps:
        rows = source.training_rows(prepared.train, prepared.encode)
        return EvidenceTrainer(rows, seed), usual
    return usual, usual


@contextmanager
def _density(
    source: AbstractSource, prepared: Prepared, trainer: AbstractTrainer
) -> Iterator[Callable[[FitResult], FitResult]]:
    """Yields what adds a density of its own to a trained model.

    It is trained meanwhile on another core if a trainer keeps one core busy, else when it is first
    asked for. If all else fails meanwhile, it ends at its next epoch.
    """
    begun = prepared.density
    if begun is None:
        yield lambda result: result
        return
    given_up = threading.Event()

    def epoch_done(record: Record) -> None:
        if given_up.is_set():
            raise InterruptedError("The fit was given up.")

    def in_turn() -> FitResult:
        about = {"side": "density", "training": asdict(begun.settings)}
        with _checkpoints(source, prepared, "density", about) as kept, _bar(prepared, begun) as bar:
            return trainer.train(begun, progress=bar, checkpoints=kept)

    with ThreadPoolExecutor(1) as pool:
        if trainer.keeps_one_core:
            found = pool.submit(trainer.train, begun, progress=epoch_done).result
        else:
            found = functools.cache(in_turn)

        def with_density(result: FitResult) -> FitResult:
            own = found()
            model = eqx.tree_at(
                lambda m: m.density, result.model, own.model, is_leaf=lambda leaf: leaf is None
            )
            skipped = result.skipped_steps + own.skipped_steps
            return replace(result, model=model, density_history=own.history, skipped_steps=skipped)

        try:
            yield with_density
        except BaseException:
            given_up.set()
            raise


@contextmanager
def _checkpoints(
    source: AbstractSource,
    prepared: Prepared,
    inside: str = "",
    about: Mapping[str, object] | None = None,
) -> Iterator[Checkpoints | None]:
    """Where the run is kept. The folder is claimed before anything is written into it."""
    if source.checkpoint is None:
        yield None
        return
    described = describe(source, prepared) | dict(about or {})
    with Checkpoints(source.checkpoint / inside, described) as kept:
        yield kept


def describe(source: AbstractSource, prepared: Prepared) -> dict[str, object]:
    """What makes this run this run: resuming with anything else would mix two models."""
    request, begun = prepared.request, prepared.begun
    parameters = {k: v for k, v in request.parameters.items() if k not in NOT_DESCRIBED}
    return {
        "estimator": request.owner,
        "version": __about__.__version__,
        "parameters": _plain(parameters),
        "seed": request.seed,
        "precision": str(jnp.result_type(float)),
        "training": asdict(begun.settings),
        **source.described(prepared.train, begun.held_out, begun.settings),
    }


@contextmanager
def _bar(prepared: Prepared, density: Begun | None = None) -> Iterator[ProgressBar]:
    target, request = prepared.learned.target, prepared.request
    verbose = request.verbose if Layout().process == 0 else False
    if density is None:
        n_epochs, metric, what = prepared.begun.settings.n_epochs, target.metric, "fit"
    else:
        n_epochs, metric, what = density.settings.n_epochs, "", "density"
    with ProgressBar(n_epochs, metric, verbose, root=target.squared, what=what) as bar:
        yield bar


def _tell(bar: ProgressBar, result: FitResult) -> None:
    """The pace of a stream of rows, for people."""
    if bar.visible and result.waited > 0:
        Console(stderr=True).print(
            f"{result.seconds:.1f} s; the device waited {result.waited:.1f} s for rows"
        )


def _plain(value: object) -> object:
    """A parameter as JSON can hold it, arrays by their content."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Parameters):
        return {type(value).__name__: _plain(value.get_params())}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, eqx.Module):
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(value) if eqx.is_array(leaf)]
        shape = hashlib.sha256(repr(jax.tree.structure(value)).encode()).hexdigest()
        return f"{type(value).__name__} {shape[:16]} {fingerprint(leaves)[:16]}"
    return repr(value)
