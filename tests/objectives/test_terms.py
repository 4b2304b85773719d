"""What terms are means over, and what virtual adversarial steps and teachers may and may not do."""

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from diglm import Flow, Hybrid, flows, heads
from diglm.completion import PixelCells
from diglm.heads import make_head
from diglm.objectives import (
    Consistency,
    Distortion,
    Entropy,
    JointObjective,
    Pass,
    PseudoLabels,
    VirtualAdversarial,
    Wasserstein,
    rising,
    virtual_adversarial_divergence,
)
from diglm.types import Batch, pad, partition

KEY = jax.random.key(3)
TERMS = [
    VirtualAdversarial(1.0, 0.5),
    Entropy(),
    Consistency(1.0, 0.0),
    PseudoLabels(sure=0.4, noise=0.0),
    Wasserstein(),
]


def rows_of(n=24, dim=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
    return Batch(x, y, np.arange(n) % 3 == 0, np.ones(n))


def model_of(dim=3, seed=0, **options):
    """Couplings that are not the identity, and a head that is not uniform."""
    rng = np.random.default_rng(seed)
    bijection = flows.coupling(dim, n_blocks=2, width=8, depth=1, key=jax.random.key(seed))
    model = Hybrid(Flow(bijection), make_head("categorical", dim, n_classes=3), **options)
    trainable, fixed = partition(model)
    moved = jax.tree.map(lambda a: a + 0.3 * rng.normal(size=a.shape), trainable)
    return eqx.combine(moved, fixed)


def on_device(rows):
    return Batch(*map(jnp.asarray, rows))


@eqx.filter_jit
def value(term, model, rows):
    outputs, _ = model.forward_batch(rows.x)
    return term(Pass(model, outputs, rows, model), key=KEY)


@pytest.mark.parametrize("term", TERMS, ids=lambda term: type(term).__name__)
def test_rows_of_weight_zero_change_nothing(term):
    rows, model = rows_of(), model_of()
    padded = pad(rows, 64)
    found, with_padding = (value(term, model, on_device(r)) for r in (rows, padded))
    # Noise is drawn for all rows at once, so that the step's start differs, not what it is about.
    exact = isinstance(term, Entropy | Consistency | PseudoLabels | Wasserstein)
    assert np.isclose(found, with_padding, rtol=1e-6 if exact else 0.05)
    spoilt = padded._replace(x=np.where(padded.weight[:, None] > 0, padded.x, 1e3))
    assert np.isclose(with_padding, value(term, model, on_device(spoilt)), rtol=1e-9)


def test_twice_the_unlabelled_rows_leave_labels_density_and_entropy_as_they_were():
    rows, model = rows_of(), model_of()
    others = [np.flatnonzero(~rows.labelled)] * 2
    twice = Batch(*(np.concatenate([c, *(c[o] for o in others[1:])]) for c in rows))

    @eqx.filter_jit
    def told(rows):
        loss, (terms, _) = JointObjective(0.0, terms=(Entropy(0.7),))(model, rows, key=KEY)
        return loss, terms.log_py, terms.skill

    assert np.allclose(told(on_device(rows)), told(on_device(twice)), rtol=1e-12)


@pytest.mark.parametrize("n_steps", [1, 4])
@pytest.mark.parametrize("kind", ["classes", "one class and another", "numbers", "images"])
def test_the_step_raises_the_divergence_more_than_a_random_one(kind, n_steps):
    rng = np.random.default_rng(0)
    radius, n = 0.3, 400
    if kind == "images":
        bijection = flows.glow((4, 4, 1), n_blocks=1, width=8, key=jax.random.key(0))
        head = make_head("categorical", 16, n_classes=3)
        model = Hybrid(Flow(bijection), head, PixelCells())
        xs = jnp.asarray(rng.integers(0, 256, (n, 4, 4, 1)).astype(np.uint8))
    else:
        name = {"numbers": "heteroscedastic"}.get(kind, "categorical")
        options = {} if kind == "numbers" else dict(n_classes=3 if kind == "classes" else 2)
        bijection = flows.coupling(3, n_blocks=2, width=8, depth=1, key=jax.random.key(1))
        model = Hybrid(Flow(bijection), make_head(name, 3, **options))
        xs = jnp.asarray(rng.normal(size=(n, 3)))
    trainable, fixed = partition(model)
    moved = jax.tree.map(lambda a: a + 0.3 * rng.normal(size=a.shape).astype(a.dtype), trainable)
    model = eqx.combine(moved, fixed)

    @eqx.filter_jit
    def compared(model, xs):
        ones = jnp.ones(len(xs))
        worst = virtual_adversarial_divergence(
            model, xs, ones, radius=radius, n_steps=n_steps, key=KEY
        )
        places = model.entered(xs)
        unit = jnp.std(places) if places.ndim > 2 else 1.0
        steps = jax.random.normal(KEY, places.shape)
        length = jnp.sqrt(jnp.sum(steps.reshape(n, -1) ** 2, axis=1))
        steps = radius * unit * steps / length.reshape(-1, *(1,) * (places.ndim - 1))
        clean, other = model.respond_entered(places), model.respond_entered(places + steps)
        return worst, jax.vmap(lambda p, q: p.divergence(q))(clean, other)

    worst, random = compared(model, xs)
    assert np.all(np.isfinite(worst)) and np.mean(worst >= random) >= 0.95


def test_its_gradient_is_that_of_differences_with_target_and_step_held_still():
    model, xs = model_of(), jnp.asarray(rows_of().x)
    ones = jnp.ones(len(xs))

    @eqx.filter_jit
    def divergence(model):
        return jnp.mean(virtual_adversarial_divergence(model, xs, ones, radius=0.4, key=KEY))

    slope = eqx.filter_grad(divergence)(model)
    clean = jax.vmap(model.head)(model.flow.bijection.forward_rows(xs)[0])
    # The step, from the divergence with regard to it, at the model as it stands.
    noise = jax.random.normal(KEY, xs.shape)
    direction = noise / jnp.linalg.norm(noise, axis=1, keepdims=True)

    def apart(model, steps):
        other = jax.vmap(model.head)(model.flow.bijection.forward_rows(xs + steps)[0])
        return jax.vmap(lambda p, q: p.divergence(q))(clean, other)

    found = jax.grad(lambda steps: jnp.sum(apart(model, steps)))(1e-2 * direction)
    step = 0.4 * found / jnp.linalg.norm(found, axis=1, keepdims=True)

    # Along random directions of all that trains, of the head and of the flow.
    weights, fixed = partition(model)
    own, _ = partition(slope)
    flat, shaped = jax.flatten_util.ravel_pytree(weights)
    found = jax.flatten_util.ravel_pytree(own)[0]

    @jax.jit
    def at(flat):
        return jnp.mean(apart(eqx.combine(shaped(flat), fixed), step))

    rng = np.random.default_rng(0)
    for _ in range(5):
        change = rng.normal(size=flat.shape)
        differences = (at(flat + 1e-5 * change) - at(flat - 1e-5 * change)) / 2e-5
        assert np.isclose(change @ found, differences, rtol=1e-4, atol=1e-8)


def test_what_labels_may_not_shape_the_step_may_not_either():
    rows = rows_of()
    free, guided = model_of(), model_of(guided=1)

    def slope(model):
        def term(model):
            ones = jnp.ones(len(rows.x))
            return jnp.mean(
                virtual_adversarial_divergence(
                    model, jnp.asarray(rows.x), ones, radius=0.4, key=KEY
                )
            )

        return eqx.filter_jit(eqx.filter_grad(term))(model).flow

    # With no feature that labels may shape, nothing of the flow learns from the term.
    none = model_of(guided=0)
    sizes = [sum(float(jnp.sum(jnp.abs(leaf))) for leaf in jax.tree.leaves(partition(slope(m))[0]))
             for m in (free, guided, none)]  # fmt: skip
    assert sizes[0] > sizes[1] > 0 and sizes[2] == 0


def test_the_radius_of_images_is_in_standard_deviations_behind_the_logit():
    bijection = flows.glow((4, 4, 1), n_blocks=1, width=8, key=jax.random.key(0))
    model = Hybrid(Flow(bijection), make_head("categorical", 16, n_classes=2), PixelCells())
    rng = np.random.default_rng(0)
    model = eqx.tree_at(lambda m: m.head.weight, model, jnp.asarray(rng.normal(size=(2, 16))))
    black = jnp.asarray(rng.choice([0, 255], (50, 4, 4, 1), p=[0.8, 0.2]).astype(np.uint8))
    places = model.entered(black)
    assert places.shape == black.shape and np.all(np.isfinite(places))
    again = model.respond_entered(places).logits
    assert np.allclose(again, model.forward_rows(black).response.logits, atol=1e-5)
    told = [
        float(jnp.mean(eqx.filter_jit(virtual_adversarial_divergence)(
            model, black, jnp.ones(50), radius=radius, key=KEY)))
        for radius in (0.1, 0.5)
    ]  # fmt: skip
    assert 0 < told[0] < told[1] < 30


def test_several_targets_add_up_and_spreads_count():
    def apart(p, q):
        return float(jax.jit(lambda p, q: p.divergence(q))(p, q))

    two = heads.Gaussian(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0]))
    other = heads.Gaussian(jnp.array([1.0, 1.0]), jnp.array([2.0, 2.0]))
    one, its = heads.Gaussian(jnp.array(0.0), jnp.array(1.0)), jnp.array(2.0)
    assert np.isclose(apart(two, other), apart(one, heads.Gaussian(jnp.array(1.0), its)))
    assert np.isclose(apart(one, heads.Gaussian(jnp.array(0.0), its)), np.log(2) - 3 / 8)


