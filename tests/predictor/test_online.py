"""Rows learned and unlearned one after the other, against fits to what remains."""

import copy

import numpy as np
import pytest

from diglm import HybridClassifier, HybridRegressor, load
from diglm.heads import Bayesian
from diglm.heads.bayesian.regression import Statistics, posterior
from diglm.predictor import Memory, online
from diglm.predictor.seen import mark_rows


def table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, 5 * X @ [1.0, -1.0, 0.5] + 100 + 2 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    settings = dict(n_epochs=5, reject=0.05, random_state=0, verbose=False)
    return HybridRegressor("linear", head="bayesian", **settings).fit(X, y)


def refitted(model, X, y):
    """The posterior of these rows under the model's flow and levels, afresh."""
    predictor = model.predictor_
    known, _, marks = online._read(predictor, predictor.encode(X), y, np.ones(len(y)))
    fresh = online.remembering(predictor, predictor.model.head, Memory.of(known, marks, 1.0))
    return online.weight_posterior(fresh)


def test_hundreds_of_updates_and_downdates_equal_the_refit(fitted):
    X, y = table()
    more, labels = table(200, seed=1)
    rows, targets = np.concatenate([X, more]), np.concatenate([y, labels])
    model = copy.deepcopy(fitted)
    learned = np.arange(len(rows)) < len(X)
    rng = np.random.default_rng(0)
    for turn in range(300):
        size = int(rng.integers(1, 12))
        pool = np.flatnonzero(~learned if turn % 2 == 0 else learned)
        chosen = rng.choice(pool, min(size, len(pool)), replace=False)
        (model.update if turn % 2 == 0 else model.downdate)(rows[chosen], targets[chosen])
        learned[chosen] = turn % 2 == 0
        if turn % 100 == 99:
            expected = refitted(fitted, rows[learned], targets[learned])
            np.testing.assert_allclose(model.posterior_.mean, expected.mean, atol=1e-6)
            np.testing.assert_allclose(model.posterior_.covariance, expected.covariance, atol=1e-6)
            assert np.all(np.linalg.eigvalsh(model.posterior_.covariance) > 0)


def test_random_sequences_equal_the_posterior_of_what_remains():
    """Of any length, features, scale and noise."""
    for sequence in range(400):
        rng = np.random.default_rng([7, sequence])
        n, dim = int(rng.integers(4, 60)), int(rng.integers(1, 8))
        features = rng.normal(size=(n, dim)) * 10.0 ** rng.integers(-2, 3)
        ys, weights = rng.normal(size=(n, 1)), np.ones(n)
        sums, learned = Statistics.zero(dim, 1), np.zeros(n, bool)
        for _ in range(int(rng.integers(1, 30))):
            adding = not learned.any() or (rng.random() < 0.5 and not learned.all())
            pool = np.flatnonzero(~learned if adding else learned)
            chosen = rng.choice(pool, int(rng.integers(1, len(pool) + 1)), replace=False)
            part = Statistics.of(features[chosen], ys[chosen], weights[chosen])
            sums = sums.plus(part, 1 if adding else -1)
            learned[chosen] = adding
        fresh = Statistics.of(features[learned], ys[learned], weights[learned])
        noise, precision = 10.0 ** rng.uniform(-2, 1), 10.0 ** rng.uniform(-1, 1)
        found, expected = (posterior(s, noise, precision) for s in (sums, fresh))
        scale = 1 + np.abs(expected.mean).max()
        np.testing.assert_allclose(found.mean, expected.mean, atol=1e-6 * scale)
        np.testing.assert_allclose(found.covariance, expected.covariance, atol=1e-6)
        assert np.all(np.linalg.eigvalsh(found.covariance) > 0)


def test_order_does_not_matter_and_predictions_follow(fitted):
    more, labels = table(30, seed=2)
    together, apart = copy.deepcopy(fitted), copy.deepcopy(fitted)
    together.update(more, labels)
    for i in np.random.default_rng(0).permutation(30):
        apart.update(more[[i]], labels[[i]])
    np.testing.assert_allclose(together.predict(more), apart.predict(more), atol=1e-9)
    before, after = (m.predict(more, return_std=True)[1] for m in (fitted, together))
    assert np.all(after < before)


def test_unlearning_everything_leaves_the_prior(fitted):
    X, y = table()
    model = copy.deepcopy(fitted).downdate(X, y)
    found = model.posterior_
    np.testing.assert_allclose(found.mean, [0, 0, 0, model.y_location_], atol=1e-12)
    np.testing.assert_allclose(found.covariance, np.eye(4) / found.prior_precision)


@pytest.mark.parametrize(
    "change",
    [
        lambda X, y: (X + 1, y),
        lambda X, y: (X, y + 1),
        lambda X, y: (np.concatenate([X, X]), np.concatenate([y, y])),
    ],
)
def test_rows_never_learned_cannot_be_unlearned(fitted, change):
    X, y = table()
    model = copy.deepcopy(fitted)
    before = model.posterior_.mean
    with pytest.raises(ValueError, match="has not learned"):
        model.downdate(*change(X[:3], y[:3]))
    np.testing.assert_array_equal(model.posterior_.mean, before)


def test_a_row_learned_twice_can_be_unlearned_twice(fitted):
    X, y = table()
    model = copy.deepcopy(fitted).update(X[:1], y[:1])
    model.downdate(X[:1], y[:1]).downdate(X[:1], y[:1])
    with pytest.raises(ValueError, match="1 rows"):
        model.downdate(X[:1], y[:1])


