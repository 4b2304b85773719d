"""Random weights of classes and counts: averages, bounds, Laplace and their agreement."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from diglm.heads import AverageBernoulli, AverageCategorical, AveragePoisson, VariationalHead
from diglm.heads.bayesian.jaakkola import jaakkola_jordan
from diglm.heads.bayesian.laplace import laplace
from diglm.heads.bayesian.natural import maximise_elbo


def designed(z):
    return np.concatenate([z, np.ones((len(z), 1))], axis=1)


def classes(n=60, d=2, k=2, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, d))
    etas = z @ rng.normal(size=(d, k)) + 0.3 * np.arange(k)
    y = np.argmax(etas + rng.gumbel(size=(n, k)), axis=1)
    return z, y.astype(np.int32)


def counts(n=80, d=2, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, d))
    return z, rng.poisson(np.exp(z @ [0.5, -0.7] + 1)).astype(float)


@pytest.mark.parametrize("mean, variance", [(0.3, 0.5), (-2.0, 4.0), (6.0, 0.01)])
def test_averages_of_two_classes_are_integrals(mean, variance):
    normal = stats.norm(mean, variance**0.5)
    response = AverageBernoulli(jnp.asarray(mean), jnp.asarray(variance))
    ends = mean - 12 * variance**0.5, mean + 12 * variance**0.5

    def integral(f):
        return integrate.quad(lambda e: f(e) * normal.pdf(e), *ends, epsabs=1e-12)[0]

    for y in (0, 1):
        expected = integral(lambda e, y=y: -np.logaddexp(0, -(2 * y - 1) * e))
        assert float(response.log_prob(y)) == pytest.approx(expected, abs=1e-5)
    expected = integral(lambda e: 1 / (1 + np.exp(-e)))
    assert float(response.mean) == pytest.approx(expected, abs=1e-5)


def test_averages_of_many_classes_are_those_of_many_draws():
    mean, variance = np.array([0.5, -1.0, 2.0, 0.0]), np.array([1.0, 2.0, 0.3, 0.01])
    response = AverageCategorical(jnp.asarray(mean), jnp.asarray(variance))
    draws = mean + np.sqrt(variance) * np.random.default_rng(0).normal(size=(400_000, 4))
    log_p = draws - np.logaddexp.reduce(draws, axis=1, keepdims=True)
    for y in range(4):
        assert float(response.log_prob(y)) == pytest.approx(log_p[:, y].mean(), abs=5e-3)
    np.testing.assert_allclose(response.mean, np.exp(log_p).mean(axis=0), atol=2e-3)
    certain = AverageCategorical(jnp.asarray(mean), jnp.zeros(4))
    expected = jax.nn.log_softmax(jnp.asarray(mean))
    np.testing.assert_allclose([certain.log_prob(y) for y in range(4)], expected, atol=1e-4)
    np.testing.assert_allclose(certain.predictive().log_probs, expected, atol=1e-4)


def test_averages_of_counts_are_exact():
    mean, variance = 1.2, 0.4
    response = AveragePoisson(jnp.asarray(mean), jnp.asarray(variance))
    etas = mean + variance**0.5 * np.random.default_rng(0).normal(size=400_000)
    expected = stats.poisson(np.exp(etas)).logpmf(3).mean()
    assert float(response.log_prob(3)) == pytest.approx(expected, abs=1e-2)
    assert float(response.mean) == pytest.approx(np.exp(mean + variance / 2))
    rate = np.exp(mean + variance / 2)
    assert float(response.variance) == pytest.approx(rate + rate**2 * np.expm1(variance))


def log_evidence_on_a_grid(phi, y, precision):
    """Brute force over the two weights of a logistic regression."""
    side = np.linspace(-8, 8, 400)
    a, b = np.meshgrid(side, side)
    etas = phi[:, 0, None, None] * a + phi[:, 1, None, None] * b
    log_joint = np.sum(np.where(y[:, None, None] == 1, 1, -1) * etas, axis=0) * 0
    for eta, label in zip(etas, y, strict=True):
        log_joint = log_joint - np.logaddexp(0, -(2 * label - 1) * eta)
    log_joint += stats.norm(0, precision**-0.5).logpdf(a) + stats.norm(0, precision**-0.5).logpdf(b)
    return np.logaddexp.reduce(log_joint, axis=None) + 2 * np.log(side[1] - side[0])


def test_bounds_lie_below_the_evidence_and_in_order():
    z, y = classes(40, 1)
    phi, weights, precision = designed(z), np.ones(40), 1.5
    truth = log_evidence_on_a_grid(phi, y, precision)
    offset = np.zeros(1)
    mode = laplace("bernoulli", phi, y, weights, offset=offset, precision=precision)
    options = dict(offset=offset, precision=precision, start=mode)
    full = maximise_elbo("bernoulli", phi, y, weights, **options)
    diagonal = maximise_elbo("bernoulli", phi, y, weights, diagonal=True, **options)
    quadratic = jaakkola_jordan(phi, y, weights, precision=precision)
    assert diagonal.log_evidence <= full.log_evidence < truth
    assert quadratic.log_evidence < full.log_evidence
    assert full.log_evidence == pytest.approx(truth, abs=0.02)
    assert quadratic.log_evidence == pytest.approx(truth, abs=0.3)
    assert mode.log_evidence == pytest.approx(truth, abs=0.1)


def test_laplace_modes_are_penalised_regressions():
    z, y = classes(100, 2)
    phi = designed(z)
    mode = laplace("bernoulli", phi, y, np.ones(100), offset=np.zeros(1), precision=2.0)
    logistic = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(phi, y)
    np.testing.assert_allclose(mode.mean, logistic.coef_, atol=1e-5)
    p = logistic.predict_proba(phi)[:, 1]
    hessian = phi.T @ (phi * (p * (1 - p))[:, None]) + 2 * np.eye(3)
    np.testing.assert_allclose(mode.covariance[0], np.linalg.inv(hessian), atol=1e-6)
    z, y = counts()
    phi = designed(z)
    mode = laplace("poisson", phi, y, np.ones(80), offset=np.zeros(1), precision=3.0)
    poisson = PoissonRegressor(alpha=3.0 / 80, fit_intercept=False, tol=1e-10).fit(phi, y)
    np.testing.assert_allclose(mode.mean[0], poisson.coef_, atol=1e-4)


def test_softmax_modes_are_penalised_regressions():
    z, y = classes(90, 2, 3)
    phi = designed(z)
    mode = laplace("categorical", phi, y, np.ones(90), offset=np.zeros(3), precision=2.0)
    logistic = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(phi, y)
    np.testing.assert_allclose(mode.mean, logistic.coef_, atol=1e-4)


CASES = {
    "bernoulli": lambda **o: (VariationalHead("bernoulli", 2, **o), *classes()),
    "binary": lambda **o: (VariationalHead("binary", 2, **o), *classes()),
    "categorical": lambda **o: (VariationalHead("categorical", 2, n_classes=3, **o), *classes(k=3)),
    "poisson": lambda **o: (VariationalHead("poisson", 2, **o), *counts()),
}


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("kind", CASES)
def test_refit_is_the_top_of_the_bound_that_training_climbs(kind, covariance):
    head, z, y = CASES[kind](covariance=covariance)
    head = head.start(jnp.asarray(y), jnp.ones(len(y)))
    found = head.found(z, y, np.ones(len(y)))
    head = head.holding(found)

    def bound(head):
        zs, ys = jnp.asarray(z), jnp.asarray(y)
        log_py = jax.vmap(lambda z, y: head.in_training(z).log_prob(y))(zs, ys)
        return jnp.sum(log_py) - head.penalty()

    value, slope = eqx.filter_jit(eqx.filter_value_and_grad(bound))(head)
    assert float(value) == pytest.approx(found.log_evidence, abs=1e-3)
    for name in ("mean", "log_scale", "tilt"):
        assert np.max(np.abs(getattr(slope, name)), initial=0) < 0.05, name
    assert abs(float(slope.log_precision)) < 0.05


@pytest.mark.parametrize("kind", CASES)
def test_covariance_is_that_of_the_uncertainty(kind):
    head, z, y = CASES[kind](precision=1.0)
    head = head.start(jnp.asarray(y), jnp.ones(len(y))).refit(z, y, np.ones(len(y)))
    phi = designed(z)[0]
    expected = np.einsum("i,kij,j->k", phi, head.covariance, phi)
    np.testing.assert_allclose(head.uncertainty(jnp.asarray(z[0])), expected)
    assert float(head.precision) == pytest.approx(1.0)


def test_predictions_are_less_sure_far_from_the_rows():
    z, y = classes(30, 1)
    head = VariationalHead("binary", 1, method="jaakkola")
    head = head.start(jnp.asarray(y), jnp.ones(30)).refit(z, y, np.ones(30))
    far = jnp.asarray([30.0])
    averaged = np.exp(head(far).log_probs)
    at_mean = jax.nn.softmax(head.weight @ far + head.bias)
    assert averaged.max() < float(jnp.max(at_mean))
    assert averaged.sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("kind", CASES)
def test_probabilities_sum_to_one_and_bounds_hold(kind):
    head, z, y = CASES[kind]()
    head = head.start(jnp.asarray(y), jnp.ones(len(y))).refit(z, y, np.ones(len(y)))
    values = jnp.arange(200.0 if kind == "poisson" else 3 if kind == "categorical" else 2)
    log_probs = jax.jit(jax.vmap(lambda y: head(jnp.asarray(z[0])).log_prob(y)))(values)
    assert float(jnp.sum(jnp.exp(log_probs))) == pytest.approx(1.0, abs=1e-5)
    assert np.all(np.asarray(log_probs) <= np.asarray(head.log_prob_bound(values)) + 1e-6)


def test_separable_classes_and_few_rows_are_finite():
    z = np.array([[-1.0], [1.0]])
    y = np.array([0, 1], np.int32)
    for kind in ("binary", "categorical"):
        head = VariationalHead(kind, 1).start(jnp.asarray(y), jnp.ones(2))
        head = head.refit(z, y, np.ones(2))
        assert np.all(np.isfinite(head(jnp.asarray([1.0])).log_probs))


@pytest.mark.parametrize(
    "kind, options",
    [
        ("gamma", {}),
        ("poisson", dict(method="jaakkola")),
        ("binary", dict(covariance="low rank")),
        ("binary", dict(precision=0.0)),
        ("binary", dict(method="sampling")),
    ],
)
def test_a_head_refuses_what_makes_no_sense(kind, options):
    with pytest.raises(ValueError, match="must be|two classes"):
        VariationalHead(kind, 2, **options)
