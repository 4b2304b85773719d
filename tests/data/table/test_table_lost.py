"""Cells that training gave no place to: kept apart, and drawn given the others."""

import json

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from table_samples import rng

from diglm.data.table import normal
from diglm.data.table.encoder import TableEncoder
from diglm.data.table.normal import Normal

NAN = np.nan
MIX = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.5, 0.5, 0.7]])


def rows(n=2000, seed=0):
    """Three dependent columns."""
    return rng(seed).standard_normal((n, 3)) @ MIX.T


def with_gaps():
    """Column 1 or column 2 is missing in some rows, never both; column 0 never."""
    x = rows()
    x[::5, 1] = x[1::5, 2] = NAN
    return x


def uniforms(n, dim, seed=1):
    return rng(seed).random((n, dim))


def conditional(model, x, lost):
    """Mean and covariance of the lost entries given the others, from the textbook."""
    mean, cov = np.array(model.mean), np.array(model.covariance)
    pull = cov[np.ix_(lost, ~lost)] @ np.linalg.inv(cov[np.ix_(~lost, ~lost)])
    spread = cov[np.ix_(lost, lost)] - pull @ cov[np.ix_(~lost, lost)]
    return mean[lost] + pull @ (x[~lost] - mean[~lost]), spread


# Which cells are lost.


def test_indicators_of_lost_cells_say_present():
    encoder = TableEncoder.fit(with_gaps())
    x = np.array([[0.1, 0.2, 0.3], [0.1, NAN, 0.3], [0.1, NAN, NAN], [NAN, NAN, 0.3]])
    values = encoder.encode(x).values
    np.testing.assert_array_equal(np.isnan(values[:, :3]), np.isnan(x))
    present, missing = ([(k - c.location) / c.scale for c in encoder.indicators] for k in (0, 1))
    expected = [present, [missing[0], present[1]], present, present]
    np.testing.assert_allclose(values[:, 3:], expected)


def test_only_lost_cells_are_filled():
    encoder = TableEncoder.fit(with_gaps())
    x = np.array([[0.1, 0.2, 0.3], [0.1, NAN, 0.3], [0.1, NAN, NAN], [NAN, NAN, 0.3]])
    values = encoder.encode(x).values
    filled, log_q = encoder.complete(values, uniforms(4, 5))
    assert np.isnan(filled).tolist()[:2] == [[False] * 5, [False, True, False, False, False]]
    assert np.isfinite(filled[2:]).all()
    known = np.isfinite(values)
    np.testing.assert_array_equal(filled[known], values[known])
    assert log_q[:2].tolist() == [0, 0] and (log_q[2:] != 0).all()
    assert np.isnan(values[2, 1])  # what was given is left as it is


def test_complete_rows_are_left_alone():
    encoder = TableEncoder.fit(rows(100))
    values = encoder.encode(rows(10)).values
    filled, log_q = encoder.complete(values, uniforms(10, 3))
    np.testing.assert_array_equal(filled, values)
    assert log_q.tolist() == [0.0] * 10


# The distribution.


def test_mean_and_covariance_of_the_encoded_rows():
    encoder = TableEncoder.fit(rows(1000))
    values = np.clip(encoder.encode(rows(1000)).values, -8, 8)
    np.testing.assert_allclose(encoder.normal.mean, values.mean(axis=0), atol=1e-12)
    expected = np.cov(values.T, bias=True)
    off = ~np.eye(3, dtype=bool)
    found = np.array(encoder.normal.covariance)
    np.testing.assert_allclose(found[off], 0.95 * expected[off], rtol=1e-9)
    np.testing.assert_allclose(np.diag(found), np.diag(expected), rtol=2e-3)


def test_missing_entries_do_not_bias_the_moments():
    x = rows(1000)
    gone = x.copy()
    gone[(x[:, 0] > 0), 1] = NAN  # at random given column 0: a mean of what is there would be off
    widths = np.zeros(3)
    found, whole = (Normal.fit(a, widths, np.ones(1000)) for a in (gone, x))
    assert abs(np.nanmean(gone[:, 1]) - x[:, 1].mean()) > 0.4
    np.testing.assert_allclose(found.mean, whole.mean, atol=0.12)
    np.testing.assert_allclose(found.covariance, whole.covariance, atol=0.2)


