"""Bayesian heads behind the estimators: exactness, units, contracts and strange input."""

import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import cross_val_score

from diglm import HybridRegressor, load, sweep
from diglm.heads import Bayesian
from diglm.predictor.online import design

TINY = dict(n_epochs=10, batch_size=32, reject=0.1, verbose=False)


def table(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1]
    return X, 50 + 20 * X[:, 0] + X[:, 1] ** 2 / 10 + 5 * rng.normal(size=n)


@pytest.fixture(scope="module")
def trained():
    X, y = table()
    settings = dict(n_blocks=2, width=8, depth=1, random_state=0)
    return HybridRegressor(head="bayesian", **settings, **TINY).fit(X, y)


def features(model, rows):
    """(f(x), 1) of each row."""
    return design(model.predictor_, model.predictor_.encode(rows))


class Implied(Kernel):
    """The kernel of a fitted model, as scikit-learn wants it."""

    def __init__(self, ask):
        self.ask = ask

    def __call__(self, X, Y=None, eval_gradient=False):
        return self.ask(X, X if Y is None else Y)

    def diag(self, X):
        return np.diag(self.ask(X)).copy()

    def is_stationary(self):
        return False


def test_a_trained_model_is_the_gaussian_process_of_its_kernel(trained):
    X, y = table()
    new, _ = table(20, seed=1)
    noise = trained.posterior_.noise_variance
    gp = GaussianProcessRegressor(Implied(trained.kernel), alpha=noise, optimizer=None)
    gp.fit(X, y - trained.y_location_)
    mean, std = gp.predict(new, return_std=True)
    ours, spread = trained.predict(new, return_std=True)
    np.testing.assert_allclose(ours, mean + trained.y_location_, rtol=1e-6)
    np.testing.assert_allclose(spread, np.sqrt(std**2 + noise), rtol=1e-6)
    evidence = gp.log_marginal_likelihood_value_
    assert trained.log_evidence(X, y) == pytest.approx(evidence, abs=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_a_trained_model_is_gpjaxs_exact_process(trained):
    gpjax = pytest.importorskip("gpjax")
    import jax
    import jax.numpy as jnp

    X, y = table()
    new, _ = table(10, seed=1)
    phi, phi_new = (jnp.asarray(features(trained, rows)) for rows in (X, new))
    noise, prior = trained.posterior_.noise_variance, trained.posterior_.prior_precision
    # GPJax was written for JAX's ordinary promotion rules.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        process = gpjax.gps.Prior(
            kernel=gpjax.kernels.Linear(variance=1 / prior),
            mean_function=gpjax.mean_functions.Zero(),
            jitter=0.0,
        )
        model = process * gpjax.likelihoods.Gaussian(obs_stddev=noise**0.5)
        data = gpjax.Dataset(X=phi, y=jnp.asarray(y - trained.y_location_)[:, None])
        found = model.condition(data)(phi_new, covariance="diagonal")
        evidence = float(gpjax.objectives.conjugate_mll(model, data))
        mean, variance = np.asarray(found.mean), np.asarray(found.variance)
    ours, spread = trained.predict(new, return_std=True)
    np.testing.assert_allclose(ours, mean.ravel() + trained.y_location_, rtol=1e-6)
    np.testing.assert_allclose(spread, np.sqrt(variance.ravel() + noise), rtol=1e-6)
    assert trained.log_evidence(X, y) == pytest.approx(evidence, abs=1e-5)


def test_evidence_is_the_density_of_all_targets_in_their_units(trained):
    X, y = table(40, seed=2)
    cov = trained.kernel(X) + trained.posterior_.noise_variance * np.eye(40)
    expected = stats.multivariate_normal(np.full(40, trained.y_location_), cov).logpdf(y)
    assert trained.log_evidence(X, y) == pytest.approx(expected, abs=1e-6)
    y[::4] = np.nan
    kept = ~np.isnan(y)
    assert trained.log_evidence(X, y) == pytest.approx(trained.log_evidence(X[kept], y[kept]))


def test_posterior_predicts(trained):
    X, _ = table(10, seed=3)
    found = trained.posterior_
    phi = np.concatenate([trained.transform(X), np.ones((10, 1))], axis=1)
    mean, std = trained.predict(X, return_std=True)
    np.testing.assert_allclose(mean, phi @ found.mean, rtol=1e-9)
    variance = found.noise_variance + np.sum((phi @ found.covariance) * phi, axis=1)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-9)
    dist = trained.predict_dist(X)
    np.testing.assert_allclose(dist.log_prob(mean), stats.norm(mean, std).logpdf(mean))


