"""Categories in two orders, and rare levels in one place."""

import json

import numpy as np
import pandas as pd
import pytest
from table_samples import rng

from diglm.data.table.encoder import TableEncoder


def triangle(n=900, n_levels=9, seed=0):
    """Levels that three classes set apart in two ways."""
    r = rng(seed)
    level = r.integers(0, n_levels, n)
    logits = 2.5 * r.standard_normal((n_levels, 3))
    y = np.argmax(logits[level] + r.gumbel(size=(n, 3)), axis=1)
    frame = pd.DataFrame({"a": r.standard_normal(n), "k": [f"l{i}" for i in level]})
    return frame, np.eye(3)[y]


@pytest.mark.parametrize("n_levels", [3, 5, 9, 12])
def test_levels_that_differ_in_two_ways_have_two_dimensions(n_levels):
    frame, y = triangle(n_levels=n_levels)
    frame.loc[::7, "a"] = np.nan
    encoder = TableEncoder.fit(frame, y)
    assert encoder.columns[1].depth == int(np.ceil(np.sqrt(n_levels)))
    assert encoder.n_features == 2 and encoder.shape == (4,)
    assert [c.name for c in encoder.axes] == ["k"]
    encoded = encoder.encode(frame)
    boxes = {tuple(row) for row in encoded.values[:, [1, 3]].round(9)}
    assert len(boxes) == n_levels
    noise = encoder.widths * (rng(1).random(encoded.values.shape) - 0.5) * 0.99
    moved = np.where(encoder.widths > 0, encoded.values + noise, encoded.values)
    pd.testing.assert_frame_equal(encoder.decode(moved), frame)
    np.testing.assert_allclose(encoder.can_be_missing, [True, False, False, False])
    assert TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict()))) == encoder
    scales = [c.scale for c in encoder.columns + encoder.indicators + encoder.axes]
    whole = ~frame["a"].isna().to_numpy()
    np.testing.assert_allclose(encoded.log_scale[whole], -np.log(scales).sum())


def test_points_far_from_every_box_decode_to_a_level():
    frame, y = triangle(n_levels=5)
    encoder = TableEncoder.fit(frame, y)
    far = 50 * rng().standard_normal((200, encoder.dim))
    far[0] = np.nan
    drawn = encoder.decode(far)["k"]
    assert set(drawn) <= set(frame["k"])
    assert drawn[0] == encoder.columns[1].categories[encoder.columns[1].frequent]


def test_an_unknown_level_takes_the_box_of_the_commonest():
    frame, y = triangle()
    encoder = TableEncoder.fit(frame, y)
    column = encoder.columns[1]
    strange = encoder.encode(frame[:1].assign(k="zebra"))
    usual = encoder.encode(frame[:1].assign(k=column.categories[column.frequent]))
    np.testing.assert_array_equal(strange.values, usual.values)
    assert strange.unseen[0].tolist() == [False, True, False]
    assert strange.log_scale[0] == pytest.approx(usual.log_scale[0] + np.log(column.unseen_rate))


def test_lost_cells_are_drawn_beside_a_second_dimension():
    frame, y = triangle()
    encoder = TableEncoder.fit(frame, y)
    values = encoder.encode(frame[:4].assign(a=[np.nan, 1.0, np.nan, 2.0])).values
    filled, log_q = encoder.complete(values, np.full(values.shape, 0.3))
    assert np.isfinite(filled).all() and (log_q != 0).tolist() == [True, False, True, False]


@pytest.mark.parametrize("target", ["number", "two classes", "grades", "nothing", "noise"])
def test_one_order_where_one_is_enough(target):
    r = rng()
    level = r.integers(0, 8, 900)
    score = r.standard_normal(8)[level] + 0.5 * r.standard_normal(900)
    y = {
        "number": score,
        "two classes": np.eye(2)[(score > 0).astype(int)],
        "grades": np.stack([score, score + 0.1 * r.standard_normal(900)], axis=1),
        "nothing": None,
        "noise": np.eye(4)[r.integers(0, 4, 900)],
    }[target]
    encoder = TableEncoder.fit(level.astype(str)[:, None], y)
    assert encoder.axes == () and encoder.columns[0].depth == 1 and encoder.dim == 1


def test_rare_levels_stand_together_in_the_order():
    r = rng()
    common = np.repeat([f"c{i}" for i in range(6)], 60)
    rare = [f"r{i}" for i in range(80)]
    levels = np.concatenate([common, rare])
    y = np.repeat([-2.0, -1.2, -0.4, 0.4, 1.2, 2.0], 60)
    y = np.concatenate([y, np.zeros(80)]) + 3 * r.standard_normal(440)
    order = TableEncoder.fit(levels[:, None], y).columns[0].categories
    places = [i for i, level in enumerate(order) if str(level).startswith("r")]
    assert places == list(range(places[0], places[0] + 80))  # their own y does not part them
    assert 0 < places[0] and places[-1] < 85


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("axes",), [], "axes must name the columns of a depth above 1"),
        (("axes", 0, "kind"), "lattice", "belongs in axes"),
        (("columns", 1, "depth"), 0, "depth must be 1 or more"),
        (("columns", 1, "depth"), 2.0, "depth must be 1 or more"),
        (("columns", 1, "coded"), True, "whole numbers in a coded column"),
        (("columns", 0, "running"), 1, "running must be true or false"),
    ],
)
def test_malformed_files_say_what_is_wrong(path, value, message):
    content = TableEncoder.fit(*triangle()).to_dict()
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        TableEncoder.from_dict(content)
