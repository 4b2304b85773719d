"""Whole numbers: codes where y follows no order of them, numbers otherwise."""

import json

import numpy as np
import pandas as pd
import pytest
from table_samples import rng

from diglm.data.table.codes import find_codes
from diglm.data.table.encoder import TableEncoder
from diglm.data.table.relation import standardised

SCRAMBLED = np.array([0.0, 2.0, -1.0, 1.5, -2.0, 0.5, 2.5, -1.5])


def are_codes(x, y):
    return find_codes([np.asarray(x, float)], standardised(np.reshape(y, (len(x), -1)), None))[0]


def scrambled(n=600, seed=0, noise=1.0):
    r = rng(seed)
    x = r.integers(0, 8, n)
    return x, SCRAMBLED[x] + noise * r.standard_normal(n)


def kind_of(X, y, **options):
    return TableEncoder.fit(X, y, **options).columns[0].kind


SHAPES = {
    "line": lambda t: t,
    "root": np.sqrt,
    "threshold": lambda t: (t > 0.6) * 1.0,
    "any": lambda t: (t > 0) * 1.0,
    "valley": lambda t: (t - 0.4) ** 2,
    "plateau": lambda t: ((t > 0.2) & (t < 0.7)) * 1.0,
    "wave": lambda t: np.sin(2 * np.pi * t),
    "nothing": lambda t: 0 * t,
}


def test_numbers_whose_order_matters_stay_numbers():
    wrong = {}
    for name, shape in SHAPES.items():
        judged = []
        for seed in range(24):
            r = rng(seed)
            n_levels, n = 10 + seed % 9, (300, 3000)[seed % 2]
            x = r.integers(0, n_levels, n) if seed % 3 else r.poisson(n_levels / 3, n)
            x = np.minimum(x, n_levels - 1)
            effect = shape(x / (n_levels - 1))
            y = effect / max(effect.std(), 1e-9) + (0.5, 2.0)[seed % 2] * r.standard_normal(n)
            judged.append(are_codes(x, y))
            grades = np.searchsorted(np.quantile(y, [0.2, 0.5, 0.8]), y)
            judged.append(are_codes(x, np.eye(4)[grades]))
        wrong[name] = float(np.mean(judged))
    assert max(wrong.values()) < 0.1 and np.mean(list(wrong.values())) < 0.03, wrong


def test_scrambled_codes_are_found():
    found = []
    for seed in range(40):
        r = rng(seed)
        effect, x = r.standard_normal(20), r.integers(0, 20, 500)
        found.append(are_codes(x, effect[x] + r.standard_normal(500)))
        logits = 1.5 * r.standard_normal((20, 3))[x] + r.gumbel(size=(500, 3))
        found.append(are_codes(x, np.eye(3)[np.argmax(logits, axis=1)]))
    assert np.mean(found) >= 0.9


def test_columns_with_the_same_levels_are_judged_together():
    """Of four levels many orders are monotone by chance; of several columns few are."""
    r = rng()
    X = r.integers(0, 4, (800, 6)).astype(float)
    effects = np.array([[0, 2, 1, 3], [1, 2, 3, 0], [2, 0, 3, 1], [3, 1, 0, 2.0], [0, 1, 2, 3]])
    y = sum(effects[j][X[:, j].astype(int)] for j in range(5)) + r.standard_normal(800)
    columns = TableEncoder.fit(X, y).columns
    assert [c.kind for c in columns] == ["categorical"] * 6
    ordered = X @ np.ones(6) + r.standard_normal(800)
    assert [c.kind for c in TableEncoder.fit(X, ordered).columns] == ["lattice"] * 6


def test_one_column_does_not_decide_for_others():
    r = rng()
    X = r.integers(0, 6, (2000, 4)).astype(float)
    codes = np.array([0.0, 5.0, -4.0, 4.0, -5.0, 1.0])[X[:, 0].astype(int)]
    y = codes + X[:, 1:] @ [1.0, 0.8, -0.9] + r.standard_normal(2000)
    kinds = [c.kind for c in TableEncoder.fit(X, y).columns]
    assert kinds == ["categorical", "lattice", "lattice", "lattice"]


def test_what_decides_and_what_does_not():
    x, y = scrambled()
    assert kind_of(x[:, None], y) == "categorical"
    assert kind_of(x[:, None].astype(np.float32), y) == "categorical"
    assert kind_of(10.0 * x[:, None] - 30, 1e6 * y) == "categorical"
    assert kind_of(x[:, None], None) == "lattice"  # without y numbers are numbers
    assert kind_of(x[:, None] + 0.5, y) == "lattice"  # and so they can be kept
    assert kind_of(x[:40, None], y[:40]) == "lattice"  # too few rows to tell
    days = pd.DataFrame({"day": pd.Timestamp("2024-01-01") + pd.to_timedelta(x, unit="D")})
    assert kind_of(days, y) == "lattice"
    assert kind_of((x[:, None] > 3).astype(int), y) == "lattice"  # two levels are in order


