"""The table encoder: kinds of column, exact change of unit, round trips, clear errors."""

import datetime
import json
import pickle
import time

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from diglm.data.table.columns import Column
from diglm.data.table.encoder import TableEncoder
from diglm.data.table.lattice import fit_numbers
from diglm.data.toy import mixed_table

FACTORS = [1000.0, 0.3048, 1e-6, 2.0**40, -1.0]


def rng(seed=0):
    return np.random.default_rng(seed)


def column_of(x, **options):
    return fit_numbers("x", np.asarray(x, dtype=np.float64), **options)


def samples():
    r = rng(1)
    return {
        "normal": 5 + 2 * r.standard_normal(500),
        "lognormal": np.exp(2 * r.standard_normal(500)),
        "cauchy": r.standard_cauchy(500),
        "halves": r.integers(-8, 9, 500) / 2,
        "tenths": np.round(20 + 3 * r.standard_normal(500), 1),
        "counts": r.poisson(4.0, 500).astype(float),
        "sixes": 6.0 * r.integers(0, 9, 500) + 1,
        "few whole": np.array([3.0, 18.0, 7.0, 22.0, 9.0]),
        "years": 1900.0 + r.integers(0, 120, 500),
        "binary": (r.random(500) < 0.2).astype(float),
        "constant": np.full(500, 7.5),
    }


def frame_pandas():
    table = mixed_table(300, seed=2)
    r = rng(3)
    frame = pd.DataFrame(table.x)
    frame["grade"] = pd.Categorical(
        r.choice(["low", "mid", "high"], 300), ["low", "mid", "high", "top"], ordered=True
    )
    frame["code"] = pd.Categorical(r.choice([10, 20, 30], 300))
    frame["nullable"] = pd.array(r.choice([1, 2, None], 300), dtype="Int64")
    frame["flag"] = pd.array(r.choice([True, False, None], 300), dtype="boolean")
    frame["small"] = r.integers(0, 255, 300).astype(np.uint8)
    frame["single"] = (r.integers(0, 30, 300) / 10).astype(np.float32)
    day = pd.Timestamp("2024-03-01") + pd.to_timedelta(r.integers(0, 60, 300), unit="D")
    frame["day"] = day
    frame["zoned"] = day.tz_localize("UTC").tz_convert("Europe/Rome")
    frame["wait"] = pd.to_timedelta(r.exponential(1e3, 300), unit="s").round("ms")
    frame["mixed"] = r.choice(np.array([1, "1", 2.5, None], dtype=object), 300)
    return frame


def frame_polars():
    table = mixed_table(300, seed=2)
    r = rng(4)
    columns = {name: pl.Series(values.tolist()) for name, values in table.x.items()}
    columns["income"] = columns["income"].fill_nan(None)
    columns["level"] = pl.Series(r.choice(["a", "b"], 300).tolist(), dtype=pl.Enum(["b", "a", "z"]))
    columns["word"] = pl.Series(r.choice(["u", "v"], 300).tolist(), dtype=pl.Categorical)
    columns["gap"] = pl.Series([None if i % 7 == 0 else i % 5 for i in range(300)], dtype=pl.Int16)
    columns["maybe"] = pl.Series([None if i % 3 == 0 else i % 2 == 0 for i in range(300)])
    columns["single"] = pl.Series(r.standard_normal(300), dtype=pl.Float32)
    first = datetime.datetime(2024, 1, 1)
    hours = [datetime.timedelta(hours=int(h)) for h in r.integers(0, 500, 300)]
    columns["moment"] = pl.Series([first + h for h in hours])
    columns["zoned"] = (
        columns["moment"].dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    )
    columns["date"] = pl.Series([(first + h).date() for h in hours])
    columns["wait"] = pl.Series([None, *hours[1:]])
    return pl.DataFrame(columns)


# Kinds of column.


