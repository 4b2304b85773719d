"""The Wasserstein term: how far batches are from the base, whatever base and weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from diglm import Flow, Hybrid, HybridClassifier, flows
from diglm.bases import Normal, NormalMixture
from diglm.heads import make_head
from diglm.objectives import Pass, Wasserstein
from diglm.objectives.wasserstein import levels_of
from diglm.types import Batch

KEY = jax.random.key(0)
MEANS = np.array([[-2.0, 0.0], [2.0, 1.0]])


def distance(xs, weights=None, base=None, directions=200):
    """The term where features are the rows themselves."""
    dim = xs.shape[1]
    base = Normal(dim) if base is None else base
    model = Hybrid(Flow(flows.identity(dim), base), make_head("gaussian", dim))
    weights = np.ones(len(xs)) if weights is None else weights
    rows = Batch(jnp.asarray(xs), jnp.zeros(len(xs)), jnp.ones(len(xs), bool), jnp.asarray(weights))

    @eqx.filter_jit
    def told(xs):
        outputs, _ = model.forward_batch(xs)
        seen = Pass(model, outputs, rows._replace(x=xs), model)
        return Wasserstein(directions=directions)(seen, key=KEY)

    return told, rows.x


def test_along_one_column_it_is_the_distance_of_quantiles():
    xs = np.random.default_rng(0).gamma(2.0, size=(60, 1))
    told, rows = distance(xs, directions=2)
    levels = (np.arange(60) + 0.5) / 60
    truth = np.mean((np.sort(xs[:, 0]) - stats.norm.ppf(levels)) ** 2)
    mirrored = np.mean((np.sort(-xs[:, 0]) - stats.norm.ppf(levels)) ** 2)
    assert np.isclose(truth, mirrored) and np.isclose(told(rows), truth, rtol=1e-9)


def test_rows_of_the_base_are_near_it_and_moved_ones_as_far_as_they_were_moved():
    rng = np.random.default_rng(1)
    for base in (Normal(2, 3.0), NormalMixture(MEANS, np.array([1.0, 2.0]), variance=0.5)):
        xs = np.asarray(base.sample(jax.random.key(4), 1_500))
        told, rows = distance(xs, base=base)
        near = float(told(rows))
        move = rng.normal(size=2)
        # Directions of length one see half of a squared distance in the plane.
        assert near < 0.05
        assert np.isclose(told(rows + jnp.asarray(move)[None]), 0.5 * np.sum(move**2), rtol=0.35)


def test_a_weight_is_a_number_of_rows():
    xs = np.random.default_rng(2).normal(size=(40, 2)) ** 2
    weights = np.random.default_rng(3).integers(0, 4, 40).astype(float)
    twice = np.repeat(xs, weights.astype(int), axis=0)
    found = [float(told(rows)) for told, rows in (distance(xs, weights), distance(twice))]
    # Copies of a row lie beside one another, and one row of their weight in their middle.
    assert np.isclose(*found, rtol=0.1)
    spoilt = np.where(weights[:, None] > 0, xs, np.nan)
    told, rows = distance(spoilt, weights)
    value, slope = jax.value_and_grad(told)(rows)
    assert np.isclose(value, found[0], rtol=1e-12)
    assert np.all(np.isfinite(slope)) and np.all(np.asarray(slope)[weights == 0] == 0)


def test_levels_are_shares_of_weight_in_the_order_of_values():
    values = jnp.asarray([[3.0], [1.0], [2.0], [9.0]])
    levels = levels_of(values, jnp.asarray([1.0, 2.0, 1.0, 0.0]))
    assert np.allclose(levels[:3, 0], [3.5 / 4, 1.0 / 4, 2.5 / 4])


def test_steps_down_its_gradient_bring_rows_to_the_base():
    xs = 2.0 + 0.3 * np.random.default_rng(4).normal(size=(100, 2))
    told, rows = distance(xs, directions=16)
    first, slope = float(told(rows)), jax.jit(jax.grad(told))
    for _ in range(60):
        rows = rows - 40.0 * slope(rows)
    assert float(told(rows)) < 0.05 * first


def test_estimators_take_it_by_name():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 2))
    model = HybridClassifier(
        "linear", terms={"wasserstein": 1.0}, n_epochs=2, reject=0.1, random_state=0, verbose=False
    )
    assert np.isfinite(model.fit(X, X[:, 0] > 0).score_samples(X)).all()
    with pytest.raises(ValueError, match="wasserstein"):
        model.set_params(terms={"wassersteen": 1.0}).fit(X, X[:, 0] > 0)
