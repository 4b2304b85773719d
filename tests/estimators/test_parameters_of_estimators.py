"""Parameters as scikit-learn handles them: clones, searches, pickles; and objects among them."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from diglm import HybridClassifier, HybridDensity, HybridRegressor, load
from diglm.heads import Bayesian, Mixed
from diglm.recipes import CouplingFlow, Glow, LinearFlow
from diglm.refusal import AbstractScore, Conformal, Density, Minimum, RiskControl

TINY = dict(n_epochs=2, batch_size=64, random_state=0, verbose=False)
ESTIMATORS = [HybridClassifier, HybridRegressor, HybridDensity]


@dataclass
class Louder(AbstractScore):
    """The density's strangeness times a factor."""

    factor: float = 2.0

    def __call__(self, known):
        return -self.factor * known.log_px


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(iris):
    return HybridClassifier("linear", score=Louder(3.0), reject=0.1, **TINY).fit(*iris)


# ---------------------------------------------------------------- score: parameter and method


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_score_is_a_parameter_and_a_method(kind):
    model = kind(score="density")
    assert model.get_params()["score"] == "density"
    assert callable(model.score) and callable(kind.score)
    assert kind().get_params()["score"] == "auto"
    model.set_params(score="auto")
    assert model.get_params(deep=False)["score"] == "auto" and callable(model.score)
    assert clone(kind(score="density")).get_params()["score"] == "density"
    assert "score='density'" in repr(kind(score="density"))
    with pytest.raises(NotFittedError):
        model.score(np.zeros((2, 2)), np.zeros(2))


def test_a_score_of_ones_own_judges_rows_and_the_method_still_counts_right_answers(fitted, iris):
    X, y = iris
    assert fitted.score(X, y) == np.mean(fitted.predict(X) == y)
    weights = np.arange(150.0)
    right = np.average(fitted.predict(X) == y, weights=weights)
    assert fitted.score(X, y, sample_weight=weights) == pytest.approx(right)
    assert np.allclose(fitted.strangeness(X), -3 * fitted.score_samples(X))
    assert np.array_equal(fitted.rejects(X), fitted.strangeness(X) > -fitted.threshold_)


def test_a_score_and_its_parameters_survive_clones_pickles_and_searches(fitted, iris):
    X, y = iris
    deep = fitted.get_params(deep=True)
    assert deep["score"] == Louder(3.0) and deep["score__factor"] == 3.0
    copied = clone(fitted)
    assert copied.get_params()["score"] == Louder(3.0)
    assert copied.get_params()["score"] is not deep["score"]
    copied.set_params(score__factor=5.0)
    assert copied.get_params()["score__factor"] == 5.0 and deep["score"].factor == 3.0
    again = pickle.loads(pickle.dumps(fitted))
    assert again.get_params()["score"] == Louder(3.0)
    assert again.score(X, y) == fitted.score(X, y)
    assert np.array_equal(again.strangeness(X), fitted.strangeness(X))
    grid = GridSearchCV(
        HybridClassifier("linear", score=Density(), reject=0.1, **TINY),
        {"score": ["density", Louder()], "reject": [0.1, Minimum()]},
        cv=2,
    ).fit(X, y)
    assert grid.best_score_ > 0.5
    assert isinstance(grid.best_estimator_.score(X, y), float)


# ---------------------------------------------------------------- objects among parameters


def test_parameters_of_objects_are_reached_from_outside():
    model = HybridRegressor(
        CouplingFlow(base="normal"), head=Bayesian(noise=0.5), reject=Conformal(0.2)
    )
    deep = model.get_params(deep=True)
    assert (deep["flow__base"], deep["head__noise"], deep["reject__rate"]) == ("normal", 0.5, 0.2)
    assert "head__noise" not in model.get_params(deep=False)
    copied = clone(model)
    copied.set_params(flow__base="auto", head__noise="auto", reject__rate=0.3)
    assert copied.head == Bayesian() and copied.flow == CouplingFlow()
    assert model.head == Bayesian(noise=0.5) and model.reject.rate == 0.2
    with pytest.raises(ValueError, match=r"Bayesian has \[.*'noise'.*got 'nois'"):
        model.set_params(head__nois=1.0)
    assert clone(HybridClassifier(Glow(reader=48, augment=2))).flow == Glow(reader=48, augment=2)
    assert clone(HybridRegressor(head=Mixed(slopes=["a"]))).head == Mixed(slopes=["a"])