def test_a_teacher_has_no_gradient_and_a_ramp_rises():
    rows, model = on_device(rows_of()), model_of()
    other = model_of(seed=1)

    def term(model, teacher):
        outputs, _ = model.forward_batch(rows.x)
        return Consistency(1.0, 0.3)(Pass(model, outputs, rows, teacher), key=KEY)

    of_teacher = eqx.filter_jit(eqx.filter_grad(lambda t: term(model, t)))(other)
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(partition(of_teacher)[0]))
    assert eqx.filter_jit(term)(model, other) > 0
    assert rising(0.0, 0.1) == 1.0
    assert np.isclose(rising(0.5, 0.0), np.exp(-5)) and rising(0.5, 0.5) == rising(0.5, 1.0) == 1.0
    losses = [
        float(
            eqx.filter_jit(JointObjective(0.0, terms=(Entropy(1.0, 0.4),)))(
                model, rows, key=KEY, done=done
            )[0]
        )
        for done in (0.0, 0.4, 1.0)
    ]
    assert losses[0] < losses[1] == losses[2]


def image_model(reads_guided=True, seed=0):
    """A small Glow with a reader whose numbers are not those it starts from, and byte images."""
    rng = np.random.default_rng(seed)
    bijection = flows.glow((8, 8, 1), n_blocks=1, width=8, reader=4, key=jax.random.key(seed))
    head = make_head("categorical", 64, n_classes=3)
    guided = flows.n_read((8, 8, 1))
    model = Hybrid(Flow(bijection), head, PixelCells(), guided=guided, reads_guided=reads_guided)
    trainable, fixed = partition(model)
    moved = jax.tree.map(lambda a: a + 0.1 * rng.normal(size=a.shape), trainable)
    xs = jnp.asarray(rng.integers(0, 256, (12, 8, 8, 1)).astype(np.uint8))
    return eqx.combine(moved, fixed), xs


