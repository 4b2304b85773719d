"""Conformal p-values: ranks among held-out rows, where rows may show what none has shown before."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diglm.refusal import Calibration, Conformal, Ranks

NUMBERS = st.floats(-100, 100)


@st.composite
def calibrations(draw, n_facts=3):
    n = draw(st.integers(1, 40))
    held_out = np.array(draw(st.lists(st.sampled_from(range(12)), min_size=n, max_size=n)), float)
    unseen = np.array(draw(st.lists(st.booleans(), min_size=n * n_facts, max_size=n * n_facts)))
    rare = np.random.default_rng(n).random((n, n_facts)) < 0.2
    return held_out, unseen.reshape(n, n_facts).astype(bool) & rare


@given(st.lists(NUMBERS, min_size=1, max_size=50), NUMBERS)
def test_p_values_are_ranks(held_out, strangeness):
    ranks = Ranks.of(np.array(held_out), np.zeros((len(held_out), 2), bool))
    (p,) = ranks.p_value(np.array([strangeness]), np.zeros((1, 2), bool))
    assert p == (1 + sum(h >= strangeness for h in held_out)) / (1 + len(held_out))


def by_definition(held_out, unseen, strangeness, shows):
    """The share of rows as strange, the new one among them; who is alone stands above all."""
    n = len(held_out)
    bearers = unseen.sum(axis=0)
    alone = [bool(np.any(unseen[i] & (bearers == 1))) for i in range(n)]
    new_alone = bool(np.any(shows & (bearers == 0)))
    place = (new_alone, strangeness)
    return (1 + sum((a, h) >= place for a, h in zip(alone, held_out, strict=True))) / (1 + n)


@given(calibrations(), st.integers(-1, 13), st.lists(st.booleans(), min_size=3, max_size=3))
def test_rows_that_are_alone_rank_above_all_others(calibration, strangeness, shows):
    held_out, unseen = calibration
    shows = np.array(shows)
    ranks = Ranks.of(held_out, unseen)
    assert len(ranks) == len(held_out)
    (p,) = ranks.p_value(np.array([float(strangeness)]), shows[None])
    assert p == by_definition(held_out, unseen, strangeness, shows)


@given(calibrations(), st.floats(0.05, 0.95))
def test_a_conformal_threshold_refuses_exactly_the_small_p_values(calibration, rate):
    held_out, unseen = calibration
    n, rng = len(held_out), np.random.default_rng(0)
    rank = math.floor(rate * (n + 1) + 1e-12)
    if rank < 1:
        return
    threshold = Conformal(rate).fit(Calibration(held_out, unseen, np.zeros(0)))
    new, shows = rng.integers(-1, 13, 60).astype(float), rng.random((60, 3)) < 0.2
    p = threshold.ranks.p_value(new, shows)
    assert np.array_equal(threshold.rejects(new, shows), np.round(p * (n + 1)) <= rank)


@pytest.mark.parametrize("spread", [3, 30, 300])
def test_p_values_keep_their_promise_where_new_rows_show_new_levels(spread):
    """P(p <= alpha) <= alpha for exchangeable rows, whatever share of them is unheard of."""
    rng = np.random.default_rng(spread)
    n_train, n_held, alphas, found = 50, 40, np.array([0.05, 0.1, 0.3, 0.7]), []
    for _ in range(3000):
        levels = np.floor(rng.exponential(spread, (n_train + n_held + 1, 2))).astype(int)
        unseen = np.stack(
            [~np.isin(column[n_train:], column[:n_train]) for column in levels.T], axis=1
        )
        # A score of its own in each row, higher where something is new, with ties.
        strangeness = np.round(rng.normal(size=n_held + 1) + unseen.sum(axis=1), 1)
        ranks = Ranks.of(strangeness[:-1], unseen[:-1])
        found.append(ranks.p_value(strangeness[-1:], unseen[-1:])[0])
    rates = np.mean(np.array(found)[:, None] <= alphas, axis=0)
    error = np.sqrt(alphas * (1 - alphas) / len(found))
    assert np.all(rates <= alphas + 3 * error)
    assert np.all(rates >= 0.6 * alphas - 3 * error)  # and they are not idle


def test_a_fact_that_held_out_rows_show_often_is_as_familiar_as_they_are():
    unseen = np.zeros((99, 2), bool)
    unseen[:20, 0] = unseen[30, 1] = True
    ranks = Ranks.of(np.arange(99.0), unseen)
    often, once = np.array([[True, False]]), np.array([[False, True]])
    strangeness = np.array([50.0])
    assert ranks.p_value(strangeness, often) == ranks.p_value(strangeness, once)
    assert len(ranks.alone) == 1
    never = Ranks.of(np.arange(99.0), np.zeros((99, 2), bool))
    assert never.p_value(strangeness, once) == 1 / 100
    assert never.is_alone(np.array([[False, False], [True, False]])).tolist() == [False, True]
