"""Displays show what they are given, in the way of scikit-learn's."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt  # noqa: E402

from diglm import HybridClassifier, HybridRegressor  # noqa: E402
from diglm.data.toy import two_moons  # noqa: E402
from diglm.report import (  # noqa: E402
    DensityDisplay,
    PITDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    StrangerDisplay,
)

TINY = dict(n_epochs=3, batch_size=64, reject=0.05, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def classifier():
    return HybridClassifier("linear", **TINY).fit(*two_moons(300, 0.1, 0))


@pytest.fixture(scope="module")
def regressor():
    X, _ = two_moons(300, 0.1, 0)
    return HybridRegressor("linear", head="gaussian", **TINY).fit(X, X[:, 0] + X[:, 1])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_risk_of_classes_and_of_numbers(classifier, regressor):
    X, y = two_moons(200, 0.1, 1)
    shown = RiskCoverageDisplay.from_estimator(classifier, X, y)
    assert set(shown.aurc) == {"sure", "familiar"} and len(shown.ax_.lines) == 2
    error = 1 - classifier.score(X, y)
    assert shown.ax_.lines[0].get_ydata()[-1] == pytest.approx(error)
    numbers = RiskCoverageDisplay.from_estimator(regressor, X, X[:, 0] + X[:, 1])
    loss = np.mean((regressor.predict(X) - X[:, 0] - X[:, 1]) ** 2)
    assert numbers.ax_.lines[0].get_ydata()[-1] == pytest.approx(loss)


def test_from_predictions_on_axes_of_ones_own():
    figure, ax = plt.subplots()
    shown = RiskCoverageDisplay.from_predictions([0, 1, 0], [0.9, 0.2, 0.8], name="mine", ax=ax)
    assert shown.ax_ is ax and shown.figure_ is figure
    assert "mine (AURC" in ax.get_legend().get_texts()[0].get_text()
    one = RiskCoverageDisplay.from_predictions([1], [0.5])
    assert one.aurc[""] == 1


def test_reliability(classifier):
    X, y = two_moons(200, 0.1, 1)
    shown = ReliabilityDisplay.from_estimator(classifier, X, y, n_bins=5)
    assert len(shown.bins.count) <= 5 and shown.bins.count.sum() == 200
    assert f"ECE {shown.ece:.3f}" == shown.ax_.get_title()


def test_places_of_targets_are_spread_evenly(regressor):
    X, _ = two_moons(400, 0.1, 2)
    shown = PITDisplay.from_estimator(regressor, X, X[:, 0] + X[:, 1])
    assert np.all((shown.places >= 0) & (shown.places <= 1)) and shown.crps > 0


def test_densities_of_familiar_and_strange_rows(classifier):
    X, _ = two_moons(200, 0.1, 1)
    shown = DensityDisplay.from_estimator(classifier, {"moons": X, "far": X + 9})
    texts = [text.get_text() for text in shown.ax_.texts]
    assert {"moons", "far", "100.0% refused"} <= set(texts)


@pytest.mark.parametrize("kind", ["roc", "pr"])
def test_strangers_are_told_apart(classifier, kind):
    X, _ = two_moons(200, 0.1, 1)
    shown = StrangerDisplay.from_estimator(classifier, X, {"far": X + 9, "same": X}, kind=kind)
    assert shown.auroc["far"] == 1 and shown.auroc["same"] == 0.5
    assert shown.aupr["far"] == 1 and shown.fpr95["far"] == 0
    assert len(shown.ax_.lines) == 2
    with pytest.raises(ValueError, match="kind must be 'roc' or 'pr'; got 'det'"):
        StrangerDisplay(np.ones(2), {"a": np.zeros(2)}, "det")
