"""Curves of what refusing buys."""

import numpy as np
from sklearn.metrics import roc_auc_score

from diglm.refusal import auroc, risk_coverage


def test_auroc_equals_scikit_learn_with_ties():
    rng = np.random.default_rng(1)
    familiar, strange = rng.integers(0, 9, 200) + 2.0, rng.integers(0, 9, 150).astype(float)
    labels = np.r_[np.ones(200), np.zeros(150)]
    assert np.isclose(auroc(familiar, strange), roc_auc_score(labels, np.r_[familiar, strange]))


def test_risk_coverage_counts_errors_among_the_answered():
    coverage, risk = risk_coverage(np.array([0.9, 0.5, 0.7]), np.array([False, True, False]))
    assert np.allclose(coverage, [1 / 3, 2 / 3, 1])
    assert np.allclose(risk, [0, 0, 1 / 3])
