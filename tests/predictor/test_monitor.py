"""Has the world moved? What is said in nats, by which columns, and what is kept."""

import math

import numpy as np
import pandas as pd
import pytest

from diglm import HybridClassifier, HybridDensity
from diglm.predictor import Monitor

TINY = dict(n_epochs=3, batch_size=64, reject=0.05, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def world(regressor):
    """New rows of the world that the regressor was fitted to."""

    def rows(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1]
        return X, 5 + 2 * X[:, 0] - 0.3 * X[:, 1] + 0.2 * rng.normal(size=n)

    return rows


@pytest.fixture
def monitor(regressor, world):
    return regressor.monitor(*world(500, 1))


def test_nothing_has_moved(monitor, world):
    drift = monitor.update(*world(600, 2))
    assert drift.verdict == "no evidence" and drift.n_rows == 600
    for side in (drift.inputs, drift.relation):
        assert not side.moved and abs(side.nats) < 4 * side.error and side.evidence < 3
    assert "no evidence after 600 rows" in str(drift)


def test_a_column_that_moved_is_found_and_named(monitor, world):
    X, y = world(400, 3)
    moved = X + [0.0, 6.0, 0.0]
    drift = monitor.update(moved, y - 0.3 * 6.0)
    assert drift.verdict == "inputs moved" and drift.inputs.since <= 400
    first = drift.columns[0]
    assert first.name == 1 and first.shift == pytest.approx(0.6, abs=0.15)
    assert not drift.relation.moved  # y follows as it always did
    assert list(drift.table()["column"])[0] == 1 and "most in: 1" in str(drift)


def test_nats_are_the_change_of_the_mean(regressor, monitor, world):
    (X, y), (reference, z) = world(300, 4), world(500, 1)
    drift = monitor.update(2 * X, y)
    change = regressor.score_samples(reference).mean() - regressor.score_samples(2 * X).mean()
    assert drift.inputs.nats == pytest.approx(change) and drift.inputs.recent == pytest.approx(
        change
    )
    told = regressor.log_joint(2 * X, y) - regressor.score_samples(2 * X)
    before = regressor.log_joint(reference, z) - regressor.score_samples(reference)
    assert drift.relation.nats == pytest.approx(before.mean() - told.mean())


@pytest.mark.parametrize("change", [lambda y: y + 0.2, lambda y: 5 + 2 * (y - 5)])
def test_a_relation_that_moved_is_told_from_inputs(monitor, world, change):
    X, y = world(500, 5)
    drift = monitor.update(X, change(y))
    assert drift.verdict == "relation moved" and not drift.inputs.moved


def test_the_window_forgets(regressor, world):
    monitor = regressor.monitor(world(300, 1)[0], window=50)
    X, _ = world(200, 6)
    monitor.update(X + [3.0, 0, 0])
    back = monitor.update(X[:50])
    assert back.inputs.moved  # what was found stays found
    assert abs(back.columns[0].recent) < 1.0 < back.columns[0].shift
    assert back.inputs.recent < back.inputs.nats


def test_pieces_do_not_matter_and_a_monitor_survives_on_disk(monitor, regressor, world, tmp_path):
    X, y = world(300, 7)
    y[::7] = np.nan  # not every row has a target yet
    whole = monitor.update(X, y)
    pieces = regressor.monitor(*world(500, 1))
    for start, stop in ((0, 1), (1, 1), (1, 130), (130, 131)):
        pieces.update(X[start:stop], y[start:stop])
    pieces.save(tmp_path / "monitor.safetensors")
    again = Monitor.load(tmp_path / "monitor.safetensors")
    assert again.drift == pieces.drift
    assert again.update(X[131:], y[131:]) == whole
    assert again.relation.n_rows == np.sum(~np.isnan(y))
    regressor.save(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="does not describe a monitor"):
        Monitor.load(tmp_path / "model.safetensors")


def test_an_empty_stream_is_no_evidence(monitor):
    drift = monitor.update(np.zeros((0, 3)), np.zeros(0))
    assert drift.verdict == "no evidence" and drift.n_rows == 0
    assert drift.inputs.nats == 0 and drift.inputs.error == math.inf
    assert [column.shift for column in drift.columns] == [0, 0, 0]


def test_a_single_row_is_a_stream(monitor, world):
    X, y = world(1, 8)
    drift = monitor.update(X, y)
    assert drift.n_rows == 1 and np.isfinite(drift.inputs.nats) and drift.inputs.error > 0


def test_levels_gaps_and_classes():
    rng = np.random.default_rng(0)

    def rows(n, gaps=0.1, rare=0.1):
        kind = rng.choice(["u", "v"], n, p=[1 - rare, rare])
        a = np.where(rng.random(n) < gaps, np.nan, rng.normal(size=n))
        label = np.where(rng.random(n) < np.where(kind == "v", 0.8, 0.3), "yes", "no")
        return pd.DataFrame({"a": a, "kind": kind}), label

    model = HybridClassifier("linear", **TINY).fit(*rows(400))
    reference = rows(400)
    assert model.monitor(*reference).update(*rows(300)).verdict == "no evidence"
    assert model.monitor(*reference).update(*rows(300, gaps=0.4)).columns[0].name == "a"
    more = model.monitor(*reference).update(*rows(300, rare=0.4))
    assert more.verdict == "inputs moved" and more.columns[0].name == "kind"
    assert not more.relation.moved
    X, y = rows(400)
    other = model.monitor(*reference).update(X, np.where(y == "yes", "no", "yes"))
    assert other.verdict == "relation moved"
    novel = X.assign(kind=np.where(rng.random(400) < 0.3, "new", X["kind"]))
    assert model.monitor(*reference).update(novel).columns[0].name == "kind"


def test_mistakes_are_named(regressor, world):
    X, y = world(100, 9)
    with pytest.raises(ValueError, match="at least 20"):
        regressor.monitor(X[:5])
    with pytest.raises(ValueError, match="X has 100 rows, but y has 3"):
        regressor.monitor(X, y[:3])
    with pytest.raises(ValueError, match="0 rows of the reference have targets"):
        regressor.monitor(X, np.full(100, np.nan))
    with pytest.raises(ValueError, match="level must be a finite number > 0"):
        regressor.monitor(X, level=0.0)
    with pytest.raises(ValueError, match="window must be"):
        regressor.monitor(X, window=0)
    with pytest.raises(ValueError, match="started without targets"):
        regressor.monitor(X).update(X, y)
    density = HybridDensity("linear", **TINY).fit(X)
    with pytest.raises(ValueError, match="no target"):
        density.monitor(X, y)
    assert density.monitor(X).update(X).relation is None
