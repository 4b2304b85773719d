"""Small tables: all rows set the threshold, each judged by a model that it was left out of."""

import warnings

import numpy as np
import pandas as pd
import pytest

from diglm import HybridClassifier, HybridDensity
from diglm.fitting.folds import folds_of
from diglm.fitting.split import Split
from diglm.recipes import CouplingFlow
from diglm.refusal import Conformal, SmallTableWarning

EXACT = dict(flow="identity", random_state=0, verbose=False)

pytestmark = pytest.mark.folds


def threshold(model):
    return model.predictor_.refusal.threshold


@pytest.mark.parametrize("n", [20, 31, 298])
def test_each_row_is_left_out_once_and_trains_models_of_one_size(n):
    rows = np.random.default_rng(n).permutation(1000)[:n]
    split = Split(rows[n // 5 :], rows[: n // 5])
    folds = folds_of(split, 5, 0)
    assert np.array_equal(np.sort(np.concatenate([f.left_out for f in folds])), np.sort(rows))
    assert len({len(f.split.train) for f in folds}) == 1
    for fold in folds:
        parts = (fold.left_out, *fold.split)
        assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))
        assert len(fold.split.train) >= 0.65 * n - 2 and len(fold.split.held_out) >= 2
    assert not any(len(f.split.held_out) for f in folds_of(Split(rows, rows[:0]), 5, 0))


def test_all_rows_of_a_small_table_carry_the_rate():
    X = np.random.default_rng(0).normal(size=(150, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SmallTableWarning)
        model = HybridDensity(reject=0.02, **EXACT).fit(X)
    assert threshold(model).rule == "conformal" and len(threshold(model).ranks) == 150
    with pytest.warns(SmallTableWarning, match="from 30 held-out rows, which takes 49"):
        alone = HybridDensity(reject=Conformal(0.02, folds=0), **EXACT).fit(X)
    assert len(threshold(alone).ranks) == 30
    enough = HybridDensity(reject=0.1, **EXACT).fit(X)  # every second of 30 rows that are held out
    assert len(threshold(enough).ranks) == 15


def test_rows_left_out_are_judged_by_an_encoder_that_has_not_seen_them():
    """Of levels that one row alone shows, an encoder that saw that row would know."""
    rng = np.random.default_rng(0)
    names = rng.permutation([f"own {i}" for i in range(25)] + ["usual"] * 75)
    frame = pd.DataFrame({"a": rng.normal(size=100), "level": names})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # almost an identifier
        model = HybridDensity(reject=0.011, **EXACT).fit(frame)
    ranks = threshold(model).ranks
    assert len(ranks) == 100 and len(ranks.alone) == 0 and ranks.shown[1]
    new = frame.assign(level=["new"] * 25 + ["usual"] * 75)
    assert model.rejects(new).mean() < 0.05  # a quarter of familiar rows show a level of their own


def test_the_rate_holds_on_average_of_small_tables():
    rng, p_values, refused = np.random.default_rng(0), [], []
    for seed in range(16):
        rows = rng.standard_t(5, size=(230, 3))
        rows[rng.random(rows.shape) < 0.1] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own = EXACT | {"random_state": seed, "score": "density"}
            model = HybridDensity(**own).fit(rows[:30])
        p_values.append(model.p_value(rows[30:]))
        refused.append(np.mean(model.rejects(rows[30:])))
    error = np.std(np.mean(np.array(p_values) <= 0.1, axis=1)) / np.sqrt(16)
    assert 0.05 < np.mean(np.array(p_values) <= 0.1) < 0.1 + 2 * error
    assert np.mean(refused) < 0.02 + 2 * np.std(refused) / np.sqrt(16)


def test_rows_that_set_the_threshold_choose_no_epoch_of_the_density():
    """Other values in rows that set the threshold change ranks, but not the density."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] > 0).astype(int)
    small = dict(n_blocks=2, width=8, depth=1, n_epochs=4, reject=0.05, random_state=0)
    flow = CouplingFlow(tail=1, members=1)
    model = HybridClassifier(flow, verbose=False, **small).fit(X, y)
    assert len(threshold(model).ranks) == 30  # of sixty that are held out
    usual = np.round(-threshold(model).ranks.usual, 9)
    ruling = np.flatnonzero(np.isin(np.round(model.score_samples(X), 9), usual))
    assert len(ruling) == 30
    moved = X.copy()
    moved[ruling] += 1e-3 * rng.normal(size=(len(ruling), 2))
    again = HybridClassifier(flow, verbose=False, **small).fit(moved, y)
    new = rng.normal(size=(5, 2))
    assert np.array_equal(again.score_samples(new), model.score_samples(new))
    assert not np.array_equal(threshold(again).ranks.usual, threshold(model).ranks.usual)
