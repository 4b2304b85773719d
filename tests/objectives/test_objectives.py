"""The weighted joint likelihood: which rows count for what, and what terms add to it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diglm import Flow, Hybrid, flows, heads
from diglm.bijections import Identity
from diglm.heads import NoHead, make_head
from diglm.objectives import (
    TERMS,
    AbstractTerm,
    Entropy,
    JointObjective,
    VirtualAdversarial,
    all_weights,
    terms_of,
    virtual_adversarial_divergence,
)
from diglm.types import Batch, bucket, pad

KEY = jax.random.key(0)


def rows_of(n=8, dim=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    y = (x[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(np.int32)
    return Batch(x, y, np.ones(n, bool), np.ones(n))


def small_model(dim=2, seed=0):
    bijection = flows.coupling(dim, n_blocks=2, width=8, depth=1, key=jax.random.key(seed))
    return Hybrid(Flow(bijection), make_head("categorical", dim, n_classes=2))


def on_device(rows):
    return Batch(*map(jnp.asarray, rows))


@eqx.filter_jit
def told(objective, model, rows, **options):
    loss, (terms, _) = objective(model, rows, key=KEY, **options)
    return loss, terms


def loss_of(objective, model, rows, **options):
    return told(objective, model, on_device(rows), **options)[0]


# The joint


def test_each_part_is_a_mean_over_its_own_rows():
    rows, objective, model = rows_of(), JointObjective(0.5), small_model()
    half = rows._replace(labelled=np.arange(8) < 4)
    other = half._replace(y=np.where(np.arange(8) < 4, rows.y, 1 - rows.y))
    loss = loss_of(objective, model, half)
    assert loss == loss_of(objective, model, other)
    outputs = jax.jit(jax.vmap(lambda x: model(x)))(jnp.asarray(rows.x))
    log_py = jax.vmap(lambda r, y: r.log_prob(y))(outputs.response, jnp.asarray(rows.y))
    expected = -(np.mean(log_py[:4]) + 0.5 * np.mean(outputs.log_px))
    assert np.isclose(loss, expected)
    _, terms = told(objective, model, on_device(half))
    assert np.isclose(terms.log_px, np.mean(outputs.log_px))
    assert np.isclose(terms.log_py, np.mean(log_py[:4])) and terms.loss == loss
    right = np.argmax(np.asarray(outputs.response.logits), axis=1) == rows.y
    assert np.isclose(terms.skill, np.mean(right[:4]))


def test_padding_and_weights_do_not_leak():
    rows, objective, model = rows_of(10), JointObjective(), small_model()
    padded = pad(rows, 16)
    assert np.isclose(loss_of(objective, model, rows), loss_of(objective, model, padded))
    spoilt = padded._replace(x=np.where(padded.weight[:, None] > 0, padded.x, 1e300))
    assert np.isclose(loss_of(objective, model, rows), loss_of(objective, model, spoilt))
    twice = Batch(*(np.concatenate([column, column[:3]]) for column in rows))
    heavy = rows._replace(weight=np.where(np.arange(10) < 3, 2.0, 1.0))
    assert np.isclose(loss_of(objective, model, twice), loss_of(objective, model, heavy))
    assert [bucket(n) for n in (1, 128, 129, 1000)] == [128, 128, 256, 1024]


def test_the_prior_is_shared_by_all_rows_and_emphasis_multiplies_lambda():
    rows = rows_of()
    model = Hybrid(Flow(Identity(2)), heads.CategoricalHead(2, 2, l2=3.0))
    model = eqx.tree_at(lambda m: m.head.weight, model, jnp.ones((2, 2)))
    few, many = (loss_of(JointObjective(n_rows=n), model, rows) for n in (8.0, 1e12))
    assert np.isclose(few - many, 0.5 * 3.0 * 4 / 8)
    twofold = loss_of(JointObjective(0.4, n_rows=1e12), model, rows, emphasis=2.0)
    assert np.isclose(twofold, loss_of(JointObjective(0.8, n_rows=1e12), model, rows))


def test_a_density_alone_never_asks_the_head():
    rows, model = rows_of(), eqx.tree_at(lambda m: m.head, small_model(), NoHead())
    loss, terms = told(JointObjective(0.5, density_only=True), model, on_device(rows))
    log_px = jax.jit(jax.vmap(model.flow.log_prob))(jnp.asarray(rows.x))
    assert np.isclose(loss, -0.5 * np.mean(log_px)) and terms.log_py == terms.skill == 0
    with pytest.raises(ValueError, match="density_only never asks the head"):
        JointObjective(density_only=True, terms=(Entropy(1.0),))


def test_rows_without_a_weight_are_no_rows():
    rows = on_device(rows_of())
    nothing = rows._replace(weight=jnp.zeros(8))
    _, terms = told(JointObjective(), small_model(), nothing)
    assert all(term == 0 for term in terms)


# Terms


def test_entropy_is_that_of_rows_without_a_label():
    rows = rows_of(16)._replace(labelled=np.arange(16) < 4)
    model = small_model()
    plain = loss_of(JointObjective(0.1), model, rows)
    entropy = loss_of(JointObjective(0.1, terms=(Entropy(2.0),)), model, rows)
    assert np.isclose(entropy - plain, 2.0 * np.log(2))  # an untrained head is uniform
    labelled = rows._replace(labelled=np.ones(16, bool))
    with_term = loss_of(JointObjective(terms=(Entropy(2.0),)), model, labelled)
    assert with_term == loss_of(JointObjective(), model, labelled)


def test_virtual_adversarial_step_finds_the_sensitive_direction():
    head = make_head("categorical", 3, n_classes=2)
    head = eqx.tree_at(lambda h: h.weight, head, jnp.array([[0.0, 0, 0], [5.0, 0.1, 0]]))
    model = Hybrid(Flow(Identity(3)), head)
    worst = eqx.filter_jit(virtual_adversarial_divergence)(
        model, jnp.zeros((20, 3)), jnp.ones(20), radius=0.1, key=KEY
    )
    p, q = 0.5, 1 / (1 + np.exp(0.5))
    exact = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    assert np.allclose(worst, exact, rtol=0.05)
    rows = Batch(np.zeros((20, 3)), np.zeros(20, int), np.zeros(20, bool), np.arange(20.0))
    plain = loss_of(JointObjective(), model, rows)
    term = VirtualAdversarial(2.0, radius=0.1)
    assert np.isclose(loss_of(JointObjective(terms=(term,)), model, rows) - plain, 2 * exact, 0.05)


def test_steps_on_several_targets_add_up():
    head = heads.ConjugateHead(2, n_targets=2, noise=1.0)
    head = eqx.tree_at(lambda h: h.mean, head, jnp.array([[3.0, 4.0], [0.0, 0], [0, 0]]))
    head = eqx.tree_at(lambda h: h.factor.value, head, 1e-9 * head.factor.value)
    model = Hybrid(Flow(Identity(2)), head)
    worst = eqx.filter_jit(virtual_adversarial_divergence)(
        model, jnp.zeros((4, 2)), jnp.ones(4), radius=1.0, key=KEY
    )
    assert np.allclose(worst, 0.5 * (9 + 16), rtol=1e-3)


class Length(AbstractTerm):
    """The mean length of the features; of a user's own."""

    weight: float = eqx.field(static=True, default=1.0)

    def rows(self, seen, *, key):
        return jnp.sqrt(jnp.sum(jnp.square(seen.outputs.z), axis=1)), all_weights(seen.batch)


