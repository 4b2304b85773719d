"""Rules: from the strangeness of familiar rows to a threshold, and what it promises."""

import math
import warnings

import numpy as np
import pytest

from diglm.refusal import (
    RULES,
    Calibration,
    Conformal,
    Contamination,
    Minimum,
    Never,
    SmallTableWarning,
    rule_of,
)


def seen(held_out, training=()):
    """Familiar rows that show nothing new."""
    held_out = np.asarray(held_out, float)
    return Calibration(held_out, np.zeros((len(held_out), 0), bool), np.asarray(training, float))


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
        threshold = Conformal(0.02, few="quantile").fit(seen(every[:20]))
    assert threshold.limit == 19.0


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
    assert [type(rule_of(name)) for name in RULES] == [Conformal, Minimum, Contamination, Never]
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
        (Conformal(few="all"), "few must be 'minimum' or 'quantile'; got 'all'"),
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
