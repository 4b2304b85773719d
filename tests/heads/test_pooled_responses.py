"""Responses averaged over what is not known: mixtures by hand, and rows put in their places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from diglm import heads
from diglm.heads.nothing import Silence
from diglm.heads.pooled import Pooled, pool, replace_rows

SHARES = np.array([[0.2, 1.0], [0.5, 0.0], [0.3, 0.0]])  # parts, rows: the last row is of one part


def stacked(make, *fields):
    return make(*(jnp.asarray(field, float) for field in fields))


# Three parts for each of two rows, and SciPy's distribution of all six.
LOC = np.array([[-1.0, 0.0], [2.0, 0.5], [0.3, 4.0]])
SCALE = np.array([[0.5, 2.0], [1.5, 1.0], [0.2, 1.0]])
LOG_MEAN = np.array([[0.5, 2.0], [1.0, 0.3], [-1.0, 0.0]])
CONTINUOUS = {
    "gaussian": (stacked(heads.Gaussian, LOC, SCALE), stats.norm(LOC, SCALE)),
    "student_t": (
        stacked(heads.StudentT, np.full((3, 2), 5.0), LOC, SCALE),
        stats.t(5.0, LOC, SCALE),
    ),
    "gamma": (
        stacked(heads.Gamma, LOG_MEAN, np.full((3, 2), 1.2)),
        stats.gamma(np.exp(1.2), scale=np.exp(LOG_MEAN - 1.2)),
    ),
}
SIZE = np.exp(0.7)
DISCRETE = {
    "poisson": (stacked(heads.Poisson, LOG_MEAN), stats.poisson(np.exp(LOG_MEAN))),
    "negative_binomial": (
        stacked(heads.NegativeBinomial, LOG_MEAN, np.full((3, 2), -0.7)),
        stats.nbinom(SIZE, SIZE / (SIZE + np.exp(LOG_MEAN))),
    ),
    "bernoulli": (
        stacked(heads.Bernoulli, LOG_MEAN),
        stats.bernoulli(1 / (1 + np.exp(-LOG_MEAN))),
    ),
}
KINDS = CONTINUOUS | DISCRETE


def pooled(name):
    parts, known = KINDS[name]
    with np.errstate(divide="ignore"):
        return pool(parts, jnp.asarray(np.log(SHARES))), known


@pytest.mark.parametrize("name", KINDS)
def test_a_pool_is_the_mixture_by_hand(name):
    response, known = pooled(name)
    assert isinstance(response, Pooled) and response.discrete == (name in DISCRETE)
    for y in (0.0, 1.0) if name == "bernoulli" else (1.0, 3.0):
        each = known.pmf(y) if name in DISCRETE else known.pdf(y)
        ours = response.log_prob(jnp.full(2, y))
        np.testing.assert_allclose(ours, np.log(np.sum(SHARES * each, axis=0)), rtol=1e-7)
    mean = np.sum(SHARES * known.mean(), axis=0)
    second = np.sum(SHARES * (known.var() + known.mean() ** 2), axis=0)
    np.testing.assert_allclose(response.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(response.variance, second - mean**2, rtol=1e-8)
    np.testing.assert_allclose(response.std, np.sqrt(second - mean**2), rtol=1e-8)


@pytest.mark.parametrize("name", KINDS)
def test_a_pool_integrates_to_one(name):
    response, _ = pooled(name)
    one = jax.tree.map(lambda leaf: leaf[:, 0], response)  # of the first row
    density = jax.jit(jax.vmap(lambda y: jnp.exp(one.log_prob(y))))
    if name in DISCRETE:
        ys = jnp.arange(2.0 if name == "bernoulli" else 200.0)
        total = jnp.sum(density(ys))
    else:
        # y = sinh(t) reaches the tails; twice as fine where the parts are narrow.
        t = np.linspace(1e-9 if name == "gamma" else -14.0, 14.0, 40_001)
        total = integrate.simpson(np.asarray(density(jnp.sinh(t))) * np.cosh(t), x=t)
    np.testing.assert_allclose(total, 1, atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_draws_of_a_pool_are_of_its_parts(name):
    response, _ = pooled(name)

    @jax.jit
    def look(response):
        draws = response.sample(jax.random.key(0), 5_000).astype(float)
        return draws, -jax.vmap(response.log_prob)(draws), response.entropy()

    draws, losses, entropy = look(response)
    assert draws.shape == (5_000, 2)
    assert jax.eval_shape(response.draw, jax.random.key(0)).shape == (2,)
    error = 6 * response.std / np.sqrt(5_000)
    assert np.all(np.abs(np.mean(draws, axis=0) - response.mean) < error)
    np.testing.assert_allclose(np.std(draws, axis=0), response.std, rtol=0.1)
    spread = np.std(losses, axis=0) / np.sqrt(heads.pooled.ENTROPY_DRAWS)
    assert np.all(np.abs(entropy - np.mean(losses, axis=0)) < 5 * spread)


def test_a_pool_of_several_targets_keeps_them_together():
    rng = np.random.default_rng(0)
    locs, scales = rng.normal(size=(3, 2, 2)), rng.uniform(0.5, 1.5, (3, 2, 2))
    parts = heads.Gaussians(jnp.asarray(locs), jnp.asarray(scales))
    with np.errstate(divide="ignore"):
        response = pool(parts, jnp.asarray(np.log(SHARES)))
    y = np.array([[0.3, -1.0], [0.5, 2.0]])
    joint = stats.norm(locs, scales).pdf(y).prod(axis=-1)  # both targets of one part
    ours = response.log_prob(jnp.asarray(y))
    np.testing.assert_allclose(ours, np.log(np.sum(SHARES * joint, axis=0)), rtol=1e-9)
    mean = np.sum(SHARES[..., None] * locs, axis=0)
    np.testing.assert_allclose(response.mean, mean, rtol=1e-9)
    second = np.sum(SHARES[..., None] * (scales**2 + locs**2), axis=0)
    np.testing.assert_allclose(response.variance, second - mean**2, rtol=1e-9)
    draws = jax.jit(lambda r: r.sample(jax.random.key(0), 5_000))(response)
    assert draws.shape == (5_000, 2, 2)
    first = np.asarray(draws)[:, 0]
    spread = locs[:, 0] - mean[0]
    between = np.sum(SHARES[:, 0] * spread[:, 0] * spread[:, 1])  # a draw has one part for both
    np.testing.assert_allclose(np.cov(first.T)[0, 1], between, atol=0.1)
    # Each target alone has the mixture of its own distributions.
    frozen = response.frozen(np.array([1.0, 2.0]), np.array([3.0, 0.5]))
    np.testing.assert_allclose(frozen.mean(), [1.0, 2.0] + mean * [3.0, 0.5], rtol=1e-9)
    each = np.sum(SHARES[..., None] * stats.norm(locs, scales).cdf(y), axis=0)
    np.testing.assert_allclose(frozen.cdf([1.0, 2.0] + y * [3.0, 0.5]), each, rtol=1e-9)
    side = jnp.linspace(-8, 8, 201)
    one = jax.tree.map(lambda leaf: leaf[:, 0], response)
    grid = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)
    total = jnp.sum(jnp.exp(jax.vmap(one.log_prob)(grid))) * (side[1] - side[0]) ** 2
    np.testing.assert_allclose(total, 1, atol=1e-6)


def test_classes_stay_classes_with_averaged_probabilities():
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2, 4)))
    with np.errstate(divide="ignore"):
        response = pool(heads.Categorical(logits), jnp.asarray(np.log(SHARES)))
    assert isinstance(response, heads.Categorical)
    expected = np.sum(SHARES[..., None] * jax.nn.softmax(logits), axis=0)
    np.testing.assert_allclose(response.mean, expected, rtol=1e-9)
    np.testing.assert_allclose(np.sum(response.mean, axis=-1), 1, rtol=1e-12)
    nothing = pool(Silence(jnp.zeros((3, 2))), jnp.zeros((3, 2)))
    assert isinstance(nothing, Silence) and nothing.mean.shape == (2,)


def on_device(response):
    return jax.tree.map(jnp.asarray, response)


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_replaced_by_pools_and_the_others_stay(name):
    some, _ = pooled(name)
    parts = KINDS[name][0]
    alone = jax.tree.map(lambda leaf: jnp.concatenate([leaf[0]] * 2), parts)  # four rows
    places, kept = np.array([3, 1]), np.array([0, 2])
    whole = on_device(replace_rows(alone, some, places))
    assert isinstance(whole, Pooled) and whole.log_shares.shape == (3, 4)
    ys = jnp.ones(4)
    np.testing.assert_allclose(whole.log_prob(ys)[places], some.log_prob(ys[:2]), rtol=1e-9)
    np.testing.assert_allclose(whole.log_prob(ys)[kept], alone.log_prob(ys)[kept], rtol=1e-9)
    np.testing.assert_allclose(whole.mean[kept], alone.mean[kept], rtol=1e-9)
    again = on_device(
        replace_rows(whole, some, places[::-1])
    )  # a second piece goes into the same pool
    np.testing.assert_allclose(again.mean[places[::-1]], some.mean, rtol=1e-9)
    np.testing.assert_allclose(again.mean[kept], alone.mean[kept], rtol=1e-9)
    levels = np.array([0.1, 0.4, 0.5, 0.9])
    expected = alone.frozen(0.0, 1.0).ppf(levels)
    np.testing.assert_allclose(whole.frozen(0.0, 1.0).ppf(levels)[kept], expected[kept], rtol=1e-9)


def test_rows_of_the_same_kind_replace_one_another():
    before = heads.Categorical(jnp.zeros((3, 2)))
    after = replace_rows(before, heads.Categorical(jnp.ones((1, 2))), np.array([1]))
    np.testing.assert_array_equal(after.logits, [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(before.logits, np.zeros((3, 2)))
