"""The nearest features at which a linear head answers otherwise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from diglm.targets.nearest import nearest_at_predictor, nearest_leading


def test_many_classes_are_a_least_distance_problem():
    rng = np.random.default_rng(0)
    weight, bias, z = rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=4)
    ours = nearest_leading(z, weight, bias, 2, 0.7)
    constraints = [
        {
            "type": "ineq",
            "fun": lambda u, k=k: (weight[2] - weight[k]) @ u + bias[2] - bias[k] - 0.7,
        }
        for k in (0, 1, 3, 4)
    ]
    best = minimize(lambda u: np.sum((u - z) ** 2), z, constraints=constraints, tol=1e-12)
    assert np.allclose(ours, best.x, atol=1e-4)


@given(st.integers(0, 10_000), st.floats(0, 5))
def test_the_class_leads_by_the_margin_and_no_more_than_it_must(seed, margin):
    rng = np.random.default_rng(seed)
    weight, bias = rng.normal(size=(3, 4)), rng.normal(size=3)
    z = rng.normal(size=4) * rng.uniform(0.1, 10)
    found = nearest_leading(z, weight, bias, 0, margin)
    etas = weight @ found + bias
    assert np.all(etas[0] - etas[1:] >= margin - 1e-6)
    if np.any(found != z):
        assert np.min(etas[0] - etas[1:]) == pytest.approx(margin, abs=1e-6)


def test_what_leads_already_stays():
    z, weight = np.array([3.0, 0.0]), np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert np.array_equal(nearest_leading(z, weight, np.zeros(2), 0, 1.0), z)
    with pytest.raises(ValueError, match="No change of the features would make that class lead"):
        nearest_leading(z, np.zeros((2, 2)), np.zeros(2), 0, 1.0)


def test_a_predictor_is_reached_along_its_own_direction():
    rng = np.random.default_rng(0)
    z, weight = rng.normal(size=(6, 3)), rng.normal(size=3)
    found = nearest_at_predictor(z, weight, z @ weight + 0.5, np.full(6, 2.0))
    assert np.allclose(found @ weight + 0.5, 2.0)
    across = (found - z) - np.outer((found - z) @ weight / (weight @ weight), weight)
    assert np.allclose(across, 0)
    with pytest.raises(ValueError, match="The head ignores every feature"):
        nearest_at_predictor(z, np.zeros(3), np.zeros(6), np.ones(6))
