"""`diglm train`: what it finds out by itself, what it says, and what it keeps."""

import json

import pyarrow as pa
import pyarrow.csv
import pytest
from running_commands import TINY

from diglm import load
from diglm.cli.errors import CommandError
from diglm.cli.terminal import Talk
from diglm.cli.work.data import open_data
from diglm.cli.work.holding import held_out, unseen_part
from diglm.cli.work.looking import infer, look_at, not_meant_as_text
from diglm.cli.work.telling import tell_scores


def test_training_says_what_it_found(model, said_in_training):
    said = said_in_training["err"]
    assert "160 rows, 7 columns" in said
    assert "Learning the class 'kind': 'kind' is text with 2 values" in said
    assert "column 'key' is left out" in said and "--keep key" in said
    assert "dates: day" in said
    assert "missing values" in said and "classes: " in said
    assert "On 32 rows that were held out" in said


def test_quiet_training_says_nothing(diglm, table, tmp_path):
    few = ["--flow", "linear", "--epochs", "1", "--reject", "0.001", "--set", "n_blocks=1"]
    out = tmp_path / "m.diglm"
    ended = diglm("train", table, "--target", "kind", "--out", out, "--quiet", *few)
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_stdout_of_training_is_data_alone(model, said_in_training):
    told = json.loads(said_in_training["out"])
    assert told["kind"] == "HybridClassifier"
    assert told["scores"]["rows"] == 32
    assert 0 <= told["scores"]["accuracy"] <= 1


def test_the_model_file_says_where_it_comes_from(model, table):
    card = load(model).card_
    assert card["target"] == "kind" and card["rows"] == 128 and card["data"] == str(table)
    assert card["command"].startswith("diglm train ") and card["versions"]["jax"]
    assert not model.with_name(f"{model.name}.run").exists()


def test_rows_held_out_in_training_are_found_again(model, table, later_table):
    card = load(model).card_
    assert unseen_part(open_data(str(table)), card).n_rows == 32
    assert unseen_part(open_data(str(later_table)), card) is None


def test_a_table_of_few_rows_is_learned(diglm, tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("a,b\n" + "".join(f"{i % 7},{'xy'[i % 2]}\n" for i in range(24)))
    ended = diglm("train", path, "--target", "b", "--out", tmp_path / "few.diglm", *TINY)
    assert ended.code == 0, ended.err
    assert "no rows were held out" in ended.err


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({"rows": 9, "accuracy": 0.6, "baseline_accuracy": 0.6}, "right no more often"),
        ({"rows": 9, "accuracy": 0.7, "baseline_accuracy": 0.6}, None),
        ({"rows": 9, "rmse": 2.1, "baseline_rmse": 2.0}, "err as much as"),
        ({"rows": 9, "rmse": 1.9, "baseline_rmse": 2.0}, None),
    ],
)
def test_scores_no_better_than_none_are_told(capsys, scores, said):
    tell_scores(scores, Talk())
    told = capsys.readouterr().err
    assert "note: " not in told if said is None else said in told


def test_few_rows_are_not_held_out():
    assert not held_out(30, 0.2, 0).any()
    assert held_out(1000, 0.2, 0).sum() == 200
    assert held_out(10**6, 0.5, 0).sum() == 20_000


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "b", "a", "b"], "classes"),
        ([True, False, None, True], "classes"),
        ([0, 1, 2, 1, 0, None], "classes"),
        ([3, 7, 7, 3], "classes"),
        ([0.5, 1.5, 2.0], "numbers"),
        ([2007, 2008, 2009, 2009], "numbers"),
        ([0, 5, 20, 3, 3], "numbers"),
        ([0.0, 1.0, 1.0], "classes"),
    ],
)
def test_the_kind_of_problem_is_told_by_the_target(values, kind):
    assert infer(pa.chunked_array([values]), "y").kind == kind


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([None, None], pa.string()), "empty in every row"),
        (pa.array(["a", "a", None]), "one value only"),
        (pa.array([f"name {i}" for i in range(40)]), "40 different values"),
        (pa.array([1, 2], pa.timestamp("s")), "dates or times"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(values, message):
    with pytest.raises(CommandError, match=message) as error:
        infer(pa.chunked_array([values]), "y")
    assert error.value.hint


def test_columns_that_tell_nothing_are_found():
    n = 60
    seen = look_at(
        pa.table(
            {
                "number": pa.array(range(n)),
                "name": pa.array([f"n{i}" for i in range(n)]),
                "same": pa.array(["x"] * n),
                "empty": pa.nulls(n),
                "group": pa.array(["a", None] * (n // 2)),
            }
        )
    )
    assert set(seen.useless) == {"number", "name", "same", "empty"}
    assert seen.gaps["group"] == 0.5 and seen.columns["group"] == "categories"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["1.5", "2", "unknown", "-3e4"], "'unknown', are no numbers"),
        (["1,234", "99", "1,000,000"], "write numbers plainly"),
        (["5%", "80 %", "7%"], "write numbers plainly"),
        (["31/12/2024", "1/2/24"], "write dates as"),
        (["007", "042"], None),  # text by declaration
        (["a1", "b2"], None),
        ([], None),
        (["305", "1,111", "590", "2,704", "85"], "write numbers plainly"),
        (["305", "1111", "unknown", "590"], "leave them empty"),
    ],
)
def test_text_that_was_meant_as_numbers_or_dates_is_told(values, said):
    found = not_meant_as_text(pa.chunked_array([pa.array(values, pa.string())]))
    assert found is None if said is None else said in found


def test_a_target_that_was_meant_as_numbers_is_told():
    values = [f"{i},{i:03d}" for i in range(1, 60)]
    with pytest.raises(CommandError, match="was meant as numbers"):
        infer(pa.chunked_array([values]), "price")


def test_a_file_of_options_stands_for_flags_and_flags_win(diglm, table, tmp_path):
    path, out = tmp_path / "run.toml", tmp_path / "numbers.diglm"
    path.write_text(
        f'data = "{table}"\ntarget = "kind"\nout = "{out}"\ntest-share = 0\n'
        'epochs = 2\nflow = "linear"\ndrop = ["day"]\n[parameters]\nn_blocks = 1\nreject = 0.1\n'
    )
    ended = diglm("train", "--config", path, "--target", "growth", "--quiet")
    assert ended.code == 0, ended.err
    assert ended.out == "" and ended.err == ""
    fitted = load(out)
    assert type(fitted).__name__ == "HybridRegressor" and fitted.card_["target"] == "growth"
    assert fitted.reject == 0.1 and fitted.n_epochs == 2
    assert "day" not in fitted.feature_names_in_ and "key" not in fitted.feature_names_in_


def test_what_a_file_of_options_may_not_say(diglm, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('taget = "kind"\n')
    ended = diglm("train", "--config", path)
    assert ended.code == 2 and "'taget'" in ended.err and "hint: it takes" in ended.err
    path.write_text("target = \n")
    assert "is not TOML" in diglm("train", "--config", path).err


def test_a_run_with_other_options_is_not_mixed_with_a_kept_one(diglm, table, tmp_path):
    out = tmp_path / "m.diglm"
    folder = tmp_path / "m.diglm.run"
    folder.mkdir()
    (folder / "asked.json").write_text(json.dumps({"seed": "5"}))
    ended = diglm("train", table, "--target", "kind", "--out", out, *TINY)
    assert ended.code == 2 and "unfinished run" in ended.err and "--restart" in ended.err
    assert not out.exists()
