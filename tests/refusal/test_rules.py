"""The reject rule and what it promises."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from diglm.selective import RejectRule, auroc, risk_coverage


def test_conformal_threshold_is_the_ranked_held_out_value():
    held_out = np.arange(199.0)
    rule = RejectRule.fit(0.05, training=np.array([-50.0]), held_out=held_out)
    assert rule.rule == "conformal"
    assert rule.threshold == held_out[math.floor(0.05 * 200) - 1]


def test_conformal_promise_holds_on_average():
    rng = np.random.default_rng(0)
    refused = []
    for _ in range(400):
        rule = RejectRule.fit(0.1, training=np.zeros(1), held_out=rng.normal(size=60))
        refused.append(np.mean(rule.rejects(rng.normal(size=200))))
    assert np.mean(refused) < 0.1 + 0.01
    assert np.mean(refused) > 0.06  # the rule is not idle either


def test_too_few_held_out_rows_fall_back_to_the_papers_rule():
    rule = RejectRule.fit(0.01, training=np.array([-3.0, 0.0]), held_out=np.array([-1.0, -2.0]))
    assert (rule.rule, rule.threshold) == ("minimum", -3.0)
    rule = RejectRule.fit("minimum", training=np.array([-3.0]), held_out=np.array([]), slack=2.0)
    assert rule.threshold == -5.0


def test_never_refuses_with_none():
    rule = RejectRule.fit(None, training=np.zeros(3), held_out=np.zeros(3))
    assert not np.any(rule.rejects(np.array([-1e30, 0.0])))


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=50), st.floats(-200, 200))
def test_p_values_are_ranks(held_out, score):
    rule = RejectRule.fit(None, training=np.zeros(1), held_out=np.array(held_out))
    (p,) = rule.p_value(np.array([score]))
    assert p == (1 + sum(h <= score for h in held_out)) / (1 + len(held_out))


@pytest.mark.parametrize("reject", [0, 1, -0.1, "max", True, [0.1]])
def test_bad_rates_are_refused(reject):
    with pytest.raises(ValueError, match="reject must be a rate"):
        RejectRule.fit(reject, training=np.zeros(1), held_out=np.zeros(1))


def test_auroc_equals_scikit_learn_with_ties():
    rng = np.random.default_rng(1)
    familiar, strange = rng.integers(0, 9, 200) + 2.0, rng.integers(0, 9, 150).astype(float)
    labels = np.r_[np.ones(200), np.zeros(150)]
    assert np.isclose(auroc(familiar, strange), roc_auc_score(labels, np.r_[familiar, strange]))


def test_risk_coverage_counts_errors_among_the_answered():
    coverage, risk = risk_coverage(np.array([0.9, 0.5, 0.7]), np.array([False, True, False]))
    assert np.allclose(coverage, [1 / 3, 2 / 3, 1])
    assert np.allclose(risk, [0, 0, 1 / 3])