def test_without_a_flow_it_is_bayesian_ridge():
    X, y = table()
    model = HybridRegressor("identity", head="bayesian").fit(X, y)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    ridge = BayesianRidge(
        alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-10, max_iter=2000
    ).fit(scaled, (y - y.mean()) / y.std())
    # One intercept is penalised and the other not, which standardised targets hardly notice.
    np.testing.assert_allclose(
        model.predict(X), y.mean() + y.std() * ridge.predict(scaled), atol=0.01 * y.std()
    )
    noise = model.posterior_.noise_variance
    assert noise == pytest.approx(y.std() ** 2 / ridge.alpha_, rel=0.02)


def test_units_do_not_matter():
    X, y = table(60)
    a = HybridRegressor("linear", head="bayesian", random_state=0, **TINY).fit(X, y)
    b = HybridRegressor("linear", head="bayesian", random_state=0, **TINY).fit(1000 * X, 10 * y)
    np.testing.assert_allclose(10 * a.predict(X), b.predict(1000 * X), rtol=1e-6)
    np.testing.assert_allclose(100 * a.kernel(X[:3]), b.kernel(1000 * X[:3]), rtol=1e-6)
    shift = -60 * np.log(10)
    assert b.log_evidence(1000 * X, 10 * y) == pytest.approx(a.log_evidence(X, y) + shift, abs=1e-5)
    np.testing.assert_allclose(a.information_gain(X), b.information_gain(1000 * X), rtol=1e-6)


def test_noise_and_precision_can_be_given():
    X, y = table()
    model = HybridRegressor("identity", head=Bayesian(noise=3.0, prior_precision=1.0)).fit(X, y)
    assert model.posterior_.noise_variance == pytest.approx(9.0)
    assert model.posterior_.prior_precision == pytest.approx(1 / y.std() ** 2)


def test_several_targets_at_once(tmp_path):
    X, y = table()
    both = np.stack([y, -3 * X[:, 1]], axis=1)
    both[::10] = np.nan
    model = HybridRegressor("linear", head="bayesian", random_state=0, **TINY).fit(X, both)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (150, 2)
    known = ~np.isnan(both[:, 0])
    assert np.corrcoef(mean[known, 1], both[known, 1])[0, 1] > 0.99
    assert model.posterior_.mean.shape == (2, 4)
    assert model.kernel(X[:5]).shape == (2, 5, 5)
    covs = model.kernel(X[known]) + model.posterior_.noise_variance[:, None, None] * np.eye(
        known.sum()
    )
    parts = [
        stats.multivariate_normal(np.full(known.sum(), loc), cov).logpdf(column)
        for loc, cov, column in zip(model.y_location_, covs, both[known].T, strict=True)
    ]
    assert model.log_evidence(X, both) == pytest.approx(sum(parts), abs=1e-5)
    assert model.log_joint(X[known], both[known]).shape == (known.sum(),)
    assert list(model.assess(X).columns)[:4] == ["prediction_0", "sd_0", "prediction_1", "sd_1"]
    model.downdate(X[:20], both[:20])
    model.save(tmp_path / "m")
    np.testing.assert_allclose(load(tmp_path / "m").predict(X), model.predict(X))
    both[1, 0] = np.nan
    with pytest.raises(ValueError, match="some targets and lack others"):
        model.fit(X, both)
    with pytest.raises(ValueError, match="1d array"):
        HybridRegressor("linear", head="gaussian").fit(X, both)


@pytest.mark.parametrize("inference", ["exact", "minibatch"])
def test_both_ways_of_training_end_with_the_exact_posterior(inference):
    X, y = table()
    model = HybridRegressor(
        "linear", head=Bayesian(inference=inference), random_state=0, **TINY
    ).fit(X, y)
    phi = features(model, X)
    found = model.posterior_
    precise = found.prior_precision * np.eye(4) + phi.T @ phi / found.noise_variance
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precise), rtol=1e-6, atol=1e-9)
    assert model.score(X, y) > 0.5


