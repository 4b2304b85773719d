"""The hybrid: one pass, exact densities, completion of cells and missing entries."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from diglm import Flow, Hybrid, flows
from diglm.bases import Normal, NormalMixture
from diglm.bijections import AbstractBijection, ActNorm, Identity
from diglm.completion import Completion, fixed_offsets
from diglm.heads import make_head
from diglm.types import partition


def randomised(model, scale=0.3, seed=0):
    """A copy whose trainable numbers have moved, so that nothing is the identity."""
    rng = np.random.default_rng(seed)
    trainable, fixed = partition(model)
    moved = jax.tree.map(lambda a: a + scale * rng.normal(size=a.shape), trainable)
    return eqx.combine(moved, fixed)


def hybrid(dim=2, kind="affine", **options):
    flow = Flow(
        flows.coupling(dim, n_blocks=4, width=16, depth=1, kind=kind, key=jax.random.key(1))
    )
    return randomised(Hybrid(flow, make_head("categorical", dim, n_classes=3), **options), 0.1)


class Counted(AbstractBijection):
    """The identity, counting how often it is traced."""

    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)
    calls: list = eqx.field(static=True)

    def forward_and_log_det(self, x, *, key=None):
        self.calls.append(1)
        return x, jnp.zeros((), x.dtype)

    def inverse_and_log_det(self, z):
        return z, jnp.zeros((), z.dtype)


def test_one_evaluation_of_the_flow_gives_density_prediction_and_joint():
    counted = Counted((2,), (2,), [])
    model = Hybrid(Flow(counted), make_head("categorical", 2, n_classes=3))
    x = jnp.array([0.3, -1.0])
    outputs = model(x)
    outputs.log_px, outputs.response.log_prob(1), outputs.z
    assert len(counted.calls) == 1
    counted.calls.clear()
    model.log_joint(x, jnp.array(1))
    assert len(counted.calls) == 1
    counted.calls.clear()
    model.forward_batch(jnp.zeros((5, 2)))
    assert len(counted.calls) == 1  # traced once under vmap


@pytest.mark.parametrize("kind", ["affine", "spline"])
def test_the_density_of_a_plane_integrates_to_one(kind):
    model = hybrid(kind=kind)
    side = jnp.linspace(-12, 12, 601)
    grid = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)
    log_px = jax.vmap(model.flow.log_prob)(grid)
    total = jnp.sum(jnp.exp(log_px)) * (side[1] - side[0]) ** 2
    assert abs(float(total) - 1) < 1e-3


def test_joint_is_density_plus_prediction_and_sums_to_the_density():
    model = hybrid()
    x = jnp.array([0.5, -0.2])
    joint = [model.log_joint(x, jnp.array(c)) for c in range(3)]
    assert np.allclose(jax.nn.logsumexp(jnp.stack(joint)), model(x).log_px, atol=1e-12)


def test_a_row_does_not_depend_on_its_company():
    model = hybrid()
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2)))
    alone = jax.vmap(model)(xs)
    changed = jax.vmap(model)(xs.at[3].set(100.0))
    keep = np.arange(6) != 3
    assert np.array_equal(alone.log_px[keep], changed.log_px[keep])
    assert np.array_equal(alone.z[keep], changed.z[keep])


def test_base_variance_is_a_proper_density():
    base = Normal(3, variance=0.25)
    z = jnp.array([0.1, -0.4, 0.7])
    assert np.isclose(base.log_prob(z), stats.norm(0, 0.5).logpdf(np.asarray(z)).sum())
    assert abs(float(jnp.std(base.sample(jax.random.key(0), 20000))) - 0.5) < 0.01
    with pytest.raises(ValueError, match="variance > 0"):
        Normal(3, variance=0.0)


def test_a_mixture_is_the_sum_of_its_components():
    means, weights = np.array([[2.0, 0.0, -1.0], [-1.0, 3.0, 0.5]]), np.array([1.0, 3.0])
    base = NormalMixture(means, weights)
    z = np.array([0.1, -0.4, 0.7])
    parts = [stats.multivariate_normal(mean).pdf(z) for mean in means]
    assert np.isclose(base.log_prob(jnp.asarray(z)), np.log(0.25 * parts[0] + 0.75 * parts[1]))
    drawn = np.asarray(base.sample(jax.random.key(0), 40_000))
    middle = 0.25 * means[0] + 0.75 * means[1]
    between = 0.25 * 0.75 * np.outer(means[0] - means[1], means[0] - means[1])
    assert np.allclose(drawn.mean(axis=0), middle, atol=0.05)
    assert np.allclose(np.cov(drawn.T), np.eye(3) + between, atol=0.1)
    with pytest.raises(ValueError, match="weight for each mean"):
        NormalMixture(means, np.ones(3))


def test_a_mixture_may_have_a_covariance():
    means, weights = np.array([[2.0, 0.0], [-1.0, 3.0]]), np.array([1.0, 3.0])
    covariance = np.array([[2.0, 1.2], [1.2, 1.0]])
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))
    base, z = NormalMixture(means, weights, whitening), np.array([1.5, 0.4])
    for temperature in (1.0, 0.5):
        cooled = base.cooled(temperature)
        parts = [stats.multivariate_normal(m, temperature**2 * covariance).pdf(z) for m in means]
        assert np.isclose(cooled.log_prob(jnp.asarray(z)), np.log(parts @ weights / 4))
        drawn = np.asarray(cooled.sample(jax.random.key(0), 40_000))
        between = 0.25 * 0.75 * np.outer(means[0] - means[1], means[0] - means[1])
        assert np.allclose(np.cov(drawn.T), temperature**2 * covariance + between, atol=0.1)
    with pytest.raises(ValueError, match=r"whitening of shape \(2, 2\); got \(3, 3\)"):
        NormalMixture(means, weights, np.eye(3))


def test_cooling_multiplies_the_spread_around_each_mean():
    means, weights = np.array([[2.0, 0.0], [-1.0, 3.0]]), np.array([1.0, 3.0])
    cool = NormalMixture(means, weights).cooled(0.5)
    z = np.array([1.5, 0.4])
    parts = [stats.multivariate_normal(mean, 0.25).pdf(z) for mean in means]
    assert np.isclose(cool.log_prob(jnp.asarray(z)), np.log(0.25 * parts[0] + 0.75 * parts[1]))
    drawn = np.asarray(cool.sample(jax.random.key(0), 20_000))
    near = np.where(drawn[:, :1] - drawn[:, 1:] > 0, means[0], means[1])
    assert np.allclose(np.std(drawn - near, axis=0), 0.5, atol=0.02)
    assert Normal(3, 4.0).cooled(0.5) == Normal(3, 1.0)


@pytest.mark.parametrize(
    "base",
    [
        Normal(4),
        NormalMixture(np.eye(4), np.ones(4)),
        NormalMixture(np.eye(4), np.ones(4), 1e3 * np.tri(4)),
    ],
)
@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_far_out_features_keep_a_finite_log_density(base, dtype):
    base = jax.tree.map(lambda leaf: leaf.astype(dtype), base)
    assert np.isfinite(base.log_prob(jnp.full(4, 1e30, dtype)))


def test_wrong_shape_says_what_to_do():
    with pytest.raises(ValueError, match=r"Expected x of shape \(2,\); got \(5, 2\).*vmap"):
        hybrid().flow.forward_and_log_prob(jnp.zeros((5, 2)))


def test_dropout_acts_in_training_only():
    model = hybrid(dropout=0.5)
    xs = jnp.ones((50, 2))
    trained, _ = model.forward_batch(xs, key=jax.random.key(0))
    still, _ = model.forward_batch(xs)
    assert np.std(trained.response.logits[:, 0]) > 1e-3
    assert np.allclose(still.response.logits, jax.vmap(model)(xs).response.logits)
    with pytest.raises(ValueError, match="dropout is a rate"):
        Hybrid(Flow(Identity(2)), make_head("gaussian", 2), dropout=1.0)


# ---------------------------------------------------------------- completion


def test_labels_shape_only_the_guided_features():
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)))

    def slopes(guided, of):
        """Of a sum over rows in a shift of the features, the last thing that the flow does."""
        flow = Flow(ActNorm(4))
        head = randomised(make_head("categorical", 4, n_classes=3), 1.0)
        model = Hybrid(flow, head, guided=guided)
        grads = eqx.filter_grad(lambda m: jnp.sum(of(m.forward_batch(xs)[0])))(model)
        return np.asarray(grads.flow.bijection.bias), np.asarray(grads.head.weight)

    def label(outputs):
        return jax.vmap(lambda response: response.log_prob(jnp.array(1)))(outputs.response)

    (free, head_free), (one, head_one) = (slopes(guided, label) for guided in (None, 1))
    assert np.all(free != 0)
    np.testing.assert_allclose(one, [free[0], 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(head_one, head_free)  # the head reads them all
    density = [slopes(guided, lambda outputs: outputs.log_px)[0] for guided in (None, 1)]
    np.testing.assert_allclose(density[0], density[1])
    with pytest.raises(ValueError, match="guided is a number of features or None; got -1"):
        Hybrid(Flow(ActNorm(4)), make_head("categorical", 4, n_classes=3), guided=-1)


def test_cell_masses_of_whole_numbers_sum_to_one():
    completion = Completion(np.array([1.0]), np.array([False]))
    flow = Flow(flows.coupling(1, n_blocks=1, width=4, depth=1, key=jax.random.key(0)))
    model = randomised(Hybrid(flow, make_head("gaussian", 1), completion), 0.1)
    offsets = jnp.asarray(fixed_offsets(1, 16))
    cells = jnp.arange(-30.0, 31.0)[:, None]
    masses = model.log_mass(cells, offsets)
    assert abs(float(jnp.sum(jnp.exp(masses))) - 1) < 1e-3


def test_log_mass_is_the_integral_over_the_cell():
    completion = Completion(np.array([1.0, 0.0]), np.array([False, False]))
    model = Hybrid(Flow(Identity(2)), make_head("gaussian", 2), completion)
    x = jnp.array([1.0, 0.3])
    mass = model.log_mass(x[None], jnp.asarray(fixed_offsets(2, 64)))[0]
    exact = np.log(stats.norm.cdf(1.5) - stats.norm.cdf(0.5)) + stats.norm.logpdf(0.3)
    assert abs(float(mass) - exact) < 1e-2


def test_a_missing_entry_is_integrated_out():
    # Under independent standard normals, p(observed) is that of the other entry alone; the
    # importance estimate with the right q is exact.
    completion = Completion(np.zeros(2), np.array([True, False]))
    completion = eqx.tree_at(lambda c: c.log_scale, completion, jnp.zeros(2))
    model = Hybrid(Flow(Identity(2)), make_head("gaussian", 2), completion)
    mass = model.log_mass(jnp.array([[jnp.nan, 0.3]]), jnp.asarray(fixed_offsets(2, 8)))[0]
    assert np.isclose(mass, stats.norm.logpdf(0.3), atol=1e-9)


def test_completion_learns_from_what_is_present_and_never_yields_nan():
    completion = randomised(Completion(np.zeros(3), np.array([True, True, False])))
    x = jnp.array([jnp.nan, 2.0, -1.0])
    gradient = jax.grad(lambda c: jnp.sum(c.centre(x) ** 2))(
        eqx.filter(completion, eqx.is_inexact_array)
    )
    assert np.all(np.isfinite(completion.centre(x)))
    assert np.any(np.abs(gradient.from_present) > 0)
    assert np.all(np.isfinite(jax.tree.leaves(gradient)[2]))


def test_fixed_offsets_are_the_same_every_time_and_inside_the_cube():
    for dim in (1, 2, 64, 30_000):
        points = fixed_offsets(dim, 8)
        assert points.shape == (8, dim)
        assert np.array_equal(points, fixed_offsets(dim, 8))
        assert np.all((points > 0) & (points < 1))
        assert abs(points.mean() - 0.5) < 0.1
