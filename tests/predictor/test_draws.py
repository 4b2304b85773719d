"""Draws of rows, also given y, and ways between rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from diglm import HybridRegressor
from diglm.predictor import evaluate
from diglm.predictor.draw import great_circle


def test_samples_look_like_the_training_rows(classifier, moons):
    X, y = moons
    drawn = classifier.sample(4000, random_state=0)
    assert np.allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.15)
    assert np.allclose(drawn.std(axis=0), X.std(axis=0), atol=0.2)
    assert np.array_equal(drawn, classifier.sample(4000, random_state=0))
    upper = classifier.sample(500, y=0, random_state=0)
    assert np.mean(classifier.predict(upper) == 0) > 0.9
    wanted = np.arange(500) % 2
    both = classifier.sample(500, y=wanted, random_state=0)
    assert np.mean(classifier.predict(both) == wanted) > 0.9
    rows, labels = classifier.sample_joint(2000, random_state=1)
    assert np.isclose(np.mean(labels), np.mean(y), atol=0.1)
    assert np.mean(classifier.predict(rows) == labels) > 0.8


@pytest.mark.parametrize("y", [None, 1])
def test_draws_that_no_row_is_near_to_are_drawn_again(classifier, moons, y):
    X, _ = moons
    low, high = X.min(axis=0), X.max(axis=0)
    source = classifier.model_.source.flow
    hot = np.asarray(source.base.cooled(8.0).sample(jax.random.key(0), 2000))
    wild = source.bijection.inverse_rows(jnp.asarray(hot))[0]
    drawn = classifier.sample(2000, y=y, random_state=0, temperature=8.0)
    assert np.all((drawn >= 2 * low - high) & (drawn <= 2 * high - low))
    scaled = np.asarray(wild) * X.std(axis=0) + X.mean(axis=0)
    assert np.any((scaled < 2 * low - high) | (scaled > 2 * high - low))


def test_a_class_is_drawn_as_bayes_has_it(classifier):
    """Of rows given a class, features have the base's density times p(y|z), up to a constant."""
    z = classifier.transform(classifier.sample(20_000, random_state=0))
    given_y = classifier.transform(classifier.sample(20_000, y=1, random_state=1))
    weights = classifier.predict_proba(classifier.inverse_transform(z))[:, 1]
    expected = np.average(z, axis=0, weights=weights)
    assert np.allclose(given_y.mean(axis=0), expected, atol=0.04)


def test_gaussian_head_draws_x_given_y_exactly(regressor):
    # z | y is Gaussian in closed form: compare moments of the drawn linear predictor.
    target = 8.0
    z = regressor.transform(regressor.sample(20_000, y=target, random_state=0))
    head = regressor.model_.head
    b, s2 = np.asarray(head.weight[0], float), float(head(jnp.zeros(3)).scale) ** 2
    y = (target - regressor.y_location_) / regressor.y_scale_ - float(head.bias[0])
    V = np.linalg.inv(np.eye(3) + np.outer(b, b) / s2)
    assert np.allclose(z.mean(axis=0), V @ b * y / s2, atol=0.03)
    assert np.allclose(np.cov(z.T), V, atol=0.05)


def test_slices_agree_with_weighing(line):
    """Heads without a bound are drawn by slices: the same moments as weighted draws of the base."""
    X, y = line
    model = HybridRegressor(
        "linear", head="student_t", n_epochs=2, reject=0.05, random_state=0, verbose=False
    ).fit(X, y + 2 * np.random.default_rng(0).normal(size=500))
    given_y = model.transform(model.sample(3000, y=6.0, random_state=0))
    rows = model.sample(60_000, random_state=1)
    z, log_py = model.transform(rows), model.predict_dist(rows).log_prob(np.full(60_000, 6.0))
    weights = np.exp(log_py)
    effective = weights.sum() ** 2 / np.sum(weights**2)
    mean = np.average(z, axis=0, weights=weights)
    error = 5 * np.sqrt(1 / 3000 + 1 / effective)
    assert np.all(np.abs(given_y.mean(axis=0) - mean) < error)


@pytest.mark.parametrize("y", [None, 1])
def test_cooler_samples_are_less_varied(classifier, y):
    warm, cool = (
        np.mean(
            np.std(
                classifier.transform(classifier.sample(300, y, random_state=0, temperature=t)),
                axis=0,
            )
        )
        for t in (1.0, 0.5)
    )
    assert cool < 0.8 * warm
    with pytest.raises(ValueError, match="temperature must be a finite number > 0; got 0.0"):
        classifier.sample(1, temperature=0.0)


def test_impossible_targets_cannot_be_drawn_from(classifier, regressor):
    with pytest.raises(ValueError, match="Unknown class 7"):
        classifier.sample(2, y=7)
    with pytest.raises(ValueError, match="predicts numbers"):
        regressor.sample(2, y="much")
    with pytest.raises(ValueError, match=r"one value or one a row \(3\); got 2"):
        regressor.sample(3, y=[1.0, 2.0])


def test_a_joint_draw_has_the_predicted_distribution(regressor):
    rows, y = regressor.sample_joint(4000, random_state=0)
    places = regressor.predict_dist(rows).cdf(y)
    assert stats.kstest(places, "uniform").pvalue > 1e-3


# ---------------------------------------------------------------- ways between rows


def test_interpolation_runs_from_one_row_to_the_other(classifier, moons):
    X, _ = moons
    path = classifier.interpolate(X[0], X[1], 5)
    assert path.shape == (5, 2)
    assert np.allclose(path[0], X[0], atol=1e-5) and np.allclose(path[-1], X[1], atol=1e-5)
    assert np.allclose(classifier.interpolate(X[:1], X[1:2], 5), path)
    with pytest.raises(ValueError, match="one row for a"):
        classifier.interpolate(X[:2], X[0], 3)
    with pytest.raises(ValueError, match="way must be one of .*'line'.*; got 'arc'"):
        classifier.interpolate(X[0], X[1], 3, way="arc")
    straight = classifier.interpolate(X[0], X[1], 5, way="line")
    values = classifier.predictor_.encode(straight).values
    us = evaluate.evaluate(evaluate.latents, classifier.model_, values, np.zeros(0))
    assert np.allclose(us, np.linspace(us[0], us[-1], 5), atol=1e-3)
    assert not np.allclose(straight, path, atol=1e-3)
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1; got 0"):
        classifier.interpolate(X[0], X[1], 0)


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_a_great_circle_turns_evenly_and_keeps_its_length(dim, seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, dim)) * rng.uniform(0.1, 5, (2, 1))
    way = great_circle(first, second, 7)
    lengths = np.linalg.norm(way, axis=1)
    assert np.allclose(way[[0, -1]], [first, second])
    assert np.allclose(lengths, np.linspace(lengths[0], lengths[-1], 7))
    units = way / lengths[:, None]
    cosines = np.sum(units[1:] * units[:-1], axis=1)
    assert np.allclose(cosines, cosines[0], atol=1e-6)


@pytest.mark.parametrize("second", [[-4.0, 0.0], [0.0, 0.0], [4.0, 0.0]])
def test_without_a_way_to_turn_the_line_is_straight(second):
    way = great_circle(np.array([2.0, 0.0]), np.array(second), 3)
    assert np.allclose(way[1], (np.array([2.0, 0.0]) + second) / 2)