@pytest.mark.parametrize(
    ("name", "kind", "step"),
    [
        ("normal", "continuous", 0.0),
        ("lognormal", "continuous", 0.0),
        ("cauchy", "continuous", 0.0),
        ("halves", "lattice", 0.5),
        ("tenths", "lattice", 0.1),
        ("counts", "lattice", 1.0),
        ("sixes", "lattice", 6.0),
        ("few whole", "lattice", 1.0),
        ("years", "lattice", 1.0),
        ("binary", "lattice", 1.0),
        ("constant", "lattice", 7.5),
    ],
)
def test_kinds_and_steps(name, kind, step):
    column = column_of(samples()[name])
    assert (column.kind, column.step) == (kind, step)


@pytest.mark.parametrize("n", [3, 4, 5, 8, 13, 30, 100, 1000])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e4])
def test_random_floats_are_never_a_lattice(n, offset):
    for seed in range(60):
        x = offset + rng(seed).standard_normal(n)
        assert column_of(x).kind == "continuous"


@pytest.mark.parametrize("n", [5, 30, 1000])
def test_random_single_precision_floats_are_never_a_lattice(n):
    for seed in range(60):
        x = rng(seed).standard_normal(n).astype(np.float32).astype(np.float64)
        assert column_of(x, itemsize=4).kind == "continuous"


def test_resampled_floats_stay_continuous():
    x = rng().standard_normal(200)
    assert column_of(rng(1).choice(x, 200)).kind == "continuous"


def test_invisible_rounding_counts_as_continuous():
    x = np.round(5 * rng().standard_normal(1000), 2)
    assert column_of(x).kind == "continuous"
    assert column_of(rng().integers(0, 10**6, 1000)).kind == "continuous"


def test_single_precision_grid_is_found():
    x = (rng().integers(0, 50, 300) / np.float32(10)).astype(np.float32)
    column = column_of(x, itemsize=4)
    assert (column.kind, column.step) == ("lattice", 0.1)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-60, 60), min_size=8, max_size=60, unique=True),
    st.floats(1e-8, 1e8),
    st.integers(-1000, 1000),
)
def test_step_is_the_gcd_in_any_unit(cells, unit, offset):
    x = np.array(cells, dtype=np.float64)
    expected = np.gcd.reduce(np.diff(np.sort(x)).astype(np.int64))
    column = column_of((x + offset) * unit)
    assert column.kind == "lattice"
    assert column.step == pytest.approx(expected * unit, rel=1e-9)


def test_spread_is_robust_and_never_zero():
    x = rng().standard_normal(1000)
    x[:3] = 1e9
    assert column_of(x).scale == pytest.approx(1.0, rel=0.1)
    mostly_zero = np.where(rng().random(1000) < 0.97, 0.0, rng(1).exponential(1.0, 1000))
    assert 0.01 < column_of(mostly_zero).scale < 1


def test_discrete_columns_are_standardised_with_their_noise():
    x = np.column_stack([samples()[name] for name in ("halves", "counts", "binary")])
    encoder = TableEncoder.fit(x)
    values = encoder.encode(x).values
    values = values + encoder.widths * rng().uniform(-0.5, 0.5, values.shape)
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=0.4)
    np.testing.assert_allclose(values.std(axis=0), 1, atol=0.35)


@pytest.mark.parametrize("far", [1e15, 2.0**63])
def test_a_far_outlier_does_not_merge_the_others(far):
    x = np.array([[far], [1.0], [5.0], [7.0]])
    for factor in (1.0, 0.3048):
        encoder = TableEncoder.fit(factor * x)
        back = encoder.decode(encoder.encode(factor * x).values)
        np.testing.assert_allclose(back, factor * x, rtol=1e-9)


