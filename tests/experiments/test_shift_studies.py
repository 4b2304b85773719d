"""The studies of rows from elsewhere and of labels that are asked for, in small."""

import json
from dataclasses import replace

import numpy as np
import pytest

from diglm.experiments import active_learning, shift
from diglm.experiments.frame import Folders


@pytest.mark.parametrize("table", active_learning.TASKS)
def test_rows_asked_about_seen_and_judged_are_different_ones(table):
    config = active_learning.Config()
    usual, broken = (active_learning.parts(config, table, pool, 3) for pool in ("usual", "broken"))
    n_pool, n_seen = len(usual.pool[1]), len(usual.seen)
    assert n_pool == n_seen and len(usual.test[1]) >= n_pool and n_pool >= config.n_labels
    rows = np.concatenate([usual.pool[0], usual.seen, usual.test[0]])
    assert len(rows) == len(active_learning.TASKS[table].load()["target"])
    np.testing.assert_array_equal(usual.seen, broken.seen)
    np.testing.assert_array_equal(usual.test[0], broken.test[0])
    changed = np.any(usual.pool[0] != broken.pool[0], axis=1)
    assert not changed[: config.n_start].any()
    assert 0.05 < changed.mean() <= config.share_broken


def test_the_summary_compares_with_chance_seed_by_seed():
    config = active_learning.Config(n_start=10, n_step=10, n_labels=20)
    curves = {"table, usual pool": {"random": [[4.0, 2.0], [2.0, 2.0]], "other": [[2.0, 1.0]] * 2}}
    told = active_learning.summary(config, curves)
    assert told["labels"] == [10, 20]
    other = told["curves"]["table, usual pool"]["other"]
    np.testing.assert_allclose(other["gain_on_random"], [0.5, 0.25])
    np.testing.assert_allclose(other["mean"], [2.0, 1.0])


@pytest.mark.slow
def test_active_learning_writes_curves_and_a_figure(tmp_path):
    pytest.importorskip("matplotlib")
    small = active_learning.Config(("diabetes",), n_labels=20, n_seeds=1)
    folders = Folders(tmp_path, tmp_path, tmp_path / "kept")
    active_learning.REPRODUCE.run(small, folders, command="")
    metrics = json.loads((tmp_path / "active_learning.json").read_text())["metrics"]
    assert set(metrics["curves"]) == {"diabetes, usual pool", "diabetes, broken pool"}
    for by_way in metrics["curves"].values():
        first = [by_way[way]["mean"][0] for way in active_learning.WAYS]
        assert first[0] == pytest.approx(first[1]) == pytest.approx(first[2])  # the same labels
    assert (tmp_path / "active_learning.png").stat().st_size > 5_000


@pytest.mark.slow
def test_weights_that_were_learned_help_as_the_true_ones_do():
    config = replace(shift.REPRODUCE.small, n_rows=300)
    told = shift.inputs(config, 1.0, 0)
    assert told["line_learned"] < 0.8 * told["line"] and told["correlation"] > 0.8
    assert 0 < told["true_share"] < 1 and told["uncovered"] < 0.3


@pytest.mark.slow
def test_frequencies_of_digits_are_found():
    config = replace(shift.REPRODUCE.small, n_places=2, n_new=200)
    places = shift.labels(config, 0)
    assert len(places) == 2
    for place in places:
        assert place["off"] < 0.1 < place["moved"] and 0.85 < place["accuracy"] <= 1
