"""The head by itself: who is a candidate, on what footing they are compared, and who wins."""

import jax.numpy as jnp
import numpy as np
import pytest
from head_samples import RESPONSES
from scipy import stats

from diglm import heads
from diglm.heads.auto import better, resolution


def names(y):
    return [choice.name for choice in heads.Auto().candidates(np.asarray(y, float))]


def test_candidates_are_those_that_make_sense():
    rng = np.random.default_rng(0)
    normal, positive = rng.normal(size=500), rng.gamma(1.0, 2.0, 500)
    often = rng.random(500) < 0.3
    assert names(normal) == ["student_t"] == names(10 + normal)
    assert names(rng.poisson(9.0, 500)) == ["student_t", "poisson", "negative_binomial"]
    assert names(rng.poisson(1.0, 500))[-1] == "zero_inflated"
    assert names(np.where(often, 0.0, positive)) == ["student_t", "hurdle"]
    assert names(positive) == ["student_t", "gamma"]
    assert names(np.round(1e5 * positive + 1)) == ["student_t", "gamma"]  # too large to count
    assert names(rng.poisson(9.0, 500) - 5.0) == ["student_t"]
    assert names(positive[:50]) == names(np.ones(500)) == names(often) == ["student_t"]
    asked = heads.GLM(heads.GammaFamily())
    assert asked.candidates(positive) == (asked,)


def test_the_resolution_is_that_of_the_numbers():
    assert resolution(np.array([0.0, 3.0, 8.0])) == 1.0
    assert resolution(np.array([0.5, 0.75, 1.0, 1.0, 4.0])) == 0.25
    assert resolution(np.full(5, 0.3)) == 1.0


def test_cells_of_every_kind_sum_to_one():
    counts, places = np.arange(400.0), np.arange(-400.0, 400.0)
    gaussian = heads.Gaussian(jnp.full(800, 1.3), jnp.full(800, 0.2))  # narrower than a cell
    cells = gaussian.log_cell(places, 1.0, 0.0, 2.0)
    np.testing.assert_allclose(np.exp(cells).sum(), 1.0, atol=1e-6)
    assert np.all(cells <= 0)
    poisson = heads.Poisson(jnp.full(400, 1.0))
    np.testing.assert_allclose(
        poisson.log_cell(counts, 1.0, 0.0, 1.0), stats.poisson(np.e).logpmf(counts)
    )
    gamma = heads.Gamma(jnp.full(4001, 0.5), jnp.full(4001, 0.7))
    hurdle = heads.ZeroInflated(jnp.full(4001, -0.4), gamma)
    middles = np.append(0.0, 0.005 + 0.01 * np.arange(4000))
    total = np.exp(hurdle.log_cell(middles, 0.01, 0.0, 1.0)).sum()
    np.testing.assert_allclose(total, 1.0, atol=1e-5)


def test_the_first_stays_unless_another_is_better_by_more_than_chance():
    rng = np.random.default_rng(0)
    first, errors = rng.normal(size=50), rng.gamma(1.0, size=50)
    noise, ones = rng.normal(size=50), np.ones(50)
    noise -= noise.mean()

    def winner(gain, worse=0.0):
        cells = np.stack([first, first + gain + noise, first + gain / 2 + 0.1 * noise])
        return better(cells, np.stack([errors, errors + worse + 0.1 * noise, errors]), ones)

    assert winner(0.0) == 0 and winner(-1.0) == 0
    assert winner(0.01) == 0 and winner(1.0) == 1
    assert winner(0.1) == 2  # less, but surely
    assert winner(1.0, worse=1.0) == 2  # a bad mean is no good head
    weights = np.append(np.ones(25), np.zeros(25))
    cells = np.stack([first, first + np.append(np.full(25, -1.0), np.full(25, 9.0))])
    assert better(cells, np.stack([errors, errors]), weights) == 0


@pytest.mark.parametrize("name", ["hurdle", "zero_inflated"])
def test_distributions_with_zeros_agree_with_themselves(name):
    response = RESPONSES[name]
    frozen = response.frozen(0.0, 2.0) if name == "hurdle" else response.frozen(0.0, 1.0)
    scale = 2.0 if name == "hurdle" else 1.0
    np.testing.assert_allclose(frozen.mean(), scale * response.mean, rtol=1e-9)
    np.testing.assert_allclose(frozen.std(), scale * response.std, rtol=1e-9)
    levels = np.array([0.01, 0.2, 0.5, 0.9, 0.99])
    quantiles = frozen.ppf(levels)
    assert quantiles[0] == 0 and np.all(np.diff(quantiles) >= 0)
    assert np.all(frozen.cdf(quantiles) >= levels - 1e-9)
    assert np.all(frozen.cdf(quantiles - 1e-6) < levels) and frozen.cdf(-1.0) == 0
    np.testing.assert_allclose(np.exp(frozen.log_zero), frozen.cdf(0.0))
    draws = frozen.rvs(size=40_000, random_state=np.random.default_rng(0))
    np.testing.assert_allclose(np.mean(draws == 0), frozen.cdf(0.0), atol=0.02)
    np.testing.assert_allclose(draws.mean(), frozen.mean(), atol=5 * frozen.std() / 200)
    y = np.array([0.0, 1.0, 3.0])
    log_p = frozen.logpdf(y) if name == "hurdle" else frozen.logpmf(y)
    ours = np.asarray(response.log_prob(jnp.asarray(y / scale)))
    np.testing.assert_allclose(log_p, ours - np.log(scale) * (y > 0), rtol=1e-7)
