"""Every bijection meets the same tests: both ways, both log-determinants, far rows, batches."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bijection_samples import (
    CONSTRUCTORS,
    ESTIMATED,
    FOLLOWS_BATCH,
    affine_block,
    forward,
    perturb,
    rows,
    spline_block,
)

from diglm import bijections as bij
from diglm.types import partition

FAR = (1e6, -1e6, 1e30, -1e30)


def with_value(function):
    """The Jacobian of `function(x) -> (y, log_det)`, its value, and its log-determinant."""

    def value(x):
        y, log_det = function(x)
        return y, (y, log_det)

    return lambda x: jax.jacfwd(value, has_aux=True)(x)


@eqx.filter_jit
def examine(bijection, xs, far, follows_batch):
    """What all the tests of one bijection look at, compiled as one program to save time."""
    trainable, fixed = partition(bijection)
    n = xs.shape[0]

    def loss(trainable, xs):
        model = eqx.combine(trainable, fixed)
        if follows_batch:
            zs, log_dets = jax.vmap(model.forward_and_log_det)(xs)
        else:
            zs, log_dets, model = model.forward_batch(xs)
        total = jnp.sum(jnp.tanh(zs)) - jnp.mean(log_dets)  # tanh: 1e30 itself may be large
        return total, (zs, log_dets, model)

    jacobian, (zs, log_dets) = jax.vmap(with_value(bijection.forward_and_log_det))(
        jnp.concatenate([xs, far])
    )
    jacobian_back, (back, log_dets_back) = jax.vmap(with_value(bijection.inverse_and_log_det))(
        jnp.concatenate([zs[:n], far])
    )
    grads, (again, log_dets_again, after) = jax.grad(loss, argnums=(0, 1), has_aux=True)(
        trainable, jnp.concatenate([back[:n], far])
    )
    everything = (zs, log_dets, back, log_dets_back, again, log_dets_again, grads)
    return {
        "z": zs[:n],
        "log_det": log_dets[:n],
        "truth": jnp.linalg.slogdet(jacobian[:n])[1],
        "back": back[:n],
        "log_det_back": log_dets_back[:n],
        "truth_back": jnp.linalg.slogdet(jacobian_back[:n])[1],
        "again": again[:n],
        "log_det_again": log_dets_again[:n],
        "after": after,
        "finite": jax.tree.map(lambda leaf: jnp.isfinite(leaf).all(), everything),
    }


@functools.cache
def examined(name):
    bijection = perturb(CONSTRUCTORS[name](jax.random.key(7)), jax.random.key(8))
    xs = rows(name)
    far = jnp.asarray(np.outer((*FAR, 0.0), np.ones(xs.shape[1])))
    return bijection, xs, examine(bijection, xs, far, name in FOLLOWS_BATCH)


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_round_trip_both_ways(name):
    bijection, xs, seen = examined(name)
    assert (xs.shape[1:], seen["z"].shape[1:]) == (bijection.in_shape, bijection.out_shape)
    assert np.abs(seen["back"] - xs).max() < 1e-8
    assert np.abs(seen["again"] - seen["z"]).max() < 1e-8


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_log_determinants_are_those_of_the_jacobian(name):
    bijection, xs, seen = examined(name)
    allowed = 1e-8
    if name in ESTIMATED:
        estimates = np.stack([forward(part, xs)[1] for part in bij.parts(bijection)])
        assert np.allclose(estimates.mean(axis=0), seen["log_det"], atol=2e-3)  # of the series
        allowed = 3 * bij.standard_error(estimates)
        assert 0 < allowed.max() < 2
    assert np.all(np.abs(seen["log_det"] - seen["truth"]) < allowed)
    assert np.all(np.abs(seen["log_det_back"] - seen["truth_back"]) < allowed)
    assert np.abs(seen["log_det"] + seen["log_det_back"]).max() < 1e-8


@pytest.mark.parametrize("name", sorted(set(CONSTRUCTORS) - FOLLOWS_BATCH))
def test_forward_batch_is_forward_where_no_statistics_are_used(name):
    bijection, _, seen = examined(name)
    assert np.abs(seen["again"] - seen["z"]).max() < 1e-8
    assert np.abs(seen["log_det_again"] - seen["log_det"]).max() < 1e-8
    assert eqx.tree_equal(seen["after"], bijection)


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_far_rows_and_all_gradients_stay_finite(name):
    finite = jax.tree.leaves(examined(name)[2]["finite"])
    assert len(finite) >= 7
    assert all(finite)


@pytest.mark.parametrize("name", ["logit", "lu", "actnorm", "affine_coupling", "spline", "planar"])
def test_one_row_without_compiling_is_the_row_of_the_compiled_batch(name):
    bijection, xs, seen = examined(name)
    z, log_det = bijection.forward_and_log_det(xs[2])
    assert np.abs(z - seen["z"][2]).max() < 1e-10
    assert np.abs(log_det - seen["log_det"][2]) < 1e-10


@pytest.mark.parametrize("name", ["scan", "chain", "marginal"])
def test_a_row_does_not_depend_on_the_rows_beside_it(name):
    bijection, xs, seen = examined(name)
    z, log_det = eqx.filter_jit(lambda b, x: b.forward_and_log_det(x))(bijection, xs[2])
    assert np.abs(z - seen["z"][2]).max() < 1e-10
    assert np.abs(log_det - seen["log_det"][2]) < 1e-10


@pytest.mark.parametrize("block", [affine_block, spline_block])
def test_24_scanned_blocks_invert_in_32_bits(block, key):
    # Moderate noise: a wildly random deep flow is chaotic, and rounding z alone would lose x.
    flow = perturb(bij.Scan(block, 24, key=key), key, size=0.1)
    flow = jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if eqx.is_inexact_array(leaf) else leaf, flow
    )
    xs = jax.random.normal(key, (64, 6), jnp.float32)

    @eqx.filter_jit
    def there_and_back(flow, xs):
        zs = jax.vmap(flow.forward)(xs)
        return zs, jax.vmap(flow.inverse)(zs)

    zs, back = there_and_back(flow, xs)
    assert zs.dtype == back.dtype == jnp.float32
    assert np.abs(zs - xs).max() > 0.5
    assert np.abs(back - xs).max() < 1e-3


@pytest.mark.parametrize("name", ["affine_coupling", "spline_coupling", "spline", "lu_identity"])
def test_starts_as_the_identity(name, key):
    bijection, xs = CONSTRUCTORS[name](key), rows(name)
    zs, log_dets = forward(bijection, xs)
    assert np.allclose(zs, xs, atol=1e-12)
    assert np.allclose(log_dets, 0.0, atol=1e-12)


@pytest.mark.parametrize("name", ["spline", "planar", "affine", "marginal"])
def test_density_of_one_column_integrates_to_one(name):
    makers = {
        "spline": lambda: bij.Spline(1, 6, 3.0),
        "planar": lambda: bij.Planar(1, key=jax.random.key(2)),
        "affine": lambda: bij.Affine(jnp.ones(1), jnp.ones(1)),
        "marginal": lambda: bij.MarginalMap.fit(np.random.default_rng(1).standard_t(2, (300, 1))),
    }
    bijection = perturb(makers[name](), jax.random.key(5), size=1.0)
    t = jnp.linspace(-12.0, 12.0, 40_001)
    grid = jnp.sinh(t)  # dense in the middle, and out to 80,000

    def density(x):
        z, log_det = bijection.forward_and_log_det(x[None])
        return jnp.exp(jax.scipy.stats.norm.logpdf(z[0]) + log_det)

    values = jax.jit(jax.vmap(density))(grid) * jnp.cosh(t)
    assert abs(jnp.trapezoid(values, t) - 1.0) < 1e-5
