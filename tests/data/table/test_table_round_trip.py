"""From tables to numbers and back: containers, types and values return."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
from table_samples import frame_pandas, frame_polars, rng

from diglm.data.table import read as reading
from diglm.data.table.encoder import TableEncoder
from diglm.data.table.read import opened, read
from diglm.data.toy import mixed_table


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


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "float32", "float64"])
def test_numbers_of_pandas_are_read_without_narwhals(kind, monkeypatch):
    frame = pd.DataFrame({"a": [1, 2, 3], "b": list("xyz"), "c": [3, 1, 2]})
    frame = frame.astype({"a": kind}).assign(d=frame["a"].astype("Int64"), e=frame["a"] > 1)
    plain = read(opened(frame), [2, 0, 1, 3, 4]).fields
    asked = []
    monkeypatch.setattr(reading, "_read_numbers", lambda name, column: asked.append(name))
    for ours, theirs in zip(plain, read(opened(frame), [2, 0, 1, 3, 4]).fields, strict=True):
        np.testing.assert_array_equal(ours.values, theirs.values)
        assert ours._replace(values=None) == theirs._replace(values=None)
    assert asked == ["c", "a", "b", "d", "e"]
    usual, wrapped = reading._read_series, []
    monkeypatch.undo()
    monkeypatch.setattr(
        reading, "_read_series", lambda name, *more: wrapped.append(name) or usual(name, *more)
    )
    read(opened(frame))
    assert not {"a", "c"} & set(wrapped) and "b" in wrapped


def test_pandas_and_polars_encode_alike():
    x = mixed_table(200).x
    a = TableEncoder.fit(pd.DataFrame(x)).encode(pd.DataFrame(x))
    frame = pl.DataFrame({name: pl.Series(values.tolist()) for name, values in x.items()})
    b = TableEncoder.fit(frame).encode(frame)
    for part in ("values", "log_scale", "unseen"):
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part))


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
