"""Kinds of column, exact changes of unit, extremes and speed."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_samples import column_of, rng, samples

from diglm.data.table.encoder import TableEncoder

FACTORS = [1000.0, 0.3048, 1e-6, 2.0**40, -1.0]


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
