"""Estimators with random effects against statsmodels, known truths and what they promise."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import statsmodels.api as sm
from group_samples import grouped

from diglm import HybridClassifier, HybridRegressor, load
from diglm.heads import ConjugateHead, Mixed


def statsmodels_fit(y, fixed, codes, random):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sm.MixedLM(y, fixed, codes, exog_re=random)
        return model.fit(reml=True, method="bfgs", gtol=1e-12)  # others stop short of the top


def line_of(model, low=0.0, high=1.0):
    """Intercept and slope of a population line, from two predictions."""
    a, b = model.predict(np.array([[low], [high]]))
    return np.array([a - low * (b - a) / (high - low), (b - a) / (high - low)])


def test_intercepts_and_slopes_are_those_of_statsmodels():
    x, codes, y = grouped()
    design = np.stack([np.ones_like(x), x], axis=1)
    expected = statsmodels_fit(y, design, codes, design)
    names = np.array([f"group {c}" for c in codes])
    model = HybridRegressor("identity", head=Mixed(slopes=[0])).fit(x[:, None], y, groups=names)
    np.testing.assert_allclose(line_of(model, 2, 4), expected.fe_params, rtol=1e-4)
    np.testing.assert_allclose(model.random_covariance_, expected.cov_re, atol=1e-4)
    assert model.residual_variance_ == pytest.approx(expected.scale, rel=1e-3)
    order = [int(str(g).split()[1]) for g in model.groups_]
    theirs = np.stack([expected.random_effects[g] for g in order])
    np.testing.assert_allclose(model.random_effects_, theirs, atol=1e-4)
    fitted = model.predict(x[:, None], groups=names)
    np.testing.assert_allclose(fitted, expected.fittedvalues, atol=1e-4)


@pytest.mark.parametrize("slopes", [None, ["income"]])
def test_a_public_table_agrees_with_statsmodels(slopes):
    # Grunfeld's investments: 220 years of firms, of which there are eleven.
    data = sm.datasets.grunfeld.load_pandas().data
    X = data[["value", "capital"]].rename(columns={"capital": "income"}) / 1000
    y, firms = data["invest"].to_numpy() / 100, data["firm"].to_numpy()
    fixed = np.column_stack([np.ones(len(X)), X.to_numpy()])
    columns = [0] if slopes is None else [0, 2]
    expected = statsmodels_fit(y, fixed, firms, fixed[:, columns])
    model = HybridRegressor("identity", head=Mixed(slopes=slopes)).fit(X, y, groups=firms)
    middle = X.iloc[[100]].to_numpy()[0]
    steps = np.stack([middle, middle + [0.1, 0], middle + [0, 0.1]])
    at = model.predict(type(X)(steps, columns=X.columns))
    slopes = (at[1:] - at[0]) * 10
    np.testing.assert_allclose(slopes, expected.fe_params[1:], rtol=1e-3, atol=1e-3)
    assert model.residual_variance_ == pytest.approx(expected.scale, rel=1e-3)
    np.testing.assert_allclose(model.random_covariance_, expected.cov_re, rtol=1e-4, atol=1e-4)


def test_unseen_groups_are_the_population():
    x, codes, y = grouped()
    model = HybridRegressor("identity", head="mixed").fit(x[:, None], y, groups=codes)
    new = np.array([[3.0], [3.0]])
    mean, std = model.predict(new, return_std=True, groups=[0, 999])
    alone, wide = model.predict(new, return_std=True)
    assert mean[1] == pytest.approx(alone[1]) and std[1] == pytest.approx(wide[1])
    assert abs(mean[0] - mean[1]) > 0.05 and std[0] < std[1]
    assert wide[0] ** 2 > model.random_covariance_[0, 0]


def test_draws_are_of_the_population():
    x, codes, y = grouped(40, 10)
    model = HybridRegressor("identity", head="mixed", random_state=0).fit(
        x[:, None], y, groups=codes
    )
    rows, drawn = model.sample_joint(4000, random_state=0)
    spread = np.std(drawn - model.predict(rows))
    expected = np.sqrt(model.residual_variance_ + model.random_covariance_[0, 0])
    assert spread == pytest.approx(expected, rel=0.05)
    assert model.counterfactual(x[:2, None], 20.0).prediction == pytest.approx([20, 20], rel=1e-3)


def test_noise_can_be_given():
    x, codes, y = grouped()
    model = HybridRegressor("identity", head=Mixed(noise=2.0)).fit(x[:, None], y, groups=codes)
    assert model.residual_variance_ == pytest.approx(4.0)
    assert set(vars(model)) == {name for name in vars(model) if not name.startswith("_")}


def test_no_effect_gets_no_variance():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(30), 10)

    def centred(values):
        return values - np.array([values[codes == g].mean() for g in range(30)])[codes]

    x = centred(rng.normal(size=300))
    y = x + centred(rng.normal(size=300))
    model = HybridRegressor("identity", head="mixed").fit(x[:, None], y, groups=codes)
    assert 0 <= model.random_covariance_[0, 0] < 1e-3
    assert np.all(np.isfinite(model.predict(x[:, None], groups=codes)))


@pytest.mark.slow
def test_effects_of_groups_of_classes_and_counts_are_recovered():
    rng = np.random.default_rng(0)
    codes, x = np.repeat(np.arange(60), 25), rng.normal(size=1500)
    effects = rng.normal(size=60)
    eta = 0.5 + x + effects[codes]
    counts = rng.poisson(np.exp(0.5 * eta))
    model = HybridRegressor("identity", head="mixed_poisson").fit(x[:, None], counts, groups=codes)
    assert model.random_covariance_[0, 0] == pytest.approx(0.25, rel=0.3)
    assert np.corrcoef(model.random_effects_[:, 0], effects)[0, 1] > 0.9
    rate = model.predict(x[:, None], groups=codes)
    assert np.corrcoef(rate, np.exp(0.5 * eta))[0, 1] > 0.95
    labels = rng.random(1500) < 1 / (1 + np.exp(-eta))
    classifier = HybridClassifier("identity", head="mixed").fit(x[:, None], labels, groups=codes)
    assert classifier.random_covariance_[0, 0] == pytest.approx(1.0, rel=0.4)
    with_groups = classifier.predict_proba(x[:, None], groups=codes)[:, 1]
    without = classifier.predict_proba(x[:, None])[:, 1]
    truth = 1 / (1 + np.exp(-eta))
    assert np.mean((with_groups - truth) ** 2) < 0.5 * np.mean((without - truth) ** 2)


def test_a_flow_learns_what_groups_do_not_explain():
    rng = np.random.default_rng(0)
    codes, x = np.repeat(np.arange(20), 20), rng.normal(size=(400, 2))
    y = np.sin(2 * x[:, 0]) + x[:, 1] + rng.normal(size=20)[codes] * 2 + 0.2 * rng.normal(size=400)
    settings = dict(n_blocks=2, width=16, n_epochs=40, random_state=0)
    model = HybridRegressor(head="mixed", **settings).fit(x, y, groups=codes)
    left = y - model.predict(x, groups=codes)
    assert np.std(left) < 0.6
    low, high = model.predict_dist(x, groups=codes).interval(0.9)
    assert 0.8 < np.mean((low < y) & (y < high)) < 0.98


def test_effects_of_observations_let_the_noise_vary():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 1))
    y = x[:, 0] + (0.1 + np.abs(x[:, 0])) * rng.normal(size=800)
    even = HybridRegressor("identity", head="bayesian").fit(x, y)
    uneven = HybridRegressor("identity", head="mixed", random_state=0).fit(x, y)
    assert isinstance(uneven.model_.head, ConjugateHead) and uneven.model_.head.has_effects
    _, std = uneven.predict(np.array([[0.0], [2.0]]), return_std=True)
    assert std[1] > 3 * std[0]
    gain = uneven.predict_dist(x).log_prob(y).mean() - even.predict_dist(x).log_prob(y).mean()
    assert gain > 0.1
    uneven.update(x[:5], y[:5]).downdate(x[:5], y[:5])  # the exact posterior is still there


def test_saving_keeps_groups(tmp_path):
    x, codes, y = grouped()
    names = np.array(["a", "b", "c"], object)[codes % 3]
    model = HybridRegressor("identity", head=Mixed(slopes="all")).fit(x[:, None], y, groups=names)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_allclose(
        again.predict(x[:, None], groups=names), model.predict(x[:, None], groups=names)
    )
    np.testing.assert_allclose(again.random_covariance_, model.random_covariance_)
    assert set(again.assess(x[:, None]).columns) >= {"prediction", "sd", "rejected"}


def test_mistakes_with_groups_are_named():
    x, codes, y = grouped()
    X = x[:, None]
    with pytest.raises(ValueError, match="groups belong to head='mixed'"):
        HybridRegressor("identity", head="gaussian").fit(X, y, groups=codes)
    with pytest.raises(ValueError, match="needs the group of each row"):
        HybridRegressor("identity", head=Mixed(slopes="all")).fit(X, y)
    with pytest.raises(ValueError, match="120 rows, but groups has 3"):
        HybridRegressor("identity", head="mixed").fit(X, y, groups=codes[:3])
    with pytest.raises(ValueError, match="Slopes were asked for of the column 'age'"):
        HybridRegressor("identity", head=Mixed(slopes=["age"])).fit(X, y, groups=codes)
    with pytest.raises(ValueError, match="for two classes"):
        HybridClassifier("identity", head="mixed").fit(X, codes % 3, groups=codes)
    model = HybridRegressor("identity", head="gaussian").fit(X, y)
    with pytest.raises(ValueError, match="without groups"):
        model.predict(X, groups=codes)
    assert not hasattr(model, "random_effects_")
    assert jnp.ndim(model.y_mean_) == 0
