"""The head that a regressor chooses by itself, and intervals of small tables."""

import numpy as np
import pytest

from diglm import HybridRegressor, load

QUICK = {"flow": "linear", "n_epochs": 3, "verbose": False}
COUPLINGS = {"n_blocks": 2, "width": 16, "n_epochs": 60, "verbose": False}


def table(kind, seed, n=400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    eta = 0.8 + 0.7 * X[:, 0] - 0.3 * X[:, 1]
    zero = rng.logistic(size=n) < X[:, 2]
    targets = {
        "normal": lambda: 9 + eta + rng.normal(size=n),
        "student": lambda: 9 + eta + rng.standard_t(4, size=n),
        "counts": lambda: rng.poisson(np.exp(eta)),
        "zeros": lambda: np.where(zero, 0.0, rng.gamma(2.0, np.exp(eta))),
    }
    return X, targets[kind]()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("normal", {"student_t"}),
        ("student", {"student_t"}),
        ("counts", {"poisson", "negative_binomial", "zero_inflated"}),
        ("zeros", {"hurdle"}),
    ],
)
def test_the_head_suits_the_targets(kind, expected):
    chosen = {
        HybridRegressor(random_state=seed, **QUICK).fit(*table(kind, seed)).head_
        for seed in range(3)
    }
    assert chosen <= expected


def test_a_chosen_head_answers_is_saved_and_may_be_overruled(tmp_path):
    X, y = table("zeros", 0)
    model = HybridRegressor(random_state=0, **QUICK).fit(X, y)
    dist = model.predict_dist(X)
    assert np.all(dist.quantile(0.01) == 0) and np.all(dist.mean > 0)
    assert abs(np.mean(dist.mean) - np.mean(y)) < 0.15 * np.mean(y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.head_ == "hurdle"
    np.testing.assert_allclose(again.predict(X), model.predict(X))
    usual = HybridRegressor(head="student_t", random_state=0, **QUICK).fit(X, y)
    assert usual.head_ == "student_t"
    weights = np.where(y == 0, 0.0, 1.0)  # rows that do not count are no zeros
    unseen = HybridRegressor(random_state=0, **QUICK).fit(X, y, sample_weight=weights)
    assert unseen.head_ in ("student_t", "gamma")


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 150])
def test_intervals_of_small_tables_cover(n):
    held = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 500, 6))
        y = X @ rng.normal(size=6) + rng.normal(size=n + 500)
        model = HybridRegressor(random_state=seed, **COUPLINGS).fit(X[:n], y[:n])
        low, high = model.predict_interval(X[n:], 0.9).T
        held.append(np.mean((low <= y[n:]) & (y[n:] <= high)))
    assert 0.82 < np.mean(held) < 0.96