def test_a_head_that_reads_the_reader_alone_asks_nothing_else_of_the_flow():
    model, xs = image_model()
    outputs = eqx.filter_jit(Hybrid.forward_rows)(model, xs)
    n = model.guided
    read = np.asarray(outputs.z).copy()
    read[:, n:] = 0.0
    weight, bias = np.asarray(model.head.weight), np.asarray(model.head.bias)
    assert np.allclose(outputs.response.logits, read @ weight.T + bias)
    places = model.entered(xs)
    first = eqx.filter_jit(lambda m, p: m.flow.bijection.first_entered(p, n))(model, places)
    assert np.allclose(first, outputs.z[:, :n])
    again = eqx.filter_jit(Hybrid.respond_entered)(model, places).logits
    assert np.allclose(again, outputs.response.logits)
    # Of the flow behind the reader, no number has a gradient.
    slope = eqx.filter_jit(
        eqx.filter_grad(lambda m: jnp.sum(m.respond_entered(places).logits[:, 0]))
    )(model)
    body = slope.flow.bijection.bijection.layers[-1]
    sizes = [
        sum(float(jnp.sum(jnp.abs(leaf))) for leaf in jax.tree.leaves(partition(level)[0]))
        for level in body.levels
    ]
    assert sizes[0] > 0 and sizes[1:] == [0.0] * len(sizes[1:])


