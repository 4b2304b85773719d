"""Which rows are held out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diglm import HybridClassifier
from diglm.fitting.split import FEWEST_TO_SPLIT, split_rows


@given(st.integers(20, 300), st.floats(0.01, 0.9), st.integers(0, 99))
def test_rows_are_trained_on_or_held_out_and_never_both(n, fraction, seed):
    weights = np.ones(n)
    weights[: n // 10] = 0.0
    rows = np.flatnonzero(weights)
    split = split_rows(fraction, None, weights, seed)
    both = np.concatenate([split.train, split.held_out])
    if len(rows) < FEWEST_TO_SPLIT:
        assert len(split.held_out) == 0
    else:
        assert len(split.held_out) == max(4, round(fraction * len(rows)))
    assert np.array_equal(np.sort(both), rows)
    again = split_rows(fraction, None, weights, seed)
    assert np.array_equal(again.held_out, split.held_out)


@given(st.integers(0, 99))
def test_classes_keep_their_shares(seed):
    strata = np.random.default_rng(seed).permutation(np.repeat([0, 1, 2], [100, 60, 40]))
    split = split_rows(0.2, strata, np.ones(200), seed)
    assert np.all(np.abs(np.bincount(strata[split.held_out]) - [20, 12, 8]) <= 1)


def test_few_rows_or_none_asked_for_are_all_trained_on():
    assert len(split_rows(0.2, None, np.ones(19), 0).held_out) == 0
    assert len(split_rows(0.0, None, np.ones(500), 0).held_out) == 0


@pytest.mark.parametrize(("n", "share"), [(100, 0.2), (1000, 0.2), (1500, 200 / 1500), (9000, 0.1)])
def test_auto_holds_out_200_rows_within_a_tenth_and_a_fifth(n, share):
    request = HybridClassifier()._request(0)
    assert request.held_out_share(np.ones(n)) == pytest.approx(share)
    given = HybridClassifier(validation_fraction=0.3)._request(0)
    assert given.held_out_share(np.ones(n)) == 0.3
