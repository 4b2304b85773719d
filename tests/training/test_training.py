"""Training: deterministic, guarded, compiled once, exact where the optimum is known."""

import logging
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from diglm import Flow, Hybrid, flows
from diglm.bases import Normal
from diglm.bijections import Affine, BatchNorm, Chain, Identity
from diglm.heads import make_head
from diglm.objectives import JointObjective
from diglm.training import NonFiniteTrainingWarning, Settings, fit
from diglm.training.loop import epochs
from diglm.training.settings import Schedule
from diglm.training.state import State
from diglm.training.step import run_epoch
from diglm.training.together import Own, run_epoch_together
from diglm.types import Batch, partition


def rows_of(n=300, dim=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    y = (x[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(np.int32)
    return Batch(x, y, np.ones(n, bool), np.ones(n))


def small_model(dim=2, seed=0):
    bijection = flows.coupling(dim, n_blocks=2, width=8, depth=1, key=jax.random.key(seed))
    return Hybrid(Flow(bijection), make_head("categorical", dim, n_classes=2))


SHORT = Settings(n_epochs=3, batch_size=64, patience=None)


def leaves(model):
    return np.concatenate([np.ravel(a) for a in jax.tree.leaves(partition(model)[0])])


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    runs = [
        leaves(
            fit(small_model(), rows_of(), objective=JointObjective(), settings=SHORT, seed=s).model
        )
        for s in (1, 1, 2)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_an_epoch_compiles_once_for_tables_of_similar_size(caplog):
    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        for n in (290, 300, 310):
            fit(small_model(), rows_of(n), objective=JointObjective(0.7), settings=SHORT)
    compiled = [
        r for r in caplog.records if "Finished XLA compilation of jit(run_epoch)" in r.getMessage()
    ]
    assert len(compiled) <= 1


def test_a_sharp_discriminative_fit_reaches_logistic_regression():
    rows = rows_of(400)
    model = Hybrid(Flow(Identity(2)), make_head("categorical", 2, n_classes=2))
    settings = Settings(
        n_epochs=400, batch_size=400, learning_rate=0.05, averaging=0.0, patience=None
    )
    head = fit(model, rows, objective=JointObjective(0.0), settings=settings).model.head
    exact = LogisticRegression(C=1e12, tol=1e-10).fit(rows.x, rows.y)
    ours = np.asarray(head.weight[1] - head.weight[0])
    assert np.allclose(ours, exact.coef_[0], rtol=1e-2)


def test_volume_weight_is_the_weighted_joint_under_a_narrower_base():
    # max over a of  -a^2/2 + v log a  for x ~ N(0, 1) is a^2 = v: the features have variance v.
    v = 0.3
    x = np.random.default_rng(0).normal(size=(2000, 1))
    x = (x - x.mean()) / x.std()
    rows = Batch(x, np.zeros(2000), np.zeros(2000, bool), np.ones(2000))
    model = Hybrid(
        Flow(Affine(jnp.zeros(1), jnp.zeros(1)), Normal(1, variance=v)), make_head("gaussian", 1)
    )
    settings = Settings(
        n_epochs=150, batch_size=2048, learning_rate=0.05, averaging=0.0, patience=None
    )
    fitted = fit(model, rows, objective=JointObjective(v), settings=settings).model
    z = jax.vmap(fitted.flow.bijection.forward)(jnp.asarray(x))
    assert np.isclose(np.var(z), v, rtol=0.03)


def test_non_finite_rows_are_skipped_counted_and_stop_with_the_last_good_state():
    rows = rows_of(256)
    x = rows.x.copy()
    x[:3] = np.inf
    settings = Settings(n_epochs=2, batch_size=16, patience=None)
    result = fit(small_model(), rows._replace(x=x), objective=JointObjective(), settings=settings)
    assert 2 <= result.skipped_steps <= 6
    assert np.all(np.isfinite(leaves(result.model)))
    everywhere = rows._replace(x=np.full_like(rows.x, np.nan))
    with (
        pytest.raises(FloatingPointError, match="never reached a finite loss"),
        pytest.warns(NonFiniteTrainingWarning),
    ):
        fit(small_model(), everywhere, objective=JointObjective(), settings=settings)


def test_the_head_may_learn_at_a_rate_of_its_own():
    settings = Settings(n_epochs=1, batch_size=300, warmup=0.0, averaging=0.0, patience=None)

    def moves(head_rate):
        before = small_model()
        now = fit(
            before,
            rows_of(),
            objective=JointObjective(),
            settings=replace(settings, head_rate=head_rate),
        ).model
        return [
            leaves(part) - leaves(old)
            for part, old in ((now.flow, before.flow), (now.head, before.head))
        ]

    (flow, head), (same_flow, slower_head) = moves(1.0), moves(0.25)
    np.testing.assert_allclose(same_flow, flow, atol=1e-12)
    np.testing.assert_allclose(slower_head, 0.25 * head, rtol=1e-9)
    assert np.all(head != 0)


def test_early_stopping_keeps_the_best_epoch():
    rows, held = rows_of(64), rows_of(64, seed=9)
    held = held._replace(y=1 - held.y)  # what is learned makes the held-out rows worse
    settings = Settings(n_epochs=40, batch_size=64, learning_rate=0.05, patience=4)
    result = fit(
        small_model(), rows, objective=JointObjective(0.0), validation=held, settings=settings
    )
    losses = [record["val_loss"] for record in result.history]
    assert result.stopped == "patience"
    assert len(losses) <= 5  # nothing is better than the start
    outputs = jax.vmap(result.model)(jnp.asarray(held.x))
    log_py = jax.vmap(lambda r, y: r.log_prob(y))(outputs.response, jnp.asarray(held.y))
    assert np.isclose(-np.mean(log_py), np.log(2), atol=1e-6) and min(losses) > np.log(2)
    kinder = held._replace(y=1 - held.y)
    result = fit(
        small_model(), rows, objective=JointObjective(0.0), validation=kinder, settings=settings
    )
    losses = [record["val_loss"] for record in result.history]
    outputs = jax.vmap(result.model)(jnp.asarray(held.x))
    log_py = jax.vmap(lambda r, y: r.log_prob(y))(outputs.response, jnp.asarray(kinder.y))
    assert np.isclose(-np.mean(log_py), min(losses), atol=1e-6)
    assert min(losses) < np.log(2)


def test_batch_norm_statistics_move_in_training_and_stand_still_after():
    rows = rows_of(256)
    rows = rows._replace(x=3.0 + 2.0 * rows.x)
    bijection = Chain(
        [
            BatchNorm(2),
            flows.coupling(2, n_blocks=1, width=4, depth=1, batch_norm=True, key=jax.random.key(0)),
        ]
    )
    model = Hybrid(Flow(bijection), make_head("categorical", 2, n_classes=2))
    settings = Settings(n_epochs=10, batch_size=32, patience=None)
    fitted = fit(model, rows, objective=JointObjective(), settings=settings).model
    assert np.allclose(fitted.flow.bijection.layers[0].mean.value, 3.0, atol=0.8)
    one = fitted(jnp.asarray(rows.x[0])).log_px
    many = jax.vmap(fitted)(jnp.asarray(rows.x[:5])).log_px[0]
    assert np.isclose(one, many)


def test_schedule_rises_falls_and_anneals():
    schedule = Schedule.of(
        Settings(learning_rate=1.0, warmup=0.1, emphasis=10.0, emphasis_share=0.5), 100
    )
    rates = [float(schedule.rate_at(jnp.asarray(float(s)))) for s in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == pytest.approx(1.0, abs=1e-3)
    assert rates[-1] == pytest.approx(0.01)
    assert np.all(np.diff(rates[11:]) <= 0)
    assert float(schedule.emphasis_at(jnp.asarray(0.0))) == pytest.approx(10.0)
    assert float(schedule.emphasis_at(jnp.asarray(25.0))) == pytest.approx(10**0.5)
    assert float(schedule.emphasis_at(jnp.asarray(99.0))) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "bad", [{"n_epochs": 0}, {"learning_rate": float("nan")}, {"averaging": 1.0}, {"patience": 0}]
)
def test_impossible_settings_name_the_setting(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Settings(**bad)


def test_no_positive_weight_is_an_error():
    rows = rows_of(8)
    with pytest.raises(ValueError, match="positive weight"):
        fit(small_model(), rows._replace(weight=np.zeros(8)), objective=JointObjective())


def test_history_has_one_record_an_epoch():
    result = fit(small_model(), rows_of(200), objective=JointObjective(), settings=SHORT)
    assert len(result.history) == 3
    assert {"loss", "log_px", "log_py", "skill", "seconds", "epoch"} <= set(result.history[0])


@pytest.mark.parametrize("together", [False, True])
def test_every_buffer_that_an_epoch_gives_away_is_used(together):
    """JAX warns of one that is not, and no thread can silence that for itself alone."""
    model = small_model()
    common, turns = epochs(model, rows_of(), JointObjective(), rows_of(50), SHORT, 0)
    state, (_, turn) = State.start(model), next(turns)
    fixed, loop = (common, turn), run_epoch
    if together:
        state = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), state)
        own = Own(jnp.ones(2), jnp.ones(2, bool), None, None)
        fixed, loop = (*fixed, own), run_epoch_together
    given = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(state)]
    taken = eqx.filter_eval_shape(loop.__wrapped__, fixed, state)
    left = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(taken)]
    for buffer in given:
        left.remove(buffer)