# Change of unit.


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", samples())
def test_change_of_unit_is_counted_exactly(name, factor):
    x = samples()[name][:, None]
    if name == "constant" and factor == -1:
        factor = 3.0
    first, second = TableEncoder.fit(x), TableEncoder.fit(factor * x)
    a, b = first.encode(x), second.encode(factor * x)
    np.testing.assert_allclose(b.values, np.sign(factor) * a.values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(b.log_scale, a.log_scale - np.log(abs(factor)), rtol=0, atol=1e-11)
    assert first.columns[0].kind == second.columns[0].kind
    np.testing.assert_allclose(first.widths, second.widths, rtol=1e-9)


def test_log_scale_is_the_log_derivative_of_present_cells():
    x = np.column_stack([samples()["normal"], samples()["lognormal"]])
    x[::5, 0] = np.nan
    encoder = TableEncoder.fit(x)
    encoded = encoder.encode(x)
    logs = [np.log(c.scale) for c in encoder.columns + encoder.indicators]
    np.testing.assert_allclose(encoded.log_scale[1], -sum(logs))
    np.testing.assert_allclose(encoded.log_scale[0], -logs[1] - logs[2])
    step = 1e-6 * np.array([0, 1.0])
    moved = encoder.encode(x[1:2] + step).values - encoded.values[1:2]
    np.testing.assert_allclose(np.log(moved[0, 1] / 1e-6), -logs[1], rtol=1e-6)


def test_rows_do_not_depend_on_each_other():
    x = np.column_stack([samples()["normal"], samples()["counts"]])
    x[::3, 1] = np.nan
    encoder = TableEncoder.fit(x)
    together = encoder.encode(x)
    for i in range(6):
        alone = encoder.encode(x[i : i + 1])
        np.testing.assert_array_equal(alone.values[0], together.values[i])
        assert alone.log_scale[0] == together.log_scale[i]


# Round trips.


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8, np.uint8, bool])
def test_numpy_round_trip(dtype):
    x = rng().integers(0, 2 if dtype is bool else 100, (200, 3)).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        x = x + rng().standard_normal((200, 3)).astype(dtype)
    encoder = TableEncoder.fit(x)
    back = encoder.decode(encoder.encode(x).values)
    assert back.dtype == x.dtype
    if np.issubdtype(dtype, np.floating):
        np.testing.assert_allclose(back, x, rtol=1e-6 if dtype is np.float32 else 1e-12)
    else:
        np.testing.assert_array_equal(back, x)


def test_rounded_decimals_come_back_exactly():
    x = np.round(rng().uniform(-3, 3, (500, 1)), 1)
    encoder = TableEncoder.fit(x)
    np.testing.assert_array_equal(encoder.decode(encoder.encode(x).values), x)


def test_object_array_round_trip():
    n = 100
    x = np.empty((n, 5), dtype=object)
    x[:, 0] = rng().integers(0, 9, n).tolist()
    x[:, 1] = rng().standard_normal(n).tolist()
    x[:, 2] = rng().choice(["a", "b"], n).tolist()
    x[:, 3] = (rng().random(n) < 0.5).tolist()
    x[:, 4] = [[1, "1", None, 2.5][i % 4] for i in range(n)]
    encoder = TableEncoder.fit(x)
    kinds = [column.kind for column in encoder.columns]
    assert kinds == ["lattice", "continuous", "categorical", "categorical", "categorical"]
    back = encoder.decode(encoder.encode(x).values)
    assert back.dtype == object
    for j in (0, 2, 3, 4):
        assert back[:, j].tolist() == x[:, j].tolist()
        assert [type(v) for v in back[:, j]] == [type(v) for v in x[:, j]]
    np.testing.assert_allclose(back[:, 1].astype(float), x[:, 1].astype(float))


def test_text_and_time_arrays_round_trip():
    words = rng().choice(["yes", "no", "perhaps"], (50, 2))
    days = np.datetime64("2020-01-01") + rng().integers(0, 400, (50, 2))
    for x in (words, days, days - np.datetime64("2020-01-01")):
        encoder = TableEncoder.fit(x)
        back = encoder.decode(encoder.encode(x).values)
        assert back.dtype == x.dtype
        np.testing.assert_array_equal(back, x)


