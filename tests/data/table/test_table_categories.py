"""Missing values, the order of categories, and weights of rows."""

import numpy as np
import pandas as pd
import pytest
from table_samples import rng, samples

from diglm.data.table.encoder import TableEncoder

# Missing.


def test_missing_numbers_gain_one_indicator():
    x = np.column_stack([samples()["normal"], samples()["counts"], samples()["halves"]])
    x[::4, 1] = np.nan
    encoder = TableEncoder.fit(x)
    values = encoder.encode(x).values
    assert encoder.dim == 4 and values.shape == (500, 4)
    assert [c.name for c in encoder.indicators] == [1]
    np.testing.assert_array_equal(np.isnan(values[:, 1]), np.isnan(x[:, 1]))
    assert len(np.unique(values[:, 3])) == 2
    assert np.ptp(values[:, 3]) == pytest.approx(encoder.widths[3])
    filled = np.where(np.isnan(values), 0.3, values)  # what a flow would draw
    np.testing.assert_array_equal(np.isnan(encoder.decode(filled)), np.isnan(x))


def test_every_spelling_of_missing_is_the_same():
    spellings = [None, np.nan, pd.NA, float("nan"), pd.NaT, np.float32("nan")]
    x = np.array([["a", "b"], *[[v, "b"] for v in spellings], ["c", "b"]], dtype=object)
    encoder = TableEncoder.fit(x)
    assert set(encoder.columns[0].categories) == {"a", None, "c"}
    numbers = np.array([[1.5], *[[v] for v in spellings], [2.25], [3.0]], dtype=object)
    encoded = TableEncoder.fit(numbers).encode(numbers)
    assert np.isnan(encoded.values[:, 0]).tolist() == [False, *[True] * 6, False, False]


def test_bools_with_gaps_are_categories():
    x = np.array([[True], [np.nan], [False], [None]], dtype=object)
    column = TableEncoder.fit(x).columns[0]
    assert column.kind == "categorical"
    assert {type(v) for v in column.categories} == {bool, type(None)}


def test_columns_without_any_value():
    frame = pd.DataFrame({"none": [None] * 4, "nan": [np.nan] * 4, "x": [0.3, 1.7, 2.9, 8.8]})
    encoder = TableEncoder.fit(frame)
    encoded = encoder.encode(frame)
    assert np.isnan(encoded.values[:, 1]).all() and np.isfinite(encoded.log_scale).all()
    assert encoder.decode(encoded.values)["nan"].isna().all()


def test_equal_values_of_other_types_are_known():
    x = np.array([[True], [False], [True]])
    encoder = TableEncoder.fit(x)
    np.testing.assert_array_equal(encoder.encode(x).values, encoder.encode(x.astype(int)).values)
    labels = pd.DataFrame({"c": pd.Categorical([1, 2, 3])})
    assert not TableEncoder.fit(labels).encode(pd.DataFrame({"c": [3, 2]})).unseen.any()


# The order of categories.


def test_categories_follow_a_numeric_target():
    r = rng()
    city = r.choice(["p", "q", "r", "s"], 400)
    mean = {"p": 2.0, "q": -1.0, "r": 5.0, "s": 0.5}
    y = np.array([mean[c] for c in city]) + 0.1 * r.standard_normal(400)
    y[:20] = np.nan
    column = TableEncoder.fit(city[:, None], y).columns[0]
    assert column.categories == ("q", "s", "p", "r")
    assert TableEncoder.fit(city[:, None], 1e-3 * y).columns[0] == column


def test_categories_follow_classes():
    r = rng()
    word = r.choice(["a", "b", "c"], 900)
    chance = {"a": [0.1, 0.8, 0.1], "b": [0.8, 0.1, 0.1], "c": [0.45, 0.45, 0.1]}
    label = np.array([r.choice(3, p=chance[w]) for w in word])
    order = TableEncoder.fit(word[:, None], np.eye(3)[label]).columns[0].categories
    assert order in (("a", "c", "b"), ("b", "c", "a"))


def test_rare_categories_are_drawn_to_the_middle():
    word = np.array(["low"] * 50 + ["high"] * 50 + ["rare"])[:, None]
    y = np.array([-1.0] * 50 + [1.0] * 50 + [1.5])
    assert TableEncoder.fit(word, y).columns[0].categories == ("low", "rare", "high")


def test_without_target_the_order_is_by_frequency():
    word = np.array(["x"] * 2 + ["y"] * 5 + ["z"] * 3)[:, None]
    column = TableEncoder.fit(word).columns[0]
    assert column.categories == ("y", "z", "x") and column.frequent == 0
    assert TableEncoder.fit(word, np.ones(10)).columns[0].categories == ("y", "z", "x")


# Weights.


def test_weights_equal_repetition():
    r = rng()
    x = np.empty((60, 4), dtype=object)
    x[:, 0] = r.standard_normal(60)
    x[:, 1] = r.poisson(3.0, 60)
    x[:, 2] = r.choice(["a", "b", "c"], 60)
    x[:, 3] = np.where(r.random(60) < 0.3, np.nan, r.standard_normal(60))
    weights, y = r.integers(0, 4, 60), r.standard_normal(60)
    weighted = TableEncoder.fit(x, y, weights=weights)
    repeated = TableEncoder.fit(np.repeat(x, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.encode(x).values, repeated.encode(x).values, rtol=1e-12)
    assert [c.categories for c in weighted.columns] == [c.categories for c in repeated.columns]


@pytest.mark.parametrize("weights", [[1, 2], [-1, 1, 1], [np.nan, 1, 1], [0, 0, 0]])
def test_bad_weights(weights):
    with pytest.raises(ValueError, match="weights"):
        TableEncoder.fit(np.ones((3, 1)), weights=weights)