def test_weights_and_missing_targets_are_remembered():
    X, y = table(60)
    weights = np.where(np.arange(60) < 30, 1.0, 3.0)
    model = HybridRegressor("identity", head="bayesian").fit(X, y, weights)
    with pytest.raises(ValueError, match="has not learned"):
        model.downdate(X[40:], y[40:])
    model.downdate(X[40:], y[40:], weights[40:])
    before = model.posterior_.mean
    model.update(X[40:], np.full(20, np.nan))
    np.testing.assert_array_equal(model.posterior_.mean, before)


def test_saved_models_go_on_learning(fitted, tmp_path):
    X, y = table()
    fitted.save(tmp_path / "model")
    model = load(tmp_path / "model").downdate(X[:10], y[:10])
    expected = copy.deepcopy(fitted).downdate(X[:10], y[:10])
    np.testing.assert_allclose(model.posterior_.mean, expected.posterior_.mean)
    np.testing.assert_allclose(model.predict(X), expected.predict(X))


def test_information_gain_is_the_fall_of_entropy(fitted):
    more, labels = table(4, seed=3)
    gains = fitted.information_gain(more)
    for i in range(4):
        after = copy.deepcopy(fitted).update(more[[i]], labels[[i]])
        entropies = [0.5 * np.linalg.slogdet(m.posterior_.covariance)[1] for m in (fitted, after)]
        assert gains[i] == pytest.approx(entropies[0] - entropies[1], abs=1e-9)


def test_the_most_informative_rows_are_never_refused_ones(fitted):
    near, far = table(40, seed=4)[0], 50 + table(5, seed=5)[0]
    rows = np.concatenate([far, near])
    assert np.all(fitted.rejects(far))
    assert np.argmax(fitted.information_gain(rows)) < 5
    chosen = fitted.most_informative(rows, 8)
    assert len(set(chosen.tolist())) == 8
    assert not np.any(fitted.rejects(rows[chosen]))
    assert len(fitted.most_informative(far, 3)) == 0
    # The second is the best once the first is known, whatever its label.
    model = copy.deepcopy(fitted).update(rows[chosen[:1]], [90.0])
    left = np.delete(np.arange(45), [*range(5), chosen[0]])
    left = left[~fitted.rejects(rows[left])]
    assert chosen[1] == left[np.argmax(model.information_gain(rows[left]))]


def test_learning_ten_informative_rows_beats_ten_random_ones():
    pool, labels = table(400, seed=6)
    start = HybridRegressor("identity", head=Bayesian(noise=2.0), reject=None)
    start.fit(pool[:20], labels[:20])

    def left(rows):
        model = copy.deepcopy(start).update(pool[rows], labels[rows])
        return np.linalg.slogdet(model.posterior_.covariance)[1]

    rng = np.random.default_rng(0)
    random = np.mean([left(20 + rng.choice(380, 10, replace=False)) for _ in range(20)])
    assert left(20 + start.most_informative(pool[20:], 10)) < random


def test_marks_tell_rows_apart_and_not_zeros():
    values = np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0]])
    marks = mark_rows(values, np.zeros(3))
    assert marks[0] == marks[2] != marks[1]
    many = mark_rows(np.random.default_rng(0).normal(size=(100_000, 2)))
    assert len(np.unique(many)) == len(many)


def test_sums_subtract_what_they_added():
    rng = np.random.default_rng(0)
    phi, ys = rng.normal(size=(50, 4)), rng.normal(size=(50, 1))
    first = Statistics.of(phi[:30], ys[:30], np.ones(30))
    there = first.plus(Statistics.of(phi[30:], ys[30:], np.ones(20)))
    back = there.plus(Statistics.of(phi[30:], ys[30:], np.ones(20)), -1)
    np.testing.assert_allclose(
        posterior(first, 0.5, 1.0).mean, posterior(back, 0.5, 1.0).mean, atol=1e-12
    )


def test_learning_leaves_the_predictor_that_was_there_alone(fitted):
    X, y = table(5, seed=8)
    before = fitted.predictor_
    model = copy.copy(fitted)
    assert model.update(X, y) is model
    assert model.predictor_ is not before and fitted.predictor_ is before
    assert model.predictor_.encoder is before.encoder
    assert len(model.predictor_.memory.seen.marks) == len(before.memory.seen.marks) + 5
    np.testing.assert_array_equal(model.transform(X), fitted.transform(X))


def test_targets_beyond_the_range_of_fit_can_be_learned(fitted):
    X, _ = table(40, seed=9)
    model = copy.deepcopy(fitted)
    far = np.full(40, 1000.0)
    for _ in range(20):
        model.update(X, far)
    assert np.all(model.predict(X) > 800)  # the bounds of fit lie far below


def test_rows_and_targets_must_be_as_many(fitted):
    X, y = table(5)
    with pytest.raises(ValueError, match="X has 5 rows, but y has 4"):
        fitted.update(X, y[:4])
    with pytest.raises(ValueError, match="n must be a whole number of at least 1; got 0"):
        fitted.most_informative(X, 0)


FOR_CLASSES = ("information_gain", "most_informative")  # between networks of a committee, too
METHODS = ("update", "downdate", "log_evidence", "information_gain", "most_informative")


def test_other_heads_hide_what_they_lack(fitted):
    X, y = table(30)
    model = HybridRegressor("identity", head="gaussian", reject=0.1).fit(X, y)
    for name in (*METHODS, "posterior_"):
        assert hasattr(fitted, name) and not hasattr(model, name)
        assert not hasattr(HybridRegressor(head="bayesian"), name)  # before it is fitted
        assert name in FOR_CLASSES or not hasattr(HybridClassifier, name)
    with pytest.raises(AttributeError, match="'HybridRegressor' has no attribute 'update'") as told:
        model.update(X, y)
    assert "head='bayesian'; HybridRegressor has head='gaussian'" in str(told.value.__cause__)
    with pytest.raises(AttributeError, match="exact posterior of head='bayesian'"):
        _ = model.posterior_
