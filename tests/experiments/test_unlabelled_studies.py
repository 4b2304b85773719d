"""Studies of few labels: draws, halving, and that an interrupted one goes on."""

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from sklearn.linear_model import LogisticRegression

from diglm.data.image_sets import Labelled
from diglm.experiments import half_moons, unlabelled_images, unlabelled_tables
from diglm.experiments.frame import Folders, Study, Work
from diglm.experiments.unlabelled_images import FewLabels
from diglm.experiments.unlabelled_search import GRID, candidates, halved
from diglm.recipes import Glow
from diglm.report import results


def test_candidates_are_the_papers_grid_each_behaviour_once():
    offered = candidates(GRID)
    assert len(offered) == 3 * 4 * (1 + 2 * 3)
    assert len({json.dumps(one) for one in offered}) == len(offered)


def test_halving_keeps_the_best_and_asks_nothing_twice(tmp_path):
    asked = []

    def judge(candidate, budget):
        asked.append((candidate["a"], budget))
        return abs(candidate["a"] - 4) + 1 / budget

    offered = [{"a": float(a)} for a in range(9)]
    out = tmp_path / "told.json"
    assert halved(offered, judge, (1, 3, 9), out) == {"a": 4.0}
    assert [budget for _, budget in asked] == [1] * 9 + [3] * 3 + [9]
    told = json.loads(out.read_text())["metrics"]
    out.write_text(json.dumps({"metrics": dict(list(told.items())[:5])}))
    asked.clear()
    assert halved(offered, judge, (1, 3, 9), out) == {"a": 4.0}
    assert len(asked) == 8 and asked[0] == (5.0, 1)


def test_rows_of_a_table_keep_their_labels_apart():
    task = unlabelled_tables.Task("sklearn", 20, True)
    x, y = unlabelled_tables.loaded("iris", task, None)
    rows = unlabelled_tables.drawn(x, y, task, 0)
    assert rows.labelled.sum() == 20 and len(rows.y) == 105 and len(rows.y_test) == 45
    assert np.ptp(np.bincount(rows.y[rows.labelled])) <= 1
    assert np.array_equal(rows.marked == -1, ~rows.labelled)
    numbers = unlabelled_tables.drawn(x, x[:, 0], unlabelled_tables.Task("sklearn", 20, False), 0)
    assert np.array_equal(np.isnan(numbers.marked), ~numbers.labelled)
    for method in unlabelled_tables.OF_CLASSES.values():
        told = method(rows, 0)
        assert told["loss"] < 0.3 and np.isfinite(told["nll"])


def test_half_moons_go_on_and_are_drawn(tmp_path, monkeypatch):
    def fitted(rows, seed, **_):
        alone = LogisticRegression().fit(rows.x[rows.labelled], rows.y[rows.labelled])
        return {"labels alone": alone, "with unlabelled points": alone, "all labels": alone}

    monkeypatch.setattr(half_moons, "fitted", fitted)
    folders = Folders(tmp_path, tmp_path, tmp_path / "kept")
    run = half_moons.runs(half_moons.Config(n_seeds=2))[0]
    work = Work(tmp_path, folders, Console(stderr=True))
    told = run.measure(work)
    assert (tmp_path / "figure_6.png").stat().st_size > 10_000
    assert len(told["all labels"]) == 2 and work.seconds > 0
    monkeypatch.setattr(half_moons, "fitted", lambda *_: pytest.fail("fitted again"))
    assert run.measure(work) == told


def test_six_points_of_each_moon_have_a_label():
    rows = half_moons.moons(3)
    assert np.bincount(rows.y[rows.labelled]).tolist() == [6, 6] and len(rows.y_test) == 2000


@pytest.mark.slow
def test_each_row_of_images_is_run_once(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (120, 4, 4, 1)).astype(np.uint8)
    y = (x.mean(axis=(1, 2, 3)) > 127).astype(int)
    images = Labelled(x, y)
    monkeypatch.setattr(unlabelled_images, "load_images", lambda *_: images)
    monkeypatch.setattr(unlabelled_images, "PCA", lambda *_, **__: _Reduced())
    settings = dict(n_blocks=1, width=8, batch_size=16, reject=None)
    study = FewLabels("mnist", 1.0, n_labels=20, flow=Glow(augment=0), settings=settings)
    kept = unlabelled_images.left_labelled(y, 20, 0)
    assert np.bincount(y[kept]).tolist() == [10, 10]
    marked, _ = unlabelled_images.task(study, "with unlabelled images", images)
    assert np.sum(marked.y >= 0) == 20
    rows = ("with unlabelled images", "SelfTraining")
    study = replace(study, rows=rows, n_epochs=1)
    one = Study("few labels", study, study, unlabelled_images.runs)
    folders = Folders(tmp_path, tmp_path, tmp_path / "kept")
    monkeypatch.setattr(results, "commit", lambda: "0123456789ab")
    paths = one.run(study, folders, command="")
    found = [json.loads(path.read_text()) for path in paths]
    assert [one["config"]["row"] for one in found] == list(rows)
    assert 0 <= found[0]["metrics"]["error"] <= 1
    monkeypatch.setattr(unlabelled_images, "run_row", lambda *_, **__: pytest.fail("ran again"))
    one.run(study, folders, command="")


class _Reduced:
    """Instead of principal components, of which so small images have too few."""

    def fit(self, x):
        return self

    def transform(self, x):
        return x
