"""Wrong inputs: a clear error, or a finite, refused answer; never a silent NaN."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from diglm import HybridClassifier, HybridRegressor
from diglm.heads import Bayesian
from diglm.recipes import CouplingFlow
from diglm.refusal import Minimum

TINY = dict(n_epochs=3, batch_size=64, reject=0.05, random_state=0, verbose=False)
SMALL = dict(n_blocks=2, width=8, **TINY)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return X, (X[:, 0] > 0).astype(int), X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=200)


@pytest.fixture(scope="module")
def classifier(table):
    return HybridClassifier(**SMALL).fit(table[0], table[1])


@pytest.fixture(scope="module")
def regressor(table):
    return HybridRegressor(**SMALL).fit(table[0], table[2])


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda X: np.where(np.arange(3) == 1, np.inf, X), ValueError, "infinity|infinite"),
        (lambda X: X[:0], ValueError, "0 sample"),
        (lambda X: X[:, :0], ValueError, "0 feature"),
        (lambda X: X[:, 0], ValueError, "Reshape your data"),
        (lambda X: X[None], ValueError, "dim 3|add an axis"),
        (lambda X: X + 1j, ValueError, "Complex data not supported"),
        (lambda X: sparse.csr_matrix(X), TypeError, "Sparse data"),
        (lambda X: "a table", ValueError, "array|table|2D"),
    ],
)
@pytest.mark.parametrize("kind", ["fit", "predict"])
def test_no_table_is_a_clear_error(kind, spoil, error, message, table, classifier):
    X, y, _ = table
    with pytest.raises(error, match=message):
        if kind == "fit":
            HybridClassifier("linear", **TINY).fit(spoil(X), y)
        else:
            classifier.predict(spoil(X))


def test_wrong_width_names_both_numbers(classifier, table):
    with pytest.raises(ValueError, match="X has 2 features, but HybridClassifier is expecting 3"):
        classifier.predict(table[0][:, :2])


def test_targets_that_cannot_be():
    X = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(ValueError, match="at least two classes.*1 class"):
        HybridClassifier("linear", **TINY).fit(X, np.zeros(50))
    with pytest.raises(ValueError, match="HybridRegressor predicts numbers.*HybridClassifier"):
        HybridRegressor("linear", **TINY).fit(X, np.array(["a", "b"] * 25))
    with pytest.raises(ValueError, match="infinity"):
        HybridRegressor("linear", **TINY).fit(X, np.full(50, np.inf))
    with pytest.raises(ValueError, match="No target to learn from"):
        HybridRegressor("linear", **TINY).fit(X, np.full(50, np.nan))
    with pytest.raises(ValueError, match="50 rows, but y has 49"):
        HybridClassifier("linear", **TINY).fit(X, np.zeros(49))
    with pytest.raises(ValueError, match="NaN or None.*unlabelled"):
        HybridClassifier("linear", **TINY).fit(X, np.where(np.arange(50) < 3, np.nan, 1.0))
    with pytest.raises(ValueError, match="requires y to be passed"):
        HybridRegressor("linear", **TINY).fit(X, None)
    with pytest.raises(ValueError, match="whole numbers y >= 0"):
        HybridRegressor("linear", head="poisson", **TINY).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="Positive targets are y > 0"):
        HybridRegressor("linear", head="gamma", **TINY).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="Unknown label type|continuous"):
        HybridClassifier("linear", **TINY).fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"flow": "realnvp"}, r"Expected a flow among \['continuous', .*got 'realnvp'"),
        ({"flow": CouplingFlow(base="flat")}, "base must be 'auto' or 'normal' or 'mixture'; got"),
        ({"head": "softmax"}, r"Expected a head among \['auto', 'bayesian', .*got 'softmax'"),
        ({"head": "poisson"}, "predicts numbers; for classes choose another head"),
        ({"head": 3}, "head must be the name of a head, or a head of diglm.heads; got 3"),
        ({"head": Bayesian(noise=-1.0)}, "noise must be 'auto' or a finite number > 0; got -1.0"),
        ({"n_blocks": 0}, "n_blocks must be 'auto' or a whole number of at least 1 or a list"),
        ({"width": "wide"}, "width must be 'auto' or a whole number .*; got 'wide'"),
        ({"depth": 1.5}, "depth must be 'auto' or a whole number of at least 1; got 1.5"),
        ({"n_epochs": 0}, "n_epochs must be 'auto' or a whole number"),
        ({"batch_size": True}, "batch_size must be 'auto' or a whole number .* got True"),
        ({"learning_rate": -1.0}, "learning_rate must be 'auto' or a finite number > 0; got -1.0"),
        (
            {"generative_weight": -1.0},
            "generative_weight must be 'auto' or a finite number >= 0; got -1.0",
        ),
        (
            {"generative_weight": float("nan")},
            "generative_weight must be 'auto' or a finite number",
        ),
        ({"volume_weight": 0.0}, "volume_weight must be None or a finite number > 0; got 0.0"),
        ({"validation_fraction": 1.5}, "validation_fraction must be 'auto' or a finite number"),
        ({"reject": 2.0}, "reject must be a rate"),
        ({"reject": Minimum(slack=float("inf"))}, "slack must be a finite number; got inf"),
        ({"score": 3}, "score must be the name of a score, or a score; got 3"),
        ({"score": "depth"}, r"Expected a score among \[.*got 'depth'"),
        ({"dropout": 1.0}, "dropout must be 'auto' or a finite number >= 0 and < 1; got 1.0"),
        ({"dropout": "x"}, "dropout must be 'auto' or .*; got 'x'"),
        ({"patience": 0}, "patience must be 'auto' or a whole number"),
        ({"entropy_weight": -1}, "entropy_weight must be a finite number >= 0"),
        ({"vat_radius": "far"}, "vat_radius must be 'auto' or a finite number >= 0; got 'far'"),
        ({"terms": "entropy"}, "terms must be a dictionary of names and weights, or a list"),
        (
            {"terms": {"peace": 1.0}},
            r"Expected a term among .*'vat', 'wasserstein'.; got 'peace'",
        ),
        ({"class_weight": "even"}, "class_weight must be 'balanced'"),
        ({"verbose": "loud"}, "verbose must be 'auto' or True or False; got 'loud'"),
    ],
)
def test_parameters_out_of_range_are_named(parameters, message, table):
    with pytest.raises(ValueError, match=message):
        HybridClassifier("linear", **TINY).set_params(**parameters).fit(table[0], table[1])


def test_a_failed_fit_leaves_the_earlier_model_alone(table):
    X, y, _ = table
    model = HybridClassifier("linear", **TINY).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="infinity|infinite"):
        model.fit(np.full_like(X, np.inf), y)
    assert np.array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("size", [1e6, 1e30, 1e300, -1e300, 1e-310])
def test_extreme_rows_are_finite_refused_and_predicted_within_the_documented_range(
    size, classifier, regressor, table
):
    X, _, y = table
    rows = X[:20] * size
    spread = y.max() - y.min()
    for model in (classifier, regressor):
        assert np.all(np.isfinite(model.score_samples(rows)))
        assert np.all(np.isfinite(model.transform(rows)))
        if abs(size) > 1:
            assert model.rejects(rows).all()
    mean, std = regressor.predict(rows, return_std=True)
    assert np.all((mean >= y.min() - spread - 1e-6) & (mean <= y.max() + spread + 1e-6))
    assert np.all(np.isfinite(std))
    assert np.all(np.isfinite(classifier.predict_proba(rows)))


@pytest.mark.parametrize("size", [1e30, 1e-30, 1e300, 1e-310])
def test_training_on_extreme_units_works(size, table):
    X, y, _ = table
    model = HybridClassifier("linear", **TINY).fit(X * size, y)
    assert np.all(np.isfinite(model.score_samples(X * size)))
    if size > 1e-300:  # denormal numbers have too few digits left to tell rows apart
        assert model.score(X * size, y) > 0.7


def test_heavy_outliers_in_training_do_no_harm(table):
    X, y, _ = table
    X = X.copy()
    X[::20, 1] = 1e12
    model = HybridClassifier("linear", **TINY).fit(X, y)
    assert np.all(np.isfinite(model.score_samples(X)))
    assert model.score(X, y) > 0.8


def test_missing_and_extra_columns_are_named(table):
    X, y, _ = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = HybridClassifier("linear", **TINY).fit(frame, y)
    with pytest.raises(ValueError, match="c"):
        model.predict(frame[["a", "b"]])
    with pytest.raises(ValueError, match="d"):
        model.predict(frame.assign(d=1.0))


def test_asking_before_fitting_says_so():
    from sklearn.exceptions import NotFittedError

    for ask in (
        lambda m: m.predict(np.zeros((2, 2))),
        lambda m: m.sample(2),
        lambda m: m.save("x"),
        lambda m: m.inverse_transform(np.zeros((2, 2))),
    ):
        with pytest.raises(NotFittedError):
            ask(HybridClassifier())


def test_features_and_counts_are_checked(classifier):
    with pytest.raises(ValueError, match=r"shape \(rows, 3\)"):
        classifier.inverse_transform(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="finite"):
        classifier.inverse_transform(np.full((2, 3), np.nan))
    with pytest.raises(ValueError, match="n must be a whole number"):
        classifier.sample(0)
    with pytest.raises(ValueError, match=r"y must be one value or one a row \(3\); got 2"):
        classifier.sample(3, y=[0, 1])


def test_negative_and_zero_weights_are_refused(table):
    X, y, _ = table
    with pytest.raises(ValueError, match="[Nn]egative"):
        HybridClassifier("linear", **TINY).fit(X, y, sample_weight=-np.ones(200))
    with pytest.raises(ValueError, match="zero"):
        HybridClassifier("linear", **TINY).fit(X, y, sample_weight=np.zeros(200))