def test_pandas_round_trip():
    frame = frame_pandas()
    encoder = TableEncoder.fit(frame, mixed_table(300, seed=2).response)
    encoded = encoder.encode(frame)
    assert not encoded.unseen.any()
    pd.testing.assert_frame_equal(encoder.decode(encoded.values), frame, rtol=1e-12)


def test_polars_round_trip():
    frame = frame_polars()
    encoder = TableEncoder.fit(frame)
    encoded = encoder.encode(frame)
    assert not encoded.unseen.any()
    back = encoder.decode(encoded.values)
    assert back.schema == frame.schema
    polars.testing.assert_frame_equal(back, frame, rel_tol=1e-6)


def test_pandas_and_polars_encode_alike():
    x = mixed_table(200).x
    a = TableEncoder.fit(pd.DataFrame(x)).encode(pd.DataFrame(x))
    frame = pl.DataFrame({name: pl.Series(values.tolist()) for name, values in x.items()})
    b = TableEncoder.fit(frame).encode(frame)
    for first, second in zip(a, b, strict=True):
        np.testing.assert_array_equal(first, second)


def test_intervals_and_dates_in_pandas():
    days = [datetime.date(2024, 1, 1 + i % 28) for i in range(60)]
    frame = pd.DataFrame({"band": pd.cut(np.arange(60), 3), "day": days})
    encoder = TableEncoder.fit(frame)
    assert [c.kind for c in encoder.columns] == ["categorical", "lattice"]
    assert encoder.columns[1].step == 86400.0
    back = encoder.decode(encoder.encode(frame).values)
    assert back["band"].tolist() == [str(v) for v in frame["band"]]
    assert [d.date() for d in back["day"]] == days


def test_decode_without_snapping_and_as_numpy():
    frame = frame_pandas()[["visits", "rating", "city"]]
    encoder = TableEncoder.fit(frame)
    values = encoder.encode(frame).values + 0.01
    raw = encoder.decode(values, snap=False)
    assert raw["visits"].dtype == np.float64
    np.testing.assert_allclose(
        raw["visits"], frame["visits"] + 0.01 * encoder.columns[0].scale, rtol=1e-12
    )
    assert raw["city"].equals(frame["city"])
    array = encoder.decode(values, like="numpy")
    assert isinstance(array, np.ndarray) and array.dtype == object
    np.testing.assert_array_equal(array[:, 0].astype(int), frame["visits"])


def test_decode_clips_grids_to_the_range_seen():
    frame = pd.DataFrame({"n": [0, 1, 2, 5] * 5, "c": ["a", "b"] * 10})
    encoder = TableEncoder.fit(frame)
    back = encoder.decode(np.array([[1e30, 1e30], [-1e30, -1e30]]))
    assert back["n"].tolist() == [5, 0]
    assert set(back["c"]) == {"a", "b"}
    assert back["n"].dtype == np.int64


# Missing and unseen.


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


def test_unseen_cells_are_counted():
    train = pd.DataFrame({"c": ["a", "a", "b", "b", "b"], "x": [0.1, 2.2, 3.7, 4.9, 5.3]})
    test = pd.DataFrame({"c": ["a", "z", None], "x": [1.0, np.nan, np.nan]})
    encoder = TableEncoder.fit(train)
    encoded = encoder.encode(test)
    assert encoded.unseen.tolist() == [0, 2, 2]
    frequent = encoder.encode(train.iloc[[2]]).values[0, 0]
    assert encoded.values[1:, 0].tolist() == [frequent, frequent]
    assert np.isnan(encoded.values[1:, 1]).all()
    assert encoded.log_scale[1] == pytest.approx(-np.log(encoder.columns[0].scale))


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