def test_cells_add_the_variance_of_their_noise():
    x = rng().integers(0, 2, (500, 1)).astype(float)
    values, width = 2 * x, np.array([2.0])
    found = Normal.fit(values, width, np.ones(500))
    assert found.covariance[0][0] == pytest.approx(values.var() + 4 / 12, rel=0.01)


def test_far_values_do_not_decide():
    x = rows(500)
    x[0] = [1e9, -1e9, 1e9]
    near, far = (np.array(TableEncoder.fit(a).normal.covariance) for a in (rows(500), x))
    np.testing.assert_allclose(near, far, atol=0.5)


def test_weights_count():
    x, weights = rows(60), rng(3).integers(1, 4, 60)
    a = Normal.fit(x, np.zeros(3), weights.astype(float))
    b = Normal.fit(np.repeat(x, weights, axis=0), np.zeros(3), np.ones(weights.sum()))
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-12)
    np.testing.assert_allclose(a.covariance, b.covariance, atol=0.1)


@pytest.mark.parametrize(
    "x",
    [
        np.ones((1, 3)),
        np.array([[1.5, 2.5], [0.1, 0.7]]),
        np.column_stack([rows(50), rows(50)]),
        np.full((5, 2), NAN),
        np.column_stack([np.full(20, NAN), rows(20)]),
        rng().standard_normal((10, 100)),
    ],
    ids=["one row", "two rows", "columns twice", "nothing", "an empty column", "wide"],
)
def test_small_and_degenerate_tables(x):
    encoder = TableEncoder.fit(x)
    assert TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict()))) == encoder
    d = x.shape[1]
    values = encoder.encode(np.where(np.arange(d) == d - 1, NAN, np.ones((1, d)))).values
    filled, log_q = encoder.complete(values, uniforms(1, encoder.dim))
    assert np.isfinite(filled).all() and np.isfinite(log_q).all()


# Draws.


def test_draws_and_their_density_are_those_of_the_conditional():
    encoder = TableEncoder.fit(with_gaps())
    n = 20_000
    row = encoder.encode(np.array([[0.4, NAN, NAN]])).values
    filled, log_q = encoder.complete(np.repeat(row, n, axis=0), uniforms(n, 5))
    lost = np.isnan(row[0])
    mean, spread = conditional(encoder.normal, row[0], lost)
    np.testing.assert_allclose(filled[:, lost].mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(filled[:, lost].T), spread, atol=0.03)
    expected = multivariate_normal(mean, spread).logpdf(filled[:, lost])
    np.testing.assert_allclose(log_q, expected, rtol=1e-6)


def test_importance_weights_give_the_marginal():
    encoder = TableEncoder.fit(rows())
    truth = multivariate_normal(np.zeros(3), MIX @ MIX.T)
    encoded = encoder.encode(np.array([[0.4, NAN, 1.0]]))
    n = 50_000
    filled, log_q = encoder.complete(np.repeat(encoded.values, n, axis=0), uniforms(n, 3))
    scale = np.array([c.scale for c in encoder.columns])
    x = filled * scale + [c.location for c in encoder.columns]
    log_p = truth.logpdf(x) + np.log(scale[1])  # density of the drawn cell per encoded unit
    covariance = (MIX @ MIX.T)[np.ix_([0, 2], [0, 2])]
    expected = multivariate_normal(np.zeros(2), covariance).pdf([0.4, 1.0])
    assert np.exp(log_p - log_q).mean() == pytest.approx(expected, rel=0.02)


