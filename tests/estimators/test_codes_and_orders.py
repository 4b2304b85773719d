"""Whole numbers that are codes, and categories in two orders, through the estimators."""

import numpy as np
import pandas as pd
import pytest

import diglm
from diglm import HybridClassifier

TINY = dict(n_epochs=6, batch_size=64, random_state=0, verbose=False)


def rows(n, seed=0):
    """Three classes that follow a code and the levels of a word in two ways."""
    rng = np.random.default_rng(seed)
    effects = 2.0 * np.random.default_rng(5).normal(size=(2, 12, 3))
    code, word = rng.integers(0, 12, n), rng.integers(0, 12, n)
    logits = effects[0][code] + effects[1][word] + rng.gumbel(size=(n, 3))
    frame = pd.DataFrame({"a": rng.normal(size=n), "code": code, "word": word})
    return frame.assign(word="w" + frame["word"].astype(str)), np.argmax(logits, axis=1)


def loss(model, X, y):
    return -np.mean(np.log(model.predict_proba(X)[np.arange(len(y)), y]))


def test_codes_are_found_and_everything_answers():
    (X, y), (new, truth) = rows(900), rows(900, seed=1)
    model = HybridClassifier("linear", reject=0.05, **TINY).fit(X, y)
    _, code, word = model.predictor_.encoder.columns
    assert code.coded and code.depth == word.depth == 4
    as_number = HybridClassifier("linear", **TINY).fit(X.assign(code=X["code"] + 0.5), y)
    number = loss(as_number, new.assign(code=new["code"] + 0.5), truth)
    assert loss(model, new, truth) < number - 0.05
    assert np.isfinite(model.score_samples(new)).all() and model.rejects(new).mean() < 0.15
    drawn = model.sample(200, random_state=0)
    assert drawn["code"].dtype == X["code"].dtype and set(drawn["code"]) <= set(range(12))
    assert set(drawn["word"]) <= set(X["word"])
    back = model.inverse_transform(model.transform(new[:50]))
    pd.testing.assert_frame_equal(back[["code", "word"]], new[["code", "word"]][:50])
    assert model.rejects(new[:1].assign(code=99)).all()


def test_models_with_codes_and_orders_are_saved(tmp_path):
    X, y = rows(600)
    model = HybridClassifier("linear", **TINY).fit(X, y)
    model.save(tmp_path / "model.diglm")
    loaded = diglm.load(tmp_path / "model.diglm")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_codes_in_files_are_found_with_all_their_levels(tmp_path):
    pytest.importorskip("pyarrow")
    X, y = rows(900)
    X.loc[7, "code"] = 50  # once only
    X.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    model = HybridClassifier("linear", **TINY).fit_file(tmp_path / "rows.parquet", "y")
    column = next(c for c in model.predictor_.encoder.columns if c.name == "code")
    assert column.coded and set(column.categories) >= set(range(12))