# Extremes.


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-150, 1e150, 1e300, 1.7e308])
def test_extreme_magnitudes_stay_finite(size):
    # Warnings are errors here, so overflow and division by zero would fail.
    x = size * rng().uniform(-1, 1, (300, 1))
    encoder = TableEncoder.fit(x)
    encoded = encoder.encode(x)
    assert np.isfinite(encoded.values).all() and np.isfinite(encoded.log_scale).all()
    assert np.isfinite(encoded.values.astype(np.float32)).all()
    if size > 1e-290:
        assert 0.5 < encoded.values.std() < 2
        np.testing.assert_allclose(encoder.decode(encoded.values), x, rtol=1e-9, atol=1e-9 * size)
    one = TableEncoder.fit(np.array([[0.5], [1.5], [0.3]])).encode(np.array([[size]]))
    assert abs(one.values[0, 0]) <= 1e30


def test_far_from_zero_on_both_sides():
    x = np.array([[1.7e308], [1.6e308], [1.5e308], [-1.7e308]])
    encoded = TableEncoder.fit(x).encode(x)
    assert np.isfinite(encoded.values).all()
    assert np.all(np.diff(encoded.values[:, 0]) < 0)


def test_small_spread_on_a_large_offset():
    x = 1e9 + 1e-3 * rng().standard_normal((200, 1))
    encoder = TableEncoder.fit(x)
    assert encoder.columns[0].kind == "continuous"
    assert 0.5 < encoder.encode(x).values.std() < 2


@pytest.mark.parametrize("value", [0.0, -3.0, 0.1, 1e300, 1e-320])
def test_constant_columns(value):
    x = np.column_stack([np.full(5, value), rng().standard_normal(5)])
    encoder = TableEncoder.fit(x)
    encoded = encoder.encode(x)
    assert encoder.columns[0].kind == "lattice" and encoder.widths[0] == 1
    assert (encoded.values[:, 0] == 0).all() and np.isfinite(encoded.log_scale).all()
    np.testing.assert_array_equal(encoder.decode(encoded.values)[:, 0], x[:, 0])


def test_one_row_and_duplicate_columns():
    encoder = TableEncoder.fit([[1.5, 2, 0]])
    assert np.isfinite(encoder.encode([[1.5, 2, 0]]).values).all()
    x = rng().standard_normal((50, 1))
    values = TableEncoder.fit(np.hstack([x, x])).encode(np.hstack([x, x])).values
    np.testing.assert_array_equal(values[:, 0], values[:, 1])


def test_lists_of_mixed_rows():
    encoder = TableEncoder.fit([[1, "a"], [2, "b"], [4, "a"]])
    assert [c.kind for c in encoder.columns] == ["lattice", "categorical"]
    assert TableEncoder.fit([[1.5, 2.5], [0.1, 0.7]]).dim == 2


# Errors.


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported"),
        (np.zeros((0, 3)), ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1"),
        (np.zeros((4, 0)), ValueError, r"0 feature\(s\) \(shape=\(4, 0\)\) while a minimum of 1"),
        (pd.DataFrame({"a": []}), ValueError, r"0 sample\(s\) \(shape=\(0, 1\)\)"),
        (np.zeros(3), ValueError, "Reshape your data"),
        (pd.Series([1.0, 2.0]), ValueError, "Reshape your data"),
        (3.0, ValueError, "Expected 2D array, got scalar array"),
        (np.zeros((2, 2, 2)), ValueError, "dim 3"),
        (scipy.sparse.csr_matrix(np.eye(3)), TypeError, "Sparse data was passed"),
        (scipy.sparse.csr_array(np.eye(3)), TypeError, "Sparse data was passed"),
        ([[1, 2], [3]], ValueError, "rows differ in length"),
        ({"a": [1, 2]}, TypeError, "pandas.DataFrame"),
        (pl.LazyFrame({"a": [1]}), TypeError, "collect"),
        (pl.DataFrame({"a": [[1], [2]]}), TypeError, "argument must be a string, a number"),
        (pl.DataFrame({"a": [datetime.time(1)]}), TypeError, "seconds since midnight"),
        (np.array([[{"foo": 1}], [2]], dtype=object), TypeError, "must be .* string.* number"),
        (np.array([[1 + 2j], [2]], dtype=object), ValueError, "Complex data not supported"),
        (np.array([["a"], [np.inf]], dtype=object), ValueError, "infinite"),
        (np.array([[10**400], [2]], dtype=object), ValueError, "beyond 1e308"),
        (
            np.array([[1.0, np.inf], [2.0, -np.inf]]),
            ValueError,
            r"infinite values in column 1 \(2\)",
        ),
        (pd.DataFrame({"a": [1.0, np.inf]}), ValueError, r"column 'a' \(1\).* NaN if"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "unique"),
        (
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            ValueError,
            "Flatten",
        ),
        (np.zeros(2, dtype="V8").reshape(2, 1), TypeError, "dtype"),
    ],
    ids=range(24),
)
def test_what_is_no_table_is_refused(x, error, message):
    with pytest.raises(error, match=message):
        TableEncoder.fit(x)


