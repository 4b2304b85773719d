"""The study of UCI tables never replaces a result by one of fewer splits."""

import json
import sys

import numpy as np
import pytest

from diglm.data.downloads import Split
from diglm.experiments import uci


def mean_only(rows: Split, seed: int) -> dict[str, float]:
    return {"rmse": 1.0, "nll": 2.0, "coverage_90": 0.9}


@pytest.mark.parametrize(("asked", "kept"), [(1, 3), (3, 3), (4, 4)])
def test_a_result_of_more_splits_stays(tmp_path, monkeypatch, asked, kept):
    rows = Split(np.zeros((2, 1)), np.zeros(2), np.zeros((2, 1)), np.zeros(2))
    monkeypatch.setattr(uci, "uci_regression", lambda *_: rows)
    (tmp_path / "boston.json").write_text(json.dumps({"config": {"table": "boston", "splits": 3}}))
    words = ["uci", "--tables", "boston", "--splits", str(asked), "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    uci.command_line("A study.", {"mean": mean_only}, uci.TABLES, "unused")
    assert json.loads((tmp_path / "boston.json").read_text())["config"]["splits"] == kept
