"""Fits in processes of their own, for tests that kill them or let several share the work.

They are forked from a server that has imported everything and computed nothing, which saves each
of them the seconds that importing takes, and they share what they compile with the tests.
"""

import atexit
import multiprocessing
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path

import jax
import numpy as np

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["diglm.estimators", "diglm.distributed", "orbax.checkpoint", "pyarrow.parquet", "pytest"]
)
PATIENCE_SECONDS = 120  # for a process of a test
CHUNK_ROWS, SAVE_EVERY = 300, 6  # of 1080 rows to train on: 21 steps of 50, 6 a chunk
PARAMETERS = dict(
    flow="linear",
    batch_size=50,
    n_epochs=2,
    head="gaussian",
    random_state=0,
    verbose=False,
)


def stored(path: Path, seed: int = 0, n_rows: int = 1200) -> Path:
    """A table of whole numbers, so that training adds noise, and a gap or two."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(seed)
    size, count = random.normal(size=n_rows), random.poisson(3, n_rows)
    value = size + 0.3 * count + 0.3 * random.normal(size=n_rows)
    size[::97] = np.nan
    pq.write_table(pa.table({"size": size, "count": count, "value": value}), path, 100)
    return path


def fit(table: Path, folder: Path | None = None, **changed):
    """A small model of the table, its run kept in the folder."""
    from diglm import HybridRegressor

    model = HybridRegressor(**{**PARAMETERS, **changed})
    return model.fit_file(table, "value", checkpoint=folder, save_every=SAVE_EVERY)


def arrays_of(model) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model.model_) if hasattr(leaf, "dtype")]


def saved(out: Path) -> list[np.ndarray]:
    """The arrays that a process left."""
    found = np.load(out)
    return [found[name] for name in found.files]


# Processes


class Worker:
    """A process that runs `target(**options)` and writes what it says to a file."""

    def __init__(self, target, errors: Path, **options):
        self.errors = errors
        settings = {
            "jax_compilation_cache_dir": jax.config.jax_compilation_cache_dir,
            "jax_enable_x64": True,
            "jax_num_cpu_devices": options.pop("devices", 1),
        }
        arguments = (target, settings, str(errors), options)
        self.process = SERVER.Process(target=_run, args=arguments, daemon=True)
        self.process.start()

    def ended(self) -> int:
        """How it ended: its exit code, or minus the signal."""
        self.process.join(PATIENCE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            raise TimeoutError(f"A process never ended. It said: {self.said()}")
        return self.process.exitcode

    def succeeded(self) -> None:
        code = self.ended()
        assert code == 0, f"exit code {code}: {self.said()}"

    def said(self) -> str:
        return self.errors.read_text() if self.errors.exists() else ""


def _run(target, settings: dict, errors: str, options: dict) -> None:
    where = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(where, 1)
    os.dup2(where, 2)
    for name, value in settings.items():
        jax.config.update(name, value)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    try:
        target(**options)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    finally:  # as at the end of any other process
        sys.stderr.flush()
        atexit._run_exitfuncs()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# What they run


def end(by: str) -> None:
    os.kill(os.getpid(), getattr(signal, by))


def after_chunks(chunk: int, then) -> None:
    """Call `then` when so many chunks of the next fit are done."""
    from diglm.training import ProgressBar

    ticks = 0

    def tick(self, record):
        nonlocal ticks
        ticks += 1
        if ticks == chunk:
            then()

    ProgressBar.__call__ = tick


def fit_and_end(
    table: Path,
    folder: Path | None,
    out: Path,
    *,
    by: str = "SIGKILL",
    chunk: int | None = None,
    save: int | None = None,
    delay: float = 0.0,
    later: float | None = None,
    room: int | None = None,
    **changed,
) -> None:
    """A fit that a signal ends: after a chunk, while a state is written, or at any moment.

    Args:
        table: rows.
        folder: where the run is kept.
        out: the arrays of the model, if it comes to that.
        by: the signal.
        chunk: ends the process when so many chunks are done.
        save: ends it so many seconds (`delay`) after this state began to be written.
        delay: see there.
        later: ends it so many seconds after the second chunk.
        room: from the state after this one on, the disk is full.
        changed: parameters of the model.
    """
    from diglm.fitting import files
    from diglm.training.checkpoint import Checkpoints

    files.CHUNK_ROWS = CHUNK_ROWS
    count, save_state = 0, Checkpoints.save

    def kept(self, step, state):
        nonlocal count
        count += 1
        if count == save:
            threading.Timer(delay, end, [by]).start()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if room is not None and count > room:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
        save_state(self, step, state)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    Checkpoints.save = kept
    if later is not None:
        after_chunks(2, lambda: threading.Timer(later, end, [by]).start())
    else:
        after_chunks(chunk or -1, lambda: end(by))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = fit(table, folder, **changed)
    for warning in told:  # only now: a full disk has no room for words either
        print(warning.message, file=sys.stderr)
    if later is not None:  # the fit was quicker than the signal
        time.sleep(PATIENCE_SECONDS)
    np.savez(out, *arrays_of(model))
