"""Rules: from the strangeness of familiar rows to a threshold, and what it promises."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats

from diglm.refusal import (
    RULES,
    Calibration,
    Conformal,
    Contamination,
    Cost,
    Minimum,
    Never,
    RiskControl,
    SmallTableWarning,
    rule_of,
)


def seen(held_out, training=(), wrong=None):
    """Familiar rows that show nothing new."""
    held_out = np.asarray(held_out, float)
    nothing = np.zeros((len(held_out), 0), bool)
    return Calibration(held_out, nothing, np.asarray(training, float), wrong)


def rejects(threshold, strangeness):
    strangeness = np.asarray(strangeness, float)
    return threshold.rejects(strangeness, np.zeros((len(strangeness), 0), bool))


def test_conformal_threshold_is_the_ranked_held_out_value():
    held_out = np.random.default_rng(0).permutation(np.arange(199.0))
    threshold = Conformal(0.05).fit(seen(held_out, [50.0]))
    assert threshold.rule == "conformal"
    assert threshold.limit == 199 - math.floor(0.05 * 200)
    assert rejects(threshold, held_out).sum() == math.floor(0.05 * 200) - 1  # strictly beyond


def test_conformal_promise_holds_on_average():
    rng = np.random.default_rng(0)
    refused = []
    for _ in range(400):
        threshold = Conformal(0.1).fit(seen(rng.normal(size=60)))
        refused.append(np.mean(rejects(threshold, rng.normal(size=200))))
    assert np.mean(refused) < 0.1 + 0.01
    assert np.mean(refused) > 0.06  # the rule is not idle either


def test_too_few_held_out_rows_fall_back_to_the_papers_rule_and_say_so():
    few = seen([1.0, 2.0], [3.0, 0.0])
    rule = Conformal(0.01)
    assert rule.needs_training(2) and not rule.needs_training(99)
    with pytest.warns(SmallTableWarning, match=r"A rate of 0\.01 cannot be promised from 2 .* 99"):
        threshold = rule.fit(few)
    assert (threshold.rule, threshold.limit) == ("minimum", 3.0)


def test_the_promise_is_made_from_as_many_rows_as_it_takes():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SmallTableWarning)
        threshold = Conformal(0.01).fit(seen(rng.normal(size=99)))
        assert threshold.limit == threshold.ranks.usual[-1]
        with pytest.raises(SmallTableWarning):
            Conformal(0.01).fit(seen(rng.normal(size=98), rng.normal(size=900)))


def test_few_rows_may_still_tell_a_share_of_them_apart():
    every = np.arange(150.0)
    with pytest.warns(SmallTableWarning, match="beyond which 3 of all rows lie"):
        threshold = Conformal(0.02, few="quantile").fit(seen(every[:30], every[30:]))
    assert threshold.rule == "quantile"
    assert rejects(threshold, every).sum() == 3
    with pytest.warns(SmallTableWarning, match="the paper's"):  # not one row in a hundred
        threshold = Conformal(0.02, few="quantile").fit(seen(every[:7]))
    assert threshold.limit == 6.0


def test_the_papers_rule_refuses_what_is_stranger_than_every_row():
    threshold = Minimum(slack=2.0).fit(seen([], [3.0, 1.0]))
    assert (threshold.rule, threshold.limit) == ("minimum", 5.0)
    assert Minimum().fit(seen([4.0], [3.0])).limit == 4.0
    assert Minimum().needs_training(10_000)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
def test_contamination_is_the_share_of_rows_that_are_refused(share):
    every = np.random.default_rng(0).normal(size=200)
    threshold = Contamination(share).fit(seen(every[:40], every[40:]))
    assert rejects(threshold, every).sum() == share * 200
    assert Contamination(share).needs_training(10_000)


def test_never_refuses_and_still_ranks():
    threshold = Never().fit(seen([0.0, 1.0, 2.0]))
    assert not np.any(rejects(threshold, [1e30, 0.0]))
    assert np.allclose(threshold.ranks.p_value(np.array([1.5]), np.zeros((1, 0), bool)), 0.5)
    assert Never().needs_training(0) and not Never().needs_training(1)
    alone = Never().fit(seen([], [1.0, 2.0]))  # nothing held out: ranks of the rows of fit
    assert len(alone.ranks) == 2


def test_what_reject_stands_for():
    assert rule_of(None) == Never()
    assert rule_of(0.2) == Conformal(0.2)
    assert rule_of(np.float32(0.5)) == Conformal(0.5)
    usual = [Conformal, Minimum, Contamination, Never]
    assert [type(rule_of(name)) for name in RULES] == [*usual, RiskControl, Cost]
    own = Minimum(slack=1.0)
    assert rule_of(own) is own


@pytest.mark.parametrize(
    ("reject", "message"),
    [
        (0, "reject must be a rate between 0 and 1 .*; got 0"),
        (1, "reject must be a rate"),
        (-0.1, "reject must be a rate"),
        (float("nan"), "reject must be a rate"),
        ("minimal", r"Expected a rule among \[.*'minimum'.*got 'minimal'. Did you mean 'minimum'"),
        (True, "reject must be a rate .* or None; got True"),
        ([0.1], r"the name of a rule .* got \[0.1\]"),
        (Conformal(2.0), "rate must be a finite number > 0 and < 1; got 2.0"),
        (Conformal(few="all"), "few must be 'tail' or 'minimum' or 'quantile'; got 'all'"),
        (Contamination(0.7), "share must be a finite number > 0 and <= 0.5; got 0.7"),
        (Minimum(slack=math.inf), "slack must be a finite number; got inf"),
    ],
)
def test_bad_rules_are_refused(reject, message):
    with pytest.raises(ValueError, match=message):
        rule_of(reject)


def test_rules_have_parameters_that_can_be_searched():
    rule = Minimum(slack=1.0)
    assert rule.get_params() == {"slack": 1.0}
    assert rule.set_params(slack=2.0).slack == 2.0
    with pytest.raises(ValueError, match=r"Minimum has \['slack'\]; got 'slak'"):
        rule.set_params(slak=2.0)


@pytest.mark.parametrize("n", [100, 1000])
def test_risk_control_keeps_its_promise(n):
    """In 200 simulations the error among answered rows exceeds its limit at most as often as said.

    An error is as probable as a row is strange.
    """
    rng, rule = np.random.default_rng(n), RiskControl(error=0.1, confidence=0.9)
    training, broken, answered = np.sort(rng.uniform(size=500)), 0, []
    for _ in range(200):
        strangeness = rng.uniform(size=n)
        wrong = (rng.uniform(size=n) < 0.5 * strangeness).astype(float)
        limit = np.clip(rule.fit(seen(strangeness, training, wrong)).limit, 0, 1)
        broken += 0.25 * limit > 0.1  # the mean of strangeness / 2 below the limit
        answered.append(limit)
    assert broken <= 20 + 3 * np.sqrt(200 * 0.1 * 0.9)
    assert np.mean(answered) > (0.2 if n == 1000 else 0.02)


def test_risk_control_answers_all_or_none_where_errors_say_so():
    training = np.arange(100.0)
    never_wrong = RiskControl(0.05).fit(seen(np.arange(200.0), training, np.zeros(200)))
    assert never_wrong.limit == math.inf
    always = RiskControl(0.05).fit(seen(np.arange(200.0), training, np.ones(200)))
    assert always.limit == -math.inf and rejects(always, [-1e30]).all()
    unknown = np.where(np.arange(200) < 150, np.nan, 0.0)
    some = RiskControl(0.1).fit(seen(np.arange(200.0)[::-1], training, unknown))
    assert some.limit == math.inf  # fifty labels are enough


def test_the_cheapest_threshold():
    strangeness = np.array([0.0, 1.0, 2.0, 2.0, 3.0])
    wrong = np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    for refused, limit in ((0.1, 1.0), (0.6, 2.0), (2.0, math.inf)):
        assert Cost(refused=refused).fit(seen(strangeness, (), wrong)).limit == limit
    hopeless = Cost(refused=0.1).fit(seen(strangeness, (), np.ones(5)))
    assert rejects(hopeless, strangeness).all()


@pytest.mark.parametrize("rule", [RiskControl(), Cost()])
def test_rules_of_errors_need_labels(rule):
    with pytest.raises(ValueError, match="predicts no classes"):
        rule.fit(seen([1.0, 2.0], [1.0]))
    with pytest.raises(ValueError, match="of which there are none"):
        rule.fit(seen([1.0, 2.0], [1.0], np.full(2, np.nan)))


@pytest.mark.parametrize("n", [30, 300, 3000])
def test_the_rate_lies_in_its_exact_band_over_random_splits(n):
    """A score fitted to rows of its own, a threshold from others: 200 splits, new rows judged.

    The number refused of one new row a split is binomial with the rate of the rank.
    """
    rng, alpha = np.random.default_rng(n), 0.1
    refused, rank = 0, math.floor(alpha * (n + 1))
    for _ in range(200):
        rows = rng.standard_t(3, size=(n + 41, 2))
        centre, spread = rows[:40].mean(axis=0), rows[:40].std(axis=0)  # what a score learns
        strangeness = np.sum(np.abs(rows - centre) / spread, axis=1)
        threshold = Conformal(alpha).fit(seen(strangeness[40:-1]))
        refused += rejects(threshold, strangeness[-1:])[0]
    low, high = stats.binom.interval(0.998, 200, rank / (n + 1))
    assert low <= refused <= high and rank / (n + 1) <= alpha
