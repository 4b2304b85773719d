"""Models whose log-determinant is estimated: deterministic, honest about it, and as others are."""

import jax
import numpy as np
import pytest
from sklearn.base import clone

from diglm import HybridClassifier, HybridDensity, load
from diglm.recipes import ContinuousFlow, ResidualFlow

TINY = dict(n_blocks=1, width=6, depth=1, n_epochs=4, batch_size=32, reject=None, verbose=False)
TINY |= dict(learning_rate=0.05, validation_fraction=0.0)  # no epoch is kept but the last
FLOWS = {
    "continuous": ContinuousFlow(exact_up_to=1, probes=3, tolerance=1e-3),
    "residual": ResidualFlow(exact_up_to=1, probes=3),
}


def rows(n=150):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.8], [0.0, 0.5]])
    return np.column_stack([x[:, 0] + x[:, 1] ** 2, np.round(x[:, 1] * 3)])  # one of whole numbers


@pytest.mark.parametrize("name", FLOWS)
def test_answers_are_fixed_say_their_error_and_outlive_a_file(name, tmp_path):
    X = rows(60)
    if name == "residual":  # gaps are drawn for each probe anew, which takes its time
        X[0, 1] = np.nan
    model = HybridDensity(clone(FLOWS[name]), random_state=0, **TINY).fit(X)
    log_px, error = model.score_samples(X, return_std=True)
    assert log_px.shape == error.shape == (len(X),)
    assert np.all(error > 0) and np.median(error) < 1
    np.testing.assert_array_equal(model.score_samples(X), log_px)
    few = model.score_samples(X[3:7], return_std=True)
    np.testing.assert_allclose(few, [log_px[3:7], error[3:7]], rtol=1e-9)
    assert model.sample(5, random_state=0).shape == (5, 2)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_allclose(again.score_samples(X, return_std=True), [log_px, error], rtol=1e-9)


def test_the_error_is_that_of_other_probes():
    X = rows()[:, :1] @ np.ones((1, 2)) + 0.3 * rows()[:, ::-1] / 3
    model = HybridDensity(ResidualFlow(exact_up_to=1, probes=32), random_state=0, **TINY).fit(X)
    log_px, error = model.score_samples(X, return_std=True)
    flow = model.model_.source.flow

    def told(x):
        return flow.base.log_prob(flow.bijection.forward(x)), jax.jacfwd(flow.bijection.forward)(x)

    encoded = model.predictor_.encode(X)
    prior, jacobians = jax.jit(jax.vmap(told))(encoded.values)
    truth = prior + np.linalg.slogdet(jacobians)[1] + encoded.log_scale
    off = np.abs(log_px - truth) / error
    assert np.mean(off < 3) > 0.95 and np.median(off) > 0.05


@pytest.mark.parametrize("name", ["continuous", "residual"])
def test_names_stand_for_recipes_whose_parameters_are_checked(name):
    wrong = clone(FLOWS[name]).set_params(probes=1)
    with pytest.raises(ValueError, match="probes must be a whole number of at least 2; got 1"):
        HybridClassifier(wrong, **TINY).fit(rows(), np.arange(150) % 2)
