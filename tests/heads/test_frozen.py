"""SciPy's distributions of responses, and mixtures with the same methods."""

import jax.numpy as jnp
import numpy as np
import pytest
from head_samples import RESPONSES
from scipy import stats

from diglm import heads
from diglm.heads.distributions import Mixture
from diglm.heads.nothing import NoHead, Silence
from diglm.heads.pooled import Pooled


def rows(*values):
    return jnp.asarray(values, float)


# Two rows of each, and a few targets that both may have.
BATCHES = {
    "gaussian": heads.Gaussian(rows(0.5, -2.0), rows(1.0, 0.3)),
    "student_t": heads.StudentT(rows(5.0, 3.0), rows(0.5, -2.0), rows(1.0, 0.3)),
    "gamma": heads.Gamma(rows(0.5, 2.0), rows(1.0, -0.5)),
    "mixture": heads.GaussianMixture(
        jnp.asarray([[0.0, 1.0, -1.0], [0.5, 0.5, 0.0]]),
        jnp.asarray([[0.0, 3.0, -2.0], [1.0, 1.5, 8.0]]),
        jnp.asarray([[1.0, 0.5, 2.0], [0.3, 2.0, 1.0]]),
    ),
    "bernoulli": heads.Bernoulli(rows(0.7, -1.2)),
    "poisson": heads.Poisson(rows(1.3, -0.4)),
    "negative_binomial": heads.NegativeBinomial(rows(1.3, 0.2), rows(-0.5, 0.4)),
    "pooled": Pooled(
        heads.Gaussian(jnp.asarray([[0.0, 1.0], [2.0, -3.0]]), jnp.ones((2, 2))),
        jnp.log(jnp.asarray([[0.3, 0.9], [0.7, 0.1]])),
    ),
    "pooled counts": Pooled(
        heads.Poisson(jnp.asarray([[0.0, 1.0], [2.0, 3.0]])),
        jnp.log(jnp.asarray([[0.3, 0.9], [0.7, 0.1]])),
    ),
}
# Whole numbers and classes have no units other than one.
LOCATION, SCALE = 10.0, 2.5


@pytest.mark.parametrize("name", BATCHES)
def test_a_frozen_distribution_is_the_response_in_the_users_units(name):
    response = BATCHES[name]
    moves = not response.discrete
    location, scale = (0.0 if name == "gamma" else LOCATION, SCALE) if moves else (0.0, 1.0)
    frozen = response.frozen(location, scale)
    np.testing.assert_allclose(frozen.mean(), location + scale * response.mean, rtol=1e-9)
    np.testing.assert_allclose(frozen.var(), scale**2 * response.variance, rtol=1e-8)
    np.testing.assert_allclose(frozen.std(), scale * response.std, rtol=1e-8)
    for y in (0.0, 1.0) if name == "bernoulli" else (0.0, 1.0, 4.0) if not moves else (0.7, 3.0):
        log_prob = response.log_prob(jnp.full(2, y))
        if response.discrete:
            np.testing.assert_allclose(frozen.logpmf(y), log_prob, rtol=1e-7)
        else:
            ours = frozen.logpdf(location + scale * y) + np.log(scale)
            np.testing.assert_allclose(ours, log_prob, rtol=1e-7)
    levels = np.array([0.05, 0.5, 0.93])
    for level in levels:
        at = frozen.ppf(level)
        assert np.all(frozen.cdf(at) >= level - 1e-9)
        below = at - (1.0 if response.discrete else 1e-4)
        assert np.all(frozen.cdf(below) < level)
    draws = frozen.rvs(size=(4000, 2), random_state=np.random.default_rng(0))
    assert draws.shape == (4000, 2)
    error = 6 * frozen.std() / np.sqrt(4000)
    assert np.all(np.abs(draws.mean(axis=0) - frozen.mean()) < error)


def test_several_targets_have_units_of_their_own():
    loc, scale = np.array([[0.5, -1.0], [2.0, 0.0]]), np.array([[1.0, 0.2], [0.5, 3.0]])
    response = heads.Gaussians(jnp.asarray(loc), jnp.asarray(scale))
    location, unit = np.array([10.0, -5.0]), np.array([2.0, 0.1])
    frozen = response.frozen(location, unit)
    np.testing.assert_allclose(frozen.mean(), location + unit * loc)
    np.testing.assert_allclose(frozen.std(), unit * scale)
    y = np.array([[0.1, 0.2], [-0.3, 1.0]])
    joint = frozen.logpdf(location + unit * y).sum(axis=1) + np.log(unit).sum()
    np.testing.assert_allclose(joint, response.log_prob(jnp.asarray(y)), rtol=1e-9)