@pytest.mark.parametrize("y", [np.ones(2), np.ones((3, 1, 1)), ["a", "b", "c"]])
def test_bad_targets(y):
    with pytest.raises(ValueError, match="y"):
        TableEncoder.fit(np.ones((3, 1)), y)


def test_columns_are_matched_by_name():
    frame = frame_pandas()[["income", "visits", "city"]]
    encoder = TableEncoder.fit(frame)
    assert encoder.feature_names == ["income", "visits", "city"]
    a, b = encoder.encode(frame), encoder.encode(frame[["city", "income", "visits"]])
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.values, encoder.encode(frame.to_numpy(dtype=object)).values)
    with pytest.raises(ValueError, match=r"lacks columns \['visits'\]"):
        encoder.encode(frame[["income", "city"]])
    with pytest.raises(ValueError, match=r"has columns \['more'\]"):
        encoder.encode(frame.assign(more=1))


def test_number_of_columns_is_checked():
    encoder = TableEncoder.fit(np.ones((3, 2)))
    message = "X has 3 features, but HybridClassifier is expecting 2 features as input"
    with pytest.raises(ValueError, match=message):
        encoder.encode(np.ones((3, 3)), owner="HybridClassifier")
    assert encoder.feature_names is None


def test_numbered_frame_columns_go_by_place():
    frame = pd.DataFrame(rng().standard_normal((20, 3)))
    encoder = TableEncoder.fit(frame)
    assert encoder.feature_names is None
    pd.testing.assert_frame_equal(
        encoder.decode(encoder.encode(frame).values), frame, check_column_type=False
    )


def test_changed_types_are_named():
    encoder = TableEncoder.fit(pd.DataFrame({"age": [1.0, 2.5, 7.0]}))
    with pytest.raises(ValueError, match=r"Column 'age' held numbers in fit.*'old' \(str\)"):
        encoder.encode(pd.DataFrame({"age": ["old", "new"]}))
    with pytest.raises(ValueError, match="was a number in fit, now a datetime"):
        encoder.encode(pd.DataFrame({"age": pd.to_datetime(["2020-01-01"])}))
    with pytest.raises(ValueError, match="infinite"):
        encoder.encode(pd.DataFrame({"age": [np.inf]}))


@pytest.mark.parametrize("shape", [(3,), (3, 3), (2, 3, 2)])
def test_decode_checks_shapes(shape):
    encoder = TableEncoder.fit(np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"\(rows, 2\)"):
        encoder.decode(np.zeros(shape))
    with pytest.raises(ValueError, match="like"):
        encoder.decode(np.zeros((1, 2)), like="excel")


# Storage.


@pytest.mark.parametrize("make", [frame_pandas, frame_polars, lambda: samples()["tenths"][:, None]])
def test_json_and_pickle_round_trips(make):
    table = make()
    encoder = TableEncoder.fit(table)
    loaded = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False)))
    assert loaded == encoder and pickle.loads(pickle.dumps(encoder)) == encoder
    for a, b in zip(loaded.columns, encoder.columns, strict=True):
        assert [type(v) for v in a.categories] == [type(v) for v in b.categories]
    np.testing.assert_array_equal(loaded.encode(table).values, encoder.encode(table).values)


