"""Heads: responses against SciPy, fits against scikit-learn and statsmodels, and the bounds."""

import pickle
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import digamma, expit, gammaln

from diglm import heads
from diglm.heads.links import LOG_ODDS
from diglm.heads.special import stirling_error
from diglm.types import partition

DIM = 3
OPTIONS = {"categorical": {"n_classes": 3}}
NAMES = sorted(heads.HEADS)
DISCRETE = ["bernoulli", "poisson", "negative_binomial"]
REAL = ["gaussian", "student_t"]


def build(name, dim=DIM, **options):
    return heads.make_head(name, dim, **OPTIONS.get(name, {}), **options)


def data(name, rows=300, dim=DIM, seed=0):
    """Features and targets drawn from the family itself."""
    rng = np.random.default_rng(seed)
    zs = rng.normal(size=(rows, dim))
    eta = 0.4 + zs @ np.array([0.6, -0.4, 0.2] + [0.0] * (dim - 3))
    targets = {
        "gaussian": lambda: 5 + 3 * eta + rng.normal(size=rows),
        "heteroscedastic": lambda: eta + rng.normal(size=rows) * np.exp(0.4 * zs[:, 1]),
        "student_t": lambda: eta + rng.standard_t(5, size=rows),
        "mixture": lambda: eta + rng.gamma(1.0, np.exp(0.3 * zs[:, 1])),
        "bernoulli": lambda: (rng.logistic(size=rows) < eta).astype(int),
        "categorical": lambda: np.argmax(
            rng.gumbel(size=(rows, 3)) + zs @ rng.normal(size=(dim, 3)), axis=1
        ),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "negative_binomial": lambda: rng.poisson(np.exp(eta) * rng.gamma(2, 0.5, rows)) * 1.0,
        "gamma": lambda: rng.gamma(3, np.exp(eta) / 3),
    }
    return zs, targets[name]()


@eqx.filter_jit
def respond(head, zs):
    """Responses of a batch, compiled: op by op, most of the time would go into compiling."""
    return jax.vmap(head)(jnp.asarray(zs))


def scalar(value):
    return jnp.asarray(value, dtype=float)


def negative_binomial(log_mean, log_alpha):
    size, mean = np.exp(-log_alpha), np.exp(log_mean)
    return stats.nbinom(size, size / (size + mean))


# Each response, the ranges of its parameters, and SciPy's distribution.
PAIRS = {
    "gaussian": (heads.Gaussian, [(-50, 50), (1e-3, 1e3)], stats.norm),
    "student_t": (heads.StudentT, [(0.5, 300), (-50, 50), (1e-3, 1e3)], stats.t),
    "poisson": (heads.Poisson, [(-8, 12)], lambda log_rate: stats.poisson(np.exp(log_rate))),
    "negative_binomial": (heads.NegativeBinomial, [(-5, 9), (-6, 6)], negative_binomial),
    "gamma": (
        heads.Gamma,
        [(-8, 8), (-3, 8)],
        lambda log_mean, log_k: stats.gamma(np.exp(log_k), scale=np.exp(log_mean - log_k)),
    ),
    "bernoulli": (heads.Bernoulli, [(-15, 15)], lambda logit: stats.bernoulli(expit(logit))),
}
ROWS = 30


@jax.jit
def describe(response, ys):
    return response.log_prob(ys), response.mean, response.variance, response.entropy()


