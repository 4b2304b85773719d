"""The Bayesian linear head against SciPy, scikit-learn and autodiff."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import BayesianRidge

from diglm.heads import ConjugateHead
from diglm.heads.bayesian.regression import (
    Levels,
    Statistics,
    best_levels,
    inverse_factor,
    log_evidence,
    posterior,
)
from diglm.types import partition


def table(n=40, d=3, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, d))
    y = z @ rng.normal(size=d) + 0.5 + noise * rng.normal(size=n)
    return z, y


def designed(z):
    return np.concatenate([z, np.ones((len(z), 1))], axis=1)


def known_of(z, y, weights=None):
    weights = np.ones(len(z)) if weights is None else weights
    return Statistics.of(designed(z), np.asarray(y, float).reshape(len(z), -1), weights)


@pytest.mark.parametrize("n, d", [(40, 3), (2, 5), (1, 1)])
def test_evidence_is_the_marginal_density_of_all_targets(n, d):
    z, y = table(n, d)
    noise, precision = 0.4, 2.0
    phi = designed(z)
    cov = noise * np.eye(n) + phi @ phi.T / precision
    expected = stats.multivariate_normal(np.zeros(n), cov).logpdf(y)
    assert log_evidence(known_of(z, y), noise, precision) == pytest.approx(expected, abs=1e-8)


def test_jax_and_numpy_agree():
    z, y = table()
    known = known_of(z, y)
    same = jax.tree.map(jnp.asarray, known)
    assert float(log_evidence(same, 0.4, 2.0)) == pytest.approx(log_evidence(known, 0.4, 2.0))


def test_posterior_and_levels_are_bayesian_ridges():
    z, y = table(80, 4)
    phi = designed(z)
    ridge = BayesianRidge(
        fit_intercept=False, compute_score=True, tol=1e-12, max_iter=3000,
        alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0,
    ).fit(phi, y)  # fmt: skip
    known = known_of(z, y)
    levels = best_levels(known)
    assert levels.noise == pytest.approx(1 / ridge.alpha_, rel=1e-5)
    assert levels.precision == pytest.approx(ridge.lambda_, rel=1e-5)
    found = posterior(known, 1 / ridge.alpha_, ridge.lambda_)
    np.testing.assert_allclose(found.mean, ridge.coef_, atol=1e-6)
    np.testing.assert_allclose(found.covariance, ridge.sigma_, atol=1e-6)
    assert log_evidence(known, *levels) == pytest.approx(ridge.scores_[-1], abs=1e-6)


def test_predictive_is_that_of_gaussian_process_regression():
    z, y = table()
    new = np.random.default_rng(5).normal(size=(20, 3))
    noise, precision = 0.4, 2.0
    kernel = ConstantKernel(1 / precision) * DotProduct(1.0) + WhiteKernel(noise)
    gp = GaussianProcessRegressor(kernel, optimizer=None).fit(z, y)
    head = ConjugateHead(3, noise=noise**0.5, precision=precision)
    head = head.start(jnp.asarray(y), jnp.ones(len(y))).refit(z, y, np.ones(len(y)))
    response = jax.vmap(head)(jnp.asarray(new))
    mean, std = gp.predict(new, return_std=True)
    np.testing.assert_allclose(response.mean, mean, atol=1e-6)
    np.testing.assert_allclose(response.std, std, atol=1e-6)
    evidence = gp.log_marginal_likelihood_value_
    assert log_evidence(known_of(z, y), noise, precision) == pytest.approx(evidence, abs=1e-6)


def test_a_weight_of_two_is_two_rows():
    z, y = table(10, 2)
    twice = known_of(np.concatenate([z, z[:4]]), np.concatenate([y, y[:4]]))
    weighted = known_of(z, y, np.where(np.arange(10) < 4, 2.0, 1.0))
    for a, b in zip(twice, weighted, strict=True):
        np.testing.assert_allclose(a, b)


def test_several_targets_are_several_regressions():
    z, y = table(30, 2)
    both = np.stack([y, -2 * y**2], axis=1)
    head = ConjugateHead(2, n_targets=2).start(jnp.asarray(both), jnp.ones(30))
    head = head.refit(z, both, np.ones(30))
    for t in range(2):
        single = ConjugateHead(2).start(jnp.asarray(both[:, t]), jnp.ones(30))
        single = single.refit(z, both[:, t], np.ones(30))
        np.testing.assert_allclose(head.mean[:, t], single.mean[:, 0], atol=1e-8)
        response, alone = head(jnp.asarray(z[0])), single(jnp.asarray(z[0]))
        np.testing.assert_allclose(response.std[t], alone.std, atol=1e-8)
    joint = response.log_prob(jnp.asarray(both[0]))
    parts = stats.norm(response.loc, response.scale).logpdf(both[0]).sum()
    assert float(joint) == pytest.approx(parts)


def test_noise_and_precision_stay_where_they_were_put():
    z, y = table()
    head = ConjugateHead(3, noise=0.1, precision=3.0).start(jnp.asarray(y), jnp.ones(len(y)))
    head = head.refit(z, y, np.ones(len(y)))
    assert float(head.noise[0]) == pytest.approx(0.01)
    assert float(head.precision[0]) == pytest.approx(3.0)
    weights = partition(head)[0]
    assert len(jax.tree.leaves(weights)) == 1  # the posterior mean alone


def test_effects_of_observations_widen_with_the_features():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(60, 1))
    y = z[:, 0] * (1 + rng.normal(size=60)) + 0.1 * rng.normal(size=60)
    head = ConjugateHead(1, effects=True, noise=0.5, precision=1.0)
    head = eqx.tree_at(lambda h: h.log_ratios, head, jnp.log(jnp.asarray([3.0])))
    head = head.start(jnp.asarray(y), jnp.ones(60)).refit(z, y, np.ones(60))
    phi, variances = designed(z), 0.25 * (1 + 3.0 * z[:, 0] ** 2)
    precise = np.eye(2) + phi.T @ (phi / variances[:, None])
    np.testing.assert_allclose(head.mean[:, 0], np.linalg.solve(precise, phi.T @ (y / variances)))
    marginal = stats.multivariate_normal(np.zeros(60), np.diag(variances) + phi @ phi.T)
    evidence = log_evidence(head.statistics(z, y, np.ones(60)), 0.25, 1.0)
    assert evidence == pytest.approx(marginal.logpdf(y), abs=1e-8)
    response = head(jnp.asarray([2.0]))
    expected = 0.25 * 13 + np.array([2.0, 1]) @ np.linalg.solve(precise, [2.0, 1])
    assert float(response.variance) == pytest.approx(expected)


def test_singular_and_huge_designs_have_finite_answers():
    z, y = table(20, 2)
    hard = {
        "duplicate columns": np.concatenate([z, z, z], axis=1),
        "more columns than rows": np.random.default_rng(0).normal(size=(20, 50)),
        "one huge column": z * np.array([1e8, 1.0]),
        "a column of zeros": np.concatenate([z, np.zeros((20, 1))], axis=1),
    }
    for name, design in hard.items():
        known = known_of(design, y)
        levels = best_levels(known)
        found = posterior(known, *levels)
        assert np.all(np.isfinite(found.mean)), name
        assert np.isfinite(log_evidence(known, *levels)), name
        fitted = designed(design) @ found.mean
        assert np.sqrt(np.mean((fitted - y) ** 2)) < np.std(y), name


def test_zero_noise_one_row_and_no_rows():
    z, _ = table(30, 2)
    exact = z @ [1.0, -2.0] + 3
    levels = best_levels(known_of(z, exact))
    assert 0 < levels.noise < 1e-4
    found = posterior(known_of(z, exact), *levels)
    np.testing.assert_allclose(found.mean, [1, -2, 3], atol=1e-4)
    for known in (known_of(z[:1], exact[:1]), Statistics.zero(3, 1)):
        levels = best_levels(known)
        assert all(np.isfinite(levels))
        assert np.all(np.isfinite(posterior(known, *levels).mean))


def test_a_nearly_indefinite_matrix_is_still_factorised():
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    matrix = (vectors * np.array([1e3, 1.0, 1e-9, -1e-18])) @ vectors.T
    factor, log_det = inverse_factor(matrix)
    assert np.all(np.isfinite(factor)) and np.isfinite(log_det)


@pytest.mark.parametrize("options", [dict(noise=0.0), dict(precision=-1.0), dict(n_targets=0)])
def test_a_head_refuses_what_makes_no_sense(options):
    with pytest.raises(ValueError, match="must be a positive|n_targets >= 1"):
        ConjugateHead(2, **options)


def test_levels_of_held_out_rows_are_not_flattered():
    # Features fitted to the training rows alone: their own evidence believes in no noise.
    rng = np.random.default_rng(0)
    train, held = rng.normal(size=(40, 1)), rng.normal(size=(200, 1))
    y_held = held[:, 0] + rng.normal(size=200)
    first = known_of(train, train[:, 0])
    both = first.plus(known_of(held, y_held))
    alone, honest = best_levels(first), best_levels(both, reference=first, precision=1.0)
    assert alone.noise < 1e-3
    assert 0.7 < honest.noise < 1.4
    assert isinstance(honest, Levels)
