"""Exact draws of the features z given y, and ways between features."""

import math
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.bases import AbstractBase, Normal
from diglm.heads import AbstractHead
from diglm.hybrid import Hybrid
from diglm.types import Key

PROPOSALS = 16_384
MOST_PROPOSED = 2**24  # numbers held at a time
MOST_ROUNDS = 2_000
SLICE_STEPS = 100
STRAIGHT = 1e-3  # sine of an angle below which two directions lie on one line


def features_given(model: Hybrid, ys: Array, *, key: Key) -> Float[np.ndarray, "n dim"]:
    """One draw of z ~ p(z|y) for each entry of `ys` (class numbers, or y in the head's units).

    A Gaussian head of one variance is drawn in closed form, heads of classes and counts by
    rejection from the base. Other heads have no bound to reject against; there each draw is the
    end of its own elliptical slice chain of 100 steps, exact in the limit of long chains.
    """
    head, base = model.head, model.flow.base
    dim = math.prod(base.shape)
    if head.log_prob_bound(ys[:1]) is not None:
        return _by_rejection(head, np.asarray(ys), base, key)
    # What is built for all else: linear predictors over a normal base.
    variance = cast(Normal, base).variance
    linear = head.linear_gaussian()
    if linear is not None:
        return np.asarray(_conditioned(*linear, ys, variance, key))
    return np.asarray(_by_slices(head, ys, dim, variance, key))


def great_circle(
    first: Float[np.ndarray, " dim"], second: Float[np.ndarray, " dim"], steps: int
) -> Float[np.ndarray, "steps dim"]:
    r"""$z_t = r_t\,(\sin((1 - t)\theta)\, u_0 + \sin(t\theta)\, u_1) / \sin\theta$, $r_t$ linear.

    $u_0$ and $u_1$ are the directions of the ends and $\theta$ the angle between them. Where that
    leaves no way to turn (an end at zero, or ends on one line), the straight line.
    """
    share = np.linspace(0.0, 1.0, steps)[:, None]
    lengths = np.linalg.norm(first), np.linalg.norm(second)
    sine, angle = 0.0, 0.0
    if min(lengths) > 0:
        cosine = np.clip(first @ second / (lengths[0] * lengths[1]), -1.0, 1.0)
        angle, sine = float(np.arccos(cosine)), float(np.sqrt(1.0 - cosine**2))
    if sine < STRAIGHT:
        return (1 - share) * first + share * second
    turned = np.sin((1 - share) * angle) * first / lengths[0]
    turned = (turned + np.sin(share * angle) * second / lengths[1]) / sine
    return ((1 - share) * lengths[0] + share * lengths[1]) * turned


def _conditioned(
    weight: Array, bias: Array, scale: Array, ys: Array, variance: float, key: Key
) -> Array:
    r"""Matheron's rule: $z = z_0 + v b\,(y - y_0)/(v|b|^2 + s^2)$ for a joint draw $(z_0, y_0)$."""
    key_z, key_y = jax.random.split(key)
    z = math.sqrt(variance) * jax.random.normal(key_z, (len(ys), len(weight)))
    drawn = z @ weight + bias + scale * jax.random.normal(key_y, (len(ys),))
    gain = variance * weight / (variance * weight @ weight + scale**2)
    return z + jnp.outer(ys - drawn, gain)


@eqx.filter_jit
def _propose(head: AbstractHead, y: Array, base: AbstractBase, n: int, key: Key):
    key_z, key_u = jax.random.split(key)
    z = base.sample(key_z, n).reshape(n, -1)
    log_keep = jax.vmap(lambda row: head(row).log_prob(y))(z) - cast(Array, head.log_prob_bound(y))
    return z, jnp.log(jax.random.uniform(key_u, (n,))) < log_keep


def _by_rejection(head: AbstractHead, ys: np.ndarray, base: AbstractBase, key: Key):
    dim = math.prod(base.shape)
    drawn, n = np.zeros((len(ys), dim)), max(1, min(PROPOSALS, MOST_PROPOSED // dim))
    for value in np.unique(ys):
        places, found = np.flatnonzero(ys == value), 0
        for turn in range(MOST_ROUNDS):
            key, key_turn = jax.random.split(key)
            z, kept = _propose(head, jnp.asarray(value), base, n, key_turn)
            fresh = np.asarray(z)[np.asarray(kept)][: len(places) - found]
            drawn[places[found : found + len(fresh)]] = fresh
            found += len(fresh)
            if found == len(places):
                break
            if turn == MOST_ROUNDS - 1:
                raise ValueError(
                    f"y = {value} is too rare to draw from: {found} of {len(places)} draws after "
                    f"{MOST_ROUNDS * n:,} proposals. Ask for fewer, or for a likelier y."
                )
    return drawn


@eqx.filter_jit
def _by_slices(head: AbstractHead, ys: Array, dim: int, variance: float, key: Key) -> Array:
    """Elliptical slice sampling (Murray et al., 2010), one chain a draw."""

    def log_likelihood(z, y):
        return head(z).log_prob(y)

    def chain(y, key):
        def step(z, key_step):
            key_other, key_height, key_angle, key_shrink = jax.random.split(key_step, 4)
            other = math.sqrt(variance) * jax.random.normal(key_other, (dim,))
            height = log_likelihood(z, y) + jnp.log(jax.random.uniform(key_height))
            angle = jax.random.uniform(key_angle, minval=0.0, maxval=2 * jnp.pi)

            def propose(angle):
                return z * jnp.cos(angle) + other * jnp.sin(angle)

            def outside(state):
                angle, _, _, _, turns = state
                return (log_likelihood(propose(angle), y) < height) & (turns < 60)

            def shrink(state):
                angle, low, high, key, turns = state
                low = jnp.where(angle < 0, angle, low)
                high = jnp.where(angle < 0, high, angle)
                key, key_draw = jax.random.split(key)
                return (
                    jax.random.uniform(key_draw, minval=low, maxval=high),
                    low,
                    high,
                    key,
                    turns + 1,
                )

            start = (angle, angle - 2 * jnp.pi, angle, key_shrink, jnp.zeros((), jnp.int32))
            angle, *_, turns = jax.lax.while_loop(outside, shrink, start)
            return jnp.where(turns < 60, propose(angle), z), None

        key_start, key_steps = jax.random.split(key)
        start = math.sqrt(variance) * jax.random.normal(key_start, (dim,))
        return jax.lax.scan(step, start, jax.random.split(key_steps, SLICE_STEPS))[0]

    return jax.vmap(chain)(ys, jax.random.split(key, len(ys)))
