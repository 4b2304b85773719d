"""Every wrong use ends with `error:`, an empty line, `hint:` and exit code 2; no traceback."""

import os
import re

import numpy as np
import pytest

MISTAKE = re.compile(r"(?:note: .*\n|.*\n)*?error: .+\n\nhint: .+\n(?:.*\n)*\Z")


@pytest.fixture(scope="module")
def places(tmp_path_factory, table, model):
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b\n")
    (folder / "other.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "broken.diglm").write_bytes(b"not a model")
    (folder / "notes.txt").write_text("hello")
    (folder / "sheet.xlsx").write_bytes(b"PK")
    (folder / "ragged.csv").write_text("a,b\n1,2\n3\n")
    (folder / "doubled.csv").write_text("a,a\n1,2\n")
    (folder / "nothing").mkdir()
    np.savez(folder / "images.npz", x=np.zeros((4, 8, 8), np.uint8), y=np.arange(4))
    np.savez(folder / "flat.npz", x=np.zeros((4, 8)))
    return {"folder": folder, "table": table, "model": model}


MISTAKES = {
    "no such command": "trian {table}",
    "unknown flag": "train {table} --tagret kind --out {folder}/m",
    "no output named": "train {table} --target kind",
    "no file": "train {folder}/absent.csv --target kind --out {folder}/m",
    "empty file": "train {folder}/empty.csv --target a --out {folder}/m",
    "no rows": "train {folder}/header.csv --target a --out {folder}/m",
    "unknown kind of file": "train {folder}/notes.txt --target a --out {folder}/m",
    "a spreadsheet": "train {folder}/sheet.xlsx --target a --out {folder}/m",
    "lines of several lengths": "train {folder}/ragged.csv --target a --out {folder}/m",
    "two columns of a name": "train {folder}/doubled.csv --target a --out {folder}/m",
    "empty folder": "train {folder}/nothing --target a --out {folder}/m",
    "wrong column": "train {table} --target knid --out {folder}/m",
    "wrong column to drop": "train {table} --target kind --drop heigth --out {folder}/m",
    "text as numbers": "train {table} --target kind --problem numbers --out {folder}/m",
    "unknown problem": "train {table} --target kind --problem clases --out {folder}/m",
    "no target for classes": "train {table} --problem classes --out {folder}/m",
    "unknown parameter": "train {table} --target kind --set n_block=3 --out {folder}/m",
    "parameter without value": "train {table} --target kind --set n_blocks --out {folder}/m",
    "bad share": "train {table} --target kind --test-share 20 --out {folder}/m",
    "target dropped": "train {table} --target kind --drop kind --out {folder}/m",
    "weight of words": "train {table} --target kind --weight island --out {folder}/m",
    "negative seed": "train {table} --target kind --seed -1 --out {folder}/m",
    "seed as a parameter": "train {table} --target kind --set random_state=1 --out {folder}/m",
    "column of images": "train {folder}/images.npz --target y --out {folder}/m",
    "truth for images in a table": "evaluate mnist {table}",
    "demo over a file": "demo --out {table}",
    "output is a folder": "train {table} --target kind --out {folder}",
    "output over the data": "train {table} --target kind --out {table}",
    "answers over the data": "predict {model} {table} --out {table}",
    "output nowhere": "train {table} --target kind --out {folder}/no/m",
    "flat arrays": "train {folder}/flat.npz --out {folder}/m",
    "no such model": "predict {folder}/absent.diglm {table}",
    "broken model": "predict {folder}/broken.diglm {table}",
    "folder as model": "predict {folder} {table}",
    "data as model": "predict {table} {model}",
    "wrong table": "predict {model} {folder}/other.csv",
    "image for a table": "predict {model} {folder}/images.npz",
    "table for an image": "predict mnist {table}",
    "image of another size": "predict mnist {folder}/images.npz",
    "output of unknown kind": "predict {model} {table} --out {folder}/answers.xls",
    "column to keep": "predict {model} {table} --keep kye",
    "truth in no column": "evaluate {model} {table} --target knid",
    "no rows explained": "explain {model} {table} --rows 0",
    "report is no page": "report {model} {table} --out {folder}/report.pdf",
    "class that is none": "sample {model} -n 2 --given tal",
    "no rows drawn": "sample {model} -n 0",
    "images on a terminal": "sample mnist -n 1",
    "nothing to compare with": "drift mnist {table}",
    "no model to serve": "serve {folder}/absent.diglm",
    "nothing to serve": "serve",
    "no folder to serve": "serve --folder {folder}/absent",
    "two models of a name": "serve {model} {model}",
    "no such study": "reproduce mnits",
    "no such budget": "reproduce moons --budget smal",
    "no such setting": "reproduce moons --n-row 10",
    "setting that is no number": "reproduce moons --n-rows ten",
    "settings for all": "reproduce all --budget small --weights 1",
    "results in a file": "reproduce moons --out {table}",
    "no such data": "data fetch mnits",
    "no such file of options": "train --config {folder}/absent.toml",
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_explained(diglm, places, what):
    words = MISTAKES[what].format(**places).split()
    ended = diglm(*words)
    assert ended.code == 2, ended.err
    assert MISTAKE.match(ended.err), ended.err
    assert ended.out == "" and "Traceback" not in ended.err
    assert not list(places["folder"].glob("m*"))  # nor a run to go on with


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("train {table} --target knid --out {folder}/m", "did you mean kind?"),
        ("predict {model} {folder}/othr.csv", "did you mean other.csv?"),
        ("sample {model} -n 2 --given tal", "did you mean tall?"),
        ("reproduce mnits", "did you mean mnist"),
        ("reproduce moons --budget smal", "did you mean small"),
        ("reproduce moons --n-row 10", "its settings: --seed 0 --n-rows 1000"),
        ("reproduce al", "did you mean all"),
        ("train {table} --target kind --set n_block=3 --out {folder}/m", "did you mean n_blocks"),
        ("train {folder}/sheet.xlsx --target a --out {folder}/m", "save the sheet as CSV"),
        ("train {folder}/ragged.csv --target a --out {folder}/m", "every line needs as many"),
        ("train {folder}/doubled.csv --target a --out {folder}/m", "give each column a name"),
    ],
)
def test_hints_know_what_was_meant(diglm, places, words, hint):
    assert f"hint: {hint}" in diglm(*words.format(**places).split()).err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to(diglm, places, tmp_path):
    tmp_path.chmod(0o500)
    ended = diglm("predict", places["model"], places["table"], "--out", tmp_path / "a.csv")
    assert ended.code == 2 and "may not be written to" in ended.err


def test_nothing_is_coloured_where_nobody_watches(diglm, places):
    assert "\x1b[" not in diglm("info", places["model"]).out
    assert "\x1b[" not in diglm("predict", places["model"], places["table"]).err
