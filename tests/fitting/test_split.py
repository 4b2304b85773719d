"""Which rows are held out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diglm import HybridClassifier, HybridRegressor
from diglm.fitting.learned import at_marginal
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


@given(st.integers(20, 600), st.floats(0.0, 1.0), st.floats(0.01, 0.9), st.integers(0, 99))
def test_every_class_with_a_label_keeps_one_to_train_on(n, share, fraction, seed):
    rng = np.random.default_rng(seed)
    labelled = rng.random(n) < share
    classes = np.where(rng.random(n) < 0.02, 2, rng.integers(0, 2, n))
    strata = np.where(labelled, classes, 3)
    split = split_rows(fraction, strata, np.ones(n), seed, labelled)
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(n))
    if not np.all(labelled):
        taught = split.train[labelled[split.train]]
        assert set(strata[taught]) == set(strata[labelled])


@given(st.integers(0, 99))
def test_labels_of_numbers_are_never_all_held_out(seed):
    known = np.arange(20) < 11
    split = split_rows(0.9, None, np.ones(20), seed, known)
    assert len(split.held_out) >= 17 and np.any(known[split.train])


def test_a_target_of_which_no_training_row_has_a_label_is_refused():
    y = np.where(np.arange(20) < 11, np.arange(20.0), np.nan)
    target = HybridRegressor()._learn_target(y, np.ones(20), nulls=True)
    unknown = np.flatnonzero(np.isnan(y))
    with pytest.raises(ValueError, match="No training row has a label"):
        at_marginal(target, 2, 0, target.read(y), np.ones(20), unknown)
