"""The evidence of all rows in two passes: its exact gradient, bounds below it, memory."""

import gc
import resource

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diglm import Flow, Hybrid, flows
from diglm.heads import ConjugateHead
from diglm.objectives.two_passes import direct_log_evidence, in_chunks, two_passes
from diglm.types import Batch, partition


def small_model(*, dim=2, n_targets=1, effects=False, key):
    flow = Flow(flows.coupling(dim, n_blocks=2, width=8, depth=1, key=key))
    head = ConjugateHead(dim, n_targets=n_targets, effects=effects)
    return Hybrid(flow, head)


def rows_for(n, dim=2, n_targets=1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    y = np.sin(x.sum(axis=1)) + 0.1 * rng.normal(size=n)
    if n_targets > 1:
        y = np.stack([y, y**2], axis=1)
    return Batch(x, y, rng.random(n) < 0.9, rng.uniform(0.5, 1.5, n))


@pytest.mark.parametrize("n_targets, effects", [(1, False), (2, False), (1, True)])
def test_two_passes_give_the_gradient_of_the_direct_evidence(key, n_targets, effects):
    model = small_model(n_targets=n_targets, effects=effects, key=key)
    model = eqx.tree_at(lambda m: m.head, model, model.head.frozen())
    rows = rows_for(100, n_targets=n_targets)
    found = two_passes(model, in_chunks(rows, 32), generative_weight=0.3)
    on_device = Batch(*map(jnp.asarray, rows))
    trainable, fixed = partition(model)

    def direct(trainable):
        current = eqx.combine(trainable, fixed)
        log_px = jax.vmap(current.flow.log_prob)(on_device.x)
        evidence = direct_log_evidence(current, on_device)
        known = on_device.weight @ on_device.labelled.astype(float)
        mean_px = on_device.weight @ log_px / jnp.sum(on_device.weight)
        return -(evidence / known + 0.3 * mean_px)

    loss, gradient = jax.jit(jax.value_and_grad(direct))(trainable)
    assert found.loss == pytest.approx(float(loss), rel=1e-9)
    for mine, theirs in zip(
        jax.tree.leaves(found.gradient), jax.tree.leaves(gradient), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-6 * float(jnp.max(jnp.abs(theirs)) + 1e-3))


def test_a_stale_posterior_gives_a_lower_bound(key):
    model, rows = small_model(key=key), rows_for(60)
    found = two_passes(model, in_chunks(rows, 60))
    known = rows.weight * rows.labelled

    @eqx.filter_jit
    def lower(head):
        zs = jax.vmap(model.flow.bijection.forward)(jnp.asarray(rows.x))
        log_py = jax.vmap(lambda z, y: head.in_training(z).log_prob(y))(zs, jnp.asarray(rows.y))
        return jnp.asarray(known) @ log_py - head.penalty()

    def bound(head):
        return float(lower(head))

    exact = found.model.head
    assert bound(exact) == pytest.approx(found.log_evidence, rel=1e-9)
    moved = eqx.tree_at(lambda h: h.mean.value, exact, exact.mean.value + 0.1)
    wider = eqx.tree_at(lambda h: h.factor.value, exact, 1.5 * exact.factor.value)
    assert bound(moved) < found.log_evidence
    assert bound(wider) < found.log_evidence


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(key):
    model, size = small_model(key=key), 5_000

    def stream(n):
        def chunks():
            for start in range(0, n, size):
                rows = rows_for(size, seed=start)
                yield Batch(*map(jnp.asarray, rows))

        return chunks

    def peak():
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB

    two_passes(model, stream(10_000))
    before = peak()
    two_passes(model, stream(400_000))
    assert peak() - before < 20_000  # the rows alone are 14 MB, their gradients far more
