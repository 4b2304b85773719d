"""A run that is kept in a folder: interrupted, killed or torn, it ends as if nothing had been."""

import errno
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from diglm import HybridRegressor

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ocp = pytest.importorskip("orbax.checkpoint")

N_ROWS, BATCH, CHUNK_ROWS, N_EPOCHS = 1200, 50, 300, 3
N_CHUNKS = 4 * N_EPOCHS  # 1080 rows to train on make 21 steps, 6 a chunk
PARAMETERS = dict(
    n_blocks=2,
    width=8,
    depth=1,
    batch_size=BATCH,
    n_epochs=N_EPOCHS,
    head="gaussian",
    random_state=0,
    verbose=False,
)


class Interrupted(Exception):
    pass


def stored(path: Path, seed: int = 0) -> Path:
    """Whole numbers, so that training adds noise, and a gap or two."""
    random = np.random.default_rng(seed)
    size, count = random.normal(size=N_ROWS), random.poisson(3, N_ROWS)
    value = size + 0.3 * count + 0.3 * random.normal(size=N_ROWS)
    size[::97] = np.nan
    pq.write_table(pa.table({"size": size, "count": count, "value": value}), path, 100)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return stored(tmp_path_factory.mktemp("table") / "rows.parquet")


@pytest.fixture(scope="module", autouse=True)
def short_chunks():
    from diglm.estimators import filefit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filefit, "CHUNK_ROWS", CHUNK_ROWS)
        yield


@pytest.fixture(scope="module")
def uninterrupted(table) -> HybridRegressor:
    return fit(table)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "run"


def fit(table: Path, folder: Path | None = None, **changed) -> HybridRegressor:
    model = HybridRegressor(**{**PARAMETERS, **changed})
    return model.fit_file(table, "value", checkpoint=folder, save_every=6)


def fit_until(chunk: int, table: Path, folder: Path):
    """Begin a run, and end it by an error after so many chunks."""
    from diglm.estimators.filefit import ProgressBar

    count = 0

    def tick(*_):
        nonlocal count
        count += 1
        if count == chunk:
            raise Interrupted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProgressBar, "__call__", tick)
        with pytest.raises(Interrupted):
            fit(table, folder)


def arrays_of(model) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model.model_) if hasattr(leaf, "dtype")]


def assert_same(model, expected):
    """Every number of the model, and the history but for its seconds."""
    pairs = list(zip(arrays_of(model), arrays_of(expected), strict=True))
    assert len(pairs) > 10
    assert all(np.array_equal(ours, theirs) for ours, theirs in pairs)
    assert without_seconds(model.history_) == without_seconds(expected.history_)
    assert model.threshold_ == expected.threshold_
    assert model.stopped_ == expected.stopped_


def without_seconds(history):
    return [{name: record[name] for name in record if name != "seconds"} for record in history]


def states(folder: Path) -> list[Path]:
    """The folders of complete states, oldest first."""
    found = [path for path in (folder / "states").iterdir() if path.name.isdigit()]
    return sorted(found, key=lambda path: int(path.name))


# Interrupted in this process


@pytest.mark.parametrize("chunk", [1, 2, 4, 5, 8, 11])
def test_an_interrupted_run_ends_as_an_uninterrupted_one(uninterrupted, table, folder, chunk):
    fit_until(chunk, table, folder)
    model = fit(table, folder)
    assert_same(model, uninterrupted)
    assert model.n_epochs_ == N_EPOCHS


def test_a_run_interrupted_again_and_again(uninterrupted, table, folder):
    for chunk in (3, 1, 4, 2):  # an attempt that ends in its first chunk gains nothing
        fit_until(chunk, table, folder)
    assert_same(fit(table, folder), uninterrupted)
    assert len(states(folder)) == 2


def test_resuming_goes_on_where_it_stood(table, folder, monkeypatch):
    from diglm.training import stream

    fit_until(6, table, folder)
    taken, run_chunk = [], stream.run_chunk
    monkeypatch.setattr(stream, "run_chunk", lambda *args: taken.append(1) or run_chunk(*args))
    fit(table, folder)
    assert len(taken) == N_CHUNKS - 5  # the sixth was not kept


def test_the_clock_goes_on_within_an_epoch(table, folder, monkeypatch):
    from diglm.training import loop, stream

    def tick(seconds):
        now = itertools.count(0, seconds)
        clock = SimpleNamespace(perf_counter=lambda: float(next(now)))
        for module in (loop, stream):
            monkeypatch.setattr(module, "time", clock)

    tick(1000)
    fit_until(3, table, folder)  # in the first epoch, of which two chunks are kept
    tick(0)
    model = fit(table, folder)
    assert model.history_[0]["seconds"] >= 1000
    assert model.fit_seconds_ >= 1000


