"""Fisher vectors are scores over the root of their information, and quantiles those of draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diglm.bases import Clumps, Normal, NormalMixture

APART = np.array([[-9.0, 0.0], [8.0, 5.0]])
WEIGHTS = np.array([1.0, 3.0])
LOWER = np.array([[1.5, 0.0], [0.4, 0.8]])
BASES = {
    "normal": Normal(2, 2.0),
    "mixture": NormalMixture(APART, WEIGHTS, LOWER, variance=0.7),
    "clumps": Clumps(APART, WEIGHTS, np.stack([LOWER, np.eye(2)])),
    "diagonal": Clumps(APART, WEIGHTS, np.array([[1.5, 0.8], [1.0, 0.5]])),
}


def family(base, change, z):
    """log p(z) where the noise of each part is moved and stretched, and weights are tilted."""
    log_weights, moves, log_scales = change
    shares, noise = base.located(z)
    reached = (noise - moves) * jnp.exp(-log_scales)
    parts = shares + 0.5 * jnp.sum(jnp.square(noise) - jnp.square(reached), axis=1)
    tilted = parts - jnp.sum(log_scales, axis=1) + log_weights
    normaliser = jax.nn.logsumexp(base.log_weights + log_weights)
    return base.log_prob(z) + jax.nn.logsumexp(tilted) - normaliser


@pytest.mark.parametrize("name", BASES)
def test_fisher_vectors_are_scores_by_their_information(name):
    base = BASES[name]
    z = base.sample(jax.random.key(1), 20_000)
    n_parts = len(base.log_weights)
    still = jnp.zeros(n_parts), jnp.zeros((n_parts, 2)), jnp.zeros((n_parts, 2))
    assert np.isclose(family(base, still, z[0]), base.log_prob(z[0]))

    @jax.jit
    def told(z):
        slopes = jax.vmap(jax.grad(lambda change, z: family(base, change, z)), (None, 0))(still, z)
        return jnp.concatenate([s.reshape(len(z), -1) for s in slopes], axis=1), jax.vmap(
            base.fisher_vector
        )(z)

    scores, vectors = map(np.asarray, told(z))
    # Parts lie apart, so that the information of each number is that of its own part.
    weights = np.exp(np.asarray(base.log_weights))
    information = np.concatenate([weights, np.repeat(weights, 2), 2 * np.repeat(weights, 2)])
    np.testing.assert_allclose(vectors * np.sqrt(information), scores, atol=1e-9)
    covariance = (scores.T @ scores / len(z))[n_parts:, n_parts:]
    np.testing.assert_allclose(covariance, np.diag(information[n_parts:]), atol=0.15)


def test_of_a_normal_the_kernel_is_that_of_first_and_second_moments():
    z = np.random.default_rng(0).normal(size=(5, 2))
    vectors = np.asarray(jax.vmap(Normal(2).fisher_vector)(jnp.asarray(z)))
    squares = z**2 - 1
    np.testing.assert_allclose(vectors @ vectors.T, z @ z.T + 0.5 * squares @ squares.T)


@pytest.mark.parametrize("name", ["normal", "clumps"])
def test_noise_is_put_where_it_was_found(name):
    base = BASES[name]
    z = jnp.asarray([0.3, -1.2])
    _, noise = base.located(z)
    for part in range(len(noise)):
        np.testing.assert_allclose(base.at(jnp.asarray(part), noise[part]), z, atol=1e-12)


@pytest.mark.parametrize("name", ["normal", "mixture"])
def test_quantiles_along_a_direction_are_those_of_draws(name):
    base, side = BASES[name], np.array([[0.6], [0.8]])
    draws = np.asarray(base.sample(jax.random.key(5), 40_000)) @ side
    levels = np.array([[0.1], [0.2], [0.6], [0.9]])
    found = base.along(jnp.asarray(side), jnp.asarray(levels), jax.random.key(0))
    np.testing.assert_allclose(found[:, 0], np.quantile(draws, levels[:, 0]), atol=0.15)