def stored():
    return TableEncoder.fit(frame_pandas()[["income", "visits", "city"]]).to_dict()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), "other", "format"),
        (("version",), 2, "version"),
        (("container",), "excel", "container"),
        (("container",), ["numpy"], "container"),
        (("dtype",), 3, "dtype"),
        (("columns",), [], "at least one column"),
        (("columns",), {"a": 1}, "columns must be a list"),
        (("columns", 0), "income", r"columns\[0\] must hold exactly"),
        (("columns", 0, "scale"), 0.0, r"columns\[0\]: scale must be positive"),
        (("columns", 0, "scale"), "1", r"columns\[0\]: scale must be a finite number"),
        (("columns", 0, "scale"), True, "scale must be a finite number"),
        (("columns", 0, "location"), float("nan"), "location must be a finite number"),
        (("columns", 0, "location"), 10**400, "location must be a finite number"),
        (("columns", 0, "step"), 1.0, "0 in a continuous column"),
        (("columns", 1, "step"), 0.0, "positive in a lattice column"),
        (("columns", 1, "step"), -1.0, "step must be zero or positive"),
        (("columns", 1, "low"), 1e9, "high must be at least low"),
        (("columns", 0, "kind"), "unknown", "kind must be one of"),
        (("columns", 0, "kind"), ["lattice"], "kind must be one of"),
        (("columns", 0, "name"), None, "name must be"),
        (("columns", 0, "name"), "visits", "unique"),
        (("columns", 0, "time"), "month", "time must be one of"),
        (("columns", 0, "dtype"), 7, "dtype must be text"),
        (("columns", 0, "ordered"), 1, "ordered must be"),
        (("columns", 0, "categories"), ["a"], "empty in a continuous column"),
        (("columns", 2, "categories"), [], "at least one value"),
        (("columns", 2, "categories"), "abc", "a list of plain values"),
        (("columns", 2, "categories"), ["a", "a"], "a list of plain values"),
        (("columns", 2, "categories"), [["a"]], "a list of plain values"),
        (("columns", 2, "categories"), [float("inf")], "a list of plain values"),
        (("columns", 2, "frequent"), 99, "position of a category"),
        (("columns", 2, "frequent"), 0.5, "position of a category"),
        (("columns", 2, "levels"), 3, "levels must be"),
        (("columns", 0, "extra"), 3, "must hold exactly"),
        (("indicators", 0, "name"), "city", "indicators must name numeric columns"),
        (("indicators", 0, "kind"), "lattice", "belongs in indicators"),
    ],
)
def test_malformed_files_say_what_is_wrong(path, value, message):
    content = stored()
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        TableEncoder.from_dict(content)


@pytest.mark.parametrize("content", [None, [], "text", {}, {"format": "diglm.table"}])
def test_what_is_no_encoder_is_refused(content):
    with pytest.raises(ValueError, match="must hold exactly"):
        TableEncoder.from_dict(content)


@pytest.mark.parametrize("dtype", ["no such type", "c16", "f8,f8", ""])
def test_stored_array_types_are_checked(dtype):
    content = TableEncoder.fit(np.ones((2, 1))).to_dict() | {"dtype": dtype}
    if dtype == "":
        content["columns"] = content["columns"][:0]
    with pytest.raises(ValueError, match="dtype|column"):
        TableEncoder.from_dict(content)


def test_columns_are_frozen():
    column = Column("x", "continuous", 0.0, 1.0)
    with pytest.raises(AttributeError):
        column.scale = 2.0  # pyright: ignore[reportAttributeAccessIssue]


# Speed.


def test_encoding_numbers_is_fast():
    x = rng().standard_normal((100_000, 20))
    encoder = TableEncoder.fit(x[:1000])
    times = []
    for _ in range(5):
        start = time.process_time()
        encoder.encode(x)
        times.append(time.process_time() - start)
    assert min(times) < 0.1
