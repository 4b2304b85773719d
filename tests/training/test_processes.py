"""Several devices and several processes train the model that one would, and none waits for ever."""

import json
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("orbax.checkpoint")

from fit_workers import CHUNK_ROWS, Worker, arrays_of, fit, free_port, saved, stored  # noqa: E402
from shared_steps import end_early, steps, train_on_devices, train_together  # noqa: E402

from diglm.distributed import connect  # noqa: E402

N_GROUPS = 12  # row groups of 100 rows


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return stored(tmp_path_factory.mktemp("table") / "rows.parquet")


@pytest.fixture(scope="module", autouse=True)
def short_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diglm.fitting.files.CHUNK_ROWS", CHUNK_ROWS)
        yield


@pytest.fixture(scope="module")
def alone(table) -> list[np.ndarray]:
    """The model of one process on one device: that of the tests."""
    return arrays_of(fit(table))


def pair(target, folder: Path, **options) -> list[Worker]:
    """Two processes that share the work."""
    address = f"127.0.0.1:{free_port()}"
    return [
        Worker(target, folder / f"said{i}.txt", address=address, process=i, **options)
        for i in range(2)
    ]


@pytest.fixture(scope="module")
def ended_early(table, tmp_path_factory):
    """Two processes of which the second is told to stop in one run, and dies in the next."""
    folder = tmp_path_factory.mktemp("early")
    runs = {"told": folder / "told", "lost": folder / "lost"}
    workers = pair(end_early, folder, table=table, **runs)
    codes = [worker.ended() for worker in workers]
    return SimpleNamespace(codes=codes, said=[worker.said() for worker in workers], **runs)


@pytest.fixture(scope="module")
def together(table, ended_early, tmp_path_factory):
    """Two processes that train from the beginning, and go on with the run that lost one."""
    folder = tmp_path_factory.mktemp("together")
    lost = shutil.copytree(ended_early.lost, folder / "lost")
    for worker in pair(train_together, folder, table=table, lost=lost, out=folder):
        worker.succeeded()
    about = [json.loads((folder / f"about{i}.json").read_text()) for i in range(2)]
    arrays = {
        name: [saved(folder / f"{name}{i}.npz") for i in range(2)]
        for name in ("fresh", "steps", "resumed")
    }
    return SimpleNamespace(about=about, **arrays)


def assert_same(first: list[np.ndarray], second: list[np.ndarray]):
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def assert_close(ours: list[np.ndarray], theirs: list[np.ndarray]):
    """Sums over devices are rounded in another order; nothing else differs."""
    assert len(ours) == len(theirs) > 10
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def test_processes_that_do_not_find_one_another_say_so(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    lonely = Worker(connect, tmp_path / "said.txt", address=address, n_processes=2, process_id=5)
    assert lonely.ended() == 1
    assert "did not find one another" in lonely.said()
    assert "its own process_id" in lonely.said()


@pytest.mark.slow
def test_two_devices_train_the_model_of_one(table, alone, tmp_path):
    paths = {"table": table, "folder": tmp_path / "run", "out": tmp_path / "out.npz"}
    Worker(train_on_devices, tmp_path / "said.txt", devices=2, **paths).succeeded()
    *arrays, devices = saved(tmp_path / "out.npz")
    assert devices == 2
    assert_close(arrays, alone)


@pytest.mark.slow
def test_two_processes_train_the_model_of_one(table, alone, together):
    assert_same(*together.fresh)
    assert_close(together.fresh[0], alone)
    assert [one["devices"] for one in together.about] == [2, 2]
    # Of the file each process reads its own half, of the copy in random order its own shard.
    read = [one["read"] for one in together.about]
    halves = [{group for name, group in own if name == table.name} for own in read]
    assert halves == [set(range(N_GROUPS // 2)), set(range(N_GROUPS // 2, N_GROUPS))]
    shards = [{name for name, _ in own if name != table.name} for own in read]
    assert shards == [{"shard-000.arrow"}, {"shard-001.arrow"}]


@pytest.mark.slow
def test_steps_shared_with_noise_and_batch_statistics_are_those_of_one_and_exchange_twice(together):
    """Cells, gaps, dropout, uneven weights, missing labels, batch norm, adversarial steps.

    What rows weigh is exchanged first, then gradients and terms.
    """
    (none, plain), (none_either, rich) = steps(False), steps(True)
    assert none == none_either == []
    for own, about in zip(together.steps, together.about, strict=True):
        assert_close(own, plain + rich)
        alone, with_batch_norm = about["exchanges"]
        assert alone == ["all-reduce"] * 2
        assert with_batch_norm.count("all-reduce") == 2
        assert "all-gather" in with_batch_norm


@pytest.mark.slow
def test_sigterm_to_one_ends_both_and_one_process_may_go_on_alone(
    table, alone, ended_early, tmp_path
):
    assert all(f"ended with {128 + signal.SIGTERM}" in said for said in ended_early.said)
    folder = shutil.copytree(ended_early.told, tmp_path / "run")
    assert_close(arrays_of(fit(table, folder)), alone)


@pytest.mark.slow
def test_a_process_that_dies_ends_the_run_and_both_resume(alone, ended_early, together):
    left, killed = ended_early.codes
    assert killed == -signal.SIGKILL
    assert left != 0
    said = ended_early.said[0]
    assert "LostProcessError: A step of 2 processes failed in process 0" in said
    assert_same(*together.resumed)
    assert_close(together.resumed[0], alone)
