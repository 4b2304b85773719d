"""Tables as people have them: mixed columns, gaps, constants, categories never seen."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from diglm import HybridClassifier
from diglm.data.toy import mixed_table

TINY = dict(n_epochs=4, batch_size=64, reject=0.05, random_state=0, verbose=False)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_mixed_frames_with_missing_values(library):
    table = mixed_table(400, 0)
    frame = library(table.x)
    model = HybridClassifier("linear", **TINY).fit(frame, table.label)
    assert np.all(np.isfinite(model.score_samples(frame)))
    assert model.score(frame, table.label) > 0.6
    drawn = model.sample(20, random_state=0)
    assert type(drawn) is type(frame) and list(drawn.columns) == list(frame.columns)
    assert np.all(np.isfinite(model.score_samples(drawn)))
    assert type(model.assess(frame)) is type(frame)
    back = model.inverse_transform(model.transform(frame))
    assert type(back) is type(frame)


def test_answers_keep_the_index_of_a_frame(moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(len(X)) + 1000)
    model = HybridClassifier("linear", **TINY).fit(frame, y)
    assert model.assess(frame[5:8]).index.tolist() == [1005, 1006, 1007]
    assert list(model.feature_names_in_) == ["a", "b"]


def test_missingness_is_learned_at_least_as_well_as_median_and_indicator():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    missing = rng.random(1500) < np.where(y == 1, 0.5, 0.1)  # missing tells about y
    X[missing, 0] = np.nan
    model = HybridClassifier("linear", **TINY | dict(n_epochs=20)).fit(X[:1000], y[:1000])
    filled = np.column_stack(
        [np.where(missing, np.nanmedian(X[:1000, 0]), X[:, 0]), X[:, 1:], missing]
    )
    simple = LogisticRegression().fit(filled[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) >= simple.score(filled[1000:], y[1000:]) - 0.01


def test_unknown_category_and_new_missing_value_are_finite_and_refused():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=300), "kind": rng.choice(["a", "b", "c"], 300)})
    y = (frame["size"] > 0).astype(int)
    model = HybridClassifier("linear", **TINY).fit(frame, y)
    strange = pd.DataFrame({"size": [0.1, np.nan], "kind": ["zebra", "a"]})
    assert np.all(np.isfinite(model.score_samples(strange)))
    assert model.rejects(strange).all()
    assert np.all(np.isfinite(model.predict_proba(strange)))


@pytest.mark.parametrize("columns", ["constant", "duplicate", "one", "wide", "whole"])
def test_awkward_tables_fit(columns):
    rng = np.random.default_rng(0)
    base = rng.normal(size=(200, 2))
    X = {
        "constant": np.column_stack([base, np.full(200, 7.0)]),
        "duplicate": base[:, [0, 1, 0]],
        "one": base[:, :1],
        "wide": rng.normal(size=(30, 40)),
        "whole": rng.integers(0, 5, size=(200, 3)).astype(float),
    }[columns]
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    model = HybridClassifier(n_blocks=2, width=8, **TINY).fit(X, y)
    assert np.all(np.isfinite(model.score_samples(X)))
    assert np.all(np.isfinite(model.predict_proba(X)))
    assert np.all(np.isfinite(model.sample(5, random_state=0)))
    if columns == "constant":
        changed = X.copy()
        changed[:, 2] = 100.0
        assert model.rejects(changed).all()
