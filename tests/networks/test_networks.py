"""Networks: shapes, starts, dropout, batch norm, and that rows stay apart."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diglm.networks import MLP, BatchNorm1d, Highway, Pyramid, Residual, network
from diglm.networks.base import beside
from diglm.networks.convolution import ConvolutionalNetwork
from diglm.networks.mlp import ACTIVATIONS, Dense
from diglm.types import partition

NAMES = ("mlp", "highway", "residual")


answer = eqx.filter_jit(lambda net, x, key=None: net(x, key=key))
answers = eqx.filter_jit(lambda net, xs: jax.vmap(net)(xs))
forward_batch = eqx.filter_jit(lambda net, xs, **settings: net.forward_batch(xs, **settings))


def build(name, *, key, **settings):
    """A small network whose output layer is not zero, so that what comes before it shows."""
    net = network(name, 3, 4, 8, 2, key=key, **settings)
    weight = jnp.asarray(np.random.default_rng(0).normal(size=net.output.weight.shape))
    return eqx.tree_at(lambda n: n.output.weight, net, weight)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_starts_at_zero_with_the_right_shape(name, depth, key):
    net = network(name, 3, 4, 8, depth, key=key)
    y = answer(net, jnp.array([1.0, -2.0, 3.0]))
    assert y.shape == (4,)
    assert np.array_equal(y, np.zeros(4))


@pytest.mark.parametrize("name", NAMES)
def test_hidden_layers_start_alive_and_of_moderate_size(name, key):
    net = network(name, 20, 50, 100, 3, key=key)
    rng = np.random.default_rng(0)
    weight = jnp.asarray(rng.normal(size=(50, 100)) / 10.0)
    net = eqx.tree_at(lambda n: n.output.weight, net, weight)
    ys = answers(net, jnp.asarray(rng.normal(size=(200, 20))))
    assert 0.1 < np.std(ys) < 5.0


@pytest.mark.parametrize("rows", [(), (5,)])
@pytest.mark.parametrize("n_in, n_out", [(3, 20), (20, 3), (12, 30), (7, 7)])
def test_a_dense_layer_and_its_derivatives_are_those_of_a_product(n_in, n_out, rows, key):
    rng = np.random.default_rng(0)
    layer, xs = Dense(n_in, n_out, key=key), jnp.asarray(rng.normal(size=(*rows, n_in)))
    direction = jnp.asarray(rng.normal(size=(*rows, n_out)))

    def plain(layer, xs):
        return jnp.einsum("oi,...i->...o", layer.weight, xs) + beside(layer.bias, xs)

    def reverse(function):
        return jax.grad(lambda *both: jnp.sum(function(*both) * direction), argnums=(0, 1))

    def forward(function):
        return lambda layer, xs: jax.jvp(function, (layer, xs), (layer, xs + 1.0))[1]

    def curvature(function):
        return forward(reverse(lambda *both: jnp.tanh(function(*both))))

    assert np.allclose(layer(xs), plain(layer, xs), atol=1e-12)

    @jax.jit
    def derivatives(layer, xs):
        return [
            [derivative(function)(layer, xs) for derivative in (reverse, forward, curvature)]
            for function in (Dense.__call__, plain)
        ]

    ours, expected = derivatives(layer, xs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        assert np.allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_activations_act_and_have_finite_gradients(activation, key):
    net = build("mlp", activation=activation, key=key)
    x = jnp.array([0.0, 1.0, -1.0])
    value_and_grad = eqx.filter_value_and_grad(lambda n: jnp.sum(jnp.square(n(x))))
    value, grads = eqx.filter_jit(value_and_grad)(net)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))
    for layer in (*net.hidden, net.output):
        x = layer(x)
    assert not np.isclose(value, np.sum(np.square(x)))


@pytest.mark.parametrize("name", NAMES)
def test_forward_batch_without_batch_norm_is_the_network_row_by_row(name, key):
    net = build(name, key=key)
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    ys, after = forward_batch(net, xs)
    assert np.allclose(ys, np.stack([answer(net, x) for x in xs]), atol=1e-12)
    assert eqx.tree_equal(after, net)


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_dropout_needs_a_key_and_differs_between_rows(name, batch_norm, key):
    net = build(name, dropout=0.5, batch_norm=batch_norm, key=key)
    x = jnp.ones(3)
    assert not np.allclose(answer(net, x), answer(net, x, key))
    ys, _ = forward_batch(net, jnp.stack([x, x, -x]), key=key)
    assert np.array_equal(ys, forward_batch(net, jnp.stack([x, x, -x]), key=key)[0])
    assert not np.allclose(ys[0], ys[1])


@pytest.mark.parametrize("rows", [(), (3,)])
def test_dropout_of_images_drops_each_number_by_itself(rows, key):
    net = ConvolutionalNetwork(2, 2, 64, dropout=0.5, key=key)
    net = eqx.tree_at(lambda n: n.output.weight, net, jnp.ones_like(net.output.weight))
    x = jnp.ones((2, 5, 5, *rows))
    inside = (answer(net, x, key) - answer(net, x))[:, 2, 2]  # the same network at each place
    middle = (answer(net, x, key) - answer(net, x))[:, 1:4, 1:4]
    assert not np.allclose(middle, inside[:, None, None], atol=1e-3)
    assert np.array_equal(answer(net, x, key), answer(net, x, key))


def test_dropout_keeps_the_mean(key):
    net = eqx.tree_at(
        lambda n: (n.hidden[0].weight, n.hidden[0].bias, n.output.weight),
        MLP(1, 1, 400, 1, activation="relu", dropout=0.25, key=key),
        (jnp.zeros((400, 1)), jnp.ones(400), jnp.ones((1, 400)) / 400),
    )
    ys, _ = forward_batch(net, jnp.zeros((100, 1)), key=key)
    assert abs(np.mean(ys) - 1.0) < 0.01


@pytest.mark.parametrize("name", NAMES)
def test_batch_norm_after_start_answers_as_the_batch_did(name, key):
    net = build(name, batch_norm=True, key=key)
    xs = jnp.asarray(np.random.default_rng(0).normal(1.0, 3.0, size=(40, 3)))
    ys, after = forward_batch(net, xs, start=True)
    assert np.allclose(answers(after, xs), ys, atol=1e-10)
    assert not np.allclose(answers(net, xs), ys)


def test_batch_norm_statistics():
    norm = BatchNorm1d(2)
    xs = jnp.array([[1.0, 10.0], [3.0, 30.0]])
    ys, moved = forward_batch(norm, xs)
    assert np.allclose(ys, [[-1.0, -1.0], [1.0, 1.0]], atol=1e-4)
    assert np.allclose(moved.mean.value, [0.1 * 2.0, 0.1 * 20.0])
    assert np.allclose(moved.var.value, [0.9 + 0.1 * 1.0, 0.9 + 0.1 * 100.0])
    _, started = forward_batch(norm, xs, start=True)
    assert np.allclose(started.mean.value, [2.0, 20.0])
    assert np.allclose(started.var.value, [1.0, 100.0])


def test_batch_norm_gradient_passes_through_the_statistics():
    norm = BatchNorm1d(1)
    xs = jnp.array([[0.3], [1.0], [-2.0]])
    grads = jax.jit(jax.grad(lambda xs: norm.forward_batch(xs)[0][0, 0]))(xs)
    # Shifting all rows together changes nothing, which holds only if the mean is followed.
    assert abs(jnp.sum(grads)) < 1e-10
    assert jnp.abs(grads[1, 0]) > 1e-3


def test_statistics_do_not_train_and_carry_no_gradient():
    norm = BatchNorm1d(2)
    trainable, fixed = partition(norm)
    assert len(jax.tree.leaves(trainable)) == 2
    assert len(jax.tree.leaves(fixed)) == 2
    grad = jax.jit(jax.grad(lambda xs: jnp.sum(norm.forward_batch(xs)[1].mean.value)))
    grads = grad(jnp.ones((3, 2)))
    assert np.array_equal(grads, np.zeros((3, 2)))


def test_highway_with_closed_gates_carries_its_input(key):
    net = build("highway", key=key)
    closed = [layer.bias.at[8:].set(-1e3) for layer in net.layers]
    net = eqx.tree_at(lambda n: [layer.bias for layer in n.layers], net, closed)
    x = jnp.array([0.5, -1.0, 2.0])
    assert np.allclose(net(x), net.output(net.projection(x)), atol=1e-12)


def test_highway_gates_start_mostly_closed(key):
    for layer in Highway(3, 4, 8, 2, key=key).layers:
        assert (layer.bias[8:] < 0).all()


def test_residual_without_blocks_output_is_the_skip_path(key):
    net = build("residual", key=key)
    silent = [jnp.zeros_like(second.weight) for _, second in net.blocks]
    zeros = [jnp.zeros_like(second.bias) for _, second in net.blocks]
    net = eqx.tree_at(lambda n: [second.weight for _, second in n.blocks], net, silent)
    net = eqx.tree_at(lambda n: [second.bias for _, second in n.blocks], net, zeros)
    x = jnp.array([0.5, -1.0, 2.0])
    assert np.allclose(net(x), net.output(jax.nn.silu(net.projection(x))), atol=1e-12)


@pytest.mark.parametrize("make", [MLP, Highway, Residual])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"in_dim": 0}, "in_dim >= 1"),
        ({"width": 0}, "width >= 1"),
        ({"depth": -1}, "depth >= 0"),
        ({"activation": "step"}, "activations"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_impossible_settings_say_so(make, settings, message, key):
    with pytest.raises(ValueError, match=message):
        make(**({"in_dim": 2, "out_dim": 2, "width": 4, "depth": 1} | settings), key=key)


def test_unknown_network_lists_the_known(key):
    with pytest.raises(ValueError, match="highway.*mlp.*residual"):
        network("transformer", 2, 2, 4, 1, key=key)


@pytest.mark.parametrize(("side", "n_halved"), [(16, 2), (6, 1), (7, 0), (4, 0)])
def test_a_pyramid_gives_back_the_size_of_the_image(side, n_halved, key):
    net = Pyramid((3, side, side), 2, 4, key=key)
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(3, side, side, 5)))
    assert len(net.blocks) == n_halved
    ys = answer(net, xs)
    assert ys.shape == (2, side, side, 5)
    np.testing.assert_allclose(ys[..., 2], answer(net, xs[..., 2]), atol=1e-12)
    np.testing.assert_allclose(forward_batch(net, xs)[0], ys, atol=1e-12)


def test_a_pyramid_sees_the_whole_image(key):
    net = Pyramid((2, 16, 16), 1, 4, key=key)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 16, 16)))
    slopes = jax.jit(jax.grad(lambda x: net(x)[0, 0, 0]))(x)
    assert np.abs(slopes[:, -4:, -4:]).max() > 0


def test_a_pyramid_needs_a_width(key):
    with pytest.raises(ValueError, match="Pyramid needs width >= 1; got 0"):
        Pyramid((2, 8, 8), 1, 0, key=key)