@pytest.mark.parametrize("name", sorted(PAIRS))
@settings(max_examples=8, deadline=None)
@given(draw=st.data())
def test_log_prob_moments_and_entropy_equal_scipys(name, draw):
    make, ranges, reference = PAIRS[name]
    numbers = [
        np.array(draw.draw(st.lists(st.floats(*ends), min_size=ROWS, max_size=ROWS)))
        for ends in ranges
    ]
    known = reference(*numbers)
    levels = draw.draw(st.lists(st.floats(1e-6, 1 - 1e-6), min_size=ROWS, max_size=ROWS))
    ys = np.clip(known.ppf(levels), None if name in DISCRETE + REAL else 1e-200, 1e12)
    log_prob, mean, variance, entropy = describe(make(*map(jnp.asarray, numbers)), ys)
    exact = known.logpmf(ys) if name in DISCRETE else known.logpdf(ys)
    np.testing.assert_allclose(log_prob, exact, rtol=1e-7, atol=1e-7)
    moments = numbers[0] > 2 if name == "student_t" else slice(None)
    np.testing.assert_allclose(mean[moments], known.mean()[moments], rtol=1e-9)
    np.testing.assert_allclose(variance[moments], known.var()[moments], rtol=1e-7)
    if name not in ("poisson", "negative_binomial"):  # summed in the next test
        np.testing.assert_allclose(entropy, known.entropy(), rtol=1e-6, atol=1e-6)


def test_counts_sum_to_one_and_their_entropy_is_the_whole_sum():
    log_means = np.array([-6.0, -1.0, 1.0, 3.0, 4.1, 4.5, 6.0, 8.0])
    grid = [(m, a) for m in log_means for a in (-12.0, -6.0, -4.9, -3.0, 0.0, 1.5)]
    ys = np.arange(2_000_000)
    for make, rows in [
        (heads.Poisson, log_means[:, None]),
        (heads.NegativeBinomial, np.array(grid)),
    ]:
        responses = make(*map(jnp.asarray, rows.T))
        entropies = jax.jit(lambda r: r.entropy())(responses)
        tops = responses.mean + 12 * responses.std + 40 * responses.variance / responses.mean
        for row, entropy, top in zip(rows, entropies, tops, strict=True):
            kind = "poisson" if len(row) == 1 else "negative_binomial"
            log_p = PAIRS[kind][2](*row).logpmf(ys[: int(top) + 100])
            kept = np.exp(log_p)
            np.testing.assert_allclose(kept.sum(), 1, atol=1e-8)
            np.testing.assert_allclose(entropy, -np.sum(kept * np.maximum(log_p, -1e9)), atol=2e-6)
    few = heads.NegativeBinomial(*(jnp.full(400, v) for v in (1.0, -0.5)))
    total = jnp.sum(jnp.exp(few.log_prob(jnp.arange(400, dtype=float))))
    np.testing.assert_allclose(total, 1, rtol=1e-12)


def test_entropy_of_large_counts():
    log_means = jnp.array([-3.0, 2.0, 15.0, 25.0, 60.0, 200.0])
    entropy = jax.jit(lambda response: response.entropy())
    gaussian = 0.5 * (np.log(2 * np.pi * np.e) + log_means)
    np.testing.assert_allclose(entropy(heads.Poisson(log_means))[2:], gaussian[2:], atol=1e-6)
    p = 1 / (1 + np.exp(log_means))  # a dispersion of one is the geometric distribution
    geometric = -np.log(p) - (1 - p) / p * np.log1p(-p)
    geometric = np.where(log_means > 30, 1 + log_means, geometric)
    ours = entropy(heads.NegativeBinomial(log_means, jnp.zeros_like(log_means)))
    np.testing.assert_allclose(ours, geometric, atol=1e-6)


def test_densities_integrate_to_one():
    for make, numbers, low in [
        (heads.Gaussian, (0.3, 2.0), -np.inf),
        (heads.StudentT, (3.0, 0.3, 2.0), -np.inf),
        (heads.Gamma, (0.3, 0.5), 0.0),
        (heads.Gamma, (2.0, 3.0), 0.0),
    ]:
        response = make(*map(scalar, numbers))
        density = jax.jit(lambda y, response=response: jnp.exp(response.log_prob(y)))
        middle = float(response.mean)
        total = sum(
            integrate.quad(lambda y, f=density: float(f(y)), *ends, limit=200)[0]
            for ends in [(low, middle), (middle, np.inf)]
        )
        np.testing.assert_allclose(total, 1, atol=1e-6)


