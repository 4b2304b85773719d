"""GLM heads: gradients, starts, bounds, calibration, and what they refuse."""

import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from head_samples import DIM, NAMES, REAL, build, data, respond, started

from diglm import heads
from diglm.types import partition

SEVERAL_DECIDE = ("mixture", "hurdle", "zero_inflated")  # predictors, of the mean


@pytest.mark.parametrize("name", NAMES)
def test_gradients_match_finite_differences(name):
    zs, ys = data(name, rows=6)
    parameters, rest = partition(started(build(name), ys))
    flat, unravel = jax.flatten_util.ravel_pytree(parameters)
    flat = np.asarray(flat) + 0.1 * np.random.default_rng(1).normal(size=flat.shape)

    @jax.jit
    @jax.value_and_grad
    def loss(flat):
        responses = jax.vmap(eqx.combine(unravel(flat), rest))(jnp.asarray(zs))
        return jnp.sum(responses.log_prob(jnp.asarray(ys))) + jnp.sum(responses.entropy())

    steps = 1e-5 * np.eye(flat.size)
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
    bounds = jax.jit(jax.vmap(head.log_prob_bound))(ys)
    if bounds is not None:
        assert np.all(np.asarray(answers[0]) <= np.asarray(bounds) + 1e-6)


@pytest.mark.parametrize("link", ["probit", "cloglog"])
def test_extreme_predictors_of_other_links(link):
    family = heads.BernoulliFamily(link)
    for size in (1e6, -1e6, 40.0, -40.0):
        for y in (0, 1):
            score = jax.value_and_grad(lambda eta, y=y: family.response(eta).log_prob(y))
            value, slope = score(jnp.array([size]))
            assert np.isfinite(value) and np.all(np.isfinite(slope)) and value <= 0


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
    elif name == "zero_inflated":  # half of the zeros are taken for zeros of their own
        share = np.average(ys == 0, weights=weights)
        np.testing.assert_allclose(jax.nn.sigmoid(head.bias[0]), 0.5 * share)
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
    if name in ("hurdle", "zero_inflated"):  # what is not zero, like the family it has
        np.testing.assert_allclose(after.logit, before.logit)
        before, after = before.rest, after.rest
    if name in ("gaussian", "heteroscedastic", "student_t", "gamma", "hurdle"):
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
    have = {name for name in NAMES if build(name).log_prob_bound(jnp.ones(())) is not None}
    assert have == {"bernoulli", "categorical", "poisson", "negative_binomial", "zero_inflated"}
    for name in NAMES:  # the response agrees
        assert build(name)(jnp.zeros(DIM)).discrete == (name in have)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"categorical", *SEVERAL_DECIDE}))
def test_eta_for_mean_inverts_the_mean(name):
    head = build(name).start(data(name)[1])
    for mean in (0.2, 0.9) if name == "bernoulli" else (0.5, 4.0):
        eta = head.bias.at[0].set(head.eta_for_mean(mean))
        np.testing.assert_allclose(head.family.response(eta).mean, mean, rtol=1e-9)


@pytest.mark.parametrize("name", SEVERAL_DECIDE)
def test_a_mean_of_several_predictors_is_not_inverted(name):
    assert not build(name).inverts_mean
    with pytest.raises(ValueError, match="no single one gives it"):
        build(name).eta_for_mean(1.0)


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
