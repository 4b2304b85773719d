"""Marginal maps: near normal shape for many kinds of column, and no surprises far out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from diglm.bijections import MarginalMap


class TwoNormals:
    """A mixture of two separated normal distributions."""

    parts = ((0.4, scipy.stats.norm(-3.0, 0.5)), (0.6, scipy.stats.norm(2.0, 0.7)))

    def rvs(self, size, random_state):
        first = random_state.random(size) < self.parts[0][0]
        draws = [part.rvs(size, random_state=random_state) for _, part in self.parts]
        return np.where(first, *draws)

    def logpdf(self, x):
        return np.logaddexp(*(np.log(weight) + part.logpdf(x) for weight, part in self.parts))


COLUMNS = {
    "normal": scipy.stats.norm(),
    "lognormal": scipy.stats.lognorm(1.0),
    "uniform": scipy.stats.uniform(),
    "bimodal": TwoNormals(),
    "t2": scipy.stats.t(2),
    "exponential": scipy.stats.expon(),
}


def scaled(xs, like):
    """Columns with median 0 and spread 1, as `like` measures them; and the spreads."""
    spread = (np.quantile(like, 0.75, axis=0) - np.quantile(like, 0.25, axis=0)) / 1.349
    return (xs - np.median(like, axis=0)) / spread, spread


forward = eqx.filter_jit(lambda bijection, xs: jax.vmap(bijection.forward_and_log_det)(xs))
inverse = eqx.filter_jit(lambda bijection, zs: jax.vmap(bijection.inverse)(zs))


def log_density(bijection, xs):
    zs, log_dets = forward(bijection, jnp.asarray(xs))
    return np.asarray(jnp.sum(jax.scipy.stats.norm.logpdf(zs), axis=1) + log_dets)


@pytest.mark.parametrize("name", COLUMNS)
def test_held_out_density_is_near_the_truth(name):
    column, rng = COLUMNS[name], np.random.default_rng(0)
    train, test = (column.rvs(5000, random_state=rng)[:, None] for _ in range(2))
    xs, spread = scaled(train, train)
    mapped = log_density(MarginalMap.fit(xs), scaled(test, train)[0]) - np.log(spread[0])
    truth = column.logpdf(test[:, 0])
    gaussian = scipy.stats.norm(train.mean(), train.std()).logpdf(test[:, 0])
    assert truth.mean() - mapped.mean() < 0.05
    if name != "normal":
        assert mapped.mean() > gaussian.mean() + 0.1


@pytest.mark.parametrize("n", [1, 9, 10, 15, 30, 100])
@pytest.mark.parametrize("kind", ["normal", "constant", "binary", "ties", "spike", "pile", "far"])
def test_few_rows_and_odd_columns_give_a_usable_map(n, kind):
    rng = np.random.default_rng(n)
    column = {
        "normal": rng.normal(size=n),
        "constant": np.zeros(n),
        "binary": rng.integers(0, 2, n).astype(float),
        "ties": np.round(rng.normal(size=n)),
        "spike": np.where(rng.random(n) < 0.7, 0.0, rng.normal(size=n)),
        "pile": np.minimum(rng.normal(size=n), 0.0),
        "far": 1e8 * rng.standard_cauchy(n),
    }[kind]
    bijection = MarginalMap.fit(column[:, None])
    x = jnp.linspace(-5.0, 5.0, 41)[:, None]
    z, log_det = forward(bijection, x)
    assert (jnp.diff(z[:, 0]) > 0).all()
    assert np.isfinite(log_det).all() and jnp.abs(log_det).max() < 15.0
    assert np.abs(inverse(bijection, z) - x).max() < 1e-8


def test_fewer_than_ten_rows_change_nothing_but_the_tails():
    bijection = MarginalMap.fit(np.random.default_rng(0).normal(size=(9, 2)))
    x = jnp.array([-2.5, 1.5])
    z, log_det = bijection.forward_and_log_det(x)
    assert np.allclose(z, x) and abs(log_det) < 1e-12
    assert jnp.abs(bijection.forward(jnp.array([-1e6, 1e6]))).max() < 100.0


@pytest.mark.parametrize("name", COLUMNS)
def test_far_values_obey_the_stated_bound(name):
    column = COLUMNS[name].rvs(1000, random_state=np.random.default_rng(2))[:, None]
    bijection = MarginalMap.fit(scaled(column, column)[0])
    x = jnp.array([1e2, 1e6, 1e30, -1e2, -1e6, -1e30])[:, None]
    z, log_det = forward(bijection, x)
    assert (jnp.abs(z) <= 5.0 + 30.0 * jnp.log1p(jnp.abs(x) / 0.3)).all()
    assert jnp.abs(log_det).max() < 100.0
    assert np.allclose(inverse(bijection, z), x, rtol=1e-8)
    assert np.isfinite(inverse(bijection, 1e9 * jnp.sign(x))).all()
    narrow = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), bijection)
    zs, log_dets = forward(narrow, x.astype(jnp.float32))
    assert np.isfinite(jnp.square(zs)).all() and np.isfinite(log_dets).all()
    back = inverse(narrow, jnp.float32(1e9) * jnp.sign(x).astype(jnp.float32))
    assert np.isfinite(back).all()


def test_values_and_slopes_join_at_every_knot():
    column = COLUMNS["lognormal"].rvs(500, random_state=np.random.default_rng(3))[:, None]
    bijection = MarginalMap.fit(scaled(column, column)[0])
    ends = jnp.concatenate([bijection.x.value[0], bijection.upper.x.value])
    value = jax.jit(jax.vmap(lambda x: bijection.forward(x[None])[0]))
    slope = jax.jit(jax.vmap(jax.grad(lambda x: bijection.forward(x[None])[0])))
    assert np.allclose(value(ends - 1e-10), value(ends + 1e-10), atol=1e-7)
    assert np.allclose(slope(ends - 1e-9), slope(ends + 1e-9), rtol=1e-5)
    assert np.allclose(slope(ends), slope(ends + 1e-9), rtol=1e-5)


_SHAPED = {}


@given(x=st.floats(-1e5, 1e5))
def test_any_value_comes_back(x):
    if not _SHAPED:
        columns = [c.rvs(800, random_state=np.random.default_rng(4)) for c in COLUMNS.values()]
        xs = np.stack(columns, axis=1)
        bijection = MarginalMap.fit(scaled(xs, xs)[0])
        _SHAPED["run"] = jax.jit(lambda x: bijection.inverse(bijection.forward(x)))
    back = _SHAPED["run"](jnp.full(len(COLUMNS), x))
    assert np.allclose(back, x, rtol=1e-8, atol=1e-8)


def test_columns_do_not_meet():
    rng = np.random.default_rng(5)
    xs = rng.normal(size=(200, 3))
    jacobian = jax.jit(jax.jacfwd(MarginalMap.fit(xs).forward))(jnp.asarray(xs[0]))
    assert np.array_equal(jacobian != 0.0, np.eye(3, dtype=bool))


@pytest.mark.parametrize(
    ("xs", "settings", "message"),
    [
        (np.zeros(3), {}, "shape"),
        (np.array([[np.inf]]), {}, "finite"),
        (np.zeros((20, 1)), {"n_knots": 1}, "n_knots >= 2"),
    ],
)
def test_impossible_fits_say_so(xs, settings, message):
    with pytest.raises(ValueError, match=message):
        MarginalMap.fit(xs, **settings)
