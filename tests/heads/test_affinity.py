"""Affinities: closed forms and sums against direct integrals, over densities, masses and both."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from diglm import heads
from diglm.heads import Pooled
from diglm.heads.affinity import affinities
from diglm.heads.bayesian.averages import Gaussians
from diglm.heads.inflated import ZeroInflated

RNG = np.random.default_rng(0)


def numbers(n, low=0.3, high=2.0):
    return jnp.asarray(RNG.uniform(low, high, n))


DENSITIES = {
    "gaussian": lambda n: heads.Gaussian(numbers(n, -2, 2), numbers(n)),
    "gamma": lambda n: heads.Gamma(numbers(n, -1, 1), numbers(n, 0.5, 2)),
    "student_t": lambda n: heads.StudentT(numbers(n, 3, 9), numbers(n, -1, 1), numbers(n)),
    "pooled": lambda n: Pooled(
        heads.Gaussian(numbers((2, n), -2, 2), numbers((2, n))), jnp.log(jnp.full((2, n), 0.5))
    ),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_of_densities_they_are_the_integral(name):
    first, second = DENSITIES[name](3), DENSITIES[name](2)
    p, q = (one.frozen(0.0, 1.0) for one in (first, second))
    truth = np.empty((3, 2))
    for i in range(3):
        for j in range(2):
            roots = lambda y, i=i, j=j: np.exp(0.5 * (p.logpdf(y)[i] + q.logpdf(y)[j]))  # noqa: E731
            low = 0.0 if name == "gamma" else -60.0
            truth[i, j] = integrate.quad(roots, low, 60, points=[0.5, 3.0], limit=400)[0]
    closed = name in ("gaussian", "gamma")
    np.testing.assert_allclose(affinities(first, second), truth, atol=1e-7 if closed else 2e-3)


def test_of_masses_they_are_the_sum():
    logits, others = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 4))
    p, q = (np.exp(a) / np.exp(a).sum(axis=1, keepdims=True) for a in (logits, others))
    classes = [heads.Categorical(jnp.asarray(a)) for a in (logits, others)]
    np.testing.assert_allclose(affinities(*classes), np.sqrt(p) @ np.sqrt(q).T)
    odds = [heads.Bernoulli(jnp.asarray(a[:, 0])) for a in (logits, others)]
    p, q = (np.stack([one.mean, 1 - one.mean]) for one in odds)
    np.testing.assert_allclose(affinities(*odds), np.sqrt(p).T @ np.sqrt(q))
    rates = [numbers(3, 0, 2), numbers(2, 0, 2)]
    poisson = [heads.Poisson(rate) for rate in rates]
    counts = np.arange(100)[:, None]
    p, q = (np.sqrt(stats.poisson(np.exp(rate)).pmf(counts)) for rate in rates)
    np.testing.assert_allclose(affinities(*poisson), p.T @ q, rtol=1e-9)
    # Counts without a closed form: over whole numbers, as far as there are any.
    pooled = [Pooled(one, jnp.zeros((1, n))) for one, n in zip(
        (heads.Poisson(rate[None]) for rate in rates), (3, 2), strict=True)]  # fmt: skip
    np.testing.assert_allclose(affinities(*pooled), p.T @ q, rtol=1e-5)


def test_a_mass_at_zero_beside_a_density_counts():
    rest = DENSITIES["gamma"](2)
    hurdle = ZeroInflated(jnp.asarray([0.3, -1.0]), rest)
    zero = 1 - np.asarray(hurdle.frozen(0.0, 1.0).share, float)
    truth = np.outer(*2 * [np.sqrt(1 - zero)]) + np.outer(*2 * [np.sqrt(zero)]) * affinities(
        rest, rest
    )
    np.testing.assert_allclose(affinities(hurdle, hurdle), truth, atol=2e-3)


def test_each_has_all_in_common_with_itself_and_targets_multiply():
    for name, make in DENSITIES.items():
        one = make(4)
        found = affinities(one, one)
        np.testing.assert_allclose(np.diag(found), 1.0, atol=2e-3, err_msg=name)
        assert np.linalg.eigvalsh(found).min() > -1e-9
    loc, scale = jnp.asarray(RNG.normal(size=(3, 2))), numbers((3, 2))
    both = Gaussians(loc, scale)
    single = [affinities(*2 * [heads.Gaussian(loc[:, t], scale[:, t])]) for t in (0, 1)]
    np.testing.assert_allclose(affinities(both, both), single[0] * single[1])
    several = heads.StudentT(3 + scale, loc, scale)
    with pytest.raises(ValueError, match="of one target"):
        affinities(several, several)
