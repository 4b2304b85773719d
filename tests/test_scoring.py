"""Files of rows to files of answers: the answers of `assess`, whole or not at all, also on Ray."""

import os
import signal
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from diglm import HybridClassifier, HybridRegressor

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N_ROWS, GROUP_ROWS = 3000, 700
QUICK = {"n_epochs": 1, "n_blocks": 2, "width": 8, "random_state": 0, "verbose": False}
FEATURES = ["length", "count", "colour"]


@pytest.fixture(scope="module")
def scoring():
    from diglm.estimators import scoring

    return scoring


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    length = random.normal(size=N_ROWS)
    return pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(N_ROWS)],
            "colour": random.choice(["red", "green", "blue"], N_ROWS),
            "length": np.where(random.random(N_ROWS) < 0.05, np.nan, length),
            "count": random.poisson(3, N_ROWS),
            "target": length + random.normal(size=N_ROWS),
        }
    )


@pytest.fixture(scope="module")
def model(frame) -> HybridRegressor:
    return HybridRegressor(**QUICK).fit(frame[FEATURES][:600], frame["target"][:600])


@pytest.fixture(scope="module")
def expected(model, frame) -> pd.DataFrame:
    return model.assess(frame[FEATURES])


@pytest.fixture
def table(frame, tmp_path) -> Path:
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path, row_group_size=GROUP_ROWS, index=False)
    return path


def require_answers(out: Path, expected: pd.DataFrame, kept: pd.DataFrame | None = None):
    """The file holds the row numbers, what was kept, and the very answers, in order."""
    found = pq.read_table(out).to_pandas()
    rows = pd.DataFrame({"row": np.arange(len(expected))})
    parts = [rows, expected] if kept is None else [rows, kept, expected]
    pd.testing.assert_frame_equal(found, pd.concat(parts, axis=1), check_exact=True)
    assert pq.read_schema(out).field("row").type == pa.int64()


@pytest.mark.parametrize("block_rows", [65_536, 1000, 211])
def test_local_answers_are_those_of_assess(
    scoring, model, table, frame, expected, tmp_path, monkeypatch, block_rows
):
    monkeypatch.setattr(scoring, "BLOCK_ROWS", block_rows)
    monkeypatch.setattr(scoring, "OUT_GROUP_ROWS", 1500)
    out = tmp_path / "answers.parquet"
    result = scoring.score_file(model, table, out, keep=["id", "count"])
    assert result == out
    require_answers(out, expected, frame[["id", "count"]])
    groups = pq.ParquetFile(out).metadata
    assert groups.num_row_groups == -(-N_ROWS // 1500)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.parquet", "rows.parquet"]


def test_rows_after_the_first_are_read_from_inside_row_groups(scoring, model, table, expected):
    opened = scoring.open_table(table)
    columns = scoring.choose_columns(model, opened, ())
    start, stop = 650, 2233
    blocks = list(scoring.score_rows(model, opened, columns, start, stop, 500))
    assert [block.num_rows for block in blocks] == [500, 500, 500, 83]
    found = pa.concat_tables(blocks).to_pandas()
    assert found.pop("row").tolist() == list(range(start, stop))
    wanted = expected[start:stop].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, wanted, check_exact=True)


def test_csv_and_folders_are_read_too(scoring, model, frame, expected, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    frame[:1100].to_csv(folder / "a.csv", index=False)
    frame[1100:].to_csv(folder / "b.csv", index=False)
    out = scoring.score_file(model, folder, tmp_path / "answers.parquet", keep="id")
    require_answers(out, expected, frame[["id"]])


def test_a_category_column_is_copied_across_row_groups(scoring, model, frame, expected, tmp_path):
    colours = pa.chunked_array(
        [
            pa.array(frame["colour"][start : start + GROUP_ROWS]).dictionary_encode()
            for start in range(0, N_ROWS, GROUP_ROWS)
        ]
    )
    table = pa.Table.from_pandas(frame.drop(columns="colour"), preserve_index=False)
    table = table.append_column("colour", colours)
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file:
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=False, unify_dictionaries=True)
        with pa.ipc.new_file(file, table.schema, options=options) as writer:
            writer.write_table(table, GROUP_ROWS)
    out = scoring.score_file(
        model, tmp_path / "rows.arrow", tmp_path / "answers.parquet", keep="colour"
    )
    answers = pq.read_table(out).to_pandas()
    assert answers.pop("colour").astype(str).tolist() == frame["colour"].tolist()
    pd.testing.assert_frame_equal(answers.drop(columns="row"), expected, check_exact=True)


def test_classes_keep_their_type(scoring, frame, table, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "BLOCK_ROWS", 800)
    classes = np.where(frame["target"] > 0, "high", "low")
    model = HybridClassifier(flow="identity", **QUICK).fit(frame[FEATURES][:600], classes[:600])
    out = scoring.score_file(model, table, tmp_path / "answers.parquet")
    require_answers(out, model.assess(frame[FEATURES]))


