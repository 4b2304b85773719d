"""Encoders as JSON and pickle; damaged descriptions say what is wrong."""

import json
import pickle

import numpy as np
import pytest
from table_samples import frame_pandas, frame_polars, samples

from diglm.data.table.columns import Column
from diglm.data.table.encoder import TableEncoder


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
        (("version",), 1, "version 3; got 'diglm.table', version 1. Use the version of diglm"),
        (("n_rows",), 0, "n_rows must be"),
        (("n_rows",), True, "n_rows must be"),
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
        (("columns", 0, "unseen_rate"), 0.0, "unseen_rate must be a probability"),
        (("columns", 0, "unseen_rate"), 1.5, "unseen_rate must be a probability"),
        (("columns", 0, "unseen_rate"), None, "unseen_rate must be a finite number"),
        (("columns", 0, "iso"), "YYYY-MM-DD", "iso must be one of"),
        (("patterns",), [[0]], "patterns must hold exactly"),
        (("patterns", "rate"), 0.0, "patterns must hold exactly 'rate', a probability"),
        (("patterns", "rate"), True, "patterns must hold exactly 'rate', a probability"),
        (("patterns", "more"), 0.0, "patterns must hold exactly"),
        (("patterns", "seen"), [], "1 to 4096 sets"),
        (("patterns", "seen"), [[]] * 4097, "1 to 4096 sets"),
        (("patterns", "seen"), [[], []], "every set of columns once"),
        (("patterns", "seen"), [[], [1]], r"seen\[1\] must be .* an indicator, \[0\]"),
        (("patterns", "seen"), [[0, 0]], r"seen\[0\] must be ascending"),
        (("patterns", "seen"), [["0"]], r"seen\[0\] must be ascending"),
        (("patterns", "seen"), [0], r"seen\[0\] must be ascending"),
        (("normal",), {}, "normal must hold exactly"),
        (("normal", "mean"), [0.0], r"mean must be numbers, of shape \(1, 4\)"),
        (("normal", "mean"), 0.0, "mean must be numbers"),
        (("normal", "mean"), [0.0, 0.0, 0.0, float("nan")], "mean must be finite"),
        (("normal", "mean"), [0.0, 0.0, 0.0, 10**400], "mean must be finite"),
        (("normal", "mean", 0), True, "mean must be numbers"),
        (("normal", "covariance"), [[1.0] * 4], r"covariance must be numbers, of shape \(4, 4\)"),
        (("normal", "covariance", 0), [1.0], r"covariance must be numbers, of shape \(4, 4\)"),
        (("normal", "covariance"), [[1.0] * 4] * 4, "symmetric and positive definite"),
        (("normal", "covariance", 0, 1), 0.25, "symmetric and positive definite"),
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
