"""Label shift: classifiers where classes are more or less frequent than in training."""

import numpy as np
import pytest
from scipy.special import softmax

from diglm import HybridClassifier, HybridRegressor, load
from diglm.heads import Bayesian

TINY = dict(n_epochs=5, batch_size=64, reject=0.05, random_state=0, verbose=False)
OLD, NEW = [0.6, 0.3, 0.1], [0.1, 0.2, 0.7]


def rows(n, frequencies, seed):
    """Three normals, named."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=frequencies)
    X = rng.normal(size=(n, 2)) + np.array([[0, 0], [2, 0], [0, 2]])[y]
    return X, np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def model():
    return HybridClassifier("linear", **TINY).fit(*rows(3_000, OLD, 0))


@pytest.fixture(scope="module")
def new():
    return rows(2_000, NEW, 1)


@pytest.fixture(scope="module")
def adapted(model, new):
    return model.adapt_labels(new[0])


def test_frequencies_are_found_and_answers_follow_them(model, new, adapted):
    X, y = new
    other, shift = adapted
    np.testing.assert_allclose(shift.frequencies, NEW, atol=0.05)
    assert np.all((0.005 < shift.standard_errors) & (shift.standard_errors < 0.03))
    assert shift.n_rows == 2_000 and shift.p_value < 1e-9 and "c 0." in str(shift)
    assert other.score(X, y) > model.score(X, y) + 0.1
    ratios = shift.frequencies / shift.before
    expected = model.predict_proba(X) * ratios
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(other.predict_proba(X), expected, atol=1e-9)
    np.testing.assert_array_equal(other.predict(X), other.classes_[expected.argmax(axis=1)])
    np.testing.assert_array_equal(np.asarray(other.assess(X)["prediction"]), other.predict(X))
    np.testing.assert_allclose(other.class_prior_, shift.frequencies)
    far = other.safe_predict_proba(100 + X[:2])
    np.testing.assert_allclose(far, np.tile(shift.frequencies, (2, 1)))


def test_the_model_itself_stays_as_it_was(model, adapted):
    np.testing.assert_allclose(model.class_prior_, OLD, atol=0.03)
    assert adapted.model is not model and adapted.shift.before == pytest.approx(model.class_prior_)


def test_density_and_refusals_stay_those_of_the_rows_of_fit(model, new, adapted):
    X = new[0][:50]
    np.testing.assert_array_equal(adapted.model.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(adapted.model.p_value(X), model.p_value(X))


def test_the_same_by_the_joint(model, new, adapted):
    """p(x|y) = p(x, y) / p(y), weighted by the frequencies found, gives the same answers."""
    X = new[0][:100]
    log_px_y = np.stack(
        [model.log_joint(X, np.full(100, name)) for name in model.classes_], axis=1
    ) - np.log(model.class_prior_)
    by_bayes = softmax(log_px_y + np.log(adapted.shift.frequencies), axis=1)
    np.testing.assert_allclose(adapted.model.predict_proba(X), by_bayes, atol=1e-9)


def test_adapting_again_starts_from_training(adapted, new, model):
    again = adapted.model.adapt_labels(new[0])
    np.testing.assert_allclose(again.shift.frequencies, adapted.shift.frequencies)
    back = adapted.model.adapt_labels(rows(2_000, OLD, 2)[0])
    np.testing.assert_allclose(back.shift.frequencies, OLD, atol=0.05)
    assert back.shift.p_value > 1e-4 > adapted.shift.p_value


def test_sets_hold_the_truth_where_classes_have_moved(model, new, adapted):
    X, y = new
    places = np.searchsorted(model.classes_, y)
    answered = ~model.rejects(X)
    held = adapted.model.predict_set(X, 0.9)[np.arange(len(X)), places][answered]
    assert held.mean() > 0.87
    before = model.predict_set(X, 0.9)[np.arange(len(X)), places][answered]
    assert before.mean() < 0.87


def test_a_counterfactual_obeys_the_new_frequencies(model, new, adapted):
    few = new[0][adapted.model.predict(new[0]) == "c"][:3]
    change = adapted.model.counterfactual(few, "a")
    assert np.all(change.reached) and np.all(adapted.model.predict(change.x) == "a")


def test_a_file_keeps_what_was_learned(tmp_path, new, adapted):
    adapted.model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_allclose(again.predict_proba(new[0]), adapted.model.predict_proba(new[0]))


def test_a_class_that_is_gone(model):
    X, y = rows(1_500, [0.5, 0.5, 0.0], 3)
    other, shift = model.adapt_labels(X)
    assert shift.frequencies[2] < 0.03 and other.score(X, y) >= model.score(X, y)
    assert np.all(np.isfinite(other.predict_log_proba(X)))


@pytest.mark.parametrize("weights", ["balanced", {"c": 5.0}])
def test_weights_of_classes_are_part_of_what_was_trained(new, weights):
    model = HybridClassifier("identity", class_weight=weights, **TINY).fit(*rows(3_000, OLD, 0))
    other, shift = model.adapt_labels(new[0])
    np.testing.assert_allclose(shift.frequencies, NEW, atol=0.06)
    assert shift.before[2] > 0.25 and other.score(*new) > 0.8


def test_bayesian_classes_adapt_too(new):
    X, y = rows(1_500, OLD, 0)
    model = HybridClassifier("identity", head=Bayesian(), **TINY).fit(X[y != "b"], y[y != "b"])
    kept = new[0][new[1] != "b"]
    np.testing.assert_allclose(
        model.adapt_labels(kept).shift.frequencies, [1 / 8, 7 / 8], atol=0.04
    )


def test_rows_that_are_strange_are_counted(model):
    X = rows(400, OLD, 4)[0]
    X[:200] += 50
    assert model.adapt_labels(X).shift.refused == pytest.approx(0.5, abs=0.1)


def test_only_fitted_classifiers_adapt(new):
    assert not hasattr(HybridRegressor(), "adapt_labels")
    with pytest.raises(AttributeError, match="not fitted"):
        HybridClassifier().adapt_labels(new[0])
    weights = np.ones(60)
    X, y = rows(60, [0.4, 0.3, 0.3], 5)
    weights[y == "b"] = 0
    model = HybridClassifier("linear", **TINY).fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="No row of class 'b' counted"):
        model.adapt_labels(X)
