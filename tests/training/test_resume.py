"""A run that is kept in a folder: interrupted or torn, it ends as if nothing had been."""

import errno
import itertools
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ocp = pytest.importorskip("orbax.checkpoint")

from fit_workers import CHUNK_ROWS, arrays_of, fit, stored  # noqa: E402

from diglm.training import ProgressBar, loop, stream  # noqa: E402
from diglm.training.checkpoint import CheckpointWarning  # noqa: E402

N_EPOCHS = 2
N_CHUNKS = 4 * N_EPOCHS  # 1080 rows to train on make 21 steps, 6 a chunk


class Interrupted(Exception):
    pass


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return stored(tmp_path_factory.mktemp("table") / "rows.parquet")


@pytest.fixture(scope="module", autouse=True)
def short_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diglm.fitting.files.CHUNK_ROWS", CHUNK_ROWS)
        yield


@pytest.fixture(scope="module")
def uninterrupted(table):
    return fit(table)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "run"


def fit_until(chunk: int, table: Path, folder: Path):
    """Begin a run, and end it by an error after so many chunks."""
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


@pytest.mark.parametrize("chunk", [1, 2, 4, 5, 7])
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
    fit_until(6, table, folder)
    taken, run_chunk = [], stream.run_chunk
    monkeypatch.setattr(stream, "run_chunk", lambda *args: taken.append(1) or run_chunk(*args))
    fit(table, folder)
    assert len(taken) == N_CHUNKS - 5  # the sixth was not kept


def test_the_clock_goes_on_within_an_epoch(table, folder, monkeypatch):
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
    fit(table, folder)
    monkeypatch.setattr(stream, "run_chunk", None)
    assert_same(fit(table, folder), uninterrupted)


def test_a_run_that_lost_patience_stays_ended(table, folder, monkeypatch):
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
    fit_until(7, table, folder)
    older, newest = states(folder)
    damage(newest)
    with pytest.warns(CheckpointWarning, match=rf"step {newest.name} .* trying the one before"):
        model = fit(table, folder)
    assert_same(model, uninterrupted)
    assert older not in states(folder) and len(states(folder)) == 2


def test_with_all_states_torn_the_run_begins_again(uninterrupted, table, folder):
    fit_until(7, table, folder)
    for state in states(folder):
        cut(state)
    with pytest.warns(CheckpointWarning) as caught:
        model = fit(table, folder)
    assert len(caught) == 2
    assert_same(model, uninterrupted)


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_does_not_end_training(uninterrupted, table, folder, monkeypatch):
    monkeypatch.setattr(ocp.CheckpointManager, "save", full_disk)
    with pytest.warns(CheckpointWarning, match="No space left on device"):
        model = fit(table, folder)
    assert_same(model, uninterrupted)


# Another run's folder


def test_a_folder_belongs_to_one_run(table, folder, tmp_path):
    fit_until(3, table, folder)
    with pytest.raises(ValueError, match="another run: .*learning_rate was 'auto', now 0.01"):
        fit(table, folder, learning_rate=0.01)
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
    assert "the device waited" in capsys.readouterr().err
