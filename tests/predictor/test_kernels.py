"""Kernels of fitted models against what they are by definition."""

import jax
import numpy as np
import pytest

from diglm import HybridClassifier, HybridDensity, HybridRegressor
from diglm.predictor.kernels import KERNELS

TINY = dict(n_blocks=1, width=4, n_epochs=2, reject=0.1, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    return X, X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=120)


@pytest.fixture(scope="module")
def linear(table):
    return HybridRegressor("linear", head="bayesian", **TINY).fit(*table)


def test_the_fisher_kernel_is_that_of_scores_of_log_px(table, linear):
    X, _ = table
    base = linear.model_.source.flow.base
    us = linear.predictor_.known(linear.predictor_.encode(X[:6])).u

    def log_px(theta, u):  # of a normal with any mean and scales; at theta = 0 it is the base
        t = (u - theta[:3]) * jax.numpy.exp(-theta[3:])
        return base.log_prob(t) - jax.numpy.sum(theta[3:])

    scores = jax.vmap(jax.grad(log_px), (None, 0))(np.zeros(6), us.astype(float))
    information = np.diag([1.0] * 3 + [2.0] * 3)
    truth = scores @ np.linalg.inv(information) @ scores.T
    np.testing.assert_allclose(linear.kernel(X[:6], kind="fisher"), truth, rtol=1e-6, atol=1e-8)


def test_the_product_kernel_is_the_integral_of_roots_of_predictions(table, linear):
    X, y = table
    found = linear.kernel(X[:4], X[4:9], kind="product")
    first, second = linear.predict_dist(X[:4]), linear.predict_dist(X[4:9])
    places = np.linspace(y.min() - 20, y.max() + 20, 20_001)
    roots = [np.exp(0.5 * np.stack([d.log_prob(p) for p in places])) for d in (first, second)]
    truth = roots[0].T @ roots[1] * (places[1] - places[0])
    np.testing.assert_allclose(found, truth, atol=1e-6)


def test_every_estimator_has_them_and_says_what_it_lacks(table, linear):
    X, y = table
    classes = HybridClassifier("linear", **TINY).fit(X, y > 0)
    p = np.sqrt(classes.predict_proba(X[:7]))
    np.testing.assert_allclose(classes.kernel(X[:7], kind="product"), p @ p.T, rtol=1e-5)
    density = HybridDensity("linear", **TINY).fit(X)
    found = density.kernel(X, kind="fisher")
    assert found.shape == (120, 120) and np.linalg.eigvalsh(found).min() > -1e-8 * found.max()
    np.testing.assert_allclose(linear.kernel(X[:3]), linear.kernel(X[:3], kind="implied"))
    with pytest.raises(ValueError, match="needs the exact posterior of head='bayesian'"):
        classes.kernel(X)
    with pytest.raises(ValueError, match="Did you mean 'fisher'"):
        classes.kernel(X, kind="fischer")
    assert set(KERNELS) == {"implied", "fisher", "product"}
