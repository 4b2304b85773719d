"""Random effects found from rows: against definitions, integrals and exact linear algebra."""

import numpy as np
import pytest
from group_samples import grouped
from scipy import stats

from diglm.heads.bayesian.effects import _Problem, fit_mixed


def test_restricted_likelihood_is_the_flat_limit_of_the_evidence():
    x, codes, y = grouped(4, 6)
    phi, ones = np.stack([x, np.ones_like(x)], axis=1), np.ones((len(x), 1))
    found = fit_mixed("gaussian", phi, ones, codes, y, np.ones(len(y)), n_groups=4)
    same = codes[:, None] == codes[None, :]
    flat = 1e5
    cov = found.noise * np.eye(len(y)) + found.covariance[0, 0] * same + flat * phi @ phi.T
    evidence = stats.multivariate_normal(np.zeros(len(y)), cov).logpdf(y)
    restricted = evidence + 0.5 * 2 * np.log(flat) + np.log(2 * np.pi)
    assert found.log_likelihood == pytest.approx(restricted, abs=1e-3)
    # Predictions are the conditional normal of that same joint.
    new, group = np.array([[4.0, 1.0]]), np.array([2])
    to_rows = flat * new @ phi.T + found.covariance[0, 0] * (codes == 2)
    expected = (to_rows @ np.linalg.solve(cov, y))[0]
    prior = flat * new @ new.T + found.covariance[0, 0]
    variance = (prior - to_rows @ np.linalg.solve(cov, to_rows.T))[0, 0]
    mean, spread = found.predictor(new, np.ones((1, 1)), group)
    assert mean[0] == pytest.approx(expected, abs=1e-4)
    assert spread[0] == pytest.approx(variance, rel=1e-2)


@pytest.mark.slow
def test_laplace_is_the_integral_over_a_groups_intercept():
    rng = np.random.default_rng(0)
    codes, ones = np.repeat(np.arange(20), 15), np.ones((300, 1))
    ys = (rng.random(300) < 1 / (1 + np.exp(-rng.normal(size=20)[codes]))).astype(float)
    found = fit_mixed("binary", ones, ones, codes, ys, np.ones(300), n_groups=20)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()

    def log_likelihood(bias, sd):
        etas = bias + sd * nodes
        ones_in = np.bincount(codes, ys)
        per_group = ones_in[:, None] * etas - 15 * np.logaddexp(0, etas)
        return np.sum(np.log(np.exp(per_group) @ weights))

    # The variance of the Laplace fit is near the top of the exact likelihood.
    sd, bias = found.covariance[0, 0] ** 0.5, found.fixed[0]
    top = max(log_likelihood(bias, s) for s in np.linspace(0.05, 3, 60))
    assert log_likelihood(bias, sd) > top - 0.1


def test_effects_that_explain_everything_leave_an_exact_likelihood():
    # Where Lambda is huge, next to nothing is left of what the effects span.
    x, codes, y = grouped(12, 10)
    design = np.stack([x, np.ones_like(x)], axis=1)
    root = np.array([[1e4, 0.0], [-3e3, 1e4]])
    problem = _Problem("gaussian", design, design, codes, y, np.ones(len(y)), 12, None)
    random = np.where(codes[:, None, None] == np.arange(12)[:, None], (design @ root)[:, None], 0.0)
    basis, sizes, _ = np.linalg.svd(random.reshape(len(y), -1))
    shrink = np.ones(len(y))
    shrink[: len(sizes)] = 1 / np.sqrt(1 + sizes**2)
    rest = (basis.T @ np.column_stack([design, y])) * shrink[:, None]
    _, left, *_ = np.linalg.lstsq(rest[:, :2], rest[:, 2])
    n = len(y) - 2
    log_det = np.linalg.slogdet(rest[:, :2].T @ rest[:, :2])[1] - 2 * np.sum(np.log(shrink))
    expected = log_det + n * (1 + np.log(2 * np.pi * left[0] / n))
    assert problem.deviance(root) == pytest.approx(expected, rel=1e-6)


def test_a_deviance_does_not_depend_on_what_was_asked_before():
    rng = np.random.default_rng(0)
    codes, ones = np.repeat(np.arange(20), 15), np.ones((300, 1))
    ys = (rng.random(300) < 0.3 + 0.4 * (codes % 2)).astype(float)
    problem = _Problem("binary", ones, ones, codes, ys, np.ones(300), 20, None)
    first = problem.deviance(np.array([[1.0]]))
    for near in (2.0, 1.001, 1.0 + 1e-5):  # modes so near that one step seems to be enough
        problem.deviance(np.array([[near]]))
        assert problem.deviance(np.array([[1.0]])) == pytest.approx(first, abs=1e-9)
