"""Curves of what refusing buys, and whether probabilities are honest."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from diglm import refusal
from diglm.refusal import auroc, risk_coverage


class Normal:
    """Known by its quantiles."""

    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def quantile(self, q):
        return stats.norm.ppf(q[None], self.mean[:, None], self.std)


@pytest.fixture
def scores():
    """Familiar and strange ones, many of them tied."""
    rng = np.random.default_rng(1)
    return rng.integers(0, 9, 200) + 2.0, rng.integers(0, 9, 150).astype(float)


def test_areas_equal_scikit_learns_with_ties(scores):
    familiar, strange = scores
    labels = np.r_[np.zeros(200), np.ones(150)]
    each = -np.r_[familiar, strange]
    assert np.isclose(auroc(familiar, strange), roc_auc_score(labels, each))
    assert np.isclose(refusal.aupr(familiar, strange), average_precision_score(labels, each))
    false, caught = refusal.roc(familiar, strange)
    assert np.isclose(np.trapezoid(caught, false), auroc(familiar, strange))
    assert false[0] == caught[0] == 0 and false[-1] == caught[-1] == 1


def test_false_refusals_where_most_strange_rows_are_caught():
    familiar, strange = np.arange(100.0), np.arange(20.0)
    assert refusal.fpr_at(familiar, strange, 0.95) == 0.19  # a threshold of 18
    assert refusal.fpr_at(familiar, strange, 1.0) == 0.20
    assert refusal.fpr_at(familiar, np.full(3, -np.inf)) == 0
    assert refusal.fpr_at(np.zeros(4), np.zeros(2)) == 1  # ties are refused alike
    with pytest.raises(ValueError, match="0 < caught <= 1; got 0"):
        refusal.fpr_at(familiar, strange, 0.0)


def test_risk_coverage_counts_errors_among_the_answered():
    coverage, risk = risk_coverage(np.array([0.9, 0.5, 0.7]), np.array([False, True, False]))
    assert np.allclose(coverage, [1 / 3, 2 / 3, 1])
    assert np.allclose(risk, [0, 0, 1 / 3])


def test_ties_are_taken_in_random_order_on_average():
    sure, wrong = np.array([1.0, 0.5, 0.5, 0.5]), np.array([0, 1, 0, 0])
    rng = np.random.default_rng(0)
    each = [risk_coverage(sure + 1e-9 * rng.random(4), wrong)[1] for _ in range(4000)]
    assert np.allclose(risk_coverage(sure, wrong)[1], np.mean(each, axis=0), atol=0.02)
    turned = risk_coverage(sure[::-1], wrong[::-1])[1]
    assert np.allclose(risk_coverage(sure, wrong)[1], turned)


def test_aurc_and_its_excess():
    wrong = np.array([0, 0, 1, 1])
    assert refusal.excess_aurc(np.array([4.0, 3, 2, 1]), wrong) == 0
    assert refusal.aurc(np.zeros(4), wrong) == 0.5  # answering in no order: the error of all
    assert refusal.excess_aurc(np.array([1.0, 2, 3, 4]), wrong) > 0.3
    assert refusal.aurc(np.array([np.inf, 0, -np.inf, 1]), np.zeros(4)) == 0
    assert refusal.aurc(np.array([0.3]), np.array([1])) == 1


@pytest.mark.parametrize("function", [auroc, refusal.aupr, refusal.fpr_at, refusal.roc])
def test_empty_groups_and_nan_are_named(function):
    with pytest.raises(ValueError, match="strange must be scores of at least one row"):
        function(np.ones(3), np.zeros(0))
    with pytest.raises(ValueError, match="familiar holds NaN in 1 of 2 rows"):
        function(np.array([1.0, np.nan]), np.ones(3))


def test_mismatched_columns_are_named():
    with pytest.raises(ValueError, match="one loss a row, 3"):
        risk_coverage(np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="two columns of one length"):
        refusal.reliability(np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="between 0 and 1"):
        refusal.reliability(np.array([1.2]), np.ones(1))
    with pytest.raises(ValueError, match="a code a row"):
        refusal.brier(np.ones((3, 2)), np.zeros(2, int))


def test_calibration_error_of_honest_and_of_boastful_answers():
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1.0, 20_000)
    right = rng.random(20_000) < sure
    assert refusal.calibration_error(sure, right) < 0.02
    assert refusal.calibration_error(np.ones(4), np.array([1, 0, 0, 0])) == 0.75
    bins = refusal.reliability(np.array([0.05, 0.95, 1.0]), np.array([0, 1, 1]), 10)
    assert bins.count.tolist() == [1, 2] and bins.accuracy.tolist() == [0, 1]


def test_brier_of_two_classes_is_twice_scikit_learns():
    rng = np.random.default_rng(0)
    p, y = rng.random(50), rng.integers(0, 2, 50)
    both = np.stack([1 - p, p], axis=1)
    assert np.isclose(refusal.brier(both, y), 2 * brier_score_loss(y, p))


def test_crps_of_a_normal_is_the_closed_form():
    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=30), 3 * rng.normal(size=30)
    dist, std = Normal(mean, 2.0), 2.0
    z = (y - mean) / std
    closed = std * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert np.allclose(refusal.crps(dist, y), closed, atol=2e-3)
