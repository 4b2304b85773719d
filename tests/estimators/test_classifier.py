"""HybridClassifier on small tables: probabilities, densities, classes, weights, the same seed."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression

from diglm import HybridClassifier

TINY = dict(n_epochs=4, batch_size=64, reject=0.05, random_state=0, verbose=False)


def test_classifier_tells_the_moons_apart_and_probabilities_sum_to_one(classifier, moons):
    X, y = moons
    probabilities = classifier.predict_proba(X)
    assert classifier.score(X, y) > 0.95
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert np.allclose(np.exp(classifier.predict_log_proba(X)), probabilities)
    assert np.array_equal(
        classifier.predict(X), classifier.classes_[np.argmax(probabilities, axis=1)]
    )
    logits = classifier.decision_function(X, raw=True)
    assert np.allclose(classifier.decision_function(X), logits[:, 1] - logits[:, 0])
    assert np.allclose(log_softmax(logits, axis=1), classifier.predict_log_proba(X))


def test_density_of_a_fitted_plane_integrates_to_one(classifier, moons):
    X, _ = moons
    low, high = X.min(axis=0) - 6, X.max(axis=0) + 6
    sides = [np.linspace(a, b, 700) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*sides), -1).reshape(-1, 2)
    cell = np.prod([side[1] - side[0] for side in sides])
    assert abs(np.exp(classifier.score_samples(grid)).sum() * cell - 1) < 1e-3


def test_log_joint_is_the_sum_of_its_parts(classifier, moons):
    X, y = moons
    log_py = classifier.predict_log_proba(X)[np.arange(len(y)), y]
    assert np.allclose(classifier.log_joint(X, y), classifier.score_samples(X) + log_py)


# ---------------------------------------------------------------- refusal


def test_strange_rows_are_refused_and_answered_with_the_prior(classifier, moons):
    X, y = moons
    strange = X + 30.0
    refused = classifier.rejects(X)
    assert refused.mean() < 0.1
    assert classifier.rejects(strange).all()
    assert np.allclose(classifier.safe_predict_proba(strange), np.bincount(y) / len(y), atol=1e-6)
    safe = classifier.safe_predict_proba(X)
    assert np.array_equal(safe[~refused], classifier.predict_proba(X)[~refused])
    assert np.array_equal(refused, classifier.strangeness(X) > -classifier.threshold_)
    assert np.array_equal(refused, classifier.p_value(X) <= 0.05)


def test_assess_is_one_table_of_the_callers_kind(classifier, moons):
    X, _ = moons
    table = classifier.assess(X)
    columns = ["prediction", "probability", "log_px", "strangeness", "p_value", "rejected"]
    assert list(table.columns) == columns == list(classifier.predictor_.column_names)
    assert np.allclose(table["log_px"], classifier.score_samples(X))
    assert np.allclose(table["strangeness"], classifier.strangeness(X))
    assert np.array_equal(table["prediction"], classifier.predict(X))
    assert np.array_equal(table["rejected"], classifier.rejects(X))
    assert np.allclose(table["p_value"], classifier.p_value(X))
    assert np.allclose(table["probability"], classifier.predict_proba(X).max(axis=1))


# ---------------------------------------------------------------- classes and weights


def test_without_a_flow_the_classifier_is_logistic_regression():
    X, y = make_classification(400, 4, n_informative=3, n_redundant=0, flip_y=0.2, random_state=0)
    ours = HybridClassifier(
        "identity", generative_weight=0.0, validation_fraction=0.0, random_state=0, verbose=False
    ).fit(X, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y)
    assert ours.stopped_ == "exact"
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


def test_strings_and_booleans_are_classes(moons):
    X, y = moons
    names = np.where(y == 1, "upper", "lower")
    model = HybridClassifier("linear", **TINY).fit(X, names)
    assert set(model.predict(X)) <= {"upper", "lower"}
    assert model.sample(3, y="upper", random_state=0).shape == (3, 2)
    with pytest.raises(ValueError, match="Unknown class 'left'"):
        model.log_joint(X[:1], ["left"])
    assert HybridClassifier("linear", **TINY).fit(X, y == 1).classes_.tolist() == [False, True]


def test_unlabelled_rows_are_opt_in(moons):
    X, y = moons
    labels = np.where(np.arange(len(y)) < 60, y, -1)
    model = HybridClassifier("linear", unlabelled=-1, **TINY).fit(X, labels)
    assert model.classes_.tolist() == [0, 1]
    assert np.isnan(model.log_joint(X, labels)).sum() == len(y) - 60
    with pytest.warns(UserWarning, match="class -1"):
        plain = HybridClassifier("linear", **TINY).fit(X, labels)
    assert plain.classes_.tolist() == [-1, 0, 1]


def test_sample_weight_and_class_weight_shift_the_answer():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = (rng.random(600) < 0.2).astype(int)  # labels without relation to X

    def mean_of(weight=None, **options):
        model = HybridClassifier("linear", **TINY | dict(n_epochs=10) | options)
        return model.fit(X, y, sample_weight=weight).predict_proba(X)[:, 1].mean()

    assert abs(mean_of() - 0.2) < 0.06
    assert abs(mean_of(class_weight="balanced") - 0.5) < 0.1
    assert abs(mean_of(class_weight={1: 4.0}) - 0.5) < 0.1
    assert abs(mean_of(np.where(y == 1, 4.0, 1.0)) - 0.5) < 0.1


def test_rows_of_weight_zero_do_not_matter():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y, weight = X[order], y[order], np.r_[np.ones(120), np.zeros(30)]
    changed = X.copy()
    changed[120:] *= 50
    first = HybridClassifier("linear", **TINY).fit(X, y, sample_weight=weight)
    second = HybridClassifier("linear", **TINY).fit(changed, y, sample_weight=weight)
    assert np.array_equal(first.predict_proba(X[:10]), second.predict_proba(X[:10]))
    assert np.array_equal(first.score_samples(X[:10]), second.score_samples(X[:10]))
    assert first.threshold_ == second.threshold_


def test_the_same_seed_gives_the_same_model(moons):
    X, y = moons
    first, second = (HybridClassifier("linear", **TINY).fit(X, y) for _ in range(2))
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
    assert first.threshold_ == second.threshold_
    other = HybridClassifier("linear", **TINY | dict(random_state=1)).fit(X, y)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))


def test_discriminative_and_volume_weighted_models_fit(moons):
    X, y = moons
    sharp = HybridClassifier("linear", generative_weight=0.0, **TINY).fit(X, y)
    assert np.all(np.isfinite(sharp.score_samples(X)))
    narrow = HybridClassifier("linear", volume_weight=0.2, **TINY).fit(X, y)
    assert narrow.model_.flow.base.variance == 0.2
    assert np.all(np.isfinite(narrow.score_samples(X)))


def test_entropy_and_virtual_adversarial_terms_change_the_fit(moons):
    X, y = moons
    labels = np.where(np.arange(len(y)) % 3 == 0, y, -1)
    options = dict(unlabelled=-1, **TINY)
    plain = HybridClassifier("linear", **options).fit(X, labels)
    helped = HybridClassifier("linear", entropy_weight=1.0, vat_weight=0.1, **options)
    helped.fit(X, labels)
    assert not np.allclose(helped.predict_proba(X), plain.predict_proba(X))
    named = HybridClassifier("linear", terms={"entropy": 1.0, "vat": 0.1}, **options)
    assert np.array_equal(named.fit(X, labels).predict_proba(X), helped.predict_proba(X))
