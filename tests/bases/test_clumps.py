"""Mixtures of normals of their own shapes: their density, their draws, and how they are found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from diglm.bases import Clumps, fit_clumps
from diglm.types import partition

MEANS = np.array([[2.0, 0.0], [-1.0, 3.0]])
WEIGHTS = np.array([1.0, 3.0])
COVARIANCES = np.array([[[2.0, 1.2], [1.2, 1.0]], [[0.3, 0.0], [0.0, 0.5]]])


def clumps(shaped=True):
    covariances = COVARIANCES if shaped else COVARIANCES * np.eye(2)
    whitenings = np.stack([np.linalg.inv(np.linalg.cholesky(c)) for c in covariances])
    if not shaped:
        whitenings = np.diagonal(whitenings, axis1=1, axis2=2)
    return Clumps(MEANS, WEIGHTS, whitenings), covariances


@pytest.mark.parametrize("shaped", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_density_is_the_sum_of_its_components_and_draws_are_from_it(shaped, temperature):
    base, covariances = clumps(shaped)
    cooled, covariances = base.cooled(temperature), temperature**2 * covariances
    z = np.array([0.1, 1.4])
    parts = [
        stats.multivariate_normal(*part).pdf(z) for part in zip(MEANS, covariances, strict=True)
    ]
    assert np.isclose(cooled.log_prob(jnp.asarray(z)), np.log(parts @ WEIGHTS / 4))
    drawn = np.asarray(cooled.sample(jax.random.key(0), 40_000))
    between = 0.25 * 0.75 * np.outer(MEANS[0] - MEANS[1], MEANS[0] - MEANS[1])
    within = 0.25 * covariances[0] + 0.75 * covariances[1]
    assert np.allclose(drawn.mean(axis=0), 0.25 * MEANS[0] + 0.75 * MEANS[1], atol=0.05)
    assert np.allclose(np.cov(drawn.T), within + between, atol=0.1)


def test_draws_wait_for_no_threads_of_a_pool():
    """LAPACK's solutions of a batch do: programs that draw at the same time then wait for ever."""
    base, _ = clumps()
    rows = jnp.zeros(500, int), jnp.ones((500, 2))
    program = jax.jit(jax.vmap(base.at)).lower(*rows)
    assert "while" in program.as_text() and "custom_call" not in program.as_text()
    drawn = jax.jit(jax.vmap(base.at))(*rows)
    root = np.linalg.cholesky(COVARIANCES[0])
    np.testing.assert_allclose(drawn[0], MEANS[0] + root @ np.ones(2), rtol=1e-12)


def test_all_of_it_trains_and_no_step_makes_it_singular():
    base, _ = clumps()
    trained = jax.tree.map(lambda leaf: leaf - 3.0, partition(base)[0])
    moved = jax.tree.unflatten(jax.tree.structure(base), jax.tree.leaves(trained))
    assert len(jax.tree.leaves(trained)) == 4
    assert np.isfinite(moved.log_prob(jnp.zeros(2)))


@pytest.mark.parametrize("far", [1e8, 1e20, 1e37])
def test_far_latents_have_finite_densities_and_slopes_in_single_precision(far):
    base = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), clumps()[0])
    with jax.numpy_dtype_promotion("standard"):
        value, slope = jax.value_and_grad(base.log_prob)(jnp.full(2, far, jnp.float32))
    assert np.isfinite(value) and np.all(np.isfinite(slope))


def test_parts_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="for each component; got 2, 1 and 2"):
        Clumps(MEANS, np.ones(1), np.ones((2, 2)))
    with pytest.raises(ValueError, match="positive diagonal"):
        Clumps(MEANS, WEIGHTS, -np.ones((2, 2)))


def test_clumps_are_found_as_well_as_by_those_who_know_them():
    rng = np.random.default_rng(0)
    which = rng.integers(3, size=2000)
    centres, scales = np.array([[-2.0, 0.0], [2.0, 1.0], [0.0, 3.0]]), np.array([0.3, 0.5, 0.2])
    rows = centres[which] + scales[which, None] * rng.normal(size=(2000, 2))
    found = fit_clumps(rows[:1000], seed=0)
    fresh, each = rows[1000:], zip(centres, scales, strict=True)
    parts = [stats.norm.logpdf(fresh, centre, scale).sum(1) for centre, scale in each]
    truth = np.mean(np.logaddexp.reduce(parts, axis=0) - np.log(3))
    assert np.mean(jax.vmap(found.log_prob)(jnp.asarray(rows[1000:]))) > truth - 0.05


def test_one_normal_and_few_rows_are_left_alone():
    rng = np.random.default_rng(0)
    assert fit_clumps(rng.normal(size=(30, 2)), seed=0) is None
    assert sum(fit_clumps(rng.normal(size=(800, 5)), seed=i) is not None for i in range(10)) <= 2


def test_constant_and_repeated_rows_do_not_break_it():
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(4, 3)), 50, axis=0)
    rows[:, 2] = 0.0
    found = fit_clumps(rows, seed=0)
    assert np.all(np.isfinite(jax.vmap(found.log_prob)(jnp.asarray(rows))))