def test_terms_are_added_with_weights_and_keys_of_their_own():
    rows, model = rows_of(), Hybrid(Flow(Identity(2)), make_head("categorical", 2, n_classes=2))
    length = np.mean(np.linalg.norm(rows.x, axis=1))
    plain = loss_of(JointObjective(), model, rows)
    both = JointObjective(terms=(Length(0.5), VirtualAdversarial(1.0), Length(2.0)))
    assert np.isclose(loss_of(both, model, rows) - plain, 2.5 * length)  # this head stands still
    assert jax.tree.leaves(both) == jax.tree.leaves(JointObjective())  # settings, not arrays


def test_terms_by_name_and_as_objects(monkeypatch):
    assert set(TERMS) >= {"consistency", "entropy", "vat"}
    assert terms_of({"entropy": 2.0, "vat": 0.0}) == (Entropy(2.0),)
    assert terms_of([VirtualAdversarial(1.0, 0.3), Entropy(0.0)]) == (VirtualAdversarial(1.0, 0.3),)
    assert terms_of(()) == terms_of({}) == ()
    with pytest.raises(ValueError, match=r"term among .*got 'entropie'. Did you mean 'entropy'"):
        terms_of({"entropie": 1.0})
    with pytest.raises(TypeError, match="entropy"):  # said by the checker of types where it is on
        terms_of(["entropy"])
    monkeypatch.setitem(TERMS._parts, "length", Length)
    assert terms_of({"length": 3.0}) == (Length(3.0),)
