"""What is no table, or not the table of fit, meets a clear error."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest
import scipy.sparse
from table_samples import frame_pandas, rng

from diglm.data.table.encoder import TableEncoder


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
        TableEncoder.fit(TableEncoder.check(x))


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ({"a": [1, 2]}, TypeError, r"pandas.DataFrame\(X\)"),
        (pl.LazyFrame({"a": [1]}), TypeError, r"call X.collect\(\) first"),
        (scipy.sparse.csr_array(np.eye(3)), TypeError, "Sparse data was passed, but dense data"),
        (np.zeros((0, 3)), ValueError, r"0 sample\(s\)"),
        (pl.DataFrame({"a": []}), ValueError, r"0 sample\(s\)"),
        (np.zeros((4, 0)), ValueError, r"0 feature\(s\)"),
        ([1.0, 2.0], ValueError, "Reshape your data"),
        ([[1, 2], [3]], ValueError, "rows differ in length"),
        (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported"),
        (pd.DataFrame({"a": [1j, 2]}), ValueError, "Complex data not supported"),
        (
            pd.DataFrame([[1, 2, 3, 4, 5]], columns=["a", "b", "a", "c", "b"]),
            ValueError,
            "must be unique; X has 'a' 2 times, 'b' 2 times. Rename or drop",
        ),
        (pa.table([[1], [2]], names=["a", "a"]), ValueError, "X has 'a' 2 times"),
    ],
    ids=range(12),
)
def test_check_refuses_without_reading_cells(x, error, message):
    with pytest.raises(error, match=message):
        TableEncoder.check(x)


def test_check_returns_what_is_read():
    for frame in (frame_pandas(), pl.DataFrame({"a": [1]}), pa.table({"a": [1]})):
        assert TableEncoder.check(frame) is frame
    array = np.ones((3, 2))
    assert TableEncoder.check(array) is array
    mixed = TableEncoder.check([[1, "a"], [2, "b"]])
    assert mixed.dtype == object and mixed.tolist() == [[1, "a"], [2, "b"]]


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
    with pytest.raises(ValueError, match=r"lacks columns \['visits'\]"):
        encoder.encode(frame[["income", "city"]])
    with pytest.raises(ValueError, match=r"has columns \['more'\]"):
        encoder.encode(frame.assign(more=1))


def test_other_columns_can_be_passed_over():
    frame = frame_pandas()[["income", "visits", "city"]]
    encoder = TableEncoder.fit(frame)
    more = frame.assign(nested=[[1]] * len(frame))[["nested", "city", "income", "visits"]]
    with pytest.raises(ValueError, match=r"has columns \['nested'\] that were not there in fit"):
        encoder.encode(more)
    np.testing.assert_array_equal(
        encoder.encode(more, extra="ignore").values, encoder.encode(frame).values
    )
    with pytest.raises(ValueError, match=r"lacks columns \['city'\]; Me expects"):
        encoder.encode(more.drop(columns="city"), extra="ignore", owner="Me")
    with pytest.raises(ValueError, match="extra must be one of"):
        encoder.encode(frame, extra="drop")


def test_rows_without_names_are_warned_of():
    frame = frame_pandas()[["income", "visits", "city"]]
    encoder = TableEncoder.fit(frame)
    message = "^X does not have valid feature names, but Me was fitted with feature names$"
    with pytest.warns(UserWarning, match=message):
        encoded = encoder.encode(frame.to_numpy(dtype=object), owner="Me")
    np.testing.assert_array_equal(encoded.values, encoder.encode(frame).values)
    TableEncoder.fit(np.ones((3, 2))).encode(pd.DataFrame(np.ones((3, 2)), columns=["a", "b"]))


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