def test_rows_of_weight_zero_and_unknown_targets_do_not_decide():
    x, y = scrambled()
    wild = np.where(np.arange(600) < 500, x, 7 - x)
    weights = (np.arange(600) < 500).astype(float)
    plain = TableEncoder.fit(x[:500, None], y[:500]).columns[0]
    assert TableEncoder.fit(wild[:, None], y, weights=weights).columns[0] == plain
    unknown = np.where(weights > 0, y, np.nan)
    assert kind_of(wild[:, None], unknown) == "categorical"
    weighted = TableEncoder.fit(x[:, None], y, weights=np.full(600, 2)).columns[0]
    repeated = TableEncoder.fit(np.repeat(x, 2)[:, None], np.repeat(y, 2)).columns[0]
    assert weighted.categories == repeated.categories


@pytest.mark.parametrize("dtype", ["int64", "float64", "uint8", "Int64", "float32"])
def test_codes_come_back_as_the_numbers_they_were(dtype):
    x, y = scrambled()
    frame = pd.DataFrame({"k": pd.Series(x).astype(dtype), "z": rng(1).standard_normal(600)})
    if dtype in ("Int64", "float64"):
        frame.loc[::9, "k"] = None
    encoder = TableEncoder.fit(frame, y)
    column = encoder.columns[0]
    assert column.coded and column.kind == "categorical" and encoder.indicators == ()
    encoded = encoder.encode(frame)
    pd.testing.assert_frame_equal(encoder.decode(encoded.values), frame)
    assert not encoded.unseen.any()
    assert TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict()))) == encoder
    array = encoder.decode(encoded.values, like="numpy")
    np.testing.assert_array_equal(array[:, 0], frame["k"].to_numpy(float, na_value=np.nan))


def test_arrays_of_codes_and_numbers_round_trip():
    x, y = scrambled()
    whole = np.column_stack([x, rng(1).integers(0, 5, 600)])
    for X in (whole, whole.astype(float), np.column_stack([x, rng(1).standard_normal(600)])):
        encoder = TableEncoder.fit(X, y)
        assert [c.coded for c in encoder.columns] == [True, False]
        back = encoder.decode(encoder.encode(X).values)
        assert back.dtype == X.dtype
        np.testing.assert_allclose(back, X, rtol=1e-12)


def test_a_number_that_is_none_of_the_codes_is_unseen():
    x, y = scrambled()
    encoder = TableEncoder.fit(x[:, None], y)
    seen = encoder.encode(np.array([[3]])).log_scale[0]
    for strange in (8.0, 2.5, -1.0):
        encoded = encoder.encode(np.array([[strange]]))
        assert encoded.unseen[0, 0]
        rate = np.log(encoder.columns[0].unseen_rate)
        assert encoded.log_scale[0] == pytest.approx(seen + rate)
    assert encoder.encode(np.array([[np.nan]])).unseen[0, 0]
    with pytest.raises(ValueError, match="held numbers in fit, but now holds 'three'"):
        encoder.encode(np.array([["three"]], dtype=object))
    with pytest.raises(ValueError, match="infinite"):
        encoder.encode(np.array([[np.inf]]))


# Identifiers.


def test_row_numbers_are_remarked_on():
    r = rng()
    wave = r.standard_normal(300)
    cases = {
        "sorted": np.arange(300),
        "permuted": 1000 + r.permutation(300),
        "sample": np.sort(r.choice(1000, 300, replace=False)),
        "tens": 10.0 * np.arange(300),
    }
    for ids in cases.values():
        frame = pd.DataFrame({"id": ids, "wave": wave})
        (remark,) = TableEncoder.fit(frame, wave).remarks
        assert remark.startswith("Column 'id' looks like a row number") and "Leave it out" in remark
    others = [
        np.round(np.exp(8 + r.standard_normal(300))),  # areas, say
        r.integers(0, 10**9, 300),  # measured so finely that none repeats
        r.integers(0, 300, 300),
        np.arange(300) + 0.5,
    ]
    for x in others:
        assert TableEncoder.fit(np.column_stack([x, wave]), wave).remarks == []
    assert TableEncoder.fit(np.arange(10)[:, None]).remarks == []  # too few rows to tell


def test_the_order_of_an_identifier_does_not_follow_noise():
    r = rng()
    levels = r.integers(0, 1000, 600).astype(str)
    y = r.integers(0, 2, 600)
    column = TableEncoder.fit(levels[:, None], np.eye(2)[y]).columns[0]
    assert column == TableEncoder.fit(levels[:, None]).columns[0]
    names = np.array([f"row {i}" for i in range(600)])[:, None]
    assert TableEncoder.fit(names, np.eye(2)[y]).columns == TableEncoder.fit(names).columns
