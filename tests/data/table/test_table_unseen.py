"""What no row of fit prepared for: facts, rates, and what they cost."""

import json

import numpy as np
import pandas as pd
import pytest
from table_samples import rng

from diglm.data.table import patterns
from diglm.data.table.encoder import TableEncoder
from diglm.data.table.patterns import Patterns, good_turing

NAN = np.nan


def train():
    """Four columns: text, a number never missing, two that are missing alone but not together."""
    r = rng()
    frame = pd.DataFrame(r.standard_normal((9, 3)), columns=["x", "y", "z"])
    frame.insert(0, "c", ["a", "a", "b", "b", "b", "b", "b", "rare", "odd"])
    frame.loc[[0, 1], "y"] = NAN
    frame.loc[[2], "z"] = NAN
    return frame


def one(encoder, c, x, y, z):
    return encoder.encode(pd.DataFrame({"c": [c], "x": [x], "y": [y], "z": [z]}, index=[0]))


def units(encoder, *names):
    """Log scale of these columns and of both indicators."""
    own = [c.scale for c in encoder.columns if c.name in names]
    return -np.log([*own, *(c.scale for c in encoder.indicators)]).sum()


CASES = {
    # What is in the row: facts of c, x, y, z and the pattern; present columns; rates.
    "usual": (("a", 0.1, 0.2, 0.3), [0, 0, 0, 0, 0], "cxyz", []),
    "missing as in fit": (("a", 0.1, NAN, 0.3), [0, 0, 0, 0, 0], "cxz", []),
    "new level": (("new", 0.1, 0.2, 0.3), [1, 0, 0, 0, 0], "cxyz", [2.5 / 10]),
    "level missing": ((None, 0.1, 0.2, 0.3), [1, 0, 0, 0, 0], "xyz", [0.5 / 10]),
    "number missing": (("a", NAN, 0.2, 0.3), [0, 1, 0, 0, 1], "cyz", [0.5 / 10]),
    "both as in fit": (("a", NAN, NAN, 0.3), [0, 1, 0, 0, 1], "cz", [0.5 / 10]),
    "new pattern": (("a", 0.1, NAN, NAN), [0, 0, 0, 0, 1], "cx", [1.5 / 10]),
    "both": (("a", NAN, NAN, NAN), [0, 1, 0, 0, 1], "c", [0.5 / 10, 1.5 / 10]),
    "all": (("new", NAN, NAN, NAN), [1, 1, 0, 0, 1], "c", [2.5 / 10, 0.5 / 10, 1.5 / 10]),
}


@pytest.mark.parametrize("case", CASES)
def test_facts_and_their_cost(case):
    row, facts, present, rates = CASES[case]
    encoder = TableEncoder.fit(train())
    encoded = one(encoder, *row)
    assert encoded.unseen.dtype == bool and encoded.unseen.astype(int).tolist() == [facts]
    expected = units(encoder, *present) + np.sum(np.log(rates))
    np.testing.assert_allclose(encoded.log_scale, [expected], rtol=1e-12)


def test_rows_of_fit_hold_nothing_unseen():
    encoded = TableEncoder.fit(train()).encode(train())
    assert encoded.unseen.shape == (9, 5) and not encoded.unseen.any()


def test_unknown_levels_stand_at_the_commonest_and_missing_ones_are_lost():
    encoder = TableEncoder.fit(train())
    frequent = encoder.encode(train()).values[3, 0]
    assert one(encoder, "new", 0.0, 0.0, 0.0).values[0, 0] == frequent
    lost = one(encoder, None, 0.0, 0.0, 0.0).values
    drawn, _ = encoder.complete(lost, np.full((1, 6), 0.3))
    assert np.isnan(lost[0, 0]) and np.isfinite(drawn).all()
    levels = encoder.encode(train()).values[:, 0]
    assert encoder.centred(drawn)[0, 0] in levels  # a level, and not a place beside it


def test_the_complete_row_is_a_pattern_too():
    x = rng().standard_normal((6, 2))
    x[:3, 0] = x[3:, 1] = NAN
    encoder = TableEncoder.fit(x)
    encoded = encoder.encode(np.ones((1, 2)))
    assert encoded.unseen.tolist() == [[False, False, True]]
    scales = [c.scale for c in encoder.columns + encoder.indicators]
    np.testing.assert_allclose(
        encoded.log_scale[0], -np.log(scales).sum() + np.log(0.5 / 7), rtol=1e-12
    )


def test_rates_count_rows_of_positive_weight():
    frame = pd.DataFrame({"c": ["a", "a", "b", "once"], "x": [0.3, NAN, NAN, 1.7]})
    encoder = TableEncoder.fit(frame, weights=[1, 2, 0, 3])
    assert encoder.n_rows == 3 and encoder.columns[0].categories == ("a", "once")
    assert encoder.columns[0].unseen_rate == 1.5 / 4
    assert encoder.columns[1].unseen_rate == 0.5 / 4
    assert encoder.patterns == Patterns(((), (1,)), 1.5 / 4)


def test_good_turing():
    assert good_turing(0, 9) == 0.05
    assert good_turing(3, 9) == 0.35
    assert good_turing(12, 9) == 1.0


def test_good_turing_is_near_the_truth():
    r = rng()
    words = r.zipf(1.5, 7000).astype(str)[:, None]
    encoder = TableEncoder.fit(words[:2000])
    unseen = encoder.encode(words[2000:]).unseen[:, 0].mean()
    assert encoder.columns[0].unseen_rate == pytest.approx(unseen, rel=0.25)


def test_only_the_commonest_patterns_are_kept(monkeypatch):
    monkeypatch.setattr(patterns, "MOST_PATTERNS", 2)
    x = rng().standard_normal((12, 3))
    x[:2, 0] = x[2:5, 1] = x[5, 2] = NAN
    encoder = TableEncoder.fit(x)
    assert encoder.patterns.seen == ((), (1,))
    # The pattern seen once is new by estimate; the two rows of the one left out will come again.
    assert encoder.patterns.rate == 3.5 / 13
    assert encoder.encode(x).unseen[:, -1].tolist() == [True] * 2 + [False] * 3 + [True] + 6 * [0]
    loaded = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert loaded == encoder


def test_wide_tables_with_gaps():
    x = rng().standard_normal((50, 70))
    x[:25, 3] = x[:25, 66] = NAN
    encoder = TableEncoder.fit(x)
    assert encoder.patterns.seen == ((), (3, 66))
    assert not encoder.encode(x).unseen.any()
    x[0, 66] = 0.0
    assert np.flatnonzero(encoder.encode(x).unseen[:, -1]).tolist() == [0]


def test_identifiers_are_remarked_on():
    r = rng()
    frame = pd.DataFrame(
        {
            "tail": [f"N{i}" for i in range(80)] + ["N1", "N2"] * 10,
            "city": r.choice(["a", "b"], 100),
            "x": r.standard_normal(100),
        }
    )
    (remark,) = TableEncoder.fit(frame).remarks
    assert remark == (
        "Column 'tail' is almost an identifier: 80 levels in 100 rows, so about 78 % of new rows "
        "will show a level never seen. Leave it out, or group its levels."
    )
    assert TableEncoder.fit(frame[:19]).remarks == []
    assert len(TableEncoder.fit(frame[:20]).remarks) == 1
    loaded = TableEncoder.from_dict(TableEncoder.fit(frame).to_dict())
    assert loaded.remarks == [remark]