def test_classes_and_what_training_scores_are_no_distributions_of_numbers():
    loose = [
        RESPONSES["categorical"],
        Silence(jnp.zeros(())),
        heads.AverageBernoulli(jnp.zeros(()), jnp.ones(())),
        heads.AverageGaussian(RESPONSES["gaussian"], jnp.zeros(())),
    ]
    for response in loose:
        name = type(response).__name__
        with pytest.raises(TypeError, match=f"No distribution of numbers belongs to {name}"):
            response.frozen(0.0, 1.0)


def test_far_predictors_freeze_without_a_warning():
    for logit in (-1e6, 1e6):
        frozen = heads.Bernoulli(rows(logit)).frozen(0.0, 1.0)
        np.testing.assert_array_equal(frozen.mean(), [float(logit > 0)])


# Mixtures

SHARES = np.array([[0.2, 0.5, 1.0], [0.8, 0.5, 0.0]])
PARTS = {
    "normal": stats.norm([[0.0, -3.0, 1.0], [5.0, 3.0, 0.0]], [[1.0, 0.1, 2.0], [2.0, 0.1, 1.0]]),
    "t": stats.t(3.0, [[0.0, -3.0, 1.0], [5.0, 3.0, 0.0]], 0.7),
    "poisson": stats.poisson([[1.0, 4.0, 2.5], [30.0, 4.5, 9.0]]),
    "nbinom": stats.nbinom(2.0, [[0.5, 0.1, 0.9], [0.2, 0.1, 0.5]]),
}
WHOLE = ("poisson", "nbinom")


def mixture(name):
    return Mixture(SHARES, PARTS[name], name in WHOLE)


@pytest.mark.parametrize("level", [1e-6, 0.1, 0.2, 0.5, 0.77, 1 - 1e-6])
@pytest.mark.parametrize("name", PARTS)
def test_quantiles_of_a_mixture_invert_its_distribution_function(name, level):
    found = mixture(name)
    at = found.ppf(level)
    if name in WHOLE:  # the least whole number that reaches the level
        np.testing.assert_array_equal(at, np.round(at))
        assert np.all(found.cdf(at) >= level) and np.all(found.cdf(at - 1) < level)
    else:
        np.testing.assert_allclose(found.cdf(at), level, rtol=1e-9)
    np.testing.assert_allclose(at[2], PARTS[name].ppf(level)[0, 2], rtol=1e-12)  # of one part


@pytest.mark.parametrize("name", PARTS)
def test_each_row_may_ask_for_its_own_quantile(name):
    found, levels = mixture(name), np.array([0.0, 0.3, 1.0])
    at = found.ppf(levels)
    assert at[0] == PARTS[name].ppf(0.0)[0, 0] and at[2] == np.inf
    np.testing.assert_allclose(at[1], found.ppf(0.3)[1])


@pytest.mark.parametrize("name", PARTS)
def test_moments_densities_and_draws_of_a_mixture(name):
    found, parts = mixture(name), PARTS[name]
    t = np.linspace(-14, 14, 2001)
    ys, steps = (np.arange(400.0), 1.0) if name in WHOLE else (np.sinh(t), 0.014 * np.cosh(t))
    log_prob = np.stack([(found.logpmf if name in WHOLE else found.logpdf)(y) for y in ys])
    mass = np.exp(log_prob) * np.broadcast_to(steps, ys.shape)[:, None]
    np.testing.assert_allclose(mass.sum(axis=0), 1, atol=1e-5)
    np.testing.assert_allclose(ys @ mass, found.mean(), atol=1e-3)
    np.testing.assert_allclose(found.mean(), np.sum(SHARES * parts.mean(), axis=0))
    second = np.sum(SHARES * (parts.var() + parts.mean() ** 2), axis=0)
    np.testing.assert_allclose(found.var(), second - found.mean() ** 2)
    np.testing.assert_allclose(found.std() ** 2, found.var())
    rng = np.random.default_rng(0)
    assert found.rvs(size=3, random_state=rng).shape == (3,)
    draws = found.rvs(size=(20_000, 3), random_state=rng)
    assert np.all(np.abs(draws.mean(axis=0) - found.mean()) < 6 * found.std() / 140)
    for level in (0.1, 0.6):
        below = np.mean(draws <= found.ppf(level), axis=0)
        np.testing.assert_allclose(below, found.cdf(found.ppf(level)), atol=0.02)


# No head at all


def test_no_head_answers_nothing_and_is_left_alone():
    head = NoHead()
    response = head(jnp.ones(3))
    assert response.log_prob(1.0) == response.mean == response.variance == response.entropy() == 0
    assert head.linear_predictor(jnp.ones(3)).shape == (0,) and head.penalty() == 0
    features = heads.Features(np.ones((2, 3)), np.zeros(2), np.zeros(2))
    assert head.start(jnp.zeros(2), jnp.ones(2)) is head
    assert head.begin(features, features, exactly=True) is head
    assert head.settle(features, features, exact=False) == heads.Settled(head, None)
    assert head.only_held_out and head.log_prob_bound(0.0) is None
    assert head.linear_gaussian() is None
