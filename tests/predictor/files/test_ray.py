"""Scoring on the workers of Ray: the same answers, and no row lost when workers die."""

import os
import signal
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from scored_rows import GROUP_ROWS, N_ROWS, require_answers  # noqa: E402

RAY_WARNS_OF_ITSELF = pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*")


@pytest.fixture
def ray_scoring(monkeypatch):
    pytest.importorskip("ray.data")
    # Workers share what they compile, with one another and with this process.
    cache = Path(__file__).parents[3] / ".pytest_cache" / "programs"
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(cache))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    from diglm.predictor import ray as ray_scoring

    monkeypatch.setattr(ray_scoring, "UNIT_ROWS", GROUP_ROWS)
    return ray_scoring


@pytest.fixture
def ray(monkeypatch):
    """Ray as a user has started it."""
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX is wary of the forks of Ray
        ray.init(
            address="local",
            num_cpus=2,
            object_store_memory=100 << 20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    yield ray
    ray.shutdown()


def test_ranges_cover_every_row_once(scoring, ray_scoring, table, monkeypatch):
    opened = scoring.open_table(table)
    cuts = {GROUP_ROWS: [0, 700, 1400, 2100, 2800], 1000: [0, 1400, 2800], 5000: [0]}
    for unit_rows, starts in cuts.items():
        monkeypatch.setattr(ray_scoring, "UNIT_ROWS", unit_rows)
        units = ray_scoring.divide(opened)
        assert [unit["unit"] for unit in units] == list(range(len(starts)))
        assert [unit["start"] for unit in units] == starts
        assert [unit["stop"] for unit in units] == [*starts[1:], N_ROWS]
    monkeypatch.setattr(ray_scoring, "UNIT_ROWS", 100)
    monkeypatch.setattr(ray_scoring, "BLOCK_ROWS", 300)
    starts = [unit["start"] for unit in ray_scoring.divide(opened)]
    assert starts[:5] == [0, 300, 600, 700, 1000]  # a large row group is cut at its blocks


def test_rows_that_end_every_worker_are_given_up(
    scoring, ray_scoring, model, table, tmp_path, monkeypatch
):
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"])  # the worker sets it
    opened = scoring.open_table(table)
    columns = scoring.choose_columns(model, opened, (), None)
    worker = ray_scoring.UnitScorer(opened, columns, tmp_path, True, os.environ["XLA_FLAGS"])
    (tmp_path / "tries-000002").write_bytes(b"." * ray_scoring.MOST_TRIES)
    done = worker({"unit": 2, "start": 0, "stop": 10})
    assert "MemoryError: 4 workers died over these rows" in done["error"]
    assert "No model file" in worker({"unit": 3, "start": 0, "stop": 10})["error"]


def test_a_part_that_lacks_rows_is_found_out(scoring, ray_scoring, model, table, tmp_path):
    out = tmp_path / "answers.parquet"
    out.write_bytes(b"earlier")
    units = [{"unit": 0, "start": 0, "stop": 3}, {"unit": 1, "start": 3, "stop": 6}]
    pq.write_table(pa.table({"row": [0, 1, 2]}), tmp_path / "part-000000.parquet")
    for rows in ([3, 4], [2, 3, 4], [3, 4, 6]):
        pq.write_table(pa.table({"row": rows}), tmp_path / "part-000001.parquet")
        with pytest.raises(RuntimeError, match="rows 3 to 6 ends at row"):
            ray_scoring._join(tmp_path, units, out)
        assert out.read_bytes() == b"earlier"


def test_a_folder_that_is_not_ours_is_left_alone(scoring, ray_scoring, model, table, tmp_path):
    folder = tmp_path / "answers.parquet.parts"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"thesis\.tex"):
        scoring.score_file(model, table, tmp_path / "answers.parquet", engine="ray")
    assert (folder / "thesis.tex").read_text() == "years of work"


@RAY_WARNS_OF_ITSELF
@pytest.mark.slow
def test_ray_answers_are_the_local_ones(scoring, ray_scoring, model, frame, expected, tmp_path):
    import ray

    assert not ray.is_initialized()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "answers.parquet"
    stale = tmp_path / "answers.parquet.parts"
    stale.mkdir()
    (stale / "part-000000.parquet").write_bytes(b"of an interrupted run")
    # One worker imports what two would twice.
    options = {"keep": ["id"], "engine": "ray", "n_workers": 1}
    scoring.score_file(model, tmp_path / "rows.csv", out, **options)
    # The same program on the same machine: each worker computes on one thread, this process on
    # several, and the answers agree to the last bit.
    require_answers(out, expected, frame[["id"]])
    assert not ray.is_initialized()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.parquet", "rows.csv"]


@RAY_WARNS_OF_ITSELF
@pytest.mark.slow
def test_killed_workers_lose_and_double_no_row(
    scoring, ray_scoring, ray, model, table, frame, expected, tmp_path, monkeypatch
):
    killed = tmp_path / "killed"
    killed.mkdir()

    class Fragile:  # defined here, so that Ray sends the class and does not import this file
        def __init__(self, **settings):
            from diglm.predictor.ray import UnitScorer

            self.scorer = UnitScorer(**settings)

        def __call__(self, unit):
            mark = killed / str(unit["unit"])
            if unit["unit"] in (1, 3) and not mark.exists():
                mark.touch()
                if unit["unit"] == 3:
                    self.scorer(unit)  # its part is written, yet nobody hears of it
                os.kill(os.getpid(), signal.SIGKILL)
            return self.scorer(unit)

    monkeypatch.setattr(ray_scoring, "UnitScorer", Fragile)
    out = tmp_path / "answers.parquet"
    # One worker at a time is enough to lose: each that dies is followed by another.
    scoring.score_file(model, table, out, keep="id", engine="ray", n_workers=1)
    assert sorted(path.name for path in killed.iterdir()) == ["1", "3"]
    require_answers(out, expected, frame[["id"]])
    assert ray.is_initialized()

    idle = {thread.name for thread in threading.enumerate()}
    length = frame["length"].to_numpy().copy()
    length[1500] = np.inf
    frame.assign(length=length).to_parquet(table, row_group_size=GROUP_ROWS)
    with pytest.raises(RuntimeError, match="Rows 1400 to 2100 cannot be scored: ValueError: .*inf"):
        scoring.score_file(model, table, out, keep="id", engine="ray", n_workers=1)
    # A thread of Ray Data's that outlives Ray ends the process.
    assert {thread.name for thread in threading.enumerate()} <= idle
    require_answers(out, expected, frame[["id"]])
    assert not (tmp_path / "answers.parquet.parts").exists()
