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
    (folder / "one.csv").write_text("a,b\n1,x\n")
    (folder / "same.csv").write_text("a,b\n" + "".join(f"{i / 7},x\n" for i in range(50)))
    (folder / "gaps.csv").write_text("a,b\n" + "".join(f"{i / 7},\n" for i in range(50)))
    (folder / "days.csv").write_text("a,b\n" + "".join(f"{i},2024-01-{i}\n" for i in range(10, 30)))
    numbers = [f"{i / 7},{i / 3}" for i in range(50)]
    (folder / "far.csv").write_text("\n".join(["a,b", *numbers, "1,inf"]) + "\n")
    (folder / "open.csv").write_text('a,b\n"1,2\n3,4\n')
    (folder / "bytes.csv").write_bytes(bytes(range(256)) * 20)
    (folder / "cut.parquet").write_bytes(b"PAR1" + b"\0" * 50 + b"PAR1")
    (folder / "cut.arrow").write_bytes(b"ARROW1\0\0" + b"\0" * 30)
    (folder / "cut.csv.gz").write_bytes(b"\x1f\x8b\x08junk")
    (folder / "cut.npz").write_bytes(b"PK\x03\x04junk")
    (folder / "link.csv").symlink_to(folder / "nowhere.csv")
    (folder / "bad.toml").write_text("a = = 1")
    (folder / "typing.toml").write_text('tagret = "kind"\n')
    (folder / "words.toml").write_text('seed = "many"\n')
    (folder / "latin.toml").write_bytes(b"\xff\xfe")
    np.savez(folder / "few.npz", x=np.zeros((3, 8, 8), np.uint8), y=np.arange(5))
    np.savez(folder / "unlabelled.npz", x=np.zeros((3, 8, 8), np.uint8))
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
    "no data named": "train",
    "a row alone": "train {folder}/one.csv --target b --out {folder}/m",
    "target of one value": "train {folder}/same.csv --target b --out {folder}/m",
    "target of no value": "train {folder}/gaps.csv --target b --out {folder}/m",
    "target of dates": "train {folder}/days.csv --target b --out {folder}/m",
    "dates as numbers": "train {folder}/days.csv --target b --problem numbers --out {folder}/m",
    "infinite target": "train {folder}/far.csv --target b --out {folder}/m",
    "a quotation mark left open": "train {folder}/open.csv --target b --out {folder}/m",
    "bytes as CSV": "train {folder}/bytes.csv --target b --out {folder}/m",
    "half a Parquet file": "train {folder}/cut.parquet --target b --out {folder}/m",
    "half an Arrow file": "train {folder}/cut.arrow --target b --out {folder}/m",
    "half a packed file": "train {folder}/cut.csv.gz --target b --out {folder}/m",
    "half a file of arrays": "train {folder}/cut.npz --out {folder}/m",
    "a link to nothing": "train {folder}/link.csv --target b --out {folder}/m",
    "labels for other images": "train {folder}/few.npz --out {folder}/m",
    "classes without labels": "train {folder}/unlabelled.npz --problem classes --out {folder}/m",
    "unknown flow": "train {table} --target kind --flow cuopling --out {folder}/m",
    "head of numbers": "train {table} --target kind --head poisson --out {folder}/m",
    "epochs in words": "train {table} --target kind --epochs many --out {folder}/m",
    "epochs below none": "train {table} --target kind --epochs -3 --out {folder}/m",
    "a rate above one": "train {table} --target kind --reject 2 --out {folder}/m",
    "width in words": "train {table} --target kind --set width=wide --out {folder}/m",
    "share that is no number": "train {table} --target kind --test-share nan --out {folder}/m",
    "output is a device": "train {table} --target kind --out /dev/null",
    "options not in TOML": "train {table} --out {folder}/m --config {folder}/bad.toml",
    "options misspelt": "train {table} --out {folder}/m --config {folder}/typing.toml",
    "options of a wrong type": "train {table} --out {folder}/m --config {folder}/words.toml",
    "options in no text": "train {table} --out {folder}/m --config {folder}/latin.toml",
    "a folder of options": "train {table} --out {folder}/m --config {folder}/nothing",
    "no rows to answer": "predict {model} {folder}/header.csv",
    "nothing to answer": "predict {model} {folder}/empty.csv",
    "bytes to answer": "predict {model} {folder}/bytes.csv",
    "a spreadsheet to answer": "predict {model} {folder}/sheet.xlsx",
    "answers nowhere": "predict {model} {table} --out {folder}/no/answers.csv",
    "misspelt flag of predict": "predict {model} {table} --jsn",
    "a model alone": "predict {model}",
    "truth of another kind": "evaluate {model} {table} --target island",
    "no rows to judge by": "evaluate {model} {folder}/header.csv",
    "a table of others to judge by": "evaluate {model} {folder}/other.csv",
    "a report of nothing": "report {model} {folder}/empty.csv --out {folder}/r.html",
    "a report nowhere": "report {model} {table} --out {folder}/no/r.html",
    "a report about no column": "report {model} {table} --target knid --out {folder}/r.html",
    "a report about another column": "report {model} {table} --target island --out {folder}/r.html",
    "a report against nothing": "report {model} {table} --against {folder}/x --out {folder}/r.html",
    "a report without a name": "report {model} {table}",
    "rows in words": "sample {model} -n two",
    "cold draws": "sample {model} -n 2 --temperature -1",
    "more rows than memory": "sample {model} -n 99999999999",
    "draws of an unknown kind": "sample {model} -n 2 --out {folder}/s.html",
    "explanations of an unknown kind": "explain {model} {table} --out {folder}/e.docx",
    "no rows to explain": "explain {model} {folder}/header.csv",
    "reasons of images": "explain mnist {folder}/images.npz",
    "no rows to compare": "drift {model} {folder}/header.csv",
    "another table to compare": "drift {model} {folder}/other.csv",
    "no such reference": "drift {model} {table} --reference {folder}/absent.csv",
    "data to serve": "serve {table}",
    "a port that is none": "serve {model} --port 99999",
    "everybody without a token": "serve {model} --host 0.0.0.0",
    "a token that is short": "serve {model} --token short",
    "a name that is a path": "serve ../x={model}",
    "a demonstration in a file": "demo --out {table}/page",
    "nothing to do with data": "data",
    "no such work with data": "data lst",
    "data without a name": "data fetch",
    "nothing to be told of": "info",
    "a table to be told of": "info {table}",
    "more than doctor takes": "doctor extra",
    "no study named": "reproduce",
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
