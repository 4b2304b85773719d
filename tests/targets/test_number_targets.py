"""Numbers: their unit, and answers in the user's; several at once; nothing at all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from diglm.heads import head_choice, make_head
from diglm.targets import NoTarget, NumberTarget, PredictiveDistribution


def responses(n=5, name="gaussian"):
    head = make_head(name, 2)
    weight = jnp.asarray(0.5 * np.random.default_rng(0).normal(size=head.weight.shape))
    head = jax.tree.map(lambda leaf: weight if leaf is head.weight else leaf, head)
    zs = jnp.asarray(np.random.default_rng(1).normal(size=(n, 2)))
    return jax.tree.map(np.asarray, jax.vmap(head)(zs))


def target_of(y, name="gaussian", **options):
    return NumberTarget.learn(np.asarray(y, float), head_choice(name), **options)


# ---------------------------------------------------------------- targets


def test_the_unit_suits_the_head():
    y = np.array([2.0, 4.0, 6.0])
    standard = target_of(y)
    assert standard.location == 4.0 and standard.scale == pytest.approx(np.std(y))
    assert target_of(y, "poisson").unit == (0.0, 1.0)
    location, scale = target_of(y, "gamma").unit
    assert location == 0.0 and scale > 0
    for target in (standard, target_of(y, "gamma")):
        assert np.allclose(target.in_user_terms(target.in_head_terms(y)), y)
        assert np.allclose(target.read(y).ys, target.in_head_terms(y))


def test_rows_without_a_label_are_nan_or_a_value_of_ones_own():
    y = np.array([1.0, np.nan, 3.0, -99.0])
    target = target_of(y, unlabelled=-99.0)
    assert target.location == 2.0
    labels = target.read(y)
    assert labels.labelled.tolist() == [True, False, True, False]
    assert labels.ys[1] == labels.ys[3] == 0
    assert np.isnan(target.relation(labels)[[1, 3]]).all()
    assert target.strata(labels) is None
    weighed = target_of([1.0, 3.0, 500.0], weights=np.array([1.0, 1.0, 0.0]))
    assert weighed.location == 2.0


def test_the_marginal_answers_for_rows_that_are_refused():
    y, weights = np.array([1.0, 3.0, np.nan]), np.array([3.0, 1.0, 9.0])
    target = target_of(y).with_marginal(y, weights)
    assert target.mean == 1.5 and target.std == pytest.approx(np.sqrt(0.75))
    both = np.array([[1.0, 10.0], [3.0, 30.0]])
    several = NumberTarget.learn(both, head_choice("bayesian"))
    assert several.n_targets == 2
    assert np.allclose(several.with_marginal(both, np.ones(2)).mean, [2, 20])


def test_densities_are_per_unit_of_the_user():
    y, response = np.array([1.0, 2.0, 3.0, np.nan, 5.0]), responses()
    small, large = target_of(y), target_of(1000 * y)
    shift = large.log_prob(response, 1000 * y) - small.log_prob(response, y)
    assert np.isnan(shift[3]) and np.allclose(np.delete(shift, 3), -np.log(1000))
    columns = large.columns(response)
    assert tuple(columns) == large.column_names == ("prediction", "sd")
    assert np.allclose(columns["sd"], 1000 * small.columns(response)["sd"])
    errors = columns["prediction"][:3] - 1000 * y[:3]
    first = jax.tree.map(lambda leaf: leaf[:3], response)
    weights = np.array([1.0, 2.0, 3.0])
    expected = np.sqrt(np.average(errors**2, weights=weights))
    assert large.skill(first, 1000 * y[:3], weights) == pytest.approx(expected)
    assert large.with_marginal(1000 * y, np.ones(5)).reached(
        np.array([1.0, 1.0]), np.array([1.5, 900.0])
    ).tolist() == [True, False]


@pytest.mark.parametrize(
    ("y", "name", "message"),
    [
        (np.array(["a", "b"]), "gaussian", "predicts numbers; y holds str.*HybridClassifier"),
        (np.array([1.0, np.inf]), "gaussian", "infinity"),
        (np.array([1j, 2.0]), "gaussian", "predicts numbers"),
        (np.ones((3, 2)), "gaussian", r"1d array, got an array of shape \(3, 2\)"),
        (np.array([[1.0, np.nan]] * 2), "bayesian", "2 of 2 rows of y have some targets and lack"),
        (np.array([0.5]), "poisson", "whole numbers y >= 0"),
        (np.array([-1.0]), "gamma", "Positive targets are y > 0; got -1.0"),
    ],
)
def test_targets_that_are_no_numbers(y, name, message):
    with pytest.raises(ValueError, match=message):
        NumberTarget.learn(y, head_choice(name))


def test_later_targets_must_be_as_many_and_possible():
    several = NumberTarget.learn(np.ones((3, 2)) * [[1], [2], [3]], head_choice("bayesian"))
    with pytest.raises(ValueError, match="Each row has 2 targets"):
        several.read(np.ones(3))
    assert several.column_names == ("prediction_0", "sd_0", "prediction_1", "sd_1")
    counts = target_of([1.0, 2.0], "poisson")
    with pytest.raises(ValueError, match="whole numbers"):
        counts.in_head_terms(np.array([0.5]))


def test_no_target_answers_nothing():
    target = NoTarget()
    assert not target.read(np.zeros(3)).labelled.any()
    assert target.columns(responses()) == {} and target.column_names == ()
    assert target.with_marginal(np.zeros(3), np.ones(3)) is target
    with pytest.raises(ValueError, match="no target: it was fitted to rows alone"):
        target.in_head_terms(np.zeros(1))
    with pytest.raises(ValueError, match="no target"):
        target.log_prob(responses(), np.zeros(5))


# ---------------------------------------------------------------- their distributions


def test_a_distribution_answers_in_the_users_units():
    response = responses()
    dist = PredictiveDistribution(response, 10.0, 3.0)
    mean, scale = 10 + 3 * response.loc, 3 * response.scale
    expected = stats.norm(mean, scale)
    assert len(dist) == 5
    assert np.allclose(dist.mean, mean) and np.allclose(dist.std, scale)
    y = np.linspace(0, 20, 5)
    assert np.allclose(dist.log_prob(y), expected.logpdf(y))
    assert np.allclose(dist.cdf(y), expected.cdf(y))
    assert np.allclose(dist.quantile(0.3), expected.ppf(0.3))
    assert dist.quantile([0.1, 0.5, 0.9]).shape == (5, 3)
    low, high = dist.interval(0.8)
    assert np.allclose(dist.cdf(high) - dist.cdf(low), 0.8)
    drawn = dist.sample(0, 4000)
    assert drawn.shape == (4000, 5) and dist.sample(0).shape == (5,)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 5 * scale / np.sqrt(4000))
    key = jax.random.key(3)
    assert np.array_equal(dist.sample(key, 2), dist.sample(key, 2))


def test_counts_have_masses():
    dist = PredictiveDistribution(responses(name="poisson"))
    masses = np.exp([dist.log_prob(np.full(5, k)) for k in range(60)])
    assert np.allclose(masses.sum(axis=0), 1)
    assert np.allclose((masses * np.arange(60)[:, None]).sum(axis=0), dist.mean)


@pytest.mark.parametrize("level", [0, 1, -0.5, float("nan")])
def test_levels_lie_between_0_and_1(level):
    dist = PredictiveDistribution(responses())
    with pytest.raises(ValueError, match=r"level must be a number between 0 and 1; got"):
        dist.interval(level)


def test_a_percentage_is_told_how_to_be_written():
    dist = PredictiveDistribution(responses())
    with pytest.raises(ValueError, match=r"Write 95 % as 0\.95"):
        dist.interval(95.0)
    with pytest.raises(ValueError, match="Quantile levels lie between 0 and 1"):
        dist.quantile(1.5)
