"""`diglm predict`, `sample`, `explain`, `evaluate`, `info`: rows in, the same numbers out."""

import io
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from diglm import load

READERS = {
    "csv": lambda path: pa.csv.read_csv(path),
    "parquet": pq.read_table,
    "arrow": pa.feather.read_table,
    "jsonl": lambda path: pa.Table.from_pylist(
        [json.loads(line) for line in path.read_text().splitlines()]
    ),
}


@pytest.fixture(scope="module")
def expected(model, later_table):
    fitted = load(model)
    frame = pa.csv.read_csv(
        later_table, convert_options=pa.csv.ConvertOptions(strings_can_be_null=True)
    )
    return fitted.assess(frame.select(list(fitted.feature_names_in_)))


@pytest.mark.parametrize("suffix", READERS)
def test_answers_are_those_of_assess_in_every_kind_of_file(
    diglm, model, later_table, expected, tmp_path, suffix
):
    out = tmp_path / f"answers.{suffix}"
    ended = diglm("predict", model, later_table, "--out", out, "--keep", "key")
    assert ended.code == 0 and ended.out == "", ended.err
    assert "60 rows" in ended.err and str(out) in ended.err
    found = READERS[suffix](out)
    assert found["key"].to_pylist()[:2] == ["id0000", "id0001"]
    assert found["prediction"].to_pylist() == expected["prediction"].to_pylist()
    np.testing.assert_allclose(found["log_px"].to_numpy(), expected["log_px"].to_numpy(), rtol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_answers_go_to_standard_output_and_talk_does_not(diglm, model, later_table):
    ended = diglm("predict", model, later_table, "--json")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert len(lines) == 60 and set(lines[0]) >= {"prediction", "probability", "rejected"}
    assert "refused" in ended.err
    assert diglm("predict", model, later_table, "-q").err == ""


def test_rows_may_come_through_a_pipe(diglm, model, later_table, expected, monkeypatch):
    pipe = io.TextIOWrapper(io.BytesIO(later_table.read_bytes()))
    monkeypatch.setattr(sys, "stdin", pipe)
    ended = diglm("predict", model, "-")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert len(lines) == 61
    told = [line.split(",")[1].strip('"') for line in lines[1:]]
    assert told == expected["prediction"].to_pylist()


def test_scores_of_the_rows_of_training_are_those_of_the_rows_held_out(
    diglm, model, table, later_table, said_in_training
):
    ended = diglm("evaluate", model, table, "--json")
    assert "judged by the 32 rows that were held out" in ended.err
    scores = json.loads(ended.out)
    trained = json.loads(said_in_training["out"])["scores"]
    assert scores["accuracy"] == trained["accuracy"]
    assert scores["log_px"] == pytest.approx(trained["log_px"], rel=1e-4)
    other = diglm("evaluate", model, later_table)
    assert "accuracy " in other.out and "held out" not in other.err


def test_draws_are_rows_of_the_class_asked_for(diglm, model, tmp_path):
    out = tmp_path / "drawn.csv"
    assert diglm("sample", model, "-n", 20, "--given", "tall", "--out", out).code == 0
    drawn = pa.csv.read_csv(out)
    assert drawn.num_rows == 20 and "kind" not in drawn.column_names
    again = diglm("sample", model, "-n", 20, "--given", "tall")
    assert again.out.splitlines()[0] == out.read_text().splitlines()[0]


def test_explanations_have_a_line_for_every_column_of_every_row(diglm, model, later_table):
    ended = diglm("explain", model, later_table, "--rows", 2, "--json")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    columns = set(load(model).feature_names_in_)
    assert [line["row"] for line in lines] == [0] * len(columns) + [1] * len(columns)
    assert {line["column"] for line in lines} == columns
    assert "first 2 of 60 rows" in ended.err


def test_drift_is_told_by_the_exit_code(diglm, model, table, later_table, tmp_path):
    same = diglm("drift", model, later_table, "--reference", table, "--json")
    assert same.code == 0 and json.loads(same.out)["verdict"] == "no evidence"
    moved = tmp_path / "moved.csv"
    header, *lines = later_table.read_text().splitlines()
    fields = [line.split(",") for line in lines]
    shifted = [",".join([*one[:3], "8", *one[4:6], "9.5"]) for one in fields]
    moved.write_text("\n".join([header, *shifted]) + "\n")
    ended = diglm("drift", model, moved, "--reference", table)
    assert ended.code == 1 and "moved" in ended.out


def test_info_says_what_a_model_is(diglm, model):
    told = json.loads(diglm("info", model, "--json").out)
    assert told["predicts"] == "kind" and told["classes"] == ["short", "tall"]
    assert "accuracy" in diglm("info", model).out


def test_the_doctor_looks_at_this_installation(diglm):
    told = json.loads(diglm("doctor", "--json").out)
    assert told["devices"] and told["jax"] and "pyarrow" in told["diglm[files]"]


def test_data_and_studies_are_listed(diglm):
    told = json.loads(diglm("data", "list", "--json").out)
    assert {"mnist", "uci", "flights"} <= {one["name"] for one in told}
    assert "moons" in diglm("reproduce", "list").out