def test_a_finished_run_trains_no_more(uninterrupted, table, folder, monkeypatch):
    from diglm.training import stream

    fit(table, folder)
    monkeypatch.setattr(stream, "run_chunk", None)
    assert_same(fit(table, folder), uninterrupted)


def test_a_run_that_lost_patience_stays_ended(table, folder, monkeypatch):
    from diglm.training import stream

    hopeless = {"learning_rate": 0.3, "patience": 1}
    first = fit(table, folder, **hopeless)
    assert first.stopped_ == "patience"
    monkeypatch.setattr(stream, "run_chunk", None)
    assert_same(fit(table, folder, **hopeless), first)


# Damaged checkpoints and full disks


def cut(path: Path):
    for file in path.rglob("*"):
        if file.is_file():
            os.truncate(file, file.stat().st_size // 2)


def empty(path: Path):
    for file in path.rglob("*"):
        if file.is_file():
            os.truncate(file, 0)


def lose_arrays(path: Path):
    shutil.rmtree(path / "state")


@pytest.mark.parametrize("damage", [cut, empty, lose_arrays])
def test_a_torn_state_is_passed_over_for_the_one_before(uninterrupted, table, folder, damage):
    from diglm.training.checkpoint import CheckpointWarning

    fit_until(8, table, folder)
    older, newest = states(folder)
    damage(newest)
    with pytest.warns(CheckpointWarning, match=rf"step {newest.name} .* trying the one before"):
        model = fit(table, folder)
    assert_same(model, uninterrupted)
    assert older not in states(folder) and len(states(folder)) == 2


def test_with_all_states_torn_the_run_begins_again(uninterrupted, table, folder):
    from diglm.training.checkpoint import CheckpointWarning

    fit_until(8, table, folder)
    for state in states(folder):
        cut(state)
    with pytest.warns(CheckpointWarning) as caught:
        model = fit(table, folder)
    assert len(caught) == 2
    assert_same(model, uninterrupted)


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_does_not_end_training(uninterrupted, table, folder, monkeypatch):
    from diglm.training.checkpoint import CheckpointWarning

    monkeypatch.setattr(ocp.CheckpointManager, "save", full_disk)
    with pytest.warns(CheckpointWarning, match="No space left on device"):
        model = fit(table, folder)
    assert_same(model, uninterrupted)


# Another run's folder


def test_a_folder_belongs_to_one_run(table, folder, tmp_path):
    fit_until(3, table, folder)
    with pytest.raises(ValueError, match="belongs to another run: width was 8, now 9"):
        fit(table, folder, width=9)
    with pytest.raises(ValueError, match="another run: .*seed was "):
        fit(table, folder, random_state=1)
    other = stored(tmp_path / table.name, seed=1)
    with pytest.raises(ValueError, match="another run: (files|sampled content) was "):
        fit(other, folder)
    shorter = tmp_path / "short" / table.name
    shorter.parent.mkdir()
    pq.write_table(pq.read_table(table)[:1100], shorter, 100)
    with pytest.raises(ValueError, match="rows was 1200, now 1100"):
        fit(shorter, folder)


def test_files_of_the_same_size_are_told_apart_by_their_content(table, folder, tmp_path):
    rows = pq.read_table(table)
    first, second = tmp_path / "a" / "rows.parquet", tmp_path / "b" / "rows.parquet"
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    for path, values in ((first, rows["value"]), (second, rows["value"].to_numpy() + 1)):
        path.parent.mkdir()
        changed = rows.set_column(
            2, "value", pa.chunked_array([values] if path == second else values)
        )
        pq.write_table(changed, path, 100, **plain)
    assert first.stat().st_size == second.stat().st_size
    fit_until(1, first, folder)
    with pytest.raises(ValueError, match="sampled content was .*, now [^;]*. Use another folder"):
        fit(second, folder)


def test_a_copy_of_the_files_elsewhere_is_the_same_data(uninterrupted, table, folder, tmp_path):
    fit_until(5, table, folder)
    moved = shutil.copy(table, tmp_path)
    assert_same(fit(Path(moved), folder), uninterrupted)


def test_how_much_is_printed_is_no_part_of_a_run(uninterrupted, table, folder, capsys):
    fit_until(5, table, folder)
    assert_same(fit(table, folder, verbose=True), uninterrupted)
    assert "s per million rows" in capsys.readouterr().err


# Killed

WORKER = """
import json, os, resource, signal, sys, threading, time
import numpy as np

options = json.loads(sys.argv[1])
import jax
from diglm import HybridRegressor
from diglm.estimators import filefit
from diglm.training.checkpoint import Checkpoints

filefit.CHUNK_ROWS = options["chunk_rows"]
end = lambda: os.kill(os.getpid(), getattr(signal, options["signal"]))
ticks, saves, before = 0, 0, 0.0
save = Checkpoints.save

def tick(self, record):
    global ticks, before
    ticks += 1
    pace, before = time.perf_counter() - before, time.perf_counter()
    if ticks == options.get("chunk"):
        end()
    if ticks == 2 and "chunks_later" in options:
        threading.Timer(options["chunks_later"] * pace, end).start()

def kept(self, step, saved):
    global saves
    saves += 1
    if saves == options.get("save"):
        threading.Timer(options["delay"], end).start()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if saves > options.get("room", saves):
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    save(self, step, saved)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)

filefit.ProgressBar.__call__, Checkpoints.save = tick, kept
model = HybridRegressor(**options["parameters"])
model.fit_file(options["table"], "value", checkpoint=options["folder"], save_every=6)
leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(model.model_) if hasattr(leaf, "dtype")]
np.savez(options["out"], *leaves)
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """Where the processes of these tests share what they compile."""
    return tmp_path_factory.mktemp("programs")


def start(table, folder, out, programs, **ending) -> subprocess.Popen:
    """`fit` in a process of its own; `ending` says when it is to end, and by which signal."""
    ending = {"signal": "SIGKILL", **ending}
    parameters = PARAMETERS | {"n_epochs": ending.pop("n_epochs", N_EPOCHS)}
    options = {
        "table": str(table),
        "folder": None if folder is None else str(folder),
        "out": str(out),
        "parameters": parameters,
        "chunk_rows": CHUNK_ROWS,
        **ending,
    }
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(programs),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, json.dumps(options)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen) -> int:
    _, errors = process.communicate(timeout=300)
    assert process.returncode in (0, -signal.SIGKILL, 143), errors
    return process.returncode


def assert_same_files(out: Path, expected: Path):
    ours, theirs = np.load(out), np.load(expected)
    assert ours.files == theirs.files and len(ours.files) > 10
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours.files)


@pytest.mark.slow
def test_a_disk_that_fills_while_a_state_is_written(table, folder, tmp_path, programs):
    """A limit on the size of files cuts writing off in the middle, as a full disk does."""
    whole, out = tmp_path / "whole.npz", tmp_path / "out.npz"
    assert ended(start(table, None, whole, programs)) == 0
    process = start(table, folder, out, programs, room=3)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert errors.count("No checkpoint was written at step") >= 1  # Python says the same line once
    assert_same_files(out, whole)
    assert [int(state.name) for state in states(folder)] == [12, 18]  # the second and the third
    out.unlink()
    assert ended(start(table, folder, out, programs)) == 0
    assert_same_files(out, whole)


@pytest.mark.slow
def test_sigterm_keeps_the_run_and_ends_it(table, folder, tmp_path, programs):
    whole, out = tmp_path / "whole.npz", tmp_path / "out.npz"
    assert ended(start(table, None, whole, programs)) == 0
    assert ended(start(table, folder, out, programs, chunk=5, signal="SIGTERM")) == 143
    about = json.loads(next(states(folder)[-1].glob("about/*")).read_text())
    assert about["position"] == [1, 1]  # the fifth chunk, in which the signal came
    assert not out.exists()
    assert ended(start(table, folder, out, programs)) == 0
    assert_same_files(out, whole)


@pytest.mark.slow
def test_ten_kills_at_random_moments_change_nothing(table, folder, tmp_path, programs):
    """Some between chunks, some while a state is written, some at any time at all."""
    random, n_epochs = np.random.default_rng(0), 12
    whole, out = tmp_path / "whole.npz", tmp_path / "out.npz"
    assert ended(start(table, None, whole, programs, n_epochs=n_epochs)) == 0
    kinds = ["chunk", "chunk", "save", "save", "chunks_later"] * 2
    for kind in kinds:
        if kind == "chunk":
            ending = {"chunk": int(random.integers(1, 5))}
        elif kind == "save":
            ending = {"save": int(random.integers(1, 4)), "delay": 0.05 * random.random()}
        else:
            ending = {"chunks_later": 2 * random.random()}
        process = start(table, folder, out, programs, n_epochs=n_epochs, **ending)
        assert ended(process) == -signal.SIGKILL
        assert not out.exists()
    assert ended(start(table, folder, out, programs, n_epochs=n_epochs)) == 0
    assert_same_files(out, whole)
