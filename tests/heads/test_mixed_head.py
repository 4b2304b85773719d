"""The head with effects of groups: what it answers for groups, and what it hands to its core."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from group_samples import grouped
from scipy import integrate, stats

from diglm.heads import Categorical, ConjugateHead, Features, MixedHead, VariationalHead
from diglm.heads.bayesian.effects import MixedEffects, fit_mixed

N_GROUPS = 8


def inner_of(kind):
    return ConjugateHead(1) if kind == "gaussian" else VariationalHead(kind, 1, method="laplace")


def rows_of(kind, *, seed=0, slopes=False):
    """Features, targets and groups of a table, its groups' effects being of its targets."""
    x, codes, y = grouped(N_GROUPS, 12, seed)
    z = (x - 3) / 2
    y = (y - y.mean()) / y.std()
    if kind == "binary":
        y = (np.random.default_rng(seed).logistic(size=len(y)) < y).astype(np.int32)
    elif kind == "poisson":
        y = np.random.default_rng(seed).poisson(np.exp(0.5 * y)).astype(float)
    design = np.stack([np.ones_like(z), z], axis=1) if slopes else np.ones((len(z), 1))
    return Features(z[:, None], y, np.ones(len(z)), design, codes)


def settled(kind, rows, **options):
    head = MixedHead(inner_of(kind), kind, n_groups=N_GROUPS, **options)
    head = head.start(jnp.asarray(rows.y), jnp.asarray(rows.weight))
    return head.settle(rows, rows.take(np.arange(0)), exact=True).head


def by_hand(found: MixedEffects, row: Features):
    """Mean and variance of the one row's predictor, from what was learned of its group."""
    phi, u, code = np.append(row.z[0], 1.0), row.design[0], int(row.codes[0])
    cov_fixed = found.fixed_factor.T @ found.fixed_factor
    if code < 0:  # a group drawn from the population: its effects have their covariance
        return phi @ found.fixed, phi @ cov_fixed @ phi + u @ found.covariance @ u
    # Effects and shared weights are known together: a = a_hat - C (b - b_hat) + noise.
    shared = phi - found.carry[code].T @ u
    mean = phi @ found.fixed + u @ found.effects[code]
    return mean, shared @ cov_fixed @ shared + u @ found.inner[code] @ u


ASKED = [(0.3, 2), (-1.5, 5), (4.0, 0), (0.3, -1)]


