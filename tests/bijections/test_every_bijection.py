"""Every bijection meets the same tests; then the promises particular to some of them."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from diglm import bijections as bij
from diglm.bijections.spline import knots, spline_forward, spline_inverse
from diglm.networks import MLP, AbstractNetwork
from diglm.types import generator, partition, split_key

DIM = 5
FAR = (1e6, -1e6, 1e30, -1e30)


def affine(dim, *, key, **settings):
    n_out = bij.AffineCoupling.n_parameters(dim)
    return bij.AffineCoupling(dim, MLP(dim // 2, n_out, 16, 2, key=key, **settings))


def spline(dim, *, key, **settings):
    n_out = bij.SplineCoupling.n_parameters(dim, 6)
    return bij.SplineCoupling(dim, MLP(dim // 2, n_out, 16, 2, key=key, **settings), n_bins=6)


def mixed_block(key):
    key_linear, key_coupling = split_key(key, 2)
    return bij.Chain([bij.LULinear(DIM, key=key_linear), spline(DIM, key=key_coupling)])


def affine_block(key):
    return bij.Chain([bij.ActNorm(6), affine(6, key=key), bij.Exchange(6)])


def spline_block(key):
    return bij.Chain([spline(6, key=key), bij.Exchange(6)])


def marginal():
    rng = np.random.default_rng(0)
    columns = [
        rng.normal(size=400),
        rng.lognormal(size=400) - 1.0,
        rng.uniform(-1.5, 1.5, size=400),
        rng.standard_t(2, size=400),
        np.round(rng.normal(size=400), 1),
    ]
    return bij.MarginalMap.fit(np.stack(columns, axis=1))


def started_batch_norm(key):
    xs = 3.0 * jax.random.normal(key, (50, DIM)) + 1.0
    return bij.BatchNorm(DIM).forward_batch(xs, start=True)[2]


CONSTRUCTORS = {
    "identity": lambda key: bij.Identity(DIM),
    "affine": lambda key: bij.Affine(jnp.zeros(DIM), jnp.zeros(DIM)),
    "standardise": lambda key: bij.Standardise(np.arange(DIM), 1.0 + np.arange(DIM)),
    "logit": lambda key: bij.Logit(DIM),
    "sigmoid": lambda key: bij.Sigmoid(DIM),
    "permute": lambda key: bij.Permute([3, 0, 4, 1, 2]),
    "random_permutation": lambda key: bij.random_permutation(DIM, key=key),
    "reverse": lambda key: bij.Reverse(DIM),
    "exchange": lambda key: bij.Exchange(DIM),
    "lu": lambda key: bij.LULinear(DIM, key=key),
    "lu_identity": lambda key: bij.LULinear.identity(DIM),
    "lu_permutation": lambda key: bij.LULinear.permutation(DIM, key=key),
    "actnorm": lambda key: bij.ActNorm(DIM),
    "batch_norm": started_batch_norm,
    "affine_coupling": lambda key: affine(DIM, key=key),
    "affine_coupling_batch_norm": lambda key: affine(DIM, batch_norm=True, key=key),
    "spline_coupling": lambda key: spline(DIM, key=key),
    "spline": lambda key: bij.Spline(DIM, 7, 3.0),
    "planar": lambda key: bij.Planar(DIM, key=key),
    "planar_1d": lambda key: bij.Planar(1, key=key),
    "marginal": lambda key: marginal(),
    "inverted": lambda key: bij.Inverted(bij.Planar(DIM, key=key)),
    "scan": lambda key: bij.Scan(mixed_block, 3, key=key),
    "scan_permute": lambda key: bij.Scan(lambda k: bij.random_permutation(DIM, key=k), 3, key=key),
    "chain": lambda key: bij.Chain([marginal(), mixed_block(key), bij.Exchange(DIM)]),
}
UNIT_INTERVAL = {"logit"}
FOLLOWS_BATCH = {"batch_norm", "affine_coupling_batch_norm"}


def perturb(bijection, key, size=0.4):
    """The bijection with noise on everything that trains: far from wherever it started."""
    trainable, fixed = partition(bijection)
    rng = generator(key)

    def noisy(leaf):
        noise = rng.normal(size=leaf.shape) / np.sqrt(max((*leaf.shape[-1:], 1)))
        return jnp.asarray(np.asarray(leaf) + size * noise)

    return eqx.combine(jax.tree.map(noisy, trainable), fixed)


def rows(name, n=8):
    shape = (n, 1 if name == "planar_1d" else DIM)
    rng = np.random.default_rng(3)
    inside = rng.uniform(size=shape) if name in UNIT_INTERVAL else 2 * rng.normal(size=shape)
    return jnp.asarray(inside)


forward = eqx.filter_jit(lambda bijection, xs: jax.vmap(bijection.forward_and_log_det)(xs))
inverse = eqx.filter_jit(lambda bijection, zs: jax.vmap(bijection.inverse)(zs))
forward_batch = eqx.filter_jit(
    lambda bijection, xs, **settings: bijection.forward_batch(xs, **settings)
)


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
    _, _, seen = examined(name)
    assert np.abs(seen["log_det"] - seen["truth"]).max() < 1e-8
    assert np.abs(seen["log_det_back"] - seen["truth_back"]).max() < 1e-8
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
