"""Both encoders fulfil the same interface."""

import json

import numpy as np
import pandas as pd
import pytest
from table_samples import frame_pandas, rng

from diglm.data.encoder import AbstractEncoder, Encoded
from diglm.data.image import ImageEncoder
from diglm.data.kinds import ENCODERS, encoder_of, name_of
from diglm.data.table.encoder import TableEncoder

ROWS = {
    "table": frame_pandas,
    "array": lambda: rng().standard_normal((20, 3)),
    "bytes": lambda: rng().integers(0, 256, (5, 4, 3, 2)).astype(np.uint8),
    "floats": lambda: rng().integers(0, 256, (5, 4, 3, 1)) / 255,
}


@pytest.mark.parametrize("kind", ROWS)
def test_interface(kind):
    X = ROWS[kind]()
    cls = encoder_of(X)
    assert cls is (TableEncoder if kind in ("table", "array") else ImageEncoder)
    encoder = cls.fit(cls.check(X), np.arange(len(X)), weights=np.ones(len(X)))
    assert isinstance(encoder, AbstractEncoder) and ENCODERS[name_of(encoder)] is cls
    assert (encoder.layout, encoder.n_offsets) == (
        ("vector", 8) if cls is TableEncoder else ("image", 2)
    )
    encoded = encoder.encode(X)
    assert isinstance(encoded, Encoded) and len(encoded) == len(X)
    assert encoded.values.shape == (len(X), *encoder.shape)
    assert encoder.dim == np.prod(encoder.shape)
    assert encoder.widths.shape == encoder.can_be_missing.shape == encoder.shape
    assert encoded.log_scale.shape == (len(X),)
    assert encoded.unseen.dtype == bool and len(encoded.unseen) == len(X)
    assert encoded.unseen.shape[1] == (encoder.n_features + 1 if cls is TableEncoder else 0)
    assert encoder.remarks == []
    values = encoded.values.astype(float)
    filled, log_q = encoder.complete(values, np.full(values.shape, 0.5))
    np.testing.assert_array_equal(filled, values)
    assert log_q.tolist() == [0.0] * len(X)
    assert cls.from_dict(json.loads(json.dumps(encoder.to_dict()))) == encoder


def test_images():
    X = ROWS["floats"]()
    encoder = ImageEncoder.fit(X)
    assert encoder.shape == (4, 3, 1) and encoder.n_features == 12
    np.testing.assert_array_equal(encoder.widths, np.ones((4, 3, 1)))
    assert encoder.feature_names is None and not encoder.can_be_missing.any()
    encoded = encoder.encode(X)
    np.testing.assert_allclose(encoded.log_scale, 12 * np.log(255))
    np.testing.assert_allclose(encoder.decode(encoded.values + 0.5), X, atol=1e-6)
    with pytest.raises(ValueError, match="Me was fitted to images of 4 x 3"):
        encoder.encode(X[:, :2], owner="Me")
    with pytest.raises(ValueError, match="no columns"):
        encoder.slopes("all")
    with pytest.raises(ValueError, match="add an axis"):
        ImageEncoder.check(X[..., 0])


def test_tables_accept_anything():
    assert all(TableEncoder.accepts(X) for X in (None, 3, [[1]], {"a": 1}, np.ones((2, 2, 2, 1))))
    assert not any(ImageEncoder.accepts(X) for X in (None, [[1]], np.ones((2, 2))))
    assert ImageEncoder.accepts(np.ones((2, 2, 2)))  # and `check` says which axis is lacking


def test_slopes():
    frame = frame_pandas()[["income", "visits", "city"]]
    encoder = TableEncoder.fit(frame)
    assert encoder.n_features == 3 and encoder.shape == (4,)
    assert encoder.slopes("all") == [0, 1, 2]
    assert encoder.slopes(["city", 0]) == [2, 0]
    assert encoder.slopes((np.int64(1),)) == [1]
    assert encoder.slopes([]) == []
    with pytest.raises(ValueError, match="column 'age', but the table has"):
        encoder.slopes(["age"])
    with pytest.raises(ValueError, match="column 3, but the table has"):
        encoder.slopes([3])
    for wanted in ("city", None):
        with pytest.raises(ValueError, match="Expected 'all' or a list of the columns"):
            encoder.slopes(wanted)


def test_numbered_columns_go_by_name_before_place():
    encoder = TableEncoder.fit(pd.DataFrame(rng().standard_normal((9, 3)), columns=[2, 0, 1]))
    assert encoder.slopes([2, 1]) == [0, 2]


def test_slope_units():
    encoder = TableEncoder.fit(frame_pandas()[["income", "visits", "city"]])
    location, scale = encoder.slope_units([2, 0])
    columns = [encoder.columns[j] for j in (2, 0)]
    np.testing.assert_array_equal(location, [c.location for c in columns])
    np.testing.assert_array_equal(scale, [c.scale for c in columns])
    assert [len(a) for a in encoder.slope_units([])] == [0, 0]
