"""A head's way through a fit: rows as it sees them, a start, and what held-out rows decide."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from head_samples import DIM, NAMES, build, data, respond

from diglm import heads
from diglm.heads import ConjugateHead, Features, VariationalHead
from diglm.heads.base import ROWS_FOR_START
from diglm.heads.calibration import (
    FEWEST_TO_CALIBRATE,
    Judged,
    best_factor,
    calibrated,
    least_spreads,
    log_likelihood,
    widened,
)

NONE = np.arange(0)


def features(name, rows=300):
    zs, ys = data(name, rows)
    return Features(zs, ys, np.ones(rows))


def divided(name, n_train=300, n_held_out=300):
    """Rows to train on, and others like them."""
    rows = features(name, n_train + n_held_out)
    return rows.take(np.arange(n_train)), rows.take(np.arange(n_train, n_train + n_held_out))


def started(name, rows, **options):
    return build(name, **options).start(rows.y, rows.weight)


# Rows


def test_rows_are_taken_put_together_and_known():
    rows = features("gaussian", 6)._replace(weight=np.array([1.0, 0, 2, 0, 0, 1]))
    known = rows.known()
    np.testing.assert_array_equal(known.y, rows.y[[0, 2, 5]])
    assert known.design is None and known.codes is None
    np.testing.assert_array_equal(rows.take(rows.weight > 0).z, known.z)
    grouped = rows._replace(design=np.ones((6, 1)), codes=np.arange(6))
    both = grouped.take(np.array([0, 1])).plus(grouped.take(np.array([4])))
    np.testing.assert_array_equal(both.codes, [0, 1, 4])
    assert len(both.z) == len(both.y) == len(both.weight) == len(both.design) == 3
    assert grouped.plus(rows).codes is None  # where one side has no groups, both have none


# Starts


@pytest.mark.parametrize("name", NAMES)
def test_a_start_is_a_penalised_fit_and_an_exact_one_is_not(name):
    rows, judged = divided(name, 300, 100)
    head = started(name, rows)
    begun = head.begin(rows, judged, exactly=False)
    zs, ys, weights = (jnp.asarray(part) for part in rows[:3])
    before, after = (float(log_likelihood(h, zs, ys, weights)) for h in (head, begun))
    assert after > before + 1
    assert begun.l2.value == 1.0  # training goes on with the weakest prior
    if name == "mixture":
        return
    exact = head.begin(rows, judged, exactly=True)
    plain = heads.fit_head(build(name), rows.z, rows.y)
    np.testing.assert_allclose(exact.weight, plain.weight, atol=2e-4)
    assert exact.l2.value == 0.0


def test_the_prior_of_a_start_is_the_one_that_suits_the_judged_rows():
    rng = np.random.default_rng(0)
    zs, noise = rng.normal(size=(40, 30)), rng.normal(size=40)
    rows = Features(zs, noise, np.ones(40))  # nothing to learn: the strongest prior is best
    judged = Features(rng.normal(size=(200, 30)), rng.normal(size=200), np.ones(200))
    head = heads.GaussianHead(30).start(rows.y, rows.weight)
    shrunk = head.begin(rows, judged, exactly=False)
    by_hand = heads.fit_head(head, zs, noise, l2=100.0, max_steps=30, tolerance=1e-5)
    np.testing.assert_allclose(shrunk.weight, by_hand.weight, atol=1e-3)


def test_a_start_that_is_not_finite_or_too_large_is_not_taken():
    rows = features("poisson")
    head = started("poisson", rows)
    assert head.begin(rows.take(NONE), rows, exactly=False) is head
    wide = heads.CategoricalHead(600, 9)  # 5400 weights
    many = Features(np.zeros((10, 600)), np.zeros(10, int), np.ones(10))
    assert wide.begin(many, many, exactly=False) is wide
    broken = rows._replace(z=np.full_like(rows.z, np.inf))
    begun = head.begin(broken, broken.take(NONE), exactly=False)
    assert eqx.tree_equal((begun.weight, begun.bias), (head.weight, head.bias))


def test_fewer_rows_settle_the_start_of_a_spread():
    assert heads.GaussianHead(2).rows_for_start(10**6) == ROWS_FOR_START
    assert heads.HeteroscedasticHead(2).rows_for_start(10**6) == ROWS_FOR_START // 2
    assert heads.GaussianHead(2).rows_for_start(7) == 7
    assert heads.GaussianHead(2).only_held_out and not heads.StudentTHead(2).only_held_out
    assert not ConjugateHead(2).only_held_out


# Calibration


@pytest.mark.parametrize("name", sorted({*NAMES} - {"poisson"}))
def test_overconfidence_is_found_out_by_held_out_rows(name):
    rows, held_out = divided(name, 300, 2000)
    fitted = heads.fit_head(build(name), rows.z, rows.y, l2=1.0)
    sure = fitted.calibrated(0.5)
    factor = float(best_factor(sure, held_out))
    assert 1.4 < factor < 2.9
    assert 0.7 < float(best_factor(fitted, held_out)) < 1.4
    zs, ys, weights = (jnp.asarray(part) for part in held_out[:3])
    after = log_likelihood(calibrated([sure], Judged.alone(held_out))[0], zs, ys, weights)
    assert after > log_likelihood(sure, zs, ys, weights)


def test_few_rows_decide_nothing():
    rows = features("gaussian", FEWEST_TO_CALIBRATE)
    head = heads.fit_head(build("gaussian"), rows.z, rows.y)
    assert best_factor(head, rows) is not None
    few = rows._replace(weight=np.where(np.arange(len(rows.y)) > 0, 1.0, 0.0))
    assert best_factor(head, few) is None
    assert calibrated([head], Judged.alone(few)) == [head]


def test_rows_without_weight_do_not_calibrate():
    rows = features("gaussian", 400)
    head = heads.fit_head(build("gaussian"), rows.z, rows.y)
    spoilt = rows.plus(Features(rows.z, np.full(400, np.nan), np.zeros(400)))
    np.testing.assert_allclose(best_factor(head, spoilt), best_factor(head, rows))


@pytest.mark.parametrize("name", NAMES)
def test_settling_calibrates_unless_nothing_else_was_fitted(name):
    rows, held_out = divided(name)
    head = heads.fit_head(build(name), rows.z, rows.y, l2=1.0)
    assert head.settle(rows, held_out, exact=True) == (head, None)
    settled, sums = head.settle(rows, held_out, exact=False)
    assert sums is None
    if head.family.spreads:  # no spread below what one training row in 200 has
        spreads = list(head.family.spreads)
        etas = rows.z @ np.asarray(head.weight).T[:, spreads] + np.asarray(head.bias)[spreads]
        least = np.quantile(etas, 0.005, axis=0)
        places = np.array(spreads)
        held = eqx.tree_at(
            lambda h: h.eta_low.value, head, head.eta_low.value.at[places].set(least)
        )
        shift = np.asarray(widened([held], Judged.alone(held_out))[0].bias - head.bias)[places]
        np.testing.assert_allclose(settled.eta_low.value[places], least + shift, rtol=1e-6)
    else:
        judge = calibrated if head.family.of_classes else widened
        assert eqx.tree_equal(settled, judge([head], Judged.alone(held_out))[0])


def factor_of(sd, n):
    """By how much a normal of deviation one is widened for n rows that scatter by exactly `sd`."""
    rows = Features(np.zeros((n, DIM)), sd * np.resize([1.0, -1.0], n), np.ones(n))
    head = heads.GaussianHead(DIM)
    (after,) = widened([head], Judged.alone(rows))
    return float(np.exp(after.family.log_scale() - head.family.log_scale()))


def test_a_spread_is_widened_by_what_rows_say_and_by_what_they_leave_open():
    np.testing.assert_allclose(factor_of(1.5, 4000), 1.5, rtol=0.01)
    assert 1.0 < factor_of(1.0, 4000) < 1.01  # many rows leave nothing open
    assert 1.08 < factor_of(1.0, 12) < 1.25  # a t of 12 degrees of freedom is wider by a tenth
    assert factor_of(1.0, 6) > factor_of(1.0, 12)
    assert factor_of(0.5, 10) > 0.75  # few rows that scatter less do not make sure
    assert factor_of(1.0, 4) == 1.0  # too few to say anything


def test_the_prior_of_a_start_is_chosen_by_folds_where_few_rows_are_judged():
    rng = np.random.default_rng(0)
    noise = Features(rng.normal(size=(48, 8)), rng.normal(size=48), np.ones(48))
    none = noise.take(NONE)
    head = heads.StudentTHead(8).start(noise.y, noise.weight)
    shrunk, weak = head.begin(noise, none, exactly=False), heads.fit_head(head, *noise[:2], l2=1.0)
    assert np.sum(np.square(shrunk.weight)) < 0.2 * np.sum(np.square(weak.weight))
    clear = noise._replace(y=noise.z[:, 0] + 0.1 * noise.y)
    kept = heads.GaussianHead(8).start(clear.y, clear.weight).begin(clear, none, exactly=False)
    np.testing.assert_allclose(kept.weight[0, 0], 1.0, atol=0.1)


def test_bounds_of_spreads_need_rows():
    etas, low, high = np.linspace(-3, 3, 1000)[:, None], np.array([-2.5]), np.array([9.0])
    np.testing.assert_allclose(least_spreads(etas, low, high), [-2.5])  # never below the old bound
    assert least_spreads(etas, low - 9, high)[0] == pytest.approx(-2.97, abs=1e-3)
    assert least_spreads(etas[:199], low, high) is None
    assert least_spreads(np.zeros((1000, 0)), low[:0], high[:0]) is None


# Heads with random weights


def test_a_conjugate_head_settles_on_all_rows_and_keeps_their_sums():
    train, held_out = divided("gaussian", 300, 100)
    both = train.plus(held_out)
    head = ConjugateHead(DIM).start(jnp.asarray(train.y), jnp.asarray(train.weight))
    settled, sums = head.settle(train, held_out, exact=True)
    expected = head.statistics(*both[:3])
    for ours, theirs in zip(sums, expected, strict=True):
        np.testing.assert_allclose(ours, theirs)
    np.testing.assert_allclose(settled.mean, head.refit(*both[:3]).mean, rtol=1e-6)
    # Held-out rows that scatter more than the others decide the noise, not the evidence.
    wild = held_out._replace(y=held_out.y + 4 * np.random.default_rng(2).normal(size=100))
    alone, judged = (head.settle(train, wild, exact=exact).head for exact in (True, False))
    assert float(judged.noise[0]) > 1.5 * float(alone.noise[0])
    kept = ConjugateHead(DIM, noise=0.7).start(jnp.asarray(train.y), jnp.asarray(train.weight))
    np.testing.assert_allclose(kept.settle(train, wild, exact=False).head.noise, 0.49)
    frozen = head.frozen().settle(train, held_out, exact=True).head
    assert eqx.tree_equal(frozen, settled)  # it is trained again where it was not


def test_a_variational_head_settles_on_all_rows_at_a_temperature():
    train, held_out = divided("bernoulli", 300, 200)
    both = train.plus(held_out)
    head = VariationalHead("binary", DIM, method="laplace")
    head = head.start(jnp.asarray(train.y), jnp.asarray(train.weight))
    exact, sums = head.settle(train, held_out, exact=True)
    assert sums is None
    np.testing.assert_allclose(exact.mean, head.refit(*both[:3]).mean)
    contrary = held_out._replace(y=1 - held_out.y)
    cooled = head.settle(train, contrary, exact=False).head
    warmth = best_factor(head.refit(*train[:3]), contrary)
    assert float(warmth) > 2
    wanted = head.refit(*train.plus(contrary)[:3]).calibrated(warmth)
    np.testing.assert_allclose(cooled.mean, wanted.mean)


def test_a_bayesian_head_may_be_told_what_it_knows():
    mean, covariance = np.array([0.3, -0.2, 1.0, 0.1]), np.diag([0.1, 0.2, 0.3, 0.4])
    told = ConjugateHead(DIM).knowing(mean, covariance, 0.25)
    response = told(jnp.ones(DIM))
    np.testing.assert_allclose(response.mean, mean.sum())
    np.testing.assert_allclose(response.variance, 0.25 + 1.0)
    head = VariationalHead("poisson", DIM).start(jnp.asarray([1.0, 9.0]), jnp.ones(2))
    told = head.knowing(mean, covariance, 1.0)
    np.testing.assert_allclose(told.linear_predictor(jnp.ones(DIM)), [mean.sum()])
    np.testing.assert_allclose(told.uncertainty(jnp.ones(DIM)), [1.0])


# Asked the other way round


def test_weights_bias_and_scale_of_what_is_normal_and_linear():
    rows = features("gaussian")
    head = heads.fit_head(build("gaussian"), rows.z, rows.y)
    weight, bias, scale = head.linear_gaussian()
    response = respond(head, rows.z[:4])
    np.testing.assert_allclose(rows.z[:4] @ weight + bias, response.mean)
    np.testing.assert_allclose(jnp.full(4, scale), response.scale)
    for name in sorted({*NAMES} - {"gaussian"}):
        assert build(name).linear_gaussian() is None
    assert [name for name in NAMES if not build(name).inverts_mean] == [
        "hurdle",
        "mixture",
        "zero_inflated",
    ]
    assert ConjugateHead(2).inverts_mean and not ConjugateHead(2, n_targets=2).inverts_mean


def test_skill_is_being_right_or_the_squared_error():
    logits = jnp.array([0.0, 2.0, 1.0])
    assert heads.Categorical(logits).skill(jnp.array(1)) == 1
    assert heads.Categorical(logits).skill(jnp.array(2)) == 0
    wide = heads.AverageCategorical(logits, jnp.ones(3))
    assert wide.skill(jnp.array(1)) == 1
    assert heads.Gaussian(jnp.array(2.0), jnp.array(1.0)).skill(jnp.array(5)) == 9
    several = heads.Gaussians(jnp.array([2.0, 0.0]), jnp.ones(2))
    assert several.skill(jnp.array([3.0, 3.0])) == 5


def test_divergences_between_responses():
    p, q = (heads.Categorical(jnp.asarray(a)) for a in ([0.0, 1.0, 2.0], [1.0, 0.0, 0.5]))
    expected = jnp.sum(p.mean * (jnp.log(p.mean) - jnp.log(q.mean)))
    np.testing.assert_allclose(p.divergence(q), expected, rtol=1e-9)
    assert p.divergence(p) == 0
    a, b = (heads.Gaussian(jnp.array(loc), jnp.array(2.0)) for loc in (1.0, 4.0))
    np.testing.assert_allclose(a.divergence(b), 9 / 8)
    slope = jax.grad(lambda loc: heads.Gaussian(loc, jnp.array(2.0)).divergence(b))(jnp.array(4.0))
    assert slope == 0
