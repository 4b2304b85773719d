"""The promises particular to some layers: splines, planar, LU, norms and couplings."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bijection_samples import DIM, affine, forward, forward_batch, inverse, marginal, perturb
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from diglm import bijections as bij
from diglm.bijections.spline import knots, spline_forward, spline_inverse
from diglm.networks import MLP, AbstractNetwork
from diglm.types import partition


def test_gradients_at_bin_edges_are_finite_and_one_sided_limits_agree():
    @jax.jit
    def look(raw):
        def value(x, raw):
            y, log_slope = spline_forward(x[None], raw, 2.0)
            return y[0] + log_slope[0]

        table = knots(raw, 2.0)
        edges = jnp.concatenate([table.x[0], jnp.array([2.0])])
        heights = jnp.concatenate([table.y[0], jnp.array([2.0])])
        beside = jnp.concatenate([edges - 1e-9, edges, edges + 1e-9])
        slope = jax.vmap(jax.grad(lambda x: spline_forward(x[None], raw, 2.0)[0][0]))(beside)
        back = jax.vmap(jax.grad(lambda y: spline_inverse(y[None], raw, 2.0)[0][0]))(heights)
        grads = jax.vmap(jax.grad(value, argnums=(0, 1)), (0, None))(edges, raw)
        return slope.reshape(3, -1), back, grads

    (below, at, above), back, grads = look(
        jnp.asarray(np.random.default_rng(0).normal(size=(1, 14)))
    )
    assert at.shape == (6,)
    assert np.abs(below - at).max() < 1e-6
    assert np.abs(above - at).max() < 1e-6
    assert np.abs(back * at - 1.0).max() < 1e-9
    assert all(np.isfinite(leaf).all() for leaf in grads)


_spline_there_and_back = jax.jit(
    lambda x, raw: spline_inverse(spline_forward(x, raw, 5.0)[0], raw, 5.0)[0]
)
_planar_there_and_back = eqx.filter_jit(lambda layer, x: layer.inverse(layer.forward(x)))


@given(
    x=hnp.arrays(np.float64, 4, elements=st.floats(-7, 7)),
    raw=hnp.arrays(np.float64, (4, 23), elements=st.floats(-30, 30)),
)
def test_any_spline_inverts(x, raw):
    assert np.abs(_spline_there_and_back(x, raw) - x).max() < 1e-8


@given(
    x=hnp.arrays(np.float64, 2, elements=st.floats(-20, 20)),
    parameters=hnp.arrays(np.float64, 5, elements=st.floats(-6, 6, allow_subnormal=False)),
)
def test_any_planar_layer_inverts(x, parameters):
    layer = bij.Planar(2, key=jax.random.key(0))
    w, u, b = (jnp.asarray(p) for p in (parameters[:2], parameters[2:4], parameters[4]))
    layer = eqx.tree_at(lambda p: (p.w, p.u, p.b), layer, (w, u, b))
    assert np.abs(_planar_there_and_back(layer, jnp.asarray(x)) - x).max() < 1e-8


@given(
    x=hnp.arrays(np.float64, DIM, elements=st.floats(-100, 100)),
    seed=st.integers(0, 2**31 - 1),
)
def test_any_lu_layer_inverts(x, seed):
    layer = perturb(bij.LULinear.identity(DIM), jax.random.key(seed))
    assert np.abs(_planar_there_and_back(layer, jnp.asarray(x)) - x).max() < 1e-8


def test_planar_inverse_has_the_gradient_of_the_implicit_function():
    layer = perturb(bij.Planar(3, key=jax.random.key(1)), jax.random.key(2), size=1.0)
    x, step = jnp.array([0.3, -0.7, 1.1]), 1e-6

    @eqx.filter_jit
    def look(layer, x):
        z = layer.forward(x)
        product = jax.jacobian(layer.inverse)(z) @ jax.jacobian(layer.forward)(x)
        grads = eqx.filter_grad(lambda p: jnp.sum(p.inverse(z)))(layer)
        moved = eqx.tree_at(lambda p: p.b, layer, layer.b + step)
        return product, grads.b, jnp.sum(moved.inverse(z) - x) / step

    product, grad, difference = look(layer, x)
    assert np.allclose(product, np.eye(3), atol=1e-9)
    assert np.allclose(grad, difference, atol=1e-4)


def test_batch_norm_follows_the_batch_then_freezes():
    xs = jnp.asarray(np.random.default_rng(0).normal(1.0, 3.0, size=(40, DIM)))
    layer = perturb(bij.BatchNorm(DIM), jax.random.key(0))
    zs, log_dets, after = forward_batch(layer, xs, start=True)
    frozen, frozen_log_dets = forward(after, xs)
    assert np.allclose(frozen, zs, atol=1e-10)
    assert np.allclose(frozen_log_dets, log_dets, atol=1e-10)
    _, _, blended = forward_batch(layer, xs)
    assert np.allclose(blended.mean.value, 0.1 * np.mean(xs, axis=0))
    assert np.allclose(blended.var.value, 0.9 + 0.1 * np.var(xs, axis=0))
    grads = jax.jit(jax.grad(lambda xs: jnp.sum(layer.forward_batch(xs)[0][0])))(xs)
    assert np.allclose(np.sum(grads, axis=0), 0.0, atol=1e-10)


def test_batch_norm_inside_a_scanned_coupling_moves(key):
    flow = perturb(bij.Scan(lambda k: affine(4, batch_norm=True, key=k), 3, key=key), key)
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(30, 4)))
    zs, log_dets, after = forward_batch(flow, xs, start=True)
    assert not eqx.tree_equal(after, flow)
    again, again_log_dets = forward(after, xs)
    assert np.allclose(zs, again, atol=1e-9)
    assert np.allclose(log_dets, again_log_dets, atol=1e-9)


def test_gradients_of_blocks_laid_out_are_put_together_once(key):
    flow = bij.Scan(lambda k: affine(4, key=k), 5, unroll=5, key=key)
    gradient = eqx.filter_grad(lambda flow, xs: jnp.sum(jnp.square(flow.forward_batch(xs)[0])))
    program = str(eqx.filter_make_jaxpr(gradient)(flow, jnp.ones((3, 4)))[0])
    assert " concatenate" in program
    # A slice of the stack would be padded to all of it, once a block, and the sum taken.
    assert " pad" not in program and "scatter" not in program and "update_slice" not in program


def test_actnorm_starts_from_the_batch_and_spares_constant_columns():
    xs = np.random.default_rng(0).normal(2.0, 5.0, size=(40, 3))
    xs[:, 1] = 1000.1
    zs, log_dets, layer = forward_batch(bij.ActNorm(3), jnp.asarray(xs), start=True)
    assert np.allclose(np.mean(zs, axis=0), 0.0, atol=1e-9)
    assert np.allclose(np.std(zs, axis=0), [1.0, 0.0, 1.0], atol=1e-9)
    assert abs(float(layer.log_scale[1])) < 1e-9
    assert np.allclose(forward(layer, jnp.asarray(xs))[1], log_dets)
    _, _, unchanged = forward_batch(layer, jnp.asarray(2.0 * xs))
    assert eqx.tree_equal(unchanged, layer)


@pytest.mark.parametrize("dim", [2, 3, 5, 6])
def test_couplings_with_exchange_reach_every_coordinate_from_every_other(dim, key):
    def block(key):
        return bij.Chain([affine(dim, key=key), bij.Exchange(dim)])

    flow = perturb(bij.Scan(block, 2 * dim, key=key), key)
    jacobian = eqx.filter_jit(lambda f, x: jax.jacfwd(f.forward)(x))(flow, jnp.ones(dim) / 2)
    assert (jnp.abs(jacobian) > 1e-12).all()


def test_dropout_key_reaches_the_conditioner(key):
    layer = perturb(affine(4, dropout=0.5, key=key), key)
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)))
    plain, with_key = forward_batch(layer, xs)[0], forward_batch(layer, xs, key=key)[0]
    assert np.allclose(plain[:, :2], with_key[:, :2])
    assert not np.allclose(plain[:, 2:], with_key[:, 2:])
    one = eqx.filter_jit(lambda layer, x, key: layer.forward_and_log_det(x, key=key)[0])
    assert not np.allclose(plain[0], one(layer, xs[0], key))


class Counting(AbstractNetwork):
    """A conditioner that counts how often it is asked."""

    net: MLP
    calls: list = eqx.field(static=True)

    def __call__(self, x, *, key=None):
        self.calls.append(x)
        return self.net(x)


def test_one_conditioner_evaluation_a_pass_on_a_clipped_input(key):
    calls = []
    layer = bij.AffineCoupling(4, Counting(MLP(2, 4, 8, 1, key=key), calls), limit=3.0)
    for run in (layer.forward_and_log_det, layer.inverse_and_log_det):
        calls.clear()
        run(jnp.array([1e9, -1.0, 0.0, 0.0]))
        assert len(calls) == 1
        assert np.array_equal(calls[0], [3.0, -1.0])


def test_affine_coupling_bounds_its_scale(key):
    layer = perturb(affine(4, key=key), key, size=100.0)
    log_dets = forward(layer, jnp.asarray(np.random.default_rng(0).normal(size=(50, 4))))[1]
    assert 1.0 < np.abs(log_dets).max() <= 2.0  # two coordinates, each within e^-1 and e^1


def test_whitening_decorrelates():
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(5000, 4)) @ rng.normal(size=(4, 4)) + 1.0
    layer = bij.LULinear.whitening(xs)
    zs, log_dets = forward(layer, jnp.asarray(xs))
    assert np.allclose(np.mean(zs, axis=0), 0.0, atol=1e-8)
    assert np.allclose(np.cov(np.asarray(zs).T), np.eye(4), atol=0.05)
    assert np.abs(inverse(layer, zs) - xs).max() < 1e-8
    assert np.allclose(log_dets[0], -np.linalg.slogdet(np.cov(xs.T))[1] / 2, atol=0.1)


def test_whitening_of_poor_data_is_moderate():
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(8, 20))
    xs[:, 3], xs[:, 4], xs[:, 7] = xs[:, 2], -xs[:, 2], 5.0
    zs, _ = forward(bij.LULinear.whitening(xs), jnp.asarray(xs))
    assert np.isfinite(zs).all()
    assert np.abs(zs).max() < 10.0
    zs, _ = forward(bij.LULinear.whitening(xs[:1]), jnp.asarray(xs))  # a single row to learn from
    assert np.isfinite(zs).all()
    many = rng.normal(size=(2000, 3))
    many[:, 2] = many[:, 1]
    new = jnp.array([[0.0, 1.0, -1.0]])  # the copies disagree: unlikely, but not beyond measure
    assert np.abs(forward(bij.LULinear.whitening(many), new)[0]).max() < 100.0


def test_lu_stays_invertible_under_huge_parameters():
    layer = bij.LULinear.identity(3)
    layer = eqx.tree_at(lambda p: p.raw_log_scale, layer, jnp.array([1e4, -1e4, 0.0]))
    z, log_det = layer.forward_and_log_det(jnp.ones(3))
    assert np.allclose(layer.inverse(z), 1.0)
    assert np.allclose(z, np.exp([5.0, -5.0, 0.0])) and abs(log_det) < 1e-9


def test_logit_reads_values_outside_the_interval_as_its_ends():
    layer = bij.Logit((2,))
    assert np.array_equal(
        layer.forward(jnp.array([-3.0, 7.0])), layer.forward(jnp.array([0.0, 1.0]))
    )


def test_statistics_and_permutations_do_not_train():
    for layer in (bij.Standardise(np.zeros(2), np.ones(2)), marginal(), bij.Permute([1, 0])):
        assert not jax.tree.leaves(partition(layer)[0])
        assert jax.tree.leaves(partition(layer)[1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda k: bij.AffineCoupling(1, MLP(1, 2, 4, 1, key=k)), "that must be >= 2"),
        (lambda k: bij.AffineCoupling(4, MLP(2, 3, 4, 1, key=k)), r"gives shape \(4,\)"),
        (lambda k: bij.SplineCoupling(4, MLP(3, 46, 4, 1, key=k)), r"conditions on shape \(2,\)"),
        (lambda k: bij.Spline(2, 1), "n_bins >= 2"),
        (lambda k: bij.Spline(2, 4, -1.0), "bound > 0"),
        (lambda k: bij.Permute([0, 0, 1]), "each of 0"),
        (lambda k: bij.Standardise(np.zeros(2), np.array([1.0, 0.0])), "positive"),
        (lambda k: bij.Affine(jnp.zeros(2), jnp.zeros(3)), "one shape"),
        (lambda k: bij.Logit(2, alpha=0.7), "alpha"),
        (lambda k: bij.LULinear.whitening(np.zeros(3)), "shape"),
        (lambda k: bij.LULinear.whitening(np.full((3, 2), np.nan)), "finite"),
    ],
)
def test_impossible_layers_say_what_is_wrong(make, message, key):
    with pytest.raises(ValueError, match=message):
        make(key)
