"""The line that people watch while a model trains."""

import pytest

from diglm.training import ProgressBar

RECORD = {"epoch": 0, "loss": 1.5, "log_px": -2.25, "log_py": -0.5, "skill": 0.25}


def shown(capsys, bar, record=RECORD):
    with bar:
        bar(record)
    return " ".join(capsys.readouterr().err.split())


def test_the_numbers_of_an_epoch_are_shown(capsys):
    said = shown(capsys, ProgressBar(4, "accuracy", True))
    for part in ("1/4", "loss 1.5000", "log p(x) -2.25", "log p(y|x) -0.5000", "accuracy 0.2500"):
        assert part in said.replace("\u2501", "")


def test_numbers_of_held_out_rows_come_first_and_errors_are_rooted(capsys):
    checked = {f"val_{name}": 2 * value for name, value in RECORD.items() if name != "epoch"}
    said = shown(capsys, ProgressBar(4, "RMSE", True, root=True), RECORD | checked)
    assert "loss 3.0000" in said and "RMSE 0.7071" in said


def test_a_density_has_no_skill_to_show(capsys):
    said = shown(capsys, ProgressBar(2, "", True))
    assert "log p(x) -2.25" in said and "log p(y|x)" not in said


@pytest.mark.parametrize("choice", [False, "auto"])
def test_nobody_watches_nothing_is_said(capsys, choice):
    bar = ProgressBar(4, "accuracy", choice)
    assert not bar.visible and shown(capsys, bar) == ""


def test_parts_of_an_epoch_move_the_bar(capsys):
    bar = ProgressBar(4, "", True)
    shown(capsys, bar, RECORD | {"epoch": 1, "share": 0.5})
    assert bar.bar.tasks[0].completed == 1.5
