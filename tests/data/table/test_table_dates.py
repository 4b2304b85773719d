"""Dates and moments written as text are read as such, in whatever container they come."""

import datetime
import io
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from table_samples import rng

from diglm.data.table.encoder import TableEncoder
from diglm.data.table.times import as_text, format_of, is_iso

DAYS = ["2024-03-01", "2024-02-29", "2023-12-31", "2024-03-01", "2020-01-07"]
STYLES = {
    "dates": DAYS,
    "minutes": [f"{day}T14:3{i}" for i, day in enumerate(DAYS)],
    "seconds": [f"{day} 14:30:0{i}" for i, day in enumerate(DAYS)],
    "zoned": [f"{day}T14:30:0{i}Z" for i, day in enumerate(DAYS)],
    "milliseconds": [f"{day} 14:30:00.12{i}" for i, day in enumerate(DAYS)],
    "microseconds": [f"{day}T14:30:00.00012{i}" for i, day in enumerate(DAYS)],
}


def text_column(values):
    return pd.DataFrame({"day": values})


@pytest.mark.parametrize("text", ["2024-02-29", "1969-07-20T20:17", "2000-01-01 23:59:59.5Z"])
def test_what_is_a_moment(text):
    assert is_iso(text)


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29", "2024-13-01", "0000-01-01", "24-01-01", "2024-1-1", "2024", "2024-01",
        "20240101", "2024-01-01T", "2024-01-01T25:00", "2024-01-01T12", "2024-01-01T12:00+01:00",
        "2024-01-01Z", " 2024-01-01", "2024-01-01\n", "tomorrow", "", "NaT", "٢٠٢٤-٠١-٠١",
    ],
)  # fmt: skip
def test_what_is_no_moment(text):
    assert not is_iso(text)


@pytest.mark.parametrize("style", STYLES)
def test_text_moments_come_back_as_they_were(style):
    frame = text_column(STYLES[style])
    encoder = TableEncoder.fit(frame)
    column = encoder.columns[0]
    assert column.time == "datetime" and column.is_numeric
    back = encoder.decode(encoder.encode(frame).values)
    pd.testing.assert_frame_equal(back, frame)
    loaded = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert loaded == encoder
    array = encoder.decode(encoder.encode(frame).values, like="numpy")
    assert array[:, 0].tolist() == STYLES[style]


def test_every_container_gives_text_back():
    days = DAYS[:4] + [None]
    for frame in (
        pd.DataFrame({"day": days, "c": list("abcde")}),
        pd.DataFrame({"day": pd.array(days, "string"), "c": list("abcde")}),
        pl.DataFrame({"day": days, "c": list("abcde")}),
        pa.table({"day": days, "c": list("abcde")}),
    ):
        encoder = TableEncoder.fit(frame)
        assert [c.kind for c in encoder.columns] == ["lattice", "categorical"]
        assert [c.name for c in encoder.indicators] == ["day"]
        back = encoder.decode(encoder.encode(frame).values)
        assert type(back) is type(frame)
        assert back.equals(frame)
    x = np.array([["2024-01-01", "b"], ["2024-01-09", "a"]])
    encoder = TableEncoder.fit(x)
    assert [c.time for c in encoder.columns] == ["datetime", ""]
    np.testing.assert_array_equal(encoder.decode(encoder.encode(x).values), x)


def test_mixed_precision_is_written_at_the_finest():
    frame = text_column(["2024-01-01", "2024-01-02T10:30", "2024-01-02T10:30:05", None])
    encoder = TableEncoder.fit(frame)
    back = encoder.decode(encoder.encode(frame).values)
    expected = ["2024-01-01T00:00:00", "2024-01-02T10:30:00", "2024-01-02T10:30:05"]
    assert back["day"].tolist()[:3] == expected and back["day"].isna()[3]
    assert format_of(["2024-01-01 10:00", "2024-01-01 10:00", "2024-01-01T10:00Z"])[10] == " "


def test_dates_far_apart_do_not_slip_by_a_day():
    # So many years make days invisible against the spread: a continuous column, rounded on return.
    first = np.datetime64("1900-01-01")
    days = np.datetime_as_string(first + rng().integers(0, 60_000, 300)).tolist()
    frame = text_column(days)
    encoder = TableEncoder.fit(frame)
    assert encoder.columns[0].kind == "continuous"
    values = encoder.encode(frame).values
    assert encoder.decode(values)["day"].tolist() == days
    assert encoder.decode(values - 1e-9, snap=False)["day"].tolist() == days


