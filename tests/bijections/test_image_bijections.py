"""Layers of images: exact in both directions, alone or side by side, kept or inverted again."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diglm import bijections as bij
from diglm import flows
from diglm.networks.convolution import Convolution, ConvolutionalNetwork
from diglm.types import generator, partition

SHAPE = (4, 4, 6)  # channels, height, width


def coupling(shape, *, key, **settings):
    n_out = bij.AffineCoupling.n_parameters(shape[0])
    net = ConvolutionalNetwork(shape[0] // 2, n_out, 5, key=key, **settings)
    return bij.AffineCoupling(shape, net)


def block(key):
    return bij.Chain(
        [bij.ActNorm(SHAPE), bij.Convolution1x1(SHAPE, key=key), coupling(SHAPE, key=key)]
    )


def small_glow(key, shape=(4, 6, 2), **settings):
    return flows.glow(shape, n_blocks=[2], width=5, key=key, **settings).bijection


CONSTRUCTORS = {
    "squeeze": lambda key: bij.Squeeze(SHAPE),
    "actnorm": lambda key: bij.ActNorm(SHAPE),
    "convolution_1x1": lambda key: bij.Convolution1x1(SHAPE, key=key),
    "coupling": lambda key: coupling(SHAPE, key=key),
    "coupling_uneven": lambda key: bij.AffineCoupling(
        SHAPE, ConvolutionalNetwork(3, 2, 5, key=key), kept=3
    ),
    "coupling_highway": lambda key: coupling(SHAPE, key=key, highway=True, batch_norm=True, last=1),
    "scan": lambda key: bij.Scan(block, 2, key=key),
    "scan_unrolled": lambda key: bij.Scan(block, 2, unroll=2, key=key),
    "scan_reversible": lambda key: bij.Scan(block, 2, reversible=True, key=key),
    "multiscale": lambda key: flows.glow(
        (8, 8, 1), n_blocks=[1, 1], width=4, factor_out=True, key=key
    ).bijection.layers[1],
    "reading": lambda key: bij.Chain(flows.reading((4, 8, 8), 5, 4, key=key)),
    "read_multiscale": lambda key: flows.glow(
        (8, 8, 1), n_blocks=[1, 1], width=4, factor_out=True, reader=3, key=key
    ).bijection.layers[1],
    "even_part": lambda key: small_glow(key, shape=(5, 7, 1)).layers[1],
    "glow": small_glow,
}
PIXELS = {"glow"}


def perturb(model, key, size=0.3):
    """Noise on everything that trains: far from the identity."""
    trainable, fixed = partition(model)
    rng = generator(key)
    noisy = jax.tree.map(
        lambda leaf: leaf + size * jnp.asarray(rng.normal(size=leaf.shape)), trainable
    )
    return eqx.combine(noisy, fixed)


def images(name, shape, n=3):
    rng = np.random.default_rng(1)
    size = (*shape, n)
    return jnp.asarray(rng.uniform(1, 255, size) if name in PIXELS else rng.normal(size=size))


@pytest.fixture(params=CONSTRUCTORS, scope="module")
def named(request):
    """A perturbed layer, and three images side by side."""
    layer = perturb(CONSTRUCTORS[request.param](jax.random.key(0)), jax.random.key(1))
    return layer, images(request.param, layer.in_shape)


def test_both_ways(named):
    layer, xs = named
    zs, log_dets = eqx.filter_jit(layer.forward_and_log_det)(xs)
    back, inverse_log_dets = eqx.filter_jit(layer.inverse_and_log_det)(zs)
    assert zs.shape == (*layer.out_shape, 3) and log_dets.shape == (3,)
    np.testing.assert_allclose(back, xs, atol=1e-8, rtol=1e-9)
    np.testing.assert_allclose(inverse_log_dets, -log_dets, atol=1e-8)


def test_log_determinant_is_that_of_the_jacobian(named):
    layer, xs = named
    x = xs[..., 0]

    @eqx.filter_jit
    def look(x):
        jacobian = jax.jacrev(lambda x: layer.forward_and_log_det(x)[0].ravel())(x)
        return jacobian.reshape(x.size, x.size), layer.forward_and_log_det(x)[1]

    jacobian, log_det = look(x)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(jacobian)[1], atol=1e-8)


def test_images_side_by_side_do_not_touch(named):
    layer, xs = named
    zs, log_dets = eqx.filter_jit(layer.forward_and_log_det)(xs)
    for i in range(3):
        z, log_det = eqx.filter_jit(layer.forward_and_log_det)(xs[..., i])
        np.testing.assert_allclose(zs[..., i], z, atol=1e-10)
        np.testing.assert_allclose(log_dets[i], log_det, atol=1e-10)


def test_images_face_outwards_height_width_channels():
    model = perturb(
        flows.glow((4, 6, 2), n_blocks=[2], width=5, key=jax.random.key(0)), jax.random.key(1)
    )
    xs = images("glow", (3, 4, 6), 2).transpose(0, 1, 2, 3)
    assert model.in_shape == (4, 6, 2) and model.out_shape == (48,)
    zs, log_dets = eqx.filter_jit(model.forward_rows)(xs)
    again, log_dets_again = jax.jit(lambda xs: jax.vmap(model.forward_and_log_det)(xs))(xs)
    np.testing.assert_allclose(zs, again, atol=1e-10)
    np.testing.assert_allclose(log_dets, log_dets_again, atol=1e-10)
    np.testing.assert_allclose(eqx.filter_jit(model.inverse_rows)(zs)[0], xs, atol=1e-7)
    np.testing.assert_allclose(eqx.filter_jit(model.forward_batch)(xs)[0], zs, atol=1e-10)


def test_actnorm_starts_from_the_statistics_of_channels():
    xs = 3.0 * images("actnorm", SHAPE, 50) + 2.0
    zs, _, layer = bij.ActNorm(SHAPE).forward_batch(xs, start=True)
    np.testing.assert_allclose(jnp.mean(zs, (1, 2, 3)), 0.0, atol=1e-10)
    np.testing.assert_allclose(jnp.std(zs, (1, 2, 3)), 1.0, atol=1e-10)
    np.testing.assert_allclose(layer.forward_and_log_det(xs)[0], zs)


@pytest.mark.parametrize(("n_in", "n_out"), [(2, 7), (7, 2), (3, 3)])
def test_convolution_is_the_library_s(n_in, n_out):
    layer = Convolution(n_in, n_out, 3, key=jax.random.key(0))
    x = images("", (n_in, 5, 4), 3)
    kernel = layer.weight.reshape(n_out, 3, 3, n_in).transpose(0, 3, 1, 2)
    expected = jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("CHWN", "OIHW", "CHWN")
    )
    np.testing.assert_allclose(layer(x), expected, atol=1e-12)
    np.testing.assert_allclose(layer(x[..., 0]), expected[..., 0], atol=1e-12)


def glow_loss(model, xs):
    zs, log_dets, _ = model.forward_batch(xs)
    return jnp.mean(log_dets) - jnp.mean(jnp.sum(jnp.square(zs), axis=1))


def reversible_pair(n_blocks, shape, width, dtype):
    """The same weights, kept on the way or inverted on the way back."""
    built = {
        reversible: flows.glow(
            shape, n_blocks=n_blocks, width=width, reversible=reversible, key=jax.random.key(0)
        )
        for reversible in (False, True)
    }
    ordinary = perturb(built[False], jax.random.key(1), 0.03)
    cast = lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf  # noqa: E731
    leaves = jax.tree.map(cast, jax.tree.leaves(ordinary))
    return ordinary, jax.tree.unflatten(jax.tree.structure(built[True]), leaves), leaves


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-8), ("float32", 1e-4)])
def test_reversible_gradients_are_the_ordinary_ones(dtype, tolerance):
    ordinary, inverted, leaves = reversible_pair([12, 12], (8, 8, 1), 8, dtype)
    ordinary = jax.tree.unflatten(jax.tree.structure(ordinary), leaves)
    xs = images("glow", (6, 8, 8), 1).astype(dtype)
    gradients = [
        partition(eqx.filter_jit(eqx.filter_grad(glow_loss))(model, xs))[0]
        for model in (ordinary, inverted)
    ]
    flat = [np.concatenate([np.ravel(g) for g in jax.tree.leaves(g)]) for g in gradients]
    assert np.linalg.norm(flat[0] - flat[1]) < tolerance * np.linalg.norm(flat[0])


def test_reversible_blocks_take_a_fraction_of_the_memory():
    def peak(model):
        compiled = eqx.filter_jit(eqx.filter_grad(glow_loss)).lower(model, xs).compile()
        return compiled.compiled.memory_analysis().temp_size_in_bytes

    xs = jnp.zeros((64, 8, 8, 1))
    ordinary, inverted, _ = reversible_pair([24], (8, 8, 1), 16, "float64")
    assert peak(inverted) < peak(ordinary) / 4


def test_what_leaves_a_level_is_what_its_last_coupling_changed():
    first = coupling(SHAPE, key=jax.random.key(0))
    scales = perturb(bij.MultiScale([first, bij.ActNorm((2, 4, 6))]), jax.random.key(1))
    xs = images("multiscale", SHAPE)
    zs, _ = eqx.filter_jit(scales.forward_and_log_det)(xs)
    changed, _ = eqx.filter_jit(scales.levels[0].forward_and_log_det)(xs)
    np.testing.assert_allclose(zs[: 2 * 4 * 6], changed[2:].reshape(-1, 3), atol=1e-12)


def test_a_reader_writes_the_first_features_from_the_whole_image():
    model = perturb(
        flows.glow((12, 12, 3), n_blocks=[1], width=4, reader=4, key=jax.random.key(0)),
        jax.random.key(1),
        0.1,
    )
    x = images("glow", (12, 12), 3)
    n_read = flows.n_read((12, 12, 3))
    assert n_read == 36
    slopes = eqx.filter_jit(jax.jacrev(lambda x: model.forward(x)))(x).reshape(-1, 12, 12, 3)
    reached = np.any(np.abs(slopes) > 1e-12, axis=-1)
    assert reached[0, -4:, -4:].any()  # read off a corner, of what the other corner says
    assert not reached[n_read, -4:, -4:].any()  # one block sees but a few pixels around


def test_wrong_shapes_are_named():
    net = ConvolutionalNetwork(3, 2, 5, key=jax.random.key(0))
    with pytest.raises(ValueError, match="1 <= kept < 4; got 4"):
        bij.AffineCoupling(SHAPE, net, kept=4)
    with pytest.raises(ValueError, match="reader is a width, or 0 for none; got -1"):
        small_glow(jax.random.key(0), reader=-1)
    with pytest.raises(ValueError, match="hands on some of its channels"):
        bij.MultiScale([bij.ActNorm(SHAPE), bij.ActNorm(SHAPE)])
    with pytest.raises(ValueError, match="both must be even; got 3 x 4"):
        bij.Squeeze((1, 3, 4))
    with pytest.raises(ValueError, match="at least 4 x 4 pixels; got 1 x 1"):
        flows.glow((1, 1, 3), key=jax.random.key(0))
    with pytest.raises(ValueError, match="neither dropout nor batch norm"):
        flows.glow((8, 8, 1), reversible=True, dropout=0.1, key=jax.random.key(0))
    with pytest.raises(ValueError, match="can be halved 2 times"):
        flows.glow((28, 28, 1), n_blocks=[1, 1, 1], key=jax.random.key(0))
