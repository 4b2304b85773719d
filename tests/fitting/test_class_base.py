"""The base of a table's classes: a density still, around the means of their features."""

import numpy as np
import pytest
from scipy.special import softmax

from diglm import HybridClassifier, HybridDensity, HybridRegressor
from diglm.data.toy import two_moons
from diglm.recipes import CouplingFlow, LinearFlow

TINY = dict(n_epochs=3, batch_size=64, reject=0.05, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def moons():
    return two_moons(600, 0.1, 0)


def test_a_base_of_one_normal_a_class_is_a_density_and_draws_classes(moons):
    X, y = moons
    settings = TINY | dict(n_epochs=20, n_blocks=2, width=8)
    model = HybridClassifier(CouplingFlow(base="mixture", tail=0), **settings).fit(X, y)
    assert model.model_.flow.base.means.shape == (2, 2)
    side = np.linspace(-4, 5, 181)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    mass = np.exp(model.score_samples(grid)).sum() * (side[1] - side[0]) ** 2
    assert mass == pytest.approx(1, abs=0.01)
    wanted = np.repeat([0, 1], 50)
    assert np.mean(model.predict(model.sample(100, y=wanted, random_state=0)) == wanted) > 0.8


def test_the_base_of_classes_is_around_the_weighted_means_of_their_features(moons):
    X, y = moons
    options = TINY | dict(validation_fraction=0.0, reject="minimum")
    weights = 1.0 + (np.arange(len(y)) % 3)
    model = HybridClassifier(LinearFlow(base="mixture"), **options).fit(X, y, weights)
    Z = model.transform(X)
    means = [np.average(Z[y == k], axis=0, weights=weights[y == k]) for k in (0, 1)]
    np.testing.assert_allclose(model.model_.flow.base.means, means, rtol=1e-4, atol=1e-5)
    shares = np.bincount(y, weights) / weights.sum()
    np.testing.assert_allclose(
        softmax(np.asarray(model.model_.flow.base.logits, float)), shares, rtol=1e-5
    )
    plain = HybridClassifier(LinearFlow(base="normal"), **options).fit(X, y, weights)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("options", [dict(head="bayesian"), dict(volume_weight=0.5)])
def test_a_mixture_base_says_what_it_does_not_go_with(moons, options):
    X, y = moons
    X, y = X[:100], y[:100]
    with pytest.raises(ValueError, match="base='mixture' goes with head='categorical'"):
        HybridClassifier(LinearFlow(base="mixture"), **options, **TINY).fit(X, y)
    with pytest.raises(ValueError, match="base='mixture' goes with head='categorical'"):
        HybridRegressor(LinearFlow(base="mixture"), head="gaussian", **TINY).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="tail=0"):
        HybridClassifier(CouplingFlow(base="mixture"), **TINY).fit(X, y)
    with pytest.raises(ValueError, match="base='mixture'"):
        HybridDensity(LinearFlow(base="mixture"), **TINY).fit(X)