@pytest.mark.parametrize("slopes", [False, True])
@pytest.mark.parametrize("kind", ["gaussian", "binary", "poisson"])
def test_answers_for_groups_are_those_of_the_effects_by_hand(kind, slopes):
    rows = rows_of(kind, slopes=slopes)
    head = settled(kind, rows)
    phi = np.concatenate([rows.z, np.ones((len(rows.z), 1))], axis=1)
    found = fit_mixed(
        kind, phi, rows.design, rows.codes, rows.y.astype(float), rows.weight, n_groups=N_GROUPS
    )
    for ours, theirs in zip(head.effects, found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    z = np.array([[at] for at, _ in ASKED])
    design = np.concatenate([np.ones_like(z), z], axis=1)[:, : rows.design.shape[1]]
    codes = np.array([code for _, code in ASKED])
    asked = Features(z, np.zeros(4), np.zeros(4), design, codes)
    response = head.of_groups(asked)
    for i in range(4):
        mean, variance = by_hand(found, asked.take(np.array([i])))
        if kind == "gaussian":
            mean = np.clip(mean, float(head.eta_low.value[0]), float(head.eta_high.value[0]))
            np.testing.assert_allclose(response.mean[i], mean, rtol=1e-9)
            np.testing.assert_allclose(response.variance[i], found.noise + variance, rtol=1e-9)
        elif kind == "poisson":
            np.testing.assert_allclose(response.mean[i], np.exp(mean + variance / 2), rtol=1e-9)
        else:
            density, sd = stats.norm(mean, variance**0.5).pdf, variance**0.5
            ends = mean - 12 * sd, mean + 12 * sd
            p, _ = integrate.quad(lambda e, f=density: f(e) / (1 + np.exp(-e)), *ends)
            assert isinstance(response, Categorical)
            np.testing.assert_allclose(response.mean[i], [1 - p, p], atol=1e-4)


@pytest.mark.parametrize("kind", ["gaussian", "binary", "poisson"])
def test_a_group_never_seen_is_what_the_core_answers(kind):
    """Training, samples and counterfactuals are about a group drawn from the population."""
    rows = rows_of(kind)
    head = settled(kind, rows)
    z = np.array([[0.3], [-1.0]])
    asked = Features(z, np.zeros(2), np.zeros(2), np.ones((2, 1)), np.full(2, -1))
    unseen, population = head.of_groups(asked), jax.vmap(head)(jnp.asarray(z))
    # Of classes and counts the core's own average over weights is another quadrature.
    tolerance = 1e-6 if kind == "gaussian" else 5e-3
    np.testing.assert_allclose(unseen.mean, population.mean, rtol=tolerance)
    np.testing.assert_allclose(unseen.variance, population.variance, rtol=max(tolerance, 1e-6))
    assert head.core is head.inner
    np.testing.assert_allclose(head.weight, head.core.weight)


def test_training_sees_the_core_alone():
    rows = rows_of("gaussian")
    head = MixedHead(ConjugateHead(1), "gaussian", n_groups=N_GROUPS)
    head = head.start(jnp.asarray(rows.y), jnp.asarray(rows.weight))
    z = jnp.asarray([0.4])
    assert eqx.tree_equal(head(z), head.core(z))
    assert eqx.tree_equal(head.in_training(z), head.core.in_training(z))
    assert head.penalty() == head.core.penalty()
    np.testing.assert_array_equal(head.linear_predictor(z), head.core.linear_predictor(z))
    begun = head.begin(rows, rows, exactly=False)
    assert eqx.tree_equal(begun.core, head.core.refit(*rows[:3]))
    other = ConjugateHead(1, noise=0.1)
    assert eqx.tree_equal(head.around(other).core, other)
    assert head.around(other).n_groups == N_GROUPS
    assert head.eta_for_mean(2.0) == 2.0 and head.log_prob_bound(1.0) is None
    poisson = MixedHead(VariationalHead("poisson", 1), "poisson", n_groups=3)
    np.testing.assert_allclose(poisson.log_prob_bound(0.0), 0.0)


@pytest.mark.parametrize("kind", ["gaussian", "binary", "poisson"])
def test_effects_of_numbers_are_taken_from_the_targets_and_no_others(kind):
    rows = rows_of(kind, slopes=True)
    head = MixedHead(inner_of(kind), kind, n_groups=N_GROUPS)
    asked = rows.take(np.arange(5))._replace(codes=np.array([-1, 0, 1, 2, 3]))
    expected = head.explained(rows, asked)
    if kind != "gaussian":
        assert expected is None
        return
    found = settled(kind, rows).effects
    by_group = [asked.design[i] @ found.effects[i - 1] for i in range(1, 5)]
    np.testing.assert_allclose(expected[1:], by_group, rtol=1e-9)
    assert expected[0] == 0  # nothing is expected of a group never seen


def test_noise_that_was_given_stays():
    head = settled("gaussian", rows_of("gaussian"), noise=0.3)
    assert head.effects.noise == pytest.approx(0.3)


@pytest.mark.parametrize("kind", ["gaussian", "binary"])
def test_held_out_rows_say_how_far_to_trust_the_effects(kind):
    """Rows of weight much like the others leave it be; rows that scatter more widen it."""
    train, held = rows_of(kind), rows_of(kind, seed=1)
    head = MixedHead(inner_of(kind), kind, n_groups=N_GROUPS)
    head = head.start(jnp.asarray(train.y), jnp.asarray(train.weight))
    wild = held._replace(y=1 - held.y if kind == "binary" else 3 * held.y)
    plain = head.settle(train, held.take(np.arange(10)), exact=False).head  # too few to tell
    wide = head.settle(train, wild, exact=False).head
    if kind == "gaussian":
        both = train.plus(wild)
        phi = np.concatenate([both.z, np.ones((len(both.z), 1))], axis=1)
        found = fit_mixed(
            kind, phi, both.design, both.codes, both.y, both.weight, n_groups=N_GROUPS
        )
        assert wide.effects.noise > 1.2 * found.noise and wide.widening.value == 1
    else:
        assert plain.widening.value == 1 and wide.widening.value > 1.2


def test_what_cannot_be_answered_is_said():
    rows = rows_of("gaussian")
    head = MixedHead(ConjugateHead(1), "gaussian", n_groups=N_GROUPS)
    with pytest.raises(ValueError, match="known after a fit, not before"):
        head.of_groups(rows)
    with pytest.raises(ValueError, match="needs the group of each row"):
        head.settle(rows._replace(design=None), rows._replace(design=None), exact=True)
    with pytest.raises(ValueError, match="fitted without groups"):
        ConjugateHead(1).of_groups(rows)
    with pytest.raises(ValueError, match="No row has a label, a weight and a group"):
        settled("gaussian", rows._replace(weight=np.zeros(len(rows.weight))))
