"""Neighbours, surprises and their sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diglm.refusal import Combined, Density, Evidence, Neighbours, auroc, score_of
from diglm.refusal.scores.combined import separating_weights
from diglm.refusal.scores.nearest import Nearest
from diglm.refusal.scores.surprise import Surprise


def by_hand(reference, rows, k):
    apart = np.linalg.norm(rows[:, None] - reference, axis=2)
    return np.sort(apart, axis=1)[:, :k]


def test_nearest_rows_are_those_of_all_distances():
    rng = np.random.default_rng(0)
    reference, rows = rng.normal(size=(300, 3)), rng.normal(size=(50, 3))
    distances, found = Nearest.of(reference)(rows, 5)
    assert np.allclose(distances, by_hand(reference, rows, 5), atol=1e-5)
    assert np.allclose(np.linalg.norm(rows - reference[found[:, 0]], axis=1), distances[:, 0])


def test_cells_find_rows_hardly_farther_than_the_nearest():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(4000, 6)).astype(np.float32)
    rows = np.concatenate([rng.normal(size=(300, 6)), 5 * rng.normal(size=(100, 6))])
    exact, _ = Nearest.of(reference, exact=True)(rows, 5)
    cells, _ = Nearest.of(reference)(rows, 5)
    assert np.all(cells >= exact - 1e-5) and np.mean(cells / exact) < 1.06
    alone = np.concatenate([Nearest.of(reference)(row[None], 5)[0] for row in rows[:20]])
    assert np.allclose(cells[:20], alone, rtol=1e-5)


def test_a_row_of_the_reference_is_not_its_own_neighbour(known):
    training = known(400)
    fitted = Neighbours(k=3).fit(training, training)
    inside, outside = fitted(training), fitted(known(400, seed=1))
    assert 0.8 < np.median(inside) / np.median(outside) < 1.2
    assert np.isfinite(Neighbours().fit(known(1), known(1))(known(3, seed=1))).all()


@pytest.mark.parametrize("settings", [{}, {"unit": True}, {"local": True}, {"space": "latents"}])
def test_neighbours_in_many_ways(settings, known):
    training = known(500)
    fitted = Neighbours(**settings).fit(training, training)
    far = known(50, seed=1)
    values = far.values * np.array([1.0, -8.0, 8.0, 8.0])
    far = far._replace(values=values, u=values)
    assert auroc(-fitted(known(200, seed=2)), -fitted(far)) > (0.6 if settings.get("unit") else 0.9)


def test_missing_values_stand_at_the_median(known):
    training = known(300)
    values = training.values.copy()
    values[::3, 1] = np.nan
    values[:, 3] = np.nan
    holes = training._replace(values=values)
    fitted = Neighbours().fit(holes, holes)
    assert np.isfinite(fitted(holes)).all() and np.isfinite(fitted(training)).all()


@given(
    st.lists(st.floats(-50, 50), min_size=1, max_size=60),
    st.lists(st.floats(-1e6, 1e6), max_size=8),
)
def test_more_is_never_less_surprising(familiar, scores):
    surprise = Surprise.of(np.array(familiar))
    found = surprise(np.sort(np.array(scores, float)))
    assert np.all(found >= 0) and np.all(np.diff(found) >= 0) and np.all(np.isfinite(found))


def test_surprise_is_the_log_of_how_rare_a_score_is():
    rng = np.random.default_rng(0)
    surprise = Surprise.of(rng.exponential(size=20_000))
    at = np.array([0.1, 1.0, 2.0, 4.0, 8.0])
    assert np.allclose(surprise(at), at, rtol=0.08, atol=0.02)
    assert 30 < surprise(np.array([1e9]))[0] < 60  # and no more than that drowns the others


def test_a_sum_of_surprises_finds_what_is_a_little_strange_in_two_ways(known):
    training, aside, new = known(800), known(500, seed=1), known(500, seed=2)
    strange = known(300, seed=3, shift=1.5)
    combined = Combined([Density(), Neighbours()]).fit(training, aside)
    assert auroc(-combined(new), -combined(strange)) > 0.9
    assert np.allclose(combined(new), combined.told(new).sum(axis=1))
    assert np.allclose(Evidence(Density(), beyond=5.0).fit(training, aside)(new).max(), 0, atol=4)
    classes = Combined([Density(), score_of("energy")]).fit(training, aside)
    assert len(classes.parts) == 1  # this model has no classes


def test_strange_examples_weigh_what_finds_them(known):
    rng = np.random.default_rng(0)
    familiar = rng.exponential(size=(300, 3))
    strange = rng.exponential(size=(100, 3)) + np.array([0.0, 4.0, 0.0])
    weights = separating_weights(familiar, strange)
    assert weights.argmax() == 1 and np.all(weights >= 0) and np.isclose(weights.mean(), 1)
    few = separating_weights(familiar, strange[:1])
    assert np.abs(few - 1).max() < np.abs(weights - 1).max()
    with pytest.raises(ValueError, match="at least one strange"):
        separating_weights(familiar, strange[:0])


@pytest.mark.parametrize("n", [1, 2, 15, 300])
def test_auto_is_defined_for_tables_of_any_size(n, known):
    fitted = score_of("auto").fit(known(n), known(n))
    usual, far = fitted(known(50, seed=1)), fitted(known(50, seed=2, shift=40.0))
    assert np.isfinite(usual).all() and np.isfinite(far).all()
    if n > 2:
        assert far.min() > usual.max()


def test_auto_of_images_finds_simple_and_foreign_ones(known, images):
    fitted = score_of("auto").fit(
        known(300, values=images(300)), known(200, seed=1, values=images(200, seed=1))
    )
    new = fitted(known(100, seed=2, values=images(100, seed=2)))
    blank = np.full((30, 12, 12, 1), 30, np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, (30, 12, 12, 1)).astype(np.uint8)
    for strange in (blank, noise):
        assert auroc(-new, -fitted(known(30, seed=3, values=strange))) > 0.98
