"""Bayesian heads of classes and counts behind the estimators."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from diglm import HybridClassifier, HybridRegressor, load
from diglm.heads import Bayesian, BayesianPoisson

TINY = dict(n_epochs=5, batch_size=64, reject=0.1, random_state=0, verbose=False)


def classes(n=200, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    etas = 1.5 * X @ rng.normal(size=(2, k))
    return X, np.argmax(etas + rng.gumbel(size=(n, k)), axis=1)


@pytest.mark.parametrize("inference", ["elbo", "elbo-diagonal", "laplace", "jaakkola"])
def test_two_classes_by_every_kind_of_inference(inference):
    X, y = classes()
    options = dict(head=Bayesian(inference=inference, prior_precision=1.0))
    model = HybridClassifier("identity", random_state=0, **options).fit(X, y)
    logistic = LogisticRegression(C=1.0).fit(X, y)
    ours, theirs = model.predict_proba(X)[:, 1], logistic.predict_proba(X)[:, 1]
    np.testing.assert_allclose(ours.sum() / 200, y.mean(), atol=0.02)
    assert np.max(np.abs(ours - theirs)) < 0.06
    far = 20 * X[:5]
    assert np.all(model.predict_proba(far).max(axis=1) <= logistic.predict_proba(far).max(axis=1))


def test_many_classes(tmp_path):
    X, y = classes(200, 3)
    names = np.array(["a", "b", "c"])[y]
    model = HybridClassifier("linear", head=Bayesian(inference="laplace"), **TINY).fit(X, names)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-9)
    logistic = LogisticRegression().fit(X, names)
    assert model.score(X, names) > logistic.score(X, names) - 0.04
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict_proba(X), probabilities)
    assert model.sample(3, y="b", random_state=0).shape == (3, 2)
    found = model.counterfactual(X[:2], "c")
    assert list(found.prediction) == ["c", "c"]
    with pytest.raises(ValueError, match="for two classes"):
        HybridClassifier("identity", head=Bayesian(inference="jaakkola")).fit(X, y)


def test_the_evidence_lower_bound_of_many_classes_is_near_laplaces_answer():
    X, y = classes(80, 3)
    bound, laplace = (
        HybridClassifier(
            "identity", head=Bayesian(inference=inference, prior_precision=1.0), reject=0.1
        )
        .fit(X, y)
        .predict_proba(X)
        for inference in ("elbo", "laplace")
    )
    assert np.mean(np.abs(bound - laplace)) < 0.05


def test_averaging_over_weights_helps_where_rows_are_few():
    gains = []
    for seed in range(7):
        X, y = classes(14, 2, seed)
        X_new, y_new = classes(400, 2, seed)  # the same weights, other draws follow the first ones
        if len(np.unique(y)) < 2:
            continue
        averaged = HybridClassifier("identity", head=Bayesian(inference="laplace")).fit(X, y)
        point = HybridClassifier("identity").fit(X, y)
        scores = [
            np.mean(np.log(np.clip(m.predict_proba(X_new), 1e-9, 1)[np.arange(400), y_new]))
            for m in (averaged, point)
        ]
        gains.append(scores[0] - scores[1])
    assert np.median(gains) > 0.1


@pytest.mark.parametrize("inference", ["elbo", "elbo-diagonal", "laplace"])
def test_counts(inference):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = rng.poisson(np.exp(X @ [0.5, -0.3] + 1))
    options = dict(random_state=0, verbose=False)
    model = HybridRegressor("identity", head=BayesianPoisson(inference=inference), **options)
    model.fit(X, y)
    plain = HybridRegressor("identity", head="poisson", **options).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, plain.predict(X), rtol=0.2)
    assert np.all(std > np.sqrt(mean) * 0.999)
    assert model.sample(2, y=3, random_state=0).shape == (2, 2)
    with pytest.raises(ValueError, match="whole numbers"):
        model.fit(X, y + 0.5)