def test_contracts(trained, tmp_path):
    X, y = table()
    copied = pickle.loads(pickle.dumps(trained))
    np.testing.assert_array_equal(copied.predict(X), trained.predict(X))
    assert clone(trained).get_params() == trained.get_params()
    again = clone(trained).fit(X, y)
    np.testing.assert_allclose(again.predict(X), trained.predict(X))
    trained.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X), trained.predict(X))
    np.testing.assert_array_equal(loaded.posterior_.mean, trained.posterior_.mean)
    assert np.isfinite(cross_val_score(HybridRegressor("identity", head="bayesian"), X, y)).all()
    found = trained.counterfactual(X[:3], 60.0)
    np.testing.assert_allclose(found.prediction, 60.0, rtol=1e-3)
    assert trained.sample(4, y=60.0, random_state=0).shape == (4, 3)
    assert trained.sample_joint(5, random_state=0)[1].shape == (5,)
    again.fit(X, y).set_params(head="gaussian", flow="identity").fit(X, y)
    assert not hasattr(again, "posterior_")


def test_strange_tables_have_finite_answers():
    X, y = table(40)
    strange = {
        "duplicate columns": (np.concatenate([X, X], axis=1), y),
        "fewer rows than columns": (np.random.default_rng(0).normal(size=(8, 20)), y[:8]),
        "huge columns": (X * 1e8, y),
        "one row": (X[:1], y[:1]),
        "constant target": (X, np.full(40, 3.0)),
        "no noise": (X, X @ [1.0, 2.0, 3.0]),
        "huge target": (X, 1e12 * y),
    }
    for name, (rows, targets) in strange.items():
        model = HybridRegressor("identity", head="bayesian").fit(rows, targets)
        mean, std = model.predict(rows, return_std=True)
        assert np.all(np.isfinite(mean)) and np.all(std > 0), name
        assert np.isfinite(model.log_evidence(rows, targets)), name
        assert np.all(np.isfinite(model.information_gain(rows))), name
    exact = HybridRegressor("identity", head="bayesian").fit(*strange["no noise"])
    np.testing.assert_allclose(exact.predict(X), strange["no noise"][1], atol=1e-2)
    with pytest.raises(ValueError, match="No target to learn from"):
        HybridRegressor("identity", head="bayesian").fit(X, np.full(40, np.nan))
    with pytest.raises(ValueError, match="infinity"):
        HybridRegressor("identity", head="bayesian").fit(X, np.full(40, np.inf))


@pytest.mark.parametrize(
    "options",
    [
        dict(noise=-1.0),
        dict(noise=0.0),
        dict(prior_precision="high"),
        dict(inference="laplace"),  # that is for classes
        dict(inference="guess"),
    ],
)
def test_parameters_out_of_range_are_named(options):
    X, y = table(20)
    with pytest.raises(ValueError, match=next(iter(options))):
        HybridRegressor("identity", head=Bayesian(**options)).fit(X, y)


def test_intervals_hold_what_they_promise():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=5)
    inside = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 5))
        y = X @ weights + rng.normal(size=400)
        model = HybridRegressor("identity", head="bayesian").fit(X[:60], y[:60])
        low, high = model.predict_dist(X[60:]).interval(0.9)
        inside.append(np.mean((low < y[60:]) & (y[60:] < high)))
    assert 0.87 < np.mean(inside) < 0.93


def test_files_end_with_the_exact_posterior_of_every_row(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    X, y = table(400)
    y[::7] = np.nan
    columns = {f"x{j}": X[:, j] for j in range(3)} | {"y": y}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    model = HybridRegressor("linear", head="bayesian", random_state=0, **TINY | dict(n_epochs=2))
    model.fit_file(tmp_path / "rows.parquet", target="y")
    known = ~np.isnan(y)
    frame = {name: column for name, column in columns.items() if name != "y"}
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame(frame)
    phi, found = features(model, rows[known]), model.posterior_
    precise = found.prior_precision * np.eye(4) + phi.T @ phi / found.noise_variance
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precise), rtol=1e-6, atol=1e-9)
    model.downdate(rows[known][:5], y[known][:5])


def test_sweeps_train_bayesian_heads():
    X, y = table(80)
    estimator = HybridRegressor("linear", head="bayesian", random_state=0, **TINY)
    found = sweep(estimator, X, y, generative_weight=[0.1, 1.0])
    alone = clone(estimator).set_params(generative_weight=1.0).fit(X, y)
    np.testing.assert_allclose(found.models[1].predict(X), alone.predict(X), rtol=1e-4)
    assert np.all(np.isfinite(found.models[0].posterior_.mean))
