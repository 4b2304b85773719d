"""Steps along the exact evidence: they climb it, keep the best, and leave a head that trains."""

import equinox as eqx
import jax
import numpy as np
import pytest

from diglm import Flow, Hybrid, flows
from diglm.heads import ConjugateHead
from diglm.objectives import Entropy, JointObjective, two_passes
from diglm.objectives.two_passes import in_chunks
from diglm.training import Settings, fit_evidence
from diglm.types import Batch, Buffer, is_buffer

SHORT = Settings(n_epochs=8, learning_rate=0.02, patience=None)


def rows_of(n=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=n)
    return Batch(x, y, rng.random(n) < 0.9, np.ones(n))


def small_model():
    bijection = flows.coupling(2, n_blocks=2, width=8, depth=1, key=jax.random.key(0))
    return Hybrid(Flow(bijection), ConjugateHead(2))


@pytest.fixture(scope="module")
def fitted():
    return fit_evidence(small_model(), rows_of(), objective=JointObjective(0.1), settings=SHORT)


def leaves(model):
    return [leaf for leaf in jax.tree.leaves(model) if eqx.is_inexact_array(leaf)]


def test_steps_climb_the_evidence_and_the_posterior_is_exact(fitted):
    evidence = [record["log_evidence"] for record in fitted.history]
    assert len(evidence) == 8 and evidence[-1] > evidence[0] + 3
    assert [record["epoch"] for record in fitted.history] == list(range(8))
    rows = in_chunks(rows_of(), 120)
    found = two_passes(fitted.model, rows, generative_weight=0.1)
    assert found.log_evidence == pytest.approx(evidence[-1], abs=1e-6)
    np.testing.assert_allclose(found.model.head.mean.value, fitted.model.head.mean, rtol=1e-6)
    assert fitted.stopped == "epochs" and fitted.skipped_steps == 0


def test_the_head_that_comes_back_is_trained_again(fitted):
    assert not isinstance(fitted.model.head.mean, Buffer)
    before = jax.tree.structure(small_model(), is_leaf=is_buffer)
    assert jax.tree.structure(fitted.model, is_leaf=is_buffer) == before


def test_rows_may_come_as_a_function_that_gives_them_in_pieces(fitted):
    calls, rows = [], rows_of()

    def pieces():
        calls.append(1)
        return in_chunks(rows, 40)()

    again = fit_evidence(small_model(), pieces, objective=JointObjective(0.1), settings=SHORT)
    assert len(calls) == 2 * 9  # two passes a step, and at the start
    for ours, theirs in zip(leaves(again.model), leaves(fitted.model), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


def test_the_best_step_for_held_out_rows_is_kept():
    rows, held = rows_of(), rows_of(40, seed=1)
    told = []
    contrary = held._replace(y=-held.y)  # what is learned makes these worse
    result = fit_evidence(
        small_model(),
        rows,
        objective=JointObjective(0.0),
        validation=contrary,
        settings=Settings(n_epochs=8, learning_rate=0.02, patience=2),
        progress=told.append,
    )
    assert result.stopped == "patience" and told == result.history
    assert len(result.history) < 8
    start = two_passes(small_model(), in_chunks(rows, 120), generative_weight=0.0).model
    np.testing.assert_allclose(result.model.head.mean, start.head.mean.value, rtol=1e-6)


def test_terms_have_no_room():
    with pytest.raises(ValueError, match="no room for .*Entropy.*inference='minibatch'"):
        fit_evidence(
            small_model(),
            rows_of(),
            objective=JointObjective(terms=(Entropy(1.0),)),
            settings=SHORT,
        )
    with pytest.raises(ValueError, match="No row has a positive weight"):
        fit_evidence(
            small_model(),
            rows_of()._replace(weight=np.zeros(120)),
            objective=JointObjective(),
            settings=SHORT,
        )