def test_categorical_is_softmax():
    logits = jnp.array([0.3, -2.0, 1.5, 0.0])
    response = heads.Categorical(logits)
    ps = np.exp([float(response.log_prob(k)) for k in range(4)])
    np.testing.assert_allclose(ps, np.exp(logits) / np.sum(np.exp(logits)), rtol=1e-12)
    np.testing.assert_allclose(ps.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(response.mean, ps, rtol=1e-12)
    np.testing.assert_allclose(response.variance, ps * (1 - ps), rtol=1e-12)
    np.testing.assert_allclose(response.entropy(), stats.entropy(ps), rtol=1e-12)
    batch = heads.Categorical(jnp.stack([logits, -logits]))
    np.testing.assert_allclose(batch.log_prob(jnp.array([1, 2]))[0], response.log_prob(1))


RESPONSES = {
    "gaussian": heads.Gaussian(scalar(1.0), scalar(2.0)),
    "student_t": heads.StudentT(scalar(6.0), scalar(1.0), scalar(2.0)),
    "bernoulli": heads.Bernoulli(scalar(0.7)),
    "categorical": heads.Categorical(jnp.array([0.0, 1.0, -1.0], dtype=float)),
    "poisson": heads.Poisson(scalar(1.3)),
    "poisson, large": heads.Poisson(scalar(20.0)),
    "negative_binomial": heads.NegativeBinomial(scalar(1.3), scalar(-0.5)),
    "gamma": heads.Gamma(scalar(0.4), scalar(0.8)),
}


@pytest.mark.parametrize("name", sorted(RESPONSES))
def test_samples_have_the_moments_and_entropy(name):
    response, n = RESPONSES[name], 40_000

    @jax.jit
    def draw(response):
        ys = response.sample(jax.random.key(0), n)
        return ys, -jax.vmap(response.log_prob)(ys), response.entropy()

    ys, losses, entropy = draw(response)
    assert jax.eval_shape(response.sample, jax.random.key(0)).shape == ()
    values = jax.nn.one_hot(ys, 3) if name == "categorical" else ys[:, None].astype(float)
    error = 5 * jnp.sqrt(jnp.atleast_1d(response.variance) / n)
    assert jnp.all(jnp.abs(jnp.mean(values, axis=0) - response.mean) < error)
    np.testing.assert_allclose(
        jnp.var(values, axis=0), jnp.atleast_1d(response.variance), rtol=0.12
    )
    tolerance = 5 * float(jnp.std(losses)) / np.sqrt(n) + 1e-6
    np.testing.assert_allclose(jnp.mean(losses), entropy, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_match_finite_differences(name):
    zs, ys = data(name, rows=6)
    head = build(name).start(ys)
    parameters, rest = partition(head)
    flat, unravel = jax.flatten_util.ravel_pytree(parameters)
    flat = flat + 0.1 * jax.random.normal(jax.random.key(1), flat.shape)

    @jax.jit
    @jax.value_and_grad
    def loss(flat):
        responses = jax.vmap(eqx.combine(unravel(flat), rest))(jnp.asarray(zs))
        return jnp.sum(responses.log_prob(jnp.asarray(ys))) + jnp.sum(responses.entropy())

    steps = 1e-5 * jnp.eye(flat.size)
    finite = [(loss(flat + step)[0] - loss(flat - step)[0]) / 2e-5 for step in steps]
    np.testing.assert_allclose(loss(flat)[1], finite, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, jnp.float32) for name in NAMES] + [("negative_binomial", jnp.float64)],
)
def test_extreme_predictors_give_finite_numbers(name, dtype):
    head = jax.tree.map(lambda leaf: leaf.astype(dtype), build(name))  # no bounds are set
    classes = name in ("bernoulli", "categorical")

    @jax.jit
    @jax.vmap
    def numbers(eta, y):
        def score(eta):
            response = head.family.response(eta)
            return response.log_prob(y), response.entropy()

        response = head.family.response(eta)
        moments = response.mean, response.variance
        return *score(eta), *moments, *jax.jacrev(score)(eta)

    sizes = jnp.array([1e6, -1e6, 80.0, -80.0], dtype)
    etas = jnp.stack([-sizes, sizes, sizes][: head.bias.size], axis=1)
    etas = jnp.repeat(etas, 4, axis=0)
    if name == "categorical":
        etas = etas.at[:, 2].set(0.0)
    ys = jnp.tile(jnp.array([0, 1, 0, 1] if classes else [0, 1, 2, 100]), 4)
    answers = numbers(etas, ys)
    assert answers[0].dtype == answers[1].dtype == answers[2].dtype == dtype
    assert all(np.all(np.isfinite(answer)) for answer in answers)
    if hasattr(head, "log_prob_bound"):
        bounds = np.asarray(jax.jit(jax.vmap(head.log_prob_bound))(ys))
        assert np.all(np.asarray(answers[0]) <= bounds + 1e-6)


