"""A run in a process that is killed, told to end, or whose disk fills: it ends as if untouched."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("orbax.checkpoint")

from fit_workers import CHUNK_ROWS, Worker, arrays_of, fit, fit_and_end, saved, stored  # noqa: E402


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return stored(tmp_path_factory.mktemp("table") / "rows.parquet")


@pytest.fixture(scope="module", autouse=True)
def short_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diglm.fitting.files.CHUNK_ROWS", CHUNK_ROWS)
        yield


@pytest.fixture(scope="module")
def whole(table) -> list[np.ndarray]:
    """The model of a run that nothing interrupted."""
    return arrays_of(fit(table))


@pytest.fixture
def start(table, tmp_path):
    """Start a fit in a process; options say when it is to end, and by which signal."""

    def started(**options) -> Worker:
        paths = {"table": table, "folder": tmp_path / "run", "out": tmp_path / "out.npz"}
        return Worker(fit_and_end, tmp_path / "errors.txt", **paths, **options)

    return started


@pytest.fixture
def states(tmp_path):
    """The folders of complete states, oldest first."""

    def found() -> list[Path]:
        complete = [path for path in (tmp_path / "run/states").iterdir() if path.name.isdigit()]
        return sorted(complete, key=lambda path: int(path.name))

    return found


def assert_same(found: list[np.ndarray], whole: list[np.ndarray]):
    assert len(found) == len(whole) > 10
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(found, whole, strict=True))


@pytest.mark.slow
def test_a_disk_that_fills_while_a_state_is_written(start, states, table, whole, tmp_path):
    """A limit on the size of files cuts writing off in the middle, as a full disk does."""
    filled = start(room=3)
    filled.succeeded()
    assert "No checkpoint was written at step" in filled.said()
    assert_same(saved(tmp_path / "out.npz"), whole)
    assert [int(state.name) for state in states()] == [12, 18]  # the second and the third
    assert_same(arrays_of(fit(table, tmp_path / "run")), whole)


@pytest.mark.slow
def test_sigterm_keeps_the_run_and_ends_it(start, states, table, whole, tmp_path):
    assert start(chunk=5, by="SIGTERM").ended() == 128 + signal.SIGTERM
    about = json.loads(next(states()[-1].glob("about/*")).read_text())
    assert about["position"] == [1, 1]  # the fifth chunk, in which the signal came
    assert not (tmp_path / "out.npz").exists()
    assert_same(arrays_of(fit(table, tmp_path / "run")), whole)


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(start, table, whole, tmp_path):
    """Some between chunks, some while a state is written, one at any time at all.

    Each process resumes what the one before it left; the last is that of the tests.
    """
    random = np.random.default_rng(0)
    endings = [
        {"chunk": 2},
        {"save": 1, "delay": 0.03 * random.random()},
        {"save": 3, "delay": 0.01 * random.random()},
        {"later": 0.2 * random.random()},
    ]
    for ending in endings:
        killed = start(**ending)
        assert killed.ended() == -signal.SIGKILL, killed.said()
        assert not (tmp_path / "out.npz").exists()
    assert_same(arrays_of(fit(table, tmp_path / "run")), whole)
