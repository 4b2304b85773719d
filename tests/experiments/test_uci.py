"""The study of UCI tables: splits are steps, and a table has as many as were published."""

import json
from dataclasses import replace

import pytest

from diglm.data.downloads import Split
from diglm.experiments import uci
from diglm.experiments.frame import Folders, Study


def mean_only(rows: Split, seed: int) -> dict[str, float]:
    return {"rmse": 1.0, "nll": float(len(rows.y_test)), "coverage_90": 0.9}


@pytest.mark.parametrize(("table", "asked", "run"), [("boston", 3, 3), ("protein", 20, 5)])
def test_a_table_has_at_most_as_many_splits_as_were_published(tmp_path, table, asked, run):
    config = uci.Config((table,), asked, embedded=("uci",))
    one = Study("", config, config, lambda c: uci.table_runs("uci", {"mean": mean_only}, c))
    one.run(config, Folders(tmp_path, tmp_path, tmp_path / "kept"), command="")
    stored = json.loads((tmp_path / "uci" / f"{table}.json").read_text())
    assert stored["config"] == {"table": table, "splits": run, "embedded": ["uci"]}
    assert len(stored["metrics"]["mean"]["nll"]) == run
    assert len(set(stored["metrics"]["mean"]["nll"])) > 1  # splits differ


def test_fewer_splits_are_another_result():
    few, many = (uci.runs(replace(uci.Config(), splits=n))[0] for n in (1, 5))
    assert not few.made({"config": dict(many.config), "seed": 0})
