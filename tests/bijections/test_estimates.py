"""Flows whose determinant is estimated: what they promise whatever their weights, and errors."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bijection_samples import forward, forward_batch, inverse, perturb

from diglm import bijections as bij
from diglm.bijections.estimates import Probes
from diglm.networks.lipschitz import LipschitzNetwork, norm_bound
from diglm.types import partition

DIM = 4


def residual(key, **settings):
    return perturb(bij.InvertibleResidual(DIM, 8, 1, **settings, key=key), key)


def complete(layer):
    """The layer with an orthogonal basis for probes, which makes the estimate exact."""
    basis = jnp.asarray(np.sqrt(DIM) * np.eye(DIM))
    return eqx.tree_at(lambda b: b.probes.directions.value, layer, basis)


@pytest.mark.parametrize("shape", [(3, 3), (40, 7), (7, 40), (64, 64), (1, 5)])
def test_the_bound_of_a_norm_is_above_it_and_near(shape):
    rng = np.random.default_rng(0)
    low_rank = rng.normal(size=(shape[0], 1)) @ rng.normal(size=(1, shape[1]))
    for weight in (rng.normal(size=shape), 1e-6 * rng.normal(size=shape), 1e8 * low_rank):
        truth = np.linalg.norm(weight, 2)
        found = float(jax.jit(norm_bound)(jnp.asarray(weight)))
        assert truth * (1 - 1e-12) <= found <= 1.04 * truth
    zero = jnp.zeros(shape)
    assert float(norm_bound(zero)) < 1e-30 and np.all(np.isfinite(jax.grad(norm_bound)(zero)))


@pytest.mark.parametrize("size", [0.3, 30.0])
def test_no_weights_make_a_network_steeper_than_it_may_be(size, key):
    network = perturb(LipschitzNetwork(DIM, 16, 2, steepness=0.9, key=key), key, size=size)
    xs = jnp.asarray(2 * np.random.default_rng(0).normal(size=(200, DIM)))
    slopes = eqx.filter_jit(lambda net, xs: jax.vmap(jax.jacfwd(net))(xs))(network, xs)
    norms = np.linalg.norm(slopes, 2, axis=(1, 2))
    assert norms.max() <= 0.9
    assert norms.max() > 0.01  # or nothing was shown


def test_wild_weights_are_inverted_to_the_tolerance_that_was_asked_for(key):
    layer = bij.InvertibleResidual(DIM, 16, 1, steepness=0.97, tolerance=1e-6, key=key)
    layer = perturb(layer, key, size=10.0)
    xs = jnp.asarray(3 * np.random.default_rng(0).normal(size=(50, DIM)))
    zs, log_dets = forward(layer, xs)
    assert np.abs(inverse(layer, zs) - xs).max() < 1e-6 * max(1.0, np.abs(xs).max())
    assert np.all(np.abs(log_dets) <= DIM * -np.log(1 - 0.97))


def test_with_a_complete_set_of_probes_the_series_and_its_gradient_are_exact(key):
    exact = residual(key)
    settings = dict(exact_up_to=0, n_probes=DIM, truncation=1e-10)
    estimating = complete(residual(key, **settings))
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(6, DIM)))

    @eqx.filter_jit
    def slope(layer, xs):
        trained, fixed = partition(layer)

        def total(trained, xs):
            return jnp.sum(jax.vmap(eqx.combine(trained, fixed).forward_and_log_det)(xs)[1])

        return jax.value_and_grad(total, argnums=(0, 1))(trained, xs)

    found = [jax.tree.leaves(slope(layer, xs)) for layer in (exact, estimating)]
    for first, second in zip(*found, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-8)
    assert sum(np.abs(first).max() > 1e-3 for first in found[0]) == len(found[0]) - 1  # the bias


def test_a_series_ends_within_its_truncation(key):
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(20, DIM)))
    truth = forward(residual(key), xs)[1]
    off = []
    for truncation in (1e-1, 1e-5):
        settings = dict(exact_up_to=0, n_probes=DIM, truncation=truncation)
        off.append(np.abs(forward(complete(residual(key, **settings)), xs)[1] - truth).max())
        assert off[-1] <= truncation
    assert off[0] > off[1]


def test_errors_are_as_large_as_they_say(key):
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(5, DIM)))
    truth = forward(residual(key), xs)[1]
    layer, ratios = residual(key, exact_up_to=0, n_probes=16, truncation=1e-6), []
    for seed in range(40):
        probes = Probes(16, DIM, key=jax.random.key(seed))
        one = eqx.tree_at(lambda b: b.probes, layer, probes)
        estimates = np.stack([forward(part, xs)[1] for part in bij.parts(one)])
        ratios.append((forward(one, xs)[1] - truth) / bij.standard_error(estimates))
    assert 0.85 < np.sqrt(np.mean(np.square(ratios))) < 1.3  # Student's t of 15 degrees: 1.07
    assert abs(np.mean(ratios)) < 0.25


def test_in_training_probes_are_drawn_anew_and_right_on_average(key):
    layer = residual(key, exact_up_to=0, n_probes=2, truncation=1e-6)
    x = jnp.asarray(np.random.default_rng(0).normal(size=DIM))
    truth = forward(residual(key), x[None])[1][0]
    many = jax.jit(lambda keys: jax.vmap(lambda k: layer.forward_and_log_det(x, key=k)[1])(keys))
    drawn = np.asarray(many(jax.random.split(key, 4_000)))
    assert abs(drawn.mean() - truth) < 4 * drawn.std() / np.sqrt(len(drawn))
    assert len(np.unique(drawn.round(9))) == 2 ** (DIM - 1)  # signs, and their opposites alike


def test_parts_of_a_chain_divide_the_probes_of_every_layer(key):
    few, many = (residual(key, exact_up_to=0, n_probes=n) for n in (3, 7))
    chain = bij.Chain([few, bij.ActNorm(DIM), many])
    found = bij.parts(chain)
    assert [part.layers[0].probes.number for part in found] == [1, 1, 1]
    assert [part.layers[2].probes.number for part in found] == [2, 2, 2]
    stacked = [part.layers[2].probes.directions.value for part in found]
    np.testing.assert_array_equal(np.concatenate(stacked), many.probes.directions.value[:6])
    assert bij.parts(bij.Chain([residual(key), bij.ActNorm(DIM)])) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda key: bij.InvertibleResidual(2, 4, 1, steepness=1.0, key=key), "0 < steepness < 1"),
        (lambda key: bij.InvertibleResidual(2, 4, 1, tolerance=0.0, key=key), "above zero"),
        (lambda key: bij.NeuralODE(2, 4, 1, tolerance=0.0, key=key), "above zero"),
        (lambda key: bij.NeuralODE(2, 4, 1, solver="Euler2", key=key), "that diffrax has"),
        (lambda key: bij.Probes(1, 4, key=key), "2 or more probes; got 1"),
    ],
)
def test_what_cannot_be_is_refused(make, message, key):
    with pytest.raises(ValueError, match=message):
        make(key)


def test_without_diffrax_it_is_said_what_to_install(monkeypatch, key):
    monkeypatch.setitem(sys.modules, "diffrax", None)
    with pytest.raises(ImportError, match=r"needs diffrax: pip install 'diglm\[flows\]'"):
        bij.NeuralODE(2, 4, 1, key=key)


def test_estimates_along_an_equation_are_those_of_its_trace(key):
    settings = dict(tolerance=1e-10, solver="Dopri8")
    exact, estimating = (
        perturb(bij.NeuralODE(DIM, 8, 1, **settings, **more, key=key), key)
        for more in ({}, dict(exact_up_to=0, n_probes=DIM))
    )
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(6, DIM))).at[5].set(jnp.nan)
    (zs, truth, _), (again, found, _), (_, rough, _) = (
        forward_batch(layer, xs) for layer in (exact, complete(estimating), estimating)
    )
    np.testing.assert_allclose(again[:5], zs[:5], atol=1e-8)
    np.testing.assert_allclose(found[:5], truth[:5], atol=1e-8)
    estimates = np.stack([forward_batch(part, xs)[1] for part in bij.parts(estimating)])[:, :5]
    np.testing.assert_allclose(estimates.mean(axis=0), rough[:5], atol=1e-8)
    assert np.all(np.abs(rough - truth)[:5] < 3 * bij.standard_error(estimates))
    assert np.isnan(zs[5]).all() and np.isnan(truth[5])  # what no step can solve


def test_programs_of_exact_determinants_wait_for_no_threads_of_a_pool(key):
    """LAPACK's factorisation of a batch does: programs at the same time then wait for ever."""
    layer = bij.InvertibleResidual(20, 8, 1, key=key)
    xs = jnp.zeros((64, 20))
    program = jax.jit(jax.vmap(layer.forward_and_log_det)).lower(xs).as_text()
    assert "while" in program and "lapack" not in program
