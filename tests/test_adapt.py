"""Covariate shift: weights by two densities, and fits that are weighted by them."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

from diglm import HybridDensity, HybridRegressor, adapt

TINY = dict(n_epochs=5, reject=0.05, random_state=0, verbose=False)


class Normal:
    """A density that is known."""

    def __init__(self, mean, sd=1.0):
        self.law = stats.norm(mean, sd)

    def score_samples(self, X):
        return self.law.logpdf(X).sum(axis=1)


class Fixed:
    """Whatever log p(x) it is told."""

    def __init__(self, *log_px):
        self.log_px = np.array(log_px)

    def score_samples(self, X):
        return self.log_px


OLD, NEW = Normal(0.0), Normal(0.7)
X = np.random.default_rng(0).normal(size=(4_000, 2))


def test_weighted_rows_have_the_moments_of_the_other_place():
    found = adapt.covariate_weights(OLD, NEW, X)
    assert np.mean(found.weights) == pytest.approx(1)
    error = 1 / np.sqrt(found.effective_rows)
    np.testing.assert_allclose(np.average(X, axis=0, weights=found.weights), 0.7, atol=4 * error)
    spread = np.average((X - 0.7) ** 2, axis=0, weights=found.weights)
    np.testing.assert_allclose(spread, 1.0, atol=6 * error)


def test_the_effective_number_of_rows_is_that_of_the_ratio():
    """E[w]^2 / E[w^2] = exp(-|shift|^2) for normals of one variance."""
    found = adapt.covariate_weights(OLD, NEW, X)
    assert found.effective_rows / len(X) == pytest.approx(np.exp(-2 * 0.7**2), rel=0.15)
    assert adapt.effective_rows(np.array([2.0, 2.0, 0.0, 0.0])) == pytest.approx(2)
    assert adapt.effective_rows(np.array([1e300, 1e300, 1e300])) == pytest.approx(3)


def test_places_that_are_alike_leave_all_rows_alike():
    found = adapt.covariate_weights(OLD, OLD, X)
    np.testing.assert_array_equal(found.weights, 1.0)
    assert found.effective_rows == pytest.approx(len(X))


def test_flattened_and_cut_weights_keep_more_rows():
    usual = adapt.covariate_weights(OLD, NEW, X)
    flat = adapt.covariate_weights(OLD, NEW, X, flatten=0.5)
    np.testing.assert_allclose(flat.weights, usual.weights**0.5 / np.mean(usual.weights**0.5))
    cut = adapt.covariate_weights(OLD, NEW, X, clip=3.0)
    kept = usual.weights < 3
    np.testing.assert_allclose(cut.weights[kept], usual.weights[kept] / np.mean(
        np.minimum(usual.weights, 3)
    ))  # fmt: skip
    assert usual.effective_rows < cut.effective_rows < flat.effective_rows < len(X)
    np.testing.assert_array_equal(
        adapt.covariate_weights(OLD, NEW, X, flatten=0).weights, np.ones(len(X))
    )
    np.testing.assert_array_equal(flat.log_ratios, usual.log_ratios)


def test_places_that_hardly_overlap_are_told_of():
    far = Normal(4.0)
    with pytest.warns(adapt.ShiftWarning, match=r"leave 4000 rows worth \d+\.\d: the two places"):
        assert adapt.covariate_weights(OLD, far, X).effective_rows < 400
    adapt.covariate_weights(OLD, far, X, flatten=0.05)  # says nothing


def test_an_impossible_row_counts_nothing():
    old, new = Fixed(0.0, 0.0, 0.0), Fixed(-np.inf, 0.0, 0.0)
    np.testing.assert_allclose(adapt.covariate_weights(old, new, X[:3]).weights, [0, 1.5, 1.5])


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        (Fixed(0.0, -np.inf), Fixed(0.0, 0.0), {}, "1 of 2 rows have no ratio"),
        (Fixed(0.0, 0.0), Fixed(np.nan, 0.0), {}, "1 of 2 rows have no ratio"),
        (Fixed(0.0, 0.0), Fixed(-np.inf, -np.inf), {}, "do not overlap"),
        (Fixed(0.0), Fixed(0.0, 0.0), {}, "one log p"),
        (OLD, NEW, {"flatten": 2}, "flatten"),
        (OLD, NEW, {"clip": 0.5}, "clip"),
    ],
)
def test_what_cannot_be_weighted_is_said(source, target, options, message):
    with pytest.raises(ValueError, match=message):
        adapt.covariate_weights(source, target, X[:2], **options)


def places(n=800, seed=0):
    """A curve, seen about 0, to be known about 1."""
    rng = np.random.default_rng(seed)
    old, new = rng.normal(0, 0.8, (n, 1)), rng.normal(1, 0.4, (n, 1))
    return old, old[:, 0] ** 2 + 0.1 * rng.normal(size=n), new


@pytest.mark.parametrize(
    "model", [LinearRegression(), HybridRegressor("linear", head="gaussian", **TINY)]
)
def test_a_line_is_fitted_where_it_is_needed(model):
    old, y, new = places()
    found = adapt.fit_for(model, old, y, new, density=HybridDensity("linear", **TINY))
    exact = adapt.covariate_weights(Normal(0, 0.8), Normal(1, 0.4), old)
    np.testing.assert_allclose(found.weights.weights, exact.weights, atol=0.6)
    assert found.model is model and found.uncovered < 0.1
    plain = LinearRegression().fit(old, y)
    gone = [np.mean((m.predict(new) - new[:, 0] ** 2) ** 2) for m in (plain, model)]
    assert gone[1] < 0.3 * gone[0]


def test_new_rows_where_no_old_row_is_are_told_of():
    old, y, new = places()
    density = HybridDensity("linear", **TINY)
    both = np.concatenate([new, new + 9])
    with pytest.warns(adapt.ShiftWarning, match="strange to the old place"):
        found = adapt.fit_for(LinearRegression(), old, y, both, density=density, flatten=0.1)
    assert found.uncovered >= 0.5
