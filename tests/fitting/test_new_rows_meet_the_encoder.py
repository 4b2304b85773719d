"""The encoder knows training rows alone: held-out and later rows meet it as new."""

import numpy as np
import pandas as pd
import pytest

from diglm import HybridClassifier, HybridRegressor
from diglm.fitting import DataWarning

SETTINGS = dict(n_blocks=2, width=8, n_epochs=4, batch_size=128, random_state=0, verbose=False)


def labelled(n, levels, rng):
    frame = pd.DataFrame({"a": rng.normal(size=n), "id": rng.integers(0, levels, n).astype(str)})
    return frame, (frame["a"] > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("levels", [500, 2000])
def test_the_rate_of_refusals_is_kept_where_new_rows_show_new_levels(levels):
    rng = np.random.default_rng(levels)
    X, y = labelled(1000, levels, rng)
    model = HybridClassifier("linear", reject=0.05, **SETTINGS)
    if levels == 500:
        model.fit(X, y)
    else:
        with pytest.warns(DataWarning, match="'id' is almost an identifier"):
            model.fit(X, y)
    new, _ = labelled(4000, levels, rng)
    assert (~new["id"].isin(X["id"])).mean() > 0.1
    assert model.rejects(new).mean() < 0.09  # 0.05, and what 200 held-out rows leave open
    assert model.rejects(new.assign(a=new["a"] + 50)).mean() > 0.95  # and numbers still count


@pytest.mark.slow
def test_the_order_of_categories_does_not_follow_held_out_targets():
    rng = np.random.default_rng(0)

    def rows(n):
        frame = pd.DataFrame({"g": rng.integers(0, 400, n).astype(str), "a": rng.normal(size=n)})
        return frame, rng.normal(size=n)

    model = HybridRegressor("linear", **SETTINGS).fit(*rows(1000))
    X, y = rows(3000)
    ends = model.predict_interval(X, 0.9)
    assert 0.86 < np.mean((y > ends[:, 0]) & (y < ends[:, 1])) < 0.94


def test_a_level_never_seen_is_refused_however_wide_the_density_is():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": np.r_[rng.normal(size=199), 1e9], "k": rng.choice(["u", "v"], 200)})
    model = HybridClassifier("linear", reject="minimum", **SETTINGS).fit(X, rng.integers(0, 2, 200))
    strange = pd.DataFrame({"a": [0.1], "k": ["zebra"]})
    assert model.rejects(strange).all()
    assert model.p_value(strange) == 1 / (1 + len(model.predictor_.refusal.threshold.ranks))
    assert np.isfinite(model.score_samples(strange)).all()
    assert not model.rejects(pd.DataFrame({"a": [0.1], "k": ["u"]})).any()


@pytest.mark.slow
def test_an_unseen_pattern_of_gaps_lowers_confidence_and_is_refused():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    X = rng.normal(size=(600, 4)) * 0.3
    X[:, 0] += np.array([0.0, 2.0, 4.0])[y]
    X[:, 1] += np.array([0.0, 2.0, 0.0])[y]
    X[:, 2] += np.array([0.0, 0.3, 0.6])[y]
    X[:4] = np.nan  # whoever lacks one value lacks all
    model = HybridClassifier(**SETTINGS | dict(n_epochs=30)).fit(X[:400], y[:400])
    blanked = X[400:].copy()
    blanked[:, :2] = np.nan
    assert not model.rejects(X[400:]).mean() > 0.05
    assert model.rejects(blanked).all()
    right = np.mean(model.predict(blanked) == y[400:])
    assert model.predict_proba(blanked).max(axis=1).mean() < right + 0.15
    assert model.predict_proba(X[400:]).max(axis=1).mean() > 0.9


def test_answers_to_rows_with_gaps_do_not_depend_on_their_company():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X[rng.random((300, 3)) < 0.15] = np.nan
    y = rng.normal(size=300)
    model = HybridRegressor("linear", **SETTINGS).fit(X, y)
    gapped, whole = X[np.isnan(X).any(axis=1)][:5], X[~np.isnan(X).any(axis=1)][:5]
    both = np.concatenate([gapped, whole])
    for part, rows in ((slice(0, 5), gapped), (slice(5, 10), whole)):
        assert np.array_equal(model.score_samples(both)[part], model.score_samples(rows))
        dist, own = model.predict_dist(both), model.predict_dist(rows)
        assert np.array_equal(dist.mean[part], own.mean) and np.array_equal(dist.std[part], own.std)
        assert np.allclose(dist.quantile(0.9)[part], own.quantile(0.9), rtol=1e-12)
    assert np.all(np.diff(model.predict_dist(gapped).quantile([0.1, 0.5, 0.9]), axis=1) > 0)


def test_what_is_missing_is_drawn_given_the_rest():
    """Of a normal table the answer to a gap is known: a regression on what is left."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=4000)
    b = 0.8 * a + 0.6 * rng.normal(size=4000)
    y = b + 0.1 * rng.normal(size=4000)
    X = np.column_stack([a, b])
    model = HybridRegressor("linear", head="gaussian", **SETTINGS).fit(X, y)
    dist = model.predict_dist(np.array([[1.0, np.nan], [-0.5, np.nan]]))
    assert np.allclose(dist.mean, [0.8, -0.4], atol=0.1)
    assert np.allclose(dist.std, np.hypot(0.6, 0.1), atol=0.08)
    density = model.score_samples(np.array([[1.0, np.nan]]))  # and the rate of such a gap
    rate = np.log(0.5 / (np.sum(~np.isnan(y)) * 0.95 + 1))
    assert abs(density[0] - (-0.5 * np.log(2 * np.pi) - 0.5) - rate) < 0.3
