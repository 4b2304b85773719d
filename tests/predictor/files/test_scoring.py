"""Files of rows to files of answers: the answers of `assess`, whole or not at all, also on Ray."""

import sys

import numpy as np
import pandas as pd
import pytest

from diglm import HybridClassifier, HybridRegressor

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from scored_rows import FEATURES, GROUP_ROWS, N_ROWS, QUICK, require_answers  # noqa: E402


@pytest.mark.parametrize("block_rows", [65_536, 1000, 211])
def test_local_answers_are_those_of_assess(
    scoring, model, table, frame, expected, tmp_path, monkeypatch, block_rows
):
    monkeypatch.setattr(scoring, "BLOCK_ROWS", block_rows)
    monkeypatch.setattr("diglm.predictor.answers.OUT_GROUP_ROWS", 1500)
    out = tmp_path / "answers.parquet"
    result = scoring.score_file(model, table, out, keep=["id", "count"])
    assert result == out
    require_answers(out, expected, frame[["id", "count"]])
    groups = pq.ParquetFile(out).metadata
    assert groups.num_row_groups == -(-N_ROWS // 1500)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.parquet", "rows.parquet"]


def test_rows_after_the_first_are_read_from_inside_row_groups(scoring, model, table, expected):
    opened = scoring.open_table(table)
    columns = scoring.choose_columns(model, opened, (), None)
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
    out = scoring.score_file(model.predictor_, table, tmp_path / "answers.parquet")
    require_answers(out, model.assess(frame[FEATURES]))


def test_a_model_of_an_array_takes_columns_in_order(scoring, frame, tmp_path):
    X = frame[["count", "target"]].to_numpy()
    model = HybridRegressor(flow="identity", **QUICK).fit(X[:600], frame["target"][:600])
    expected = model.assess(X)
    frame[["count", "target"]].to_parquet(tmp_path / "two.parquet")
    out = scoring.score_file(
        model.predictor_, tmp_path / "two.parquet", tmp_path / "answers.parquet"
    )
    require_answers(out, expected)
    frame[["id", "count", "target"]].to_parquet(tmp_path / "three.parquet")
    scoring.score_file(model.predictor_, tmp_path / "three.parquet", out, keep=["id"])
    require_answers(out, expected, frame[["id"]])
    with pytest.raises(ValueError, match=r"2 columns without names.*'id', 'count', 'target'"):
        scoring.score_file(model.predictor_, tmp_path / "three.parquet", out)


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
        ({"engine": "spark"}, ValueError, "Expected an engine among"),
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
    monkeypatch.setattr("diglm.predictor.answers.OUT_GROUP_ROWS", 1000)
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
        monkeypatch.setattr(type(model), "columns", failing(type(model).columns, 2))
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
