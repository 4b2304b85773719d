"""Ways of compiling change how long programs take, never what they answer."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diglm import Flow, Hybrid, compiling, flows
from diglm.bijections import MarginalMap
from diglm.blocks import in_blocks
from diglm.compiling import jit_once
from diglm.completion import Completion
from diglm.heads import make_head
from diglm.objectives import JointObjective
from diglm.training import fit, step
from diglm.training.settings import Schedule, Settings
from diglm.types import Batch


def test_an_option_that_xla_does_not_know_is_left_out(monkeypatch):
    monkeypatch.setattr(compiling, "SOON_COMPILED", {"xla_of_another_year": True})
    assert float(jit_once(lambda x: x + 1)(jnp.asarray(1.0))) == 2.0


def test_what_a_person_has_set_stays_as_it_was_set(monkeypatch):
    taken = []
    monkeypatch.setattr(compiling, "_knows", lambda options: taken.append(dict(options)) or False)
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=3")
    assert float(jit_once(lambda x: x + 1)(jnp.asarray(1.0))) == 2.0
    assert taken and not any("xla_backend_optimization_level" in options for options in taken)


def test_what_runs_once_may_be_called_again_with_other_shapes():
    total = jit_once(lambda xs, scale: scale * jnp.sum(xs))
    for n in (2, 3):
        assert float(total(jnp.ones(n), jnp.asarray(2.0))) == 2.0 * n


def test_what_is_asked_of_rows_in_blocks_is_traced_once():
    traced = []

    def doubled(scale, rows, shift):
        traced.append(rows.shape)
        return scale * rows + shift

    found = in_blocks(doubled, jnp.asarray(2.0), np.ones((5, 3)), jnp.asarray(1.0), 2)
    assert np.array_equal(found, np.full((5, 3), 3.0))
    assert traced == [(2, 3)]


@pytest.mark.parametrize("n, level", [(10, 0), (compiling.LITTLE, 1)])
def test_what_has_little_to_compute_is_not_optimised(monkeypatch, n, level):
    asked = []
    usual = compiling._jit
    monkeypatch.setattr(compiling, "_jit", lambda f, o: asked.append(o) or usual(f, o))
    assert float(jit_once(lambda x: jnp.max(x) + 1)(jnp.ones(n))) == 2.0
    assert [options["xla_backend_optimization_level"] for options in asked] == [level]


def test_building_a_flow_compiles_nothing(key):
    """A program for each shape of array would take longer than a short training."""
    jax.random.key_data(key)
    compiled = []

    def note(event, *_, **__):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        flows.coupling(7, n_blocks=3, width=11, depth=2, kind="spline", key=key)
        flows.coupling(5, n_blocks=2, width=13, depth=1, conditioner="highway", key=key)
        flows.linear(9, key=key)
        MarginalMap.fit(np.random.default_rng(0).normal(size=(50, 3)))
        Completion(np.array([0.0, 1.0, 0.0]), np.array([True, False, False]))
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert compiled == []


@pytest.mark.parametrize("many, brief", [(0, False), (1e9, True)])
def test_few_steps_and_many_give_one_model(monkeypatch, key, many, brief):
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 2))
    rows = Batch(x, x[:, 0] + 0.1 * random.normal(size=120), np.ones(120, bool), np.ones(120))
    settings = Settings(n_epochs=3, batch_size=32)

    def fitted():
        model = Hybrid(Flow(flows.linear(2, key=key)), make_head("gaussian", 2))
        return fit(model, rows, objective=JointObjective(), settings=settings).model

    expected = fitted()
    monkeypatch.setattr(step, "MANY_STEPS", many)
    asked = []
    kept = step.Shared.brief.fget
    monkeypatch.setattr(step.Shared, "brief", property(lambda s: asked.append(kept(s)) or kept(s)))
    model = fitted()
    assert asked and set(asked) == {brief}
    for ours, theirs in zip(jax.tree.leaves(model), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_images_never_train_with_what_was_measured_on_tables(key):
    schedule = Schedule.of(Settings(), 10)
    table = Hybrid(Flow(flows.linear(3, key=key)), make_head("gaussian", 3))
    image = flows.glow((4, 4, 1), n_blocks=1, width=4, key=key)
    images = Hybrid(Flow(image), make_head("gaussian", 16))
    assert step.Shared(table, JointObjective(), schedule).brief
    assert not step.Shared(images, JointObjective(), schedule).brief


def test_programs_are_forgotten_where_they_are_too_many(monkeypatch):
    cleared = []
    monkeypatch.setattr(compiling.jax, "clear_caches", lambda: cleared.append(True))
    compiling.drop_programs()
    few = len(cleared)
    monkeypatch.setattr(compiling, "MOST_MAPPINGS", 1)
    compiling.drop_programs()
    assert len(cleared) == few + Path("/proc/self/maps").exists()
