"""HybridRegressor: distributions in the user's units, every head, GLMs inside."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, PoissonRegressor
from sklearn.preprocessing import StandardScaler

from diglm import HybridRegressor

TINY = dict(n_epochs=4, batch_size=64, reject=0.05, random_state=0, verbose=False)
EXACT = dict(generative_weight=0.0, validation_fraction=0.0, random_state=0, verbose=False)


def test_regressor_gives_distributions_in_the_users_units(regressor, line):
    X, y = line
    mean, std = regressor.predict(X, return_std=True)
    dist = regressor.predict_dist(X)
    assert regressor.score(X, y) > 0.95
    assert np.array_equal(mean, dist.mean) and np.array_equal(std, dist.std)
    ends = regressor.predict_interval(X, 0.9)
    assert ends.shape == (500, 2)
    tails = dist.cdf(ends[:, 0]), 1 - dist.cdf(ends[:, 1])
    assert np.allclose(tails, tails[0][0])  # as far out in all rows, by rows that were held out
    assert 0.8 < np.mean((y > ends[:, 0]) & (y < ends[:, 1])) < 0.99
    assert list(regressor.assess(X).columns)[:3] == ["prediction", "sd", "log_px"]


def test_log_joint_is_the_sum_of_its_parts(regressor, line):
    X, y = line
    joint = regressor.score_samples(X) + regressor.predict_dist(X).log_prob(y)
    assert np.allclose(regressor.log_joint(X, y), joint)


def test_refused_rows_are_answered_with_the_marginal(regressor, line):
    X, y = line
    mean, std = regressor.safe_predict(X * 1e3, return_std=True)
    assert np.allclose(mean, y.mean()) and np.allclose(std, y.std())
    assert regressor.y_mean_ == pytest.approx(y.mean())
    assert regressor.y_std_ == pytest.approx(y.std())
    answered = ~regressor.rejects(X)
    assert np.array_equal(regressor.safe_predict(X)[answered], regressor.predict(X)[answered])


def test_density_of_a_fitted_line_integrates_to_one():
    rng = np.random.default_rng(0)
    X = np.where(rng.random(800) < 0.3, rng.normal(-3, 0.3, 800), rng.gamma(2, 1, 800))[:, None]
    model = HybridRegressor(n_blocks=2, width=8, head="gaussian", **TINY)
    model.fit(X, X[:, 0] + rng.normal(size=800))
    grid = np.sinh(np.linspace(-8, 8, 300_001))  # fine where the rows are, and out to +-1500
    total = np.trapezoid(np.exp(model.score_samples(grid[:, None])), grid)
    assert abs(total - 1) < 1e-3


def test_a_change_of_unit_shifts_log_density_by_exactly_the_log_factor(line):
    X, y = line
    metres = HybridRegressor("linear", head="gaussian", **TINY).fit(X, y)
    millimetres = X * [1000.0, 1.0, 0.3048]
    other = HybridRegressor("linear", head="gaussian", **TINY).fit(millimetres, y)
    shift = other.score_samples(millimetres) - metres.score_samples(X)
    assert np.allclose(shift, -np.log(1000.0) - np.log(0.3048), atol=1e-6)
    assert np.allclose(other.predict(millimetres), metres.predict(X), atol=1e-6)


@pytest.mark.parametrize(
    "head", ["heteroscedastic", "student_t", "gamma", "poisson", "negative_binomial", "bernoulli"]
)
def test_every_head_fits_scores_and_samples(head, line):
    X, _ = line
    y = np.round(np.exp(0.5 * X[:, 0]) * 3) + 1
    y = (y > 4).astype(float) if head == "bernoulli" else y
    model = HybridRegressor("linear", head=head, **TINY).fit(X, y)
    assert np.all(np.isfinite(model.log_joint(X, y)))
    rows, drawn = model.sample_joint(5, random_state=0)
    assert rows.shape == (5, 3) and drawn.shape == (5,)
    assert model.sample(4, y=y[0], random_state=0).shape == (4, 3)


def test_rows_without_a_target_still_teach_the_density(line):
    X, y = line
    numbers = np.where(np.arange(500) < 50, y, np.nan)
    marked = np.where(np.isnan(numbers), -999.0, numbers)
    settings = dict(head="gaussian", entropy_weight=0.1, vat_weight=0.1, **TINY)
    semi = HybridRegressor("linear", **settings).fit(X, numbers)
    assert np.all(np.isfinite(semi.predict(X)))
    assert semi.y_mean_ == pytest.approx(y[:50].mean())
    assert np.isnan(semi.log_joint(X, numbers)).sum() == 450
    again = HybridRegressor("linear", unlabelled=-999.0, **settings).fit(X, marked)
    assert np.array_equal(again.predict(X), semi.predict(X))


# ---------------------------------------------------------------- GLMs inside


def test_without_a_flow_the_regressor_is_least_squares_and_poisson_regression(line):
    X, y = line
    ours = HybridRegressor("identity", head="gaussian", **EXACT).fit(X, y)
    theirs = LinearRegression().fit(X, y)
    assert np.allclose(ours.predict(X), theirs.predict(X), atol=1e-3 * np.std(y))
    counts = np.random.default_rng(0).poisson(np.exp(0.5 + 0.4 * X[:, 0]))
    ours = HybridRegressor("identity", head="poisson", **EXACT).fit(X, counts)
    scaled = StandardScaler().fit_transform(X)
    theirs = PoissonRegressor(alpha=0, tol=1e-10, max_iter=10_000).fit(scaled, counts)
    assert np.allclose(ours.predict(X), theirs.predict(scaled), rtol=1e-3)


# ---------------------------------------------------------------- shapes of noise


def test_a_mixture_predicts_a_skewed_target_by_its_mean_and_its_shape():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = x[:, 0] + rng.exponential(np.exp(0.3 * x[:, 1]))
    tiny = TINY | dict(n_epochs=30)
    model = HybridRegressor("linear", head="mixture", **tiny).fit(x, y)
    dist = model.predict_dist(x)
    at = np.linspace(-60.0, 80.0, 5_001)
    density = np.exp([dist.log_prob(np.full(len(x), place)) for place in at])
    np.testing.assert_allclose(np.trapezoid(density, at, axis=0), 1.0, atol=2e-3)
    np.testing.assert_allclose(
        np.trapezoid(density * at[:, None], at, axis=0), dist.mean, atol=0.01
    )
    np.testing.assert_allclose(dist.cdf(dist.quantile(0.3)), 0.3, atol=1e-9)
    drawn = dist.sample(0, 4_000)
    error = 5 * dist.std / np.sqrt(len(drawn))
    assert np.mean(np.abs(drawn.mean(axis=0) - dist.mean) < error) > 0.99
    symmetric = HybridRegressor("linear", head="heteroscedastic", **tiny).fit(x, y)
    assert dist.log_prob(y).mean() > symmetric.predict_dist(x).log_prob(y).mean() + 0.05
    assert not hasattr(model, "counterfactual") and hasattr(symmetric, "counterfactual")
    with pytest.raises(AttributeError, match="has no attribute 'counterfactual'"):
        model.counterfactual(x[:1], 2.0)


def test_no_row_is_predicted_with_more_certainty_than_training_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 1))
    y = x[:, 0] + np.exp(x[:, 0]) * rng.normal(size=600)  # ever surer to the left
    model = HybridRegressor("linear", head="heteroscedastic", **TINY | dict(n_epochs=100))
    model.fit(x, y)
    least = model.predict(x, return_std=True)[1].min()
    far = model.predict(np.array([[-50.0], [-1e6]]), return_std=True)[1]
    assert np.all(far >= 0.999 * least) and least > 0.01
