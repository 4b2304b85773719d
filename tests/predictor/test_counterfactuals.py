"""What would have to change: nearest in feature space, judged as what it became."""

import numpy as np
import pandas as pd
import pytest

from diglm import HybridClassifier, HybridRegressor
from diglm.data.toy import mixed_table

TINY = dict(n_epochs=3, batch_size=64, reject=0.05, random_state=0, verbose=False)


def test_counterfactual_of_a_class_is_the_nearest_point_that_leads(classifier, moons):
    X, _ = moons
    rows, wanted = X[:20], 1 - classifier.predict(X[:20])
    found = classifier.counterfactual(rows, wanted, margin=0.5, allow_strange=True)
    assert np.array_equal(found.prediction, wanted) and found.reached.all()
    odds = classifier.predict_log_proba(found.x)
    lead = odds[np.arange(20), wanted] - odds[np.arange(20), 1 - wanted]
    assert np.allclose(lead, 0.5, atol=1e-3)  # two classes: the bound is met exactly
    assert np.allclose(found.log_px, classifier.score_samples(found.x))
    assert np.array_equal(found.rejected, classifier.rejects(found.x))
    head = classifier.model_.head
    gap = np.asarray(head.weight[1] - head.weight[0], float)
    step = found.z - classifier.transform(rows)  # along the normal of the boundary
    assert np.allclose(found.distance, np.linalg.norm(step, axis=1))
    cosine = np.abs(step @ gap) / found.distance / np.linalg.norm(gap)
    assert np.allclose(cosine, 1, atol=1e-3)  # hence the shortest


def test_what_is_answered_so_already_stays(classifier, moons):
    X, _ = moons
    confident = X[classifier.predict_proba(X)[:, 1] > 0.95][:5]
    found = classifier.counterfactual(confident, 1, margin=0.0)
    assert np.allclose(found.x, confident, atol=1e-5) and np.allclose(found.distance, 0, atol=1e-5)


def test_counterfactual_of_a_number_predicts_it(regressor, line):
    X, _ = line
    found = regressor.counterfactual(X[:10], 7.0)
    assert np.allclose(found.prediction, 7.0, atol=1e-3) and found.reached.all()
    wanted = np.linspace(2.0, 8.0, 10)
    each = regressor.counterfactual(X[:10], wanted)
    assert np.allclose(each.prediction, wanted, atol=1e-3)
    with pytest.raises(ValueError, match="beyond what this model can predict"):
        regressor.counterfactual(X[:1], 1e9)


def test_mistakes_are_named(classifier, moons):
    X, _ = moons
    with pytest.raises(ValueError, match="margin must be a finite number >= 0; got -1"):
        classifier.counterfactual(X[:2], 1, margin=-1.0)
    with pytest.raises(ValueError, match=r"target must be one value or one a row \(3\); got 2"):
        classifier.counterfactual(X[:3], [0, 1])
    with pytest.raises(ValueError, match="Unknown class 5"):
        classifier.counterfactual(X[:3], 5)


def test_rounding_is_pushed_against_until_the_class_is_reached():
    table = mixed_table(400, 0)
    frame = pd.DataFrame(table.x)[["visits", "rating", "return"]]
    model = HybridClassifier("linear", **TINY).fit(frame, table.label)
    rows = frame[:10]
    wanted = 1 - model.predict(rows)
    found = model.counterfactual(rows, wanted, margin=0.1)
    assert np.array_equal(found.prediction, model.predict(found.x))
    assert np.array_equal(found.reached, found.prediction == wanted) and found.reached.all()
    assert list(found.x.columns) == list(frame.columns)
    assert np.all(found.x["visits"] == np.round(found.x["visits"]))


@pytest.mark.parametrize("head", ["poisson", "student_t"])
def test_other_links_are_inverted(head, line):
    X, _ = line
    y = np.random.default_rng(0).poisson(np.exp(1 + 0.4 * X[:, 0]))
    model = HybridRegressor("linear", head=head, **TINY).fit(X, y)
    found = model.counterfactual(X[:5], 3.0)
    assert np.allclose(found.prediction, 3.0, atol=0.02)


def test_a_counterfactual_is_hidden_where_no_one_predictor_decides(line):
    X, y = line
    several = HybridRegressor("identity", head="bayesian").fit(X, np.stack([y, -y], axis=1))
    assert not hasattr(several, "counterfactual")
    with pytest.raises(AttributeError, match="counterfactual"):
        several.counterfactual(X[:1], 1.0)