def test_extreme_samples_are_finite():
    sizes = jnp.array([1e6, -1e6, 80.0, -80.0], jnp.float32)
    zeros = jnp.zeros_like(sizes)
    key = jax.random.key(0)
    for response in (heads.Poisson(sizes), heads.NegativeBinomial(sizes, zeros)):
        assert np.all(np.isfinite(response.sample(key)) & (response.sample(key) >= 0))
    assert np.all(np.isfinite(heads.Gamma(sizes, zeros).sample(key)))


@pytest.mark.parametrize("link", ["probit", "cloglog"])
def test_extreme_predictors_of_other_links(link):
    family = heads.BernoulliFamily(link)
    for size in (1e6, -1e6, 40.0, -40.0):
        for y in (0, 1):
            score = jax.value_and_grad(lambda eta, y=y: family.response(eta).log_prob(y))
            value, slope = score(jnp.array([size]))
            assert np.isfinite(value) and np.all(np.isfinite(slope)) and value <= 0


def test_single_precision_keeps_its_digits_for_large_counts():
    f = jnp.float32
    for y, log_mean in [(1e5, 11.5), (3e6, 14.9)]:
        exact = stats.poisson(np.exp(float(f(log_mean)))).logpmf(y)
        np.testing.assert_allclose(heads.Poisson(f(log_mean)).log_prob(y), exact, rtol=1e-3)
        near = heads.NegativeBinomial(f(log_mean), f(-30.0)).log_prob(y)
        np.testing.assert_allclose(near, exact, rtol=2e-3)


def test_impossible_targets_have_no_probability_and_no_gradient():
    for response in (RESPONSES["gamma"], RESPONSES["poisson"], RESPONSES["negative_binomial"]):
        value, slope = jax.value_and_grad(lambda r: 0.0 * r.log_prob(-1.0))(response)
        assert value == 0 and all(leaf == 0 for leaf in jax.tree.leaves(slope))
        assert jnp.exp(response.log_prob(-1.0)) == 0


