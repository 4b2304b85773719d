"""Distances to samples of training rows: what is compared, with gaps and without."""

import numpy as np
import pytest

from diglm import HybridDensity
from diglm.refusal import Density, NearestOfSamples, auroc, score_of
from diglm.refusal.scores.samples import _interpolated


def by_hand(score, values, told):
    """Mean distance to the nearest of each sample, over all pairs."""
    space = score.space
    values = np.where(told, values, 0.0).astype(np.float32)
    normal = _interpolated(values, space.knots, space.scores)
    points = np.concatenate([values / space.scales[0], normal / space.scales[1]], axis=1)
    gaps = (points[:, None, None] - space.points) * np.tile(told, 2)[:, None, None]
    squares = np.sum(gaps**2, axis=-1) / np.mean(told, axis=1)[:, None, None]
    return np.mean(np.sqrt(np.min(squares, axis=2)), axis=1)


def heavy(n, seed):
    """Columns of heavy tails, rounded so that values are tied."""
    return np.random.default_rng(seed).standard_t(3, size=(n, 4)).round(1)


def with_gaps(rows, told):
    return rows._replace(values=np.where(told, rows.values, np.nan), told=told)


def test_one_compiled_loop_finds_what_all_pairs_say(known):
    training, new = known(values=heavy(900, 0)), known(values=2 * heavy(300, 1) + 0.03)
    score = NearestOfSamples().fit(training, training)
    assert score.space.points.shape == (16, 32, 8)
    told = np.ones(new.values.shape, bool)
    assert np.allclose(score(new), by_hand(score, new.values, told), rtol=1e-4)
    told[::2, 1] = told[::3, 2] = False
    assert np.allclose(score(with_gaps(new, told)), by_hand(score, new.values, told), rtol=1e-4)


def test_what_is_missing_counts_neither_for_a_row_nor_against_it(known):
    training, new = known(2000, dim=6), known(500, dim=6, seed=1)
    score = NearestOfSamples().fit(training, training)
    told = np.random.default_rng(0).random(new.values.shape) < 0.7
    told[:, 0] = True
    whole, holes = score(new), score(with_gaps(new, told))
    assert np.mean(holes <= np.quantile(whole, 0.95)) > 0.9
    assert 0.6 < np.median(holes) / np.median(whole) < 1.1
    far = with_gaps(new, told)
    far = far._replace(values=far.values * np.array([9.0, 1, 1, 1, 1, 1]))
    assert auroc(-whole, -score(far)) > 0.85


def test_rows_of_which_nothing_was_told_are_not_strange_by_their_place(known):
    training = known(300)
    nothing = with_gaps(known(5, seed=1), np.zeros((5, 4), bool))
    assert np.all(NearestOfSamples().fit(training, training)(nothing) == 0)
    nobody = with_gaps(training, np.zeros((300, 4), bool))
    assert np.all(NearestOfSamples().fit(nobody, nobody)(nothing) == 0)


def test_a_row_of_a_sample_is_not_its_own_neighbour(known):
    training = known(500)
    score = NearestOfSamples().fit(training, training)
    assert 0.85 < np.median(score(training)) / np.median(score(known(500, seed=1))) < 1.15
    constant = known(values=np.ones((40, 3)))
    assert np.all(NearestOfSamples().fit(constant, constant)(constant) == 0)


@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_few_rows_are_few_samples(n, known):
    training = known(n)
    score = NearestOfSamples().fit(training, training)
    assert len(score.space.points) == max(1, n // 8)
    assert np.isfinite(score(known(20, seed=1))).all()
    assert score(known(0)).shape == (0,)


def test_what_is_out_of_all_bounds_is_finite_and_strange(known):
    training = known(300)
    score = NearestOfSamples().fit(training, training)
    beyond = known(values=np.array([[1e30, 0, 0, 0], [0, -1e30, 0, 0]]))
    assert np.isfinite(score(beyond)).all() and score(beyond).min() > 100


def test_one_row_is_judged_as_it_is_among_many(known):
    score = NearestOfSamples().fit(known(600), known(600))
    many = known(700, seed=1)
    alone = [score(many.take(np.array([i])))[0] for i in (0, 5, 699)]
    assert np.array_equal(score(many)[[0, 5, 699]], alone)


def test_tables_have_neighbours_and_few_columns_the_density_alone(known):
    auto = score_of("auto")
    wide, narrow = (auto.fit(known(100, dim=dim), known(100, dim=dim)) for dim in (3, 2))
    assert [type(part.score) for part in wide.chosen.parts] == [NearestOfSamples, Density]
    assert isinstance(narrow.chosen, Density)
    assert not auto.reads_head("vector") and auto.reads_head("image")


def test_rare_gaps_are_no_reason_to_refuse():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(5, 5))
    X, new = (rng.normal(size=(n, 5)) @ mixing for n in (1500, 1000))
    X[rng.random(X.shape) < 0.01] = np.nan
    holed = new.copy()
    holed[np.arange(1000), rng.integers(0, 5, 1000)] = np.nan
    settings = dict(n_epochs=4, batch_size=64, random_state=0, verbose=False)
    model = HybridDensity("linear", reject=0.05, **settings).fit(X)
    assert np.mean(model.rejects(new)) < 0.1
    assert np.mean(model.rejects(holed)) < 0.15
