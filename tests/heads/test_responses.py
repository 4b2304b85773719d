"""Responses: densities, moments, entropies and draws, against SciPy and at extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from head_samples import DISCRETE, REAL, RESPONSES, scalar
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import digamma, expit, gammaln

from diglm import heads
from diglm.heads.special import stirling_error


def negative_binomial(log_mean, log_alpha):
    size, mean = np.exp(-log_alpha), np.exp(log_mean)
    return stats.nbinom(size, size / (size + mean))


# Each response, the ranges of its parameters, and SciPy's distribution.
PAIRS = {
    "gaussian": (heads.Gaussian, [(-50, 50), (1e-3, 1e3)], stats.norm),
    "student_t": (heads.StudentT, [(0.5, 300), (-50, 50), (1e-3, 1e3)], stats.t),
    "poisson": (heads.Poisson, [(-8, 12)], lambda log_rate: stats.poisson(np.exp(log_rate))),
    "negative_binomial": (heads.NegativeBinomial, [(-5, 9), (-6, 6)], negative_binomial),
    "gamma": (
        heads.Gamma,
        [(-8, 8), (-3, 8)],
        lambda log_mean, log_k: stats.gamma(np.exp(log_k), scale=np.exp(log_mean - log_k)),
    ),
    "bernoulli": (heads.Bernoulli, [(-15, 15)], lambda logit: stats.bernoulli(expit(logit))),
}
ROWS = 30


@jax.jit
def describe(response, ys):
    return response.log_prob(ys), response.mean, response.variance, response.entropy()


@pytest.mark.parametrize("name", sorted(PAIRS))
@settings(max_examples=8, deadline=None)
@given(draw=st.data())
def test_log_prob_moments_and_entropy_equal_scipys(name, draw):
    make, ranges, reference = PAIRS[name]
    numbers = [
        np.array(draw.draw(st.lists(st.floats(*ends), min_size=ROWS, max_size=ROWS)))
        for ends in ranges
    ]
    known = reference(*numbers)
    levels = draw.draw(st.lists(st.floats(1e-6, 1 - 1e-6), min_size=ROWS, max_size=ROWS))
    ys = np.clip(known.ppf(levels), None if name in DISCRETE + REAL else 1e-200, 1e12)
    log_prob, mean, variance, entropy = describe(make(*map(jnp.asarray, numbers)), ys)
    exact = known.logpmf(ys) if name in DISCRETE else known.logpdf(ys)
    np.testing.assert_allclose(log_prob, exact, rtol=1e-7, atol=1e-7)
    moments = numbers[0] > 2 if name == "student_t" else slice(None)
    np.testing.assert_allclose(mean[moments], known.mean()[moments], rtol=1e-9)
    np.testing.assert_allclose(variance[moments], known.var()[moments], rtol=1e-7)
    if name not in ("poisson", "negative_binomial"):  # summed in the next test
        np.testing.assert_allclose(entropy, known.entropy(), rtol=1e-6, atol=1e-6)


def test_counts_sum_to_one_and_their_entropy_is_the_whole_sum():
    log_means = np.array([-6.0, -1.0, 1.0, 3.0, 4.1, 4.5, 6.0, 8.0])
    grid = [(m, a) for m in log_means for a in (-12.0, -6.0, -4.9, -3.0, 0.0, 1.5)]
    ys = np.arange(2_000_000)
    for make, rows in [
        (heads.Poisson, log_means[:, None]),
        (heads.NegativeBinomial, np.array(grid)),
    ]:
        responses = make(*map(jnp.asarray, rows.T))
        entropies = jax.jit(lambda r: r.entropy())(responses)
        tops = responses.mean + 12 * responses.std + 40 * responses.variance / responses.mean
        for row, entropy, top in zip(rows, entropies, tops, strict=True):
            kind = "poisson" if len(row) == 1 else "negative_binomial"
            log_p = PAIRS[kind][2](*row).logpmf(ys[: int(top) + 100])
            kept = np.exp(log_p)
            np.testing.assert_allclose(kept.sum(), 1, atol=1e-8)
            np.testing.assert_allclose(entropy, -np.sum(kept * np.maximum(log_p, -1e9)), atol=2e-6)
    few = heads.NegativeBinomial(*(jnp.full(400, v) for v in (1.0, -0.5)))
    total = jnp.sum(jnp.exp(few.log_prob(jnp.arange(400, dtype=float))))
    np.testing.assert_allclose(total, 1, rtol=1e-12)


def test_entropy_of_large_counts():
    log_means = jnp.array([-3.0, 2.0, 15.0, 25.0, 60.0, 200.0])
    entropy = jax.jit(lambda response: response.entropy())
    gaussian = 0.5 * (np.log(2 * np.pi * np.e) + log_means)
    np.testing.assert_allclose(entropy(heads.Poisson(log_means))[2:], gaussian[2:], atol=1e-6)
    p = 1 / (1 + np.exp(log_means))  # a dispersion of one is the geometric distribution
    geometric = -np.log(p) - (1 - p) / p * np.log1p(-p)
    geometric = np.where(log_means > 30, 1 + log_means, geometric)
    ours = entropy(heads.NegativeBinomial(log_means, jnp.zeros_like(log_means)))
    np.testing.assert_allclose(ours, geometric, atol=1e-6)


def test_densities_integrate_to_one():
    for make, numbers, low in [
        (heads.Gaussian, (0.3, 2.0), -np.inf),
        (heads.StudentT, (3.0, 0.3, 2.0), -np.inf),
        (heads.Gamma, (0.3, 0.5), 0.0),
        (heads.Gamma, (2.0, 3.0), 0.0),
    ]:
        response = make(*map(scalar, numbers))
        density = jax.jit(lambda y, response=response: jnp.exp(response.log_prob(y)))
        middle = float(response.mean)
        total = sum(
            integrate.quad(lambda y, f=density: float(f(y)), *ends, limit=200)[0]
            for ends in [(low, middle), (middle, np.inf)]
        )
        np.testing.assert_allclose(total, 1, atol=1e-6)


def test_categorical_is_softmax():
    logits = jnp.array([0.3, -2.0, 1.5, 0.0])
    response = heads.Categorical(logits)
    ps = np.exp([float(response.log_prob(k)) for k in range(4)])
    np.testing.assert_allclose(ps, np.exp(logits) / np.sum(np.exp(logits)), rtol=1e-12)
    np.testing.assert_allclose(ps.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(response.mean, ps, rtol=1e-12)
    np.testing.assert_allclose(response.variance, ps * (1 - ps), rtol=1e-12)
    np.testing.assert_allclose(response.entropy(), stats.entropy(ps), rtol=1e-12)
    batch = heads.Categorical(jnp.stack([logits, -logits]))
    np.testing.assert_allclose(batch.log_prob(jnp.array([1, 2]))[0], response.log_prob(1))


@pytest.mark.parametrize("name", sorted(RESPONSES))
def test_samples_have_the_moments_and_entropy(name):
    response, n = RESPONSES[name], 40_000

    @jax.jit
    def draw(response):
        ys = response.sample(jax.random.key(0), n)
        return ys, -jax.vmap(response.log_prob)(ys), response.entropy()

    ys, losses, entropy = draw(response)
    assert jax.eval_shape(response.sample, jax.random.key(0)).shape == ()
    values = jax.nn.one_hot(ys, 3) if name == "categorical" else ys[:, None].astype(float)
    error = 5 * jnp.sqrt(jnp.atleast_1d(response.variance) / n)
    assert jnp.all(jnp.abs(jnp.mean(values, axis=0) - response.mean) < error)
    np.testing.assert_allclose(
        jnp.var(values, axis=0), jnp.atleast_1d(response.variance), rtol=0.12
    )
    tolerance = 5 * float(jnp.std(losses)) / np.sqrt(n) + 1e-6
    np.testing.assert_allclose(jnp.mean(losses), entropy, atol=tolerance)


def test_extreme_samples_are_finite():
    sizes = jnp.array([1e6, -1e6, 80.0, -80.0], jnp.float32)
    zeros = jnp.zeros_like(sizes)
    key = jax.random.key(0)
    for response in (heads.Poisson(sizes), heads.NegativeBinomial(sizes, zeros)):
        assert np.all(np.isfinite(response.sample(key)) & (response.sample(key) >= 0))
    assert np.all(np.isfinite(heads.Gamma(sizes, zeros).sample(key)))


def test_single_precision_keeps_its_digits_for_large_counts():
    f = jnp.float32
    for y, log_mean in [(1e5, 11.5), (3e6, 14.9)]:
        exact = stats.poisson(np.exp(float(f(log_mean)))).logpmf(y)
        np.testing.assert_allclose(heads.Poisson(f(log_mean)).log_prob(y), exact, rtol=1e-3)
        near = heads.NegativeBinomial(f(log_mean), f(-30.0)).log_prob(y)
        np.testing.assert_allclose(near, exact, rtol=2e-3)


def test_impossible_targets_have_no_probability_and_no_gradient():
    for response in (RESPONSES["gamma"], RESPONSES["poisson"], RESPONSES["negative_binomial"]):
        value, slope = jax.value_and_grad(lambda r: 0.0 * r.log_prob(-1.0))(response)
        assert value == 0 and all(leaf == 0 for leaf in jax.tree.leaves(slope))
        assert jnp.exp(response.log_prob(-1.0)) == 0


def test_stirling_error():
    x = np.geomspace(1e-3, 1e5, 60)
    exact = gammaln(x) - (x - 0.5) * np.log(x) + x - 0.5 * np.log(2 * np.pi)
    value, slope = jax.jvp(stirling_error, (jnp.asarray(x),), (jnp.ones(x.shape),))
    assert np.all(np.abs(value - exact) < 1e-13 * (1 + np.abs(gammaln(x))))
    np.testing.assert_allclose(slope, digamma(x) - np.log(x) + 0.5 / x, atol=1e-12, rtol=1e-10)
