"""What is missing is integrated out: densities of rows with and without gaps make one."""

import jax
import numpy as np
import pandas as pd
import pytest

from diglm import HybridClassifier, HybridDensity, HybridRegressor
from diglm.predictor import Groups
from diglm.predictor.look import GAP_DRAWS, rows_with_gaps

TINY = dict(n_epochs=20, batch_size=64, reject=0.05, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def gapped():
    """Two columns that go together; the second is missing in three rows of ten."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=800)
    b = np.where(rng.random(800) < 0.3, np.nan, 0.9 * a + 0.4 * rng.normal(size=800))
    return np.column_stack([a, b])


@pytest.mark.slow
def test_rows_with_gaps_and_without_make_one_over_all_levels():
    rng = np.random.default_rng(0)
    k = rng.choice(["u", "v"], 600, p=[0.7, 0.3])
    a = np.where(rng.random(600) < 0.25, np.nan, rng.normal(size=600) + (k == "v"))
    frame = pd.DataFrame({"a": a, "k": k})
    model = HybridDensity(n_blocks=1, width=8, **TINY).fit(frame)
    side = np.linspace(-9, 9, 361)
    masses = {}
    for level in ("u", "v", "zebra"):
        rows = pd.DataFrame({"a": side, "k": level})
        present = np.exp(model.score_samples(rows)).sum() * (side[1] - side[0])
        absent = np.exp(model.score_samples(pd.DataFrame({"a": [np.nan], "k": level})))[0]
        masses |= {(level, True): present, (level, False): absent}
    assert masses["zebra", True] + masses["zebra", False] < 0.02
    # Cells are looked at in eight places: what they hold is known to a few per cent.
    assert sum(masses.values()) == pytest.approx(1.0, abs=0.06)
    for level in ("u", "v"):
        for there in (True, False):
            share = np.mean((k == level) & (np.isnan(a) != there))
            assert masses[level, there] == pytest.approx(share, abs=0.06)


def test_a_gap_is_answered_with_an_average(gapped):
    y = np.where(np.isnan(gapped[:, 1]), 0.0, gapped[:, 1]) + gapped[:, 0]
    model = HybridRegressor("linear", head="gaussian", **TINY).fit(gapped, y)
    rows = np.array([[0.5, 0.4], [0.5, np.nan]])
    dist = model.predict_dist(rows)
    assert np.all(np.isfinite(dist.mean)) and np.all(dist.std > 0)
    response = model.predictor_.response(model.predictor_.encode(rows))
    parts = [np.shape(leaf) for leaf in jax.tree.leaves(response)]
    assert all(shape[0] == GAP_DRAWS for shape in parts)
    assert np.allclose(dist.cdf(dist.quantile(0.7)), 0.7)
    assert model.sample(3, y=1.0, random_state=0).shape == (3, 2)


def test_classes_stay_classes_when_they_are_averaged(gapped):
    labels = (gapped[:, 0] > 0).astype(int)
    model = HybridClassifier("linear", **TINY).fit(gapped, labels)
    probabilities = model.predict_proba(np.array([[1.5, np.nan], [-1.5, np.nan], [1.5, 1.3]]))
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert probabilities[0, 1] > 0.8 and probabilities[1, 1] < 0.2


def test_only_rows_with_gaps_are_filled():
    values = np.array([[1.0, np.nan], [0.0, 2.0]])
    assert rows_with_gaps(values).tolist() == [True, False]
    assert rows_with_gaps(np.zeros((2, 2), np.uint8)).tolist() == [False, False]


def test_groups_are_known_by_name():
    groups = Groups(np.array(["a", "b"]), places=(1,))
    assert groups.codes(np.array(["b", "c", "a"]), 3).tolist() == [1, -1, 0]
    assert groups.codes(None, 2).tolist() == [-1, -1]
    with pytest.raises(ValueError, match="X has 2 rows, but groups has 1"):
        groups.codes(np.array(["a"]), 2)
    design = groups.design(np.array([[5.0, 2.0], [5.0, np.nan]]))
    assert design.tolist() == [[1.0, 2.0], [1.0, 0.0]]


def test_absent_columns_are_drawn_given_the_others():
    rng = np.random.default_rng(0)
    a = rng.normal(size=900)
    b, k = 0.9 * a + 0.4 * rng.normal(size=900), rng.choice(["u", "v"], 900)
    frame = pd.DataFrame({"a": a, "b": b, "k": k})
    y = 2 * b + (k == "u") + 0.2 * rng.normal(size=900)
    tiny = TINY | {"n_epochs": 5}
    model = HybridRegressor("linear", head="gaussian", absent="draw", **tiny)
    model.fit(frame[:500], y[:500])
    rest, told = frame[500:], y[500:]
    whole = model.predict_dist(rest)
    without = model.predict_dist(rest[["a", "k"]])
    # y = 1.8 a + ... + 2 * 0.4 e: the width grows by just what b would have told.
    assert np.median(without.std) == pytest.approx(np.hypot(0.2, 0.8), rel=0.25)
    assert np.median(whole.std) == pytest.approx(0.2, rel=0.3)
    for gone in (["b"], ["k"], ["a", "k"], ["b", "k"]):
        low, high = model.predict_dist(rest.drop(columns=gone)).interval(0.9)
        assert np.mean((told >= low) & (told <= high)) == pytest.approx(0.9, abs=0.05)
        assert np.mean(model.rejects(rest.drop(columns=gone))) < 0.2  # asking less is not strange
    some = model.predict(rest[["k", "a"]][:7])
    assert np.array_equal(some, without.mean[:7])  # neither order nor company matters
    with pytest.raises(ValueError, match="lacks columns"):
        model.predict(pd.DataFrame({"other": [1.0]}))
    with pytest.raises(ValueError, match=r"lacks columns \['b'\]"):
        model.set_params(absent="error").predict(rest[["a", "k"]])
    with pytest.raises(ValueError, match="absent must be"):
        HybridDensity("linear", absent="guess").fit(frame)