def test_stirling_error():
    x = np.geomspace(1e-3, 1e5, 60)
    exact = gammaln(x) - (x - 0.5) * np.log(x) + x - 0.5 * np.log(2 * np.pi)
    value, slope = jax.jvp(stirling_error, (jnp.asarray(x),), (jnp.ones(x.shape),))
    assert np.all(np.abs(value - exact) < 1e-13 * (1 + np.abs(gammaln(x))))
    np.testing.assert_allclose(slope, digamma(x) - np.log(x) + 0.5 / x, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("name", sorted(heads.LINKS))
def test_links_round_trip(name):
    link = heads.get_link(name)
    means = {"identity": [-3.0, 0.0, 5.0]}.get(name, [1e-6, 0.01, 0.3, 0.5, 0.7, 0.999])
    if name in ("log", "softplus", "reciprocal"):
        means = [1e-6, 0.1, 3.0, 50.0]
    means = jnp.array(means)
    np.testing.assert_allclose(link.inverse(link.link(means)), means, rtol=1e-9)
    assert link is heads.LINKS[name] and isinstance(hash(link), int)
    if name in LOG_ODDS:
        odds = jnp.log(means) - jnp.log1p(-means)
        np.testing.assert_allclose(link.log_odds(link.link(means)), odds, rtol=1e-8, atol=1e-9)


def test_links_equal_statsmodels():
    from statsmodels.genmod.families import links

    means = np.array([0.01, 0.3, 0.9])
    for name, known in [
        ("logit", links.Logit()),
        ("probit", links.Probit()),
        ("cloglog", links.CLogLog()),
        ("log", links.Log()),
        ("reciprocal", links.InversePower()),
    ]:
        np.testing.assert_allclose(heads.get_link(name).link(jnp.asarray(means)), known(means))


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


@pytest.mark.parametrize("name", NAMES)
def test_start_is_the_best_constant_prediction(name):
    zs, ys = data(name)
    weights = np.random.default_rng(2).integers(0, 3, len(ys)).astype(float)
    spoilt = np.where(weights > 0, ys, ys[0] if ys.dtype == int else np.nan).astype(ys.dtype)
    head = build(name).start(spoilt, weights)
    assert jax.tree.structure(head) == jax.tree.structure(build(name))
    assert not np.any(head.weight)

    def loss(bias):
        response = head.family.response(bias)
        log_py = jax.vmap(response.log_prob)(jnp.asarray(ys))
        return -jnp.sum(jnp.where(weights > 0, jnp.asarray(weights) * log_py, 0))

    gradient = np.asarray(jax.jit(jax.grad(loss))(head.bias)) / weights.sum()
    if name == "student_t":  # its start matches mean and variance instead
        response = head(jnp.zeros(DIM))
        np.testing.assert_allclose(response.mean, np.average(ys, weights=weights))
        spread = np.average((ys - response.mean) ** 2, weights=weights)
        np.testing.assert_allclose(response.variance, spread)
    elif name == "mixture":  # a component for each quarter of the targets
        response = head(jnp.zeros(DIM))
        np.testing.assert_allclose(response.mean, np.average(ys, weights=weights), rtol=0.02)
        np.testing.assert_allclose(
            response.std, np.sqrt(np.cov(ys, fweights=weights.astype(int))), rtol=0.1
        )
    else:
        np.testing.assert_allclose(gradient, 0, atol=1e-10)
    if name in ("gaussian", "gamma"):  # the dispersion is the most likely one, too
        parameters, rest = partition(head)

        def whole(p):
            log_py = jax.vmap(eqx.combine(p, rest)(jnp.zeros(DIM)).log_prob)(jnp.asarray(ys))
            return -jnp.sum(jnp.asarray(weights) * log_py) / weights.sum()

        for leaf in jax.tree.leaves(jax.jit(jax.grad(whole))(parameters).family):
            np.testing.assert_allclose(leaf, 0, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_start_is_safe_with_few_rows(name):
    @eqx.filter_jit
    def start(ys, weights):
        head = build(name).start(ys, weights)
        response = head(jnp.ones(DIM))
        return head, response.mean, response.variance, response.entropy()

    for ys, weights in [([0, 0, 0], [0, 0, 0]), ([1, 0, 0], [1, 0, 0]), ([0] * 3, [1] * 3)]:
        ys = np.array(ys, dtype=int if name in ("bernoulli", "categorical") else float)
        head, mean, variance, entropy = start(ys, np.array(weights, float))
        assert all(np.all(np.isfinite(n)) for n in (head.bias, mean, variance, entropy))
        assert np.all(head.eta_low.value <= head.bias) and np.all(head.bias <= head.eta_high.value)
        if name in (*REAL, "heteroscedastic", "poisson") and ys[0] > 0:
            np.testing.assert_allclose(mean, ys[0])
    empty = build(name).start(np.zeros(0, dtype=ys.dtype))
    assert np.all(np.isfinite(empty.bias))


@pytest.mark.parametrize("name", NAMES)
def test_bounds_hold_predictions_and_are_not_trained(name):
    zs, ys = data(name)
    head = heads.fit_head(build(name), zs, ys)
    extent = np.ptp(ys)
    for far in (1e4, -1e4):
        response = jax.tree.map(lambda leaf: leaf[0], respond(head, np.full((1, DIM), far)))
        if name in ("gaussian", "heteroscedastic", "student_t", "mixture"):
            assert ys.min() - extent - 1e-9 <= response.mean <= ys.max() + extent + 1e-9
        elif name not in ("bernoulli", "categorical"):
            assert 0 < response.mean <= 10 * ys.max() * (1 + 1e-9)
        else:
            assert np.all(np.isinf(head.eta_low.value)) and np.all(np.isinf(head.eta_high.value))
        if name == "heteroscedastic":
            ratio = response.variance / ys.var()
            assert 1e-6 * (1 - 1e-9) <= ratio <= 1e2 * (1 + 1e-9)
    trainable = partition(head)[0]
    assert trainable.eta_low is None and trainable.eta_high is None and trainable.l2 is None
    assert trainable.weight is not None and trainable.bias is not None


def test_bounds_of_count_and_positive_means():
    low, high = (
        b.value
        for b in (lambda h: (h.eta_low, h.eta_high))(
            build("gamma").start(np.array([0.2, 3.0, 7.0]))
        )
    )
    np.testing.assert_allclose(np.exp([low[0], high[0]]), [0.02, 70.0])
    head = build("gamma", link="reciprocal").start(np.array([0.2, 3.0, 7.0]))
    np.testing.assert_allclose([head.eta_low.value[0], head.eta_high.value[0]], [1 / 70, 50])
    head = build("poisson").start(np.array([0.0, 0.0, 4.0, 8.0]))
    bounds = [head.eta_low.value[0], head.eta_high.value[0]]
    np.testing.assert_allclose(np.exp(bounds), [3e-3, 80.0])


@pytest.mark.parametrize("name", NAMES)
def test_calibrated_scales_the_spread(name):
    zs, ys = data(name)
    head, c = heads.fit_head(build(name), zs, ys), 1.7
    before, after = respond(head, zs), respond(eqx.filter_jit(lambda h: h.calibrated(c))(head), zs)
    if name in ("gaussian", "heteroscedastic", "student_t", "gamma"):
        np.testing.assert_allclose(after.std, c * before.std, rtol=1e-9)
        np.testing.assert_allclose(after.mean, before.mean, rtol=1e-9)
    elif name == "bernoulli":
        np.testing.assert_allclose(after.logit, before.logit / c, rtol=1e-9)
    elif name == "categorical":
        np.testing.assert_allclose(after.logits, before.logits / c, rtol=1e-9)
    elif name == "poisson":
        np.testing.assert_allclose(after.variance, before.variance)
    elif name == "mixture":
        np.testing.assert_allclose(after.scales, c * before.scales, rtol=1e-9)
        np.testing.assert_allclose(after.mean, before.mean, rtol=1e-9)
    else:
        grown = before.mean + c**2 * (before.variance - before.mean)
        np.testing.assert_allclose(after.variance, grown, rtol=1e-9)
    same = jax.tree.leaves(head.calibrated(1.0))
    for ours, theirs in zip(same, jax.tree.leaves(head), strict=True):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "poisson", "negative_binomial"])
