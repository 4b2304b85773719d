"""Full-batch fits of GLM heads: equal to scikit-learn and statsmodels, and safe on hard data."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from head_samples import DIM, NAMES, build, data, respond

from diglm import heads
from diglm.types import partition


def reference_fit(name, zs, ys):
    """Weights and bias of the maximum-likelihood fit by other packages."""
    import statsmodels.api as sm
    from sklearn.linear_model import LinearRegression

    design = sm.add_constant(zs)
    if name == "gaussian":
        model = LinearRegression().fit(zs, ys)
        return np.append(model.intercept_, model.coef_)
    if name == "negative_binomial":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sm.NegativeBinomial(ys, design).fit(disp=0, method="newton", maxiter=200).params
    families = sm.families
    family = {
        "bernoulli": families.Binomial(),
        "probit": families.Binomial(families.links.Probit()),
        "cloglog": families.Binomial(families.links.CLogLog()),
        "poisson": families.Poisson(),
        "gamma": families.Gamma(families.links.Log()),
    }[name]
    return sm.GLM(ys, design, family=family).fit(tol=1e-12, maxiter=200).params


@pytest.mark.parametrize("name", ["gaussian", "bernoulli", "poisson", "gamma", "negative_binomial"])
def test_fit_equals_other_packages(name):
    zs, ys = data(name)
    head = heads.fit_head(build(name), zs, ys)
    known = reference_fit(name, zs, ys)
    ours = np.append(head.bias, head.weight[0])
    np.testing.assert_allclose(ours, known[: DIM + 1], rtol=1e-5, atol=1e-6)
    if name == "negative_binomial":
        np.testing.assert_allclose(head.family.log_dispersion(), np.log(known[-1]), atol=1e-4)
    if name == "gaussian":
        residual = ys - zs @ np.asarray(head.weight[0]) - float(head.bias[0])
        log_scale = 0.5 * np.log(np.mean(residual**2))
        np.testing.assert_allclose(head.family.log_scale(), log_scale, atol=1e-6)


@pytest.mark.parametrize("link", ["probit", "cloglog"])
def test_fit_of_other_links_equals_statsmodels(link):
    zs, ys = data("bernoulli")
    head = heads.fit_head(build("bernoulli", link=link), zs, ys)
    known = reference_fit(link, zs, ys)
    np.testing.assert_allclose(np.append(head.bias, head.weight[0]), known, rtol=1e-5, atol=1e-6)


def test_fit_of_gamma_with_reciprocal_link():
    import statsmodels.api as sm

    rng = np.random.default_rng(3)
    zs = rng.uniform(0, 1, size=(300, DIM))
    ys = rng.gamma(4, 1 / (1 + zs @ [1.0, 0.5, 0.2]) / 4)
    head = heads.fit_head(build("gamma", link="reciprocal"), zs, ys)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = sm.GLM(ys, sm.add_constant(zs), family=sm.families.Gamma()).fit(tol=1e-12).params
    np.testing.assert_allclose(np.append(head.bias, head.weight[0]), known, rtol=1e-5)


@pytest.mark.parametrize("name", ["bernoulli", "categorical"])
@pytest.mark.parametrize("l2", [0.1, 5.0])
def test_l2_is_one_over_scikit_learns_c(name, l2):
    from sklearn.linear_model import LogisticRegression

    zs, ys = data(name)
    sample_weight = np.random.default_rng(5).uniform(0.5, 2, len(ys))
    known = LogisticRegression(C=1 / l2, tol=1e-10, max_iter=5000)
    known.fit(zs, ys, sample_weight=sample_weight)
    head = heads.fit_head(build(name), zs, ys, weights=sample_weight, l2=l2)
    np.testing.assert_allclose(head.weight, known.coef_, atol=1e-6)
    bias = head.bias if name == "bernoulli" else head.bias - head.bias.mean()
    np.testing.assert_allclose(
        bias, known.intercept_ - known.intercept_.mean() * (len(bias) > 1), atol=1e-6
    )


def test_l2_of_ridge_and_poisson():
    from sklearn.linear_model import PoissonRegressor, Ridge

    zs, ys = data("gaussian")
    head = heads.fit_head(build("gaussian"), zs, ys, l2=40.0)
    s2 = float(jnp.exp(2 * head.family.log_scale()))
    known = Ridge(alpha=40.0 * s2).fit(zs, ys)
    np.testing.assert_allclose(head.weight[0], known.coef_, rtol=1e-6)
    np.testing.assert_allclose(head.bias[0], known.intercept_, rtol=1e-6)
    zs, ys = data("poisson")
    own = heads.fit_head(build("poisson", l2=30.0), zs, ys)  # the head's own prior
    known = PoissonRegressor(alpha=30.0 / len(ys), tol=1e-9, max_iter=1000).fit(zs, ys)
    np.testing.assert_allclose(own.weight[0], known.coef_, atol=1e-5)
    np.testing.assert_allclose(own.penalty(), 15.0 * np.sum(np.square(own.weight)), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mixture"])
def test_fit_is_stationary(name):
    zs, ys = data(name)
    head = heads.fit_head(build(name), zs, ys, l2=1.0)

    def loss(head):
        log_py = jax.vmap(head)(jnp.asarray(zs)).log_prob(jnp.asarray(ys))
        return -jnp.sum(log_py) + 0.5 * jnp.sum(head.weight**2)

    parameters, rest = partition(head)
    both = jax.jit(jax.value_and_grad(lambda p: loss(eqx.combine(p, rest))))
    value, gradient = both(parameters)
    for leaf in jax.tree.leaves(gradient):
        np.testing.assert_allclose(leaf, 0, atol=2e-3)
    assert value < both(partition(build(name).start(ys))[0])[0]


@pytest.mark.parametrize("name", NAMES)
def test_fit_survives_hard_data(name):
    zs, ys = data(name)
    rows = np.arange(len(ys))
    collinear = np.column_stack([zs[:, 0], zs[:, 0], 1e6 * zs[:, 1]])
    for zs_, ys_, weights, l2 in [
        (collinear, ys, None, 0.0),
        (zs, ys, 1.0 * (rows < 2), 0.0),  # fewer rows than columns
        (zs, ys, 1.0 * (rows < 2), 0.1),
        (zs, ys, 1.0 * (rows < 1), 0.0),
        (zs, np.repeat(ys[:1], len(ys)), None, 0.0),
    ]:
        head = heads.fit_head(build(name), zs_, ys_, weights=weights, l2=l2, max_steps=40)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(partition(head)[0]))
        responses = respond(head, 100 * zs_)
        assert np.all(np.isfinite(responses.mean)) and np.all(np.isfinite(responses.variance))


def test_more_columns_than_rows_equals_ridge():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    zs, ys = rng.normal(size=(12, 20)), rng.normal(size=12)
    head = heads.fit_head(heads.GaussianHead(20), zs, ys, l2=5.0)
    known = Ridge(alpha=5.0 * float(jnp.exp(2 * head.family.log_scale()))).fit(zs, ys)
    np.testing.assert_allclose(head.weight[0], known.coef_, atol=1e-6)


def test_separable_classes_with_a_prior():
    from sklearn.linear_model import LogisticRegression

    zs = np.linspace(-2, 2, 300)[:, None] * np.array([[1.0, 0.5, -1.0]])
    ys = (zs[:, 0] > 0).astype(int)
    head = heads.fit_head(build("bernoulli"), zs, ys, l2=1e-3)
    known = LogisticRegression(C=1e3, tol=1e-10, max_iter=10_000).fit(zs, ys)
    np.testing.assert_allclose(head.weight, known.coef_, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_rows_without_label_do_not_count(name):
    zs, ys = data(name)
    labelled = np.arange(len(ys)) % 3 > 0
    spoilt = np.where(labelled, ys, 2 if ys.dtype == int else np.nan).astype(ys.dtype)
    spoilt_zs = np.where(labelled[:, None], zs, np.nan)
    some = heads.fit_head(build(name), spoilt_zs, spoilt, labelled=labelled, l2=0.5)
    only = heads.fit_head(build(name), zs, ys, weights=labelled * 1.0, l2=0.5)
    np.testing.assert_allclose(some.weight, only.weight, rtol=1e-9)
    np.testing.assert_allclose(some.eta_low.value, only.eta_low.value)
    if name == "gaussian":
        subset = heads.fit_head(build(name), zs[labelled], ys[labelled], l2=0.5)
        np.testing.assert_allclose(some.weight, subset.weight, rtol=1e-7)
        np.testing.assert_allclose(some.eta_high.value, subset.eta_high.value)


def test_many_classes_by_conjugate_gradients():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    zs, classes = rng.normal(size=(500, 60)), 12  # 732 parameters: beyond the dense solver
    ys = np.argmax(zs @ rng.normal(size=(60, classes)) + 3 * rng.gumbel(size=(500, classes)), 1)
    head = heads.fit_head(heads.CategoricalHead(60, classes), zs, ys, l2=2.0)
    known = LogisticRegression(C=0.5, tol=1e-10, max_iter=5000).fit(zs, ys)
    np.testing.assert_allclose(head.weight, known.coef_, atol=1e-4)


def test_conjugate_gradients_leave_indefinite_places():
    rng = np.random.default_rng(0)
    zs = rng.normal(size=(600, 110))  # 222 parameters: beyond the dense solver
    ys = zs[:, 0] + rng.normal(size=600) * np.exp(0.3 * zs[:, 1])
    head = heads.fit_head(heads.HeteroscedasticHead(110), zs, ys, l2=50.0)

    @jax.jit
    @jax.grad
    def slope(weight):
        moved = eqx.tree_at(lambda h: h.weight, head, weight)
        log_py = jax.vmap(moved)(jnp.asarray(zs)).log_prob(jnp.asarray(ys))
        return 25 * jnp.sum(weight**2) - jnp.sum(log_py)

    np.testing.assert_allclose(slope(head.weight), 0, atol=1e-2)
    assert np.abs(slope(jnp.zeros_like(head.weight))).max() > 50


def test_fits_of_one_shape_compile_once(monkeypatch):
    traces = []
    respond = heads.PoissonFamily.response

    def counting(self, eta):
        traces.append(1)
        return respond(self, eta)

    monkeypatch.setattr(heads.PoissonFamily, "response", counting)
    for seed, l2, steps in [(0, 0.0, 50), (1, 2.0, 60)]:
        before = len(traces)
        zs, ys = data("poisson", rows=77, seed=seed)
        heads.fit_head(build("poisson", l2=l2), zs, ys, max_steps=steps)
    assert before > 0 and len(traces) == before


def test_warm_start_keeps_bounds():
    zs, ys = data("poisson")
    head = eqx.tree_at(lambda h: h.eta_high.value, build("poisson"), jnp.array([1.0]))
    cold, warm = (heads.fit_head(head, zs, ys, warm_start=w) for w in (False, True))
    np.testing.assert_allclose(cold.weight, warm.weight, atol=1e-6)
    assert warm.eta_high.value[0] == 1.0 and cold.eta_high.value[0] > 1.0