def test_years_stay_within_four_digits():
    far = np.array([-1e30, 1e30, np.nan])
    assert as_text(far, "YYYY-MM-DD").tolist() == ["0001-01-01", "9999-12-31", None]
    assert as_text(far, "YYYY-MM-DD HH:MM:SS.ffffffZ")[1] == "9999-12-31 23:59:59.000000Z"


@pytest.mark.parametrize("style", STYLES)
def test_text_and_times_agree(style):
    text = text_column(STYLES[style])
    times = text_column(pd.to_datetime(STYLES[style]))
    from_text, from_times = TableEncoder.fit(text), TableEncoder.fit(times)
    expected = from_text.encode(text)
    for encoder, frame in ((from_text, times), (from_times, text), (from_times, times)):
        encoded = encoder.encode(frame)
        np.testing.assert_array_equal(encoded.values, expected.values)
        np.testing.assert_array_equal(encoded.log_scale, expected.log_scale)
        assert not encoded.unseen.any()


@pytest.mark.parametrize("style", ["dates", "minutes", "seconds", "zoned"])
def test_a_csv_read_by_pandas_and_by_arrow_is_the_same(style):
    text = "day,x\n" + "".join(f"{day},{i}.5\n" for i, day in enumerate(STYLES[style]))
    a = pd.read_csv(io.StringIO(text))
    b = pa.csv.read_csv(io.BytesIO(text.encode()))
    assert not pa.types.is_string(b["day"].type)
    for first, second in ((a, b), (b, a)):
        encoder = TableEncoder.fit(first)
        np.testing.assert_array_equal(encoder.encode(first).values, encoder.encode(second).values)
        np.testing.assert_array_equal(
            encoder.encode(first).values, TableEncoder.fit(second).encode(first).values
        )


def test_text_mixed_with_dates_is_a_column_of_moments():
    values = ["2024-01-01", datetime.date(2024, 1, 5), datetime.datetime(2024, 1, 9), None]
    x = np.array(values, dtype=object)[:, None]
    encoder = TableEncoder.fit(x)
    assert (encoder.columns[0].time, encoder.columns[0].iso) == ("datetime", "")
    assert encoder.decode(encoder.encode(x).values)[:3, 0].astype("datetime64[D]").tolist() == [
        datetime.date(2024, 1, day) for day in (1, 5, 9)
    ]


def test_one_text_that_is_no_date_makes_categories():
    for values in (["2024-01-01", "soon"], ["2024-01-01", "2024-02-30"], ["2024-01-01", ""]):
        assert TableEncoder.fit(text_column(values)).columns[0].kind == "categorical"
    declared = text_column(pd.Categorical(DAYS))
    assert TableEncoder.fit(declared).columns[0].kind == "categorical"


@pytest.mark.parametrize("first", [DAYS, pd.to_datetime(DAYS)], ids=["text", "times"])
def test_other_text_in_a_column_of_dates_is_refused(first):
    encoder = TableEncoder.fit(text_column(first))
    message = r"Column 'day' held dates in fit, but now holds 'soon' \(str\). Write it as YYYY-"
    with pytest.raises(ValueError, match=message):
        encoder.encode(text_column(["2024-01-01", "soon"]))
    with pytest.raises(ValueError, match="was a datetime in fit, now a number"):
        encoder.encode(text_column([1.5, 2.5]))
    with pytest.raises(ValueError, match="was a datetime in fit, now a timedelta"):
        encoder.encode(text_column(pd.to_timedelta([1, 2], unit="s")))
    assert encoder.encode(text_column([None, "2024-01-01"])).unseen.any()


def test_text_in_a_column_of_durations_is_refused():
    encoder = TableEncoder.fit(text_column(pd.to_timedelta([1, 2, 5], unit="s")))
    with pytest.raises(ValueError, match=r"held durations in fit, but now holds 'long' \(str\)"):
        encoder.encode(text_column(["long"]))
    with pytest.raises(ValueError, match="was a timedelta in fit, now a datetime"):
        encoder.encode(text_column(["2024-01-01"]))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", [pa.timestamp, pa.duration])
def test_times_between_the_ticks_of_a_column_are_written_in_its_unit(kind, unit):
    """What a model draws has parts of a second, for which a column of seconds has no room."""
    whole = np.random.default_rng(0).integers(10**9, 2 * 10**9, 60)
    ticks = whole * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    table = pa.table({"when": pa.array([*ticks.tolist(), None], kind(unit))})
    encoder = TableEncoder.fit(table)
    values = encoder.encode(table).values
    drawn = encoder.decode(values + 1e-7)
    assert drawn["when"].null_count == 1
    assert drawn["when"].type in (kind(unit), kind("ms"))  # there may be no name for seconds
