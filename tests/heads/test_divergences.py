"""Divergences of responses: zero to themselves, and the integrals that they are said to be."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from diglm.heads import make_head
from diglm.heads.discrete import Bernoulli, Poisson
from diglm.heads.responses import Gamma, Gaussian, StudentT


def number(x):
    return jnp.asarray(x, float)


PAIRS = {
    "bernoulli": (Bernoulli(number(0.3)), Bernoulli(number(-1.0))),
    "poisson": (Poisson(number(1.0)), Poisson(number(1.6))),
    "gaussian": (Gaussian(number(0.0), number(1.0)), Gaussian(number(1.0), number(2.0))),
    "gamma": (Gamma(number(0.5), number(1.0)), Gamma(number(0.2), number(0.3))),
}


@jax.jit
def told(p, q):
    return p.divergence(q), p.divergence(p)


def integral(name, p, q):
    """E_p[log p - log q], by adding or integrating up."""

    def gain(y):
        return float(p.log_prob(y) - q.log_prob(y)) * float(jnp.exp(p.log_prob(y)))

    if p.discrete:
        return sum(gain(y) for y in range(2 if name == "bernoulli" else 40))
    low, high = (-8, 8) if name == "gaussian" else (1e-9, 25)
    ys = np.linspace(low, high, 4001)
    parts = jnp.exp(p.log_prob(ys)) * (p.log_prob(ys) - q.log_prob(ys))
    return float(integrate.simpson(np.asarray(parts), x=ys))


@pytest.mark.parametrize("name", PAIRS)
def test_a_divergence_is_its_integral(name):
    p, q = PAIRS[name]
    apart, itself = told(p, q)
    assert abs(float(itself)) < 1e-9
    assert float(apart) == pytest.approx(integral(name, p, q), rel=1e-4)


def test_others_are_those_of_normal_distributions():
    heavy = StudentT(number(1.5), number(0.0), number(1.0))  # without a variance
    moved = StudentT(number(1.5), number(1.0), number(2.0))
    p, q = (stats.norm(0, 1), stats.norm(1, 2))
    ys = np.linspace(-8, 8, 4001)
    expected = integrate.simpson(p.pdf(ys) * (p.logpdf(ys) - q.logpdf(ys)), x=ys)
    assert float(told(heavy, moved)[0]) == pytest.approx(expected, rel=1e-6)
    head = make_head("negative_binomial", 2)
    response = eqx.filter_jit(head)(jnp.zeros(2))
    assert abs(float(told(response, response)[0])) < 1e-9