def test_a_model_of_an_array_takes_columns_in_order(scoring, frame, tmp_path):
    X = frame[["count", "target"]].to_numpy()
    model = HybridRegressor(flow="identity", **QUICK).fit(X[:600], frame["target"][:600])
    expected = model.assess(X)
    frame[["count", "target"]].to_parquet(tmp_path / "two.parquet")
    out = scoring.score_file(model, tmp_path / "two.parquet", tmp_path / "answers.parquet")
    require_answers(out, expected)
    frame[["id", "count", "target"]].to_parquet(tmp_path / "three.parquet")
    scoring.score_file(model, tmp_path / "three.parquet", out, keep=["id"])
    require_answers(out, expected, frame[["id"]])
    with pytest.raises(ValueError, match=r"2 columns without names.*'id', 'count', 'target'"):
        scoring.score_file(model, tmp_path / "three.parquet", out)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"out": "answers.csv"}, ValueError, r"ends in \.parquet"),
        ({"out": "folder.parquet"}, IsADirectoryError, "is a folder"),
        ({"out": "absent/answers.parquet"}, FileNotFoundError, "no folder"),
        ({"out": "rows.parquet"}, ValueError, "would become part of the table"),
        ({"path": "absent.parquet"}, ValueError, "does not exist"),
        ({"path": "narrow.parquet"}, ValueError, r"lacks columns \['colour'\].*'length', 'count'"),
        ({"keep": ["key"]}, ValueError, r"keep names the columns \['key'\].*'id'"),
        ({"keep": ["id", "id"]}, ValueError, "more than once"),
        ({"keep": ["sd"], "path": "clash.parquet"}, ValueError, r"\['sd'\].*taken for answers"),
        ({"keep": ["row"], "path": "clash.parquet"}, ValueError, r"\['row'\].*taken for answers"),
        ({"engine": "spark"}, ValueError, "engine must be one of"),
        ({"n_workers": 2}, ValueError, "n_workers"),
        ({"n_workers": 0, "engine": "ray"}, ValueError, "at least 1"),
    ],
)
def test_mistakes_are_named(scoring, model, frame, table, tmp_path, options, error, message):
    (tmp_path / "folder.parquet").mkdir()
    frame[["length", "count"]].to_parquet(tmp_path / "narrow.parquet")
    frame.assign(sd=1.0, row=1).to_parquet(tmp_path / "clash.parquet")
    before = sorted(tmp_path.iterdir())
    path = tmp_path / options.pop("path", "rows.parquet")
    out = tmp_path / options.pop("out", "answers.parquet")
    with pytest.raises(error, match=message):
        scoring.score_file(model, path, out, **options)
    assert sorted(tmp_path.iterdir()) == before


def test_answers_may_not_be_written_among_the_rows(scoring, model, table):
    with pytest.raises(ValueError, match="would become part of the table"):
        scoring.score_file(model, table.parent, table.parent / "answers.parquet")


def test_ray_that_is_not_installed_is_named(scoring, model, table, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"needs Ray: pip install 'diglm\[ray\]'"):
        scoring.score_file(model, table, tmp_path / "answers.parquet", engine="ray")


@pytest.mark.parametrize("where", ["reading", "scoring", "writing"])
def test_an_earlier_result_survives_a_failure(
    scoring, model, table, frame, tmp_path, monkeypatch, where
):
    monkeypatch.setattr(scoring, "BLOCK_ROWS", 1000)
    monkeypatch.setattr(scoring, "OUT_GROUP_ROWS", 1000)
    out = tmp_path / "answers.parquet"
    out.write_bytes(b"earlier")
    blocks = []

    def failing(function, n):
        def wrapped(*args, **kwargs):
            blocks.append(where)
            if len(blocks) == n:
                raise KeyboardInterrupt if where == "scoring" else OSError("no space left")
            return function(*args, **kwargs)

        return wrapped

    if where == "reading":
        length = frame["length"].to_numpy().copy()
        length[1500] = np.inf
        frame.assign(length=length).to_parquet(table)
        wrong = ValueError
    elif where == "scoring":
        monkeypatch.setattr(model, "_evaluate", failing(model._evaluate, 2), raising=False)
        wrong = KeyboardInterrupt
    else:
        writer = pq.ParquetWriter
        monkeypatch.setattr(writer, "write_table", failing(writer.write_table, 2))
        wrong = OSError
    with pytest.raises(wrong):
        scoring.score_file(model, table, out)
    assert out.read_bytes() == b"earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.parquet", "rows.parquet"]


def test_progress_counts_rows(scoring, model, table, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scoring, "BLOCK_ROWS", 1000)
    scoring.score_file(model, table, tmp_path / "answers.parquet", verbose="auto")
    assert capsys.readouterr().err == ""
    scoring.score_file(model, table, tmp_path / "answers.parquet", verbose=True)
    shown = capsys.readouterr().err
    assert "3,000 of 3,000 rows" in shown
    assert "a second" in shown


# ---------------------------------------------------------------------- Ray


RAY_WARNS_OF_ITSELF = pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*")


@pytest.fixture
def ray_scoring(monkeypatch):
    pytest.importorskip("ray.data")
    from diglm.estimators import ray_scoring

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
    columns = scoring.choose_columns(model, opened, ())
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
    options = {"keep": ["id"], "engine": "ray", "n_workers": 2}
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
            from diglm.estimators.ray_scoring import UnitScorer

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
    scoring.score_file(model, table, out, keep="id", engine="ray")
    assert sorted(path.name for path in killed.iterdir()) == ["1", "3"]
    require_answers(out, expected, frame[["id"]])
    assert ray.is_initialized()

    idle = {thread.name for thread in threading.enumerate()}
    length = frame["length"].to_numpy().copy()
    length[1500] = np.inf
    frame.assign(length=length).to_parquet(table, row_group_size=GROUP_ROWS)
    with pytest.raises(RuntimeError, match="Rows 1400 to 2100 cannot be scored: ValueError: .*inf"):
        scoring.score_file(model, table, out, keep="id", engine="ray")
    # A thread of Ray Data's that outlives Ray ends the process.
    assert {thread.name for thread in threading.enumerate()} <= idle
    require_answers(out, expected, frame[["id"]])
    assert not (tmp_path / "answers.parquet.parts").exists()