def test_parameters_of_objects_are_searched(iris):
    X, y = iris
    model = HybridRegressor(LinearFlow(), head=Bayesian(), reject=0.1, **TINY)
    grid = GridSearchCV(model, {"head__prior_precision": [1e-3, 1e6]}, cv=2).fit(X, y.astype(float))
    assert grid.best_params_ == {"head__prior_precision": 1e-3}
    assert model.head == Bayesian()


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_those_of_the_contract(kind):
    names = set(kind().get_params())
    assert {"flow", "n_blocks", "width", "depth", "n_epochs", "batch_size", "score"} <= names
    assert {"reject", "random_state", "verbose", "extra", "patience"} <= names
    assert names == set(kind.constraints)
    if kind is not HybridDensity:
        assert {"head", "generative_weight", "volume_weight", "terms", "unlabelled"} <= names


# ---------------------------------------------------------------- scikit-learn around it


def test_pipelines_grids_clones_and_pickles(iris):
    X, y = iris
    plain = HybridClassifier("linear", reject=0.1, **TINY)
    pipeline = make_pipeline(StandardScaler(), plain)
    assert len(cross_val_score(pipeline, X, y, cv=2)) == 2
    grid = GridSearchCV(plain, {"generative_weight": [0.0, 1.0]}, cv=2).fit(X, y)
    model = grid.best_estimator_
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.p_value(X), model.p_value(X))
    assert clone(model).get_params() == model.get_params()


def test_a_rule_of_ones_own_and_names_of_rules(iris):
    X, y = iris
    settings = dict(flow="linear", score="density", **TINY)
    never = HybridClassifier(reject=None, **settings).fit(X, y)
    assert not never.rejects(X + 1e6).any() and never.threshold_ == -np.inf
    paper = HybridClassifier(reject=Minimum(slack=1.0), **settings).fit(X, y)
    assert not paper.rejects(X).any()
    assert np.isclose(paper.threshold_, paper.score_samples(X).min() - 1.0)
    assert paper.predictor_.refusal.threshold.rule == "minimum"
    named = HybridClassifier(reject="minimum", **settings).fit(X, y)
    assert np.isclose(named.threshold_, paper.threshold_ + 1.0)
    share = HybridClassifier(reject="contamination", **settings).fit(X, y)
    assert share.rejects(X).sum() == 15


# ---------------------------------------------------------------- scores, rules and calibration


def test_every_score_is_asked_by_name_and_survives_files(iris, tmp_path):
    X, y = iris
    settings = dict(flow="linear", reject=0.1, **TINY)
    for name in ("auto", "class_distance", "goodness_of_fit", "energy"):
        model = HybridClassifier(score=name, **settings).fit(X, y)
        model.save(tmp_path / name)
        again = load(tmp_path / name)
        assert np.array_equal(again.strangeness(X), model.strangeness(X)), name
        copied = pickle.loads(pickle.dumps(model))
        assert np.array_equal(copied.rejects(10 * X), model.rejects(10 * X)), name
        assert model.rejects(10 * X).mean() > 0.9 or name == "energy"
    with pytest.raises(ValueError, match="cannot be had: it compares classes"):
        HybridDensity(score="entropy", flow="linear", reject=0.1, **TINY).fit(X)


def test_risk_is_controlled_through_an_estimator(iris):
    X, y = iris
    rule = RiskControl(error=0.3, confidence=0.8)
    model = HybridClassifier("linear", score="undecided", reject=rule, **TINY).fit(X, y)
    answered = ~model.rejects(X)
    assert model.predictor_.refusal.threshold.rule == "risk"
    assert answered.mean() > 0.3 and np.mean(model.predict(X)[answered] != y[answered]) < 0.3
    with pytest.raises(ValueError, match="predicts no classes"):
        HybridDensity("linear", reject=rule, **TINY).fit(X)


def test_a_threshold_is_set_anew_by_new_rows_and_strange_examples(iris):
    X, y = iris
    rng = np.random.default_rng(0)
    options = dict(score="neighbours_and_density", reject=0.1, **TINY)
    model = HybridClassifier("linear", **options).fit(X[::2], y[::2])
    before = model.threshold_
    assert model.calibrate(X[1::2]) is model and model.threshold_ != before
    assert len(model.predictor_.refusal.threshold.ranks) == 75
    strange = X[:40] + rng.normal(0, 3, (40, 4))
    model.calibrate(X[1::2], strange=strange)
    assert model.rejects(strange).mean() > 0.5 and model.rejects(X[1::2]).mean() <= 0.2
    with pytest.raises(ValueError, match="by 3 familiar rows alone, of which Conformal asks more"):
        model.calibrate(X[:3])
    density = HybridDensity("linear", score="density", reject=0.1, **TINY).fit(X)
    with pytest.raises(
        ValueError, match="score=Density has no parts that strange rows could weigh"
    ):
        density.calibrate(X, strange=strange)