def test_what_is_known_to_be_missing_is_marginalised():
    encoder = TableEncoder.fit(with_gaps())
    flags = [(k - c.location) / c.scale for k, c in zip((1, 0), encoder.indicators, strict=True)]
    row = np.array([[NAN, NAN, 0.7, *flags]])  # column 1 is missing as in fit, column 0 is lost
    filled, log_q = encoder.complete(row, np.full((1, 5), 0.3))
    assert np.isnan(filled[0]).tolist() == [False, True, False, False, False]
    keep = [0, 2, 3, 4]
    model = encoder.normal
    mean, cov = np.array(model.mean)[keep], np.array(model.covariance)[np.ix_(keep, keep)]
    part = Normal(tuple(mean.tolist()), tuple(tuple(r) for r in cov.tolist()))
    centre, spread = conditional(part, row[0, keep], np.array([True, False, False, False]))
    expected = multivariate_normal(centre, spread).logpdf(filled[0, 0])
    np.testing.assert_allclose(log_q, [expected])


def test_draws_are_deterministic_and_rows_independent():
    encoder = TableEncoder.fit(with_gaps())
    x = rows(40, seed=5)
    x[rng(2).random(x.shape) < 0.5] = NAN
    values, u = encoder.encode(x).values, uniforms(40, 5)
    filled, log_q = encoder.complete(values, u)
    for i in range(40):
        alone, log_one = encoder.complete(values[i : i + 1], u[i : i + 1])
        np.testing.assert_allclose(alone[0], filled[i], rtol=1e-12)
        np.testing.assert_allclose(log_one, log_q[i : i + 1], rtol=1e-12)
    again, log_again = encoder.complete(values, u)
    np.testing.assert_array_equal(again, filled)
    np.testing.assert_array_equal(log_again, log_q)
    loaded = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    np.testing.assert_array_equal(loaded.complete(values, u)[0], filled)


def test_single_precision_and_the_ends_of_the_unit_interval():
    encoder = TableEncoder.fit(rows(100))
    values = encoder.encode(np.array([[NAN, 0.1, NAN]] * 2)).values.astype(np.float32)
    filled, log_q = encoder.complete(values, np.array([[0.0] * 3, [1.0] * 3], np.float32))
    assert filled.dtype == np.float32
    assert np.isfinite(filled).all() and np.isfinite(log_q).all()


def test_a_far_neighbour_does_not_throw_the_draw():
    encoder = TableEncoder.fit(rows(1000))
    values = encoder.encode(np.array([[1e12, NAN, 0.0]])).values
    filled, log_q = encoder.complete(values, np.full((1, 3), 0.5))
    assert 1 < filled[0, 1] < 15 and np.isfinite(log_q).all()


def test_one_factorisation_serves_all_rows_of_a_pattern(monkeypatch):
    encoder = TableEncoder.fit(rows(100))
    x = rows(500, seed=3)
    x[::2, 0] = x[1::2, 2] = NAN
    values, calls = encoder.encode(x).values, []
    plain = np.linalg.cholesky
    monkeypatch.setattr(normal.np.linalg, "cholesky", lambda a: calls.append(a) or plain(a))
    encoder.complete(values, uniforms(500, 3))
    assert len(calls) == 2


def test_wide_tables_keep_the_diagonal_only(monkeypatch):
    monkeypatch.setattr(normal, "MOST_DIMS", 2)
    encoder = TableEncoder.fit(rows(300))
    assert len(encoder.normal.covariance) == 1 and len(encoder.normal.covariance[0]) == 3
    row = encoder.encode(np.array([[0.4, NAN, NAN]])).values
    filled, log_q = encoder.complete(row, np.full((1, 3), 0.3))
    mean, variance = np.array(encoder.normal.mean)[1:], np.array(encoder.normal.covariance[0])[1:]
    expected = multivariate_normal(mean, np.diag(variance)).logpdf(filled[0, 1:])
    np.testing.assert_allclose(log_q, [expected])
    assert TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict()))) == encoder
    content = encoder.to_dict()
    content["normal"]["covariance"][0][1] = 0.0
    with pytest.raises(ValueError, match="positive definite"):
        TableEncoder.from_dict(content)
