"""Gains of training that few held-out rows cannot tell from chance are not taken."""

import jax
import numpy as np

from diglm import HybridRegressor
from diglm.recipes import CouplingFlow

SMALL = dict(n_blocks=2, width=16, n_epochs=60, reject=0.1, random_state=0, verbose=False)


def is_untrained(model):
    """Whether the last layers of the couplings' networks are still zero, as they start."""
    networks = jax.tree.leaves(model.model_.flow.bijection)
    return any(leaf.ndim == 3 and not np.any(leaf) for leaf in networks)


def test_noise_is_left_to_the_plain_model_and_a_curve_is_not():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(400, 3)), rng.normal(size=400)
    curve = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=400)
    model = HybridRegressor(CouplingFlow(tail=1), **SMALL)
    gains, fresh = [], rng.normal(size=(500, 3))
    for part in np.arange(360).reshape(6, 60):
        fitted = model.fit(X[part], noise[part])
        plain = HybridRegressor("identity", random_state=0, reject=0.1, verbose=False)
        plain.fit(X[part], noise[part])
        told = [
            m.predict_dist(fresh).log_prob(rng.normal(size=500)).mean() for m in (fitted, plain)
        ]
        gains.append(told[0] - told[1])
    assert np.mean(gains) > -0.05
    assert np.mean((model.fit(X, curve).predict(X) - curve) ** 2) < 0.3 * np.var(curve)


def test_with_one_network_a_gain_by_chance_is_not_taken():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(360, 3)), rng.normal(size=360)
    model = HybridRegressor(CouplingFlow(tail=1, members=1), **SMALL)
    parts = np.arange(360).reshape(6, 60)
    assert sum(is_untrained(model.fit(X[part], noise[part])) for part in parts) >= 4


def test_a_line_of_few_rows_is_found_as_well_as_by_ridge_regression():
    rng = np.random.default_rng(1)
    X, slopes = rng.uniform(size=(560, 8)), rng.normal(size=8)
    y = X @ slopes + 0.1 * rng.normal(size=560)
    model = HybridRegressor(**SMALL).fit(X[:60], y[:60])
    design = np.c_[np.ones(60), X[:60]]
    least_squares = np.c_[np.ones(500), X[60:]] @ np.linalg.lstsq(design, y[:60])[0]
    ours, theirs = (
        np.sqrt(np.mean((y[60:] - p) ** 2)) for p in (model.predict(X[60:]), least_squares)
    )
    assert ours < 1.3 * theirs