def test_a_distortion_moves_every_image_in_its_own_way_and_can_leave_it_as_it_is():
    _, xs = image_model()
    still = Distortion(turn=0.0, scale=0.0, shear=0.0, shift=0.0, hide=0.0)
    assert np.allclose(jax.jit(still)(xs, key=KEY), xs)
    same = jnp.repeat(xs[:1], 6, axis=0)
    moved = np.asarray(jax.jit(Distortion(hide=0.0))(same, key=KEY))
    assert moved.min() >= float(xs.min()) and moved.max() <= float(xs.max())
    assert all(np.abs(moved[i] - moved[j]).max() > 1 for i in range(6) for j in range(i))
    # A ramp stays one when it is moved by a whole pixel, but for the edge.
    ramp = jnp.tile(jnp.arange(16.0)[None, None, :, None], (50, 16, 1, 1))
    only = Distortion(turn=0.0, scale=0.0, shear=0.0, shift=0.1, hide=0.0)
    steps = np.asarray(jax.jit(only)(ramp, key=KEY))[:, 8, 4:12, 0] - np.arange(4.0, 12.0)
    assert np.allclose(steps, steps[:, :1], atol=1e-4) and np.abs(steps).max() <= 1.6 + 1e-4
    hidden = Distortion(turn=0.0, scale=0.0, shear=0.0, shift=0.0, hide=0.5)
    white = jnp.full((200, 16, 16, 1), 7.0).at[:, 0, 0].set(0.0)
    share = np.mean(np.asarray(jax.jit(hidden)(white, key=KEY)) == 0.0, axis=(1, 2, 3))
    assert share.max() <= 0.25 + 0.1 and share.max() > 0.1


@pytest.mark.parametrize("images", [False, True])
def test_pseudo_labels_are_labels_where_there_are_some_and_else_what_is_sure(images):
    if images:
        (model, xs), n = image_model(), 12
        rows = Batch(xs, jnp.arange(n) % 3, jnp.arange(n) < 4, jnp.ones(n))
    else:
        model, rows = model_of(), on_device(rows_of())
    outputs, _ = model.forward_batch(rows.x)
    least = float(jnp.median(jnp.max(outputs.response.mean, axis=1)))
    still = Distortion(turn=0.0, scale=0.0, shear=0.0, shift=0.0, hide=0.0)
    term = PseudoLabels(sure=least, distortion=still, noise=0.0)
    found = float(eqx.filter_jit(term)(Pass(model, outputs, rows, model), key=KEY))
    log_p = np.asarray(outputs.response.log_probs)
    known, top = np.asarray(rows.labelled), log_p.max(axis=1)
    of_labels = -np.mean(log_p[known, np.asarray(rows.y)[known]])
    sure = np.exp(top[~known]) >= least
    assert 0 < sure.sum() < len(sure)  # some of either kind
    assert np.isclose(found, 0.5 * of_labels + 0.5 * np.mean(np.where(sure, -top[~known], 0.0)))


def test_pseudo_labels_are_of_classes():
    rows = on_device(rows_of())
    bijection = flows.coupling(3, n_blocks=1, width=8, depth=1, key=KEY)
    model = Hybrid(Flow(bijection), make_head("gaussian", 3))
    outputs, _ = model.forward_batch(rows.x)
    with pytest.raises(ValueError, match="head must be one of classes"):
        PseudoLabels().rows(Pass(model, outputs, rows, model), key=KEY)