def test_log_prob_bound_is_reached_and_never_passed(name):
    head = build(name).start(data(name)[1])
    score = jax.jit(jax.vmap(lambda eta, y: head.family.response(eta).log_prob(y)))
    for y in (0, 1) if name in ("bernoulli", "categorical") else (0, 1, 7, 500):
        etas = np.append(np.linspace(-30, 30, 400), np.log(max(y, 1)))
        if name == "categorical":
            etas = etas[:, None] * np.eye(3)[y]
        else:
            etas = etas[:, None]
        scores = score(etas, jnp.full(len(etas), y))
        np.testing.assert_allclose(jnp.max(scores), head.log_prob_bound(y), atol=1e-6)
        assert np.all(scores <= head.log_prob_bound(y) + 1e-12)


def test_only_discrete_heads_have_a_bound():
    have = {name for name in NAMES if hasattr(build(name), "log_prob_bound")}
    assert have == {"bernoulli", "categorical", "poisson", "negative_binomial"}


@pytest.mark.parametrize("name", sorted({*NAMES} - {"categorical", "mixture"}))
def test_eta_for_mean_inverts_the_mean(name):
    head = build(name).start(data(name)[1])
    for mean in (0.2, 0.9) if name == "bernoulli" else (0.5, 4.0):
        eta = head.bias.at[0].set(head.eta_for_mean(mean))
        np.testing.assert_allclose(head.family.response(eta).mean, mean, rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_batches_jit_and_pickle(name):
    zs, ys = data(name)
    head = heads.fit_head(build(name), zs, ys, l2=1.0)
    zs, ys = zs[:9], ys[:9]
    batch, one = respond(head, zs), head(jnp.asarray(zs[4]))
    np.testing.assert_allclose(batch.log_prob(ys)[4], one.log_prob(ys[4]), rtol=1e-9)
    np.testing.assert_allclose(batch.mean[4], one.mean, rtol=1e-9)
    assert jax.eval_shape(lambda: batch.sample(jax.random.key(0), 5)).shape == (5, 9)
    again = pickle.loads(pickle.dumps(head))
    assert eqx.tree_equal(again, head)


def test_warm_start_keeps_bounds():
    zs, ys = data("poisson")
    head = eqx.tree_at(lambda h: h.eta_high.value, build("poisson"), jnp.array([1.0]))
    cold, warm = (heads.fit_head(head, zs, ys, warm_start=w) for w in (False, True))
    np.testing.assert_allclose(cold.weight, warm.weight, atol=1e-6)
    assert warm.eta_high.value[0] == 1.0 and cold.eta_high.value[0] > 1.0


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="negative_binomial.*got 'logistic'"):
        heads.make_head("logistic", 2)
    with pytest.raises(ValueError, match="link among.*got 'log'"):
        heads.BernoulliHead(2, link="log")
    with pytest.raises(ValueError, match="link among.*cloglog.*got 'logit2'"):
        heads.get_link("logit2")
    with pytest.raises(ValueError, match="use jax.vmap"):
        heads.PoissonHead(2)(jnp.zeros(4))
    with pytest.raises(ValueError, match="dim >= 1"):
        heads.GaussianHead(0)
    with pytest.raises(ValueError, match="n_classes >= 2; got 1"):
        heads.CategoricalHead(2, 1)
    with pytest.raises(ValueError, match=r"bias of shape \(2,\)"):
        heads.HeteroscedasticHead(2, bias=np.zeros(1))
    with pytest.raises(ValueError, match="df within"):
        heads.StudentTHead(2, df=1.0)
    with pytest.raises(ValueError, match="positive factor"):
        heads.GaussianHead(2).calibrated(0.0)
    with pytest.raises(ValueError, match=r"got \(4, 3\) and \(4,\)"):
        heads.fit_head(heads.GaussianHead(2), np.zeros((4, 3)), np.zeros(4))
    with pytest.raises(TypeError, match="one linear predictor per class"):
        heads.CategoricalHead(2, 3).eta_for_mean(0.5)
    with pytest.raises(ValueError, match=r"ys of shape \(rows,\)"):
        heads.GaussianHead(2).start(np.zeros((3, 1)))
