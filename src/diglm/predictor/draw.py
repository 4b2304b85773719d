"""Exact draws of latents given y, and ways between latents."""

import math
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.bases import Normal
from diglm.heads import AbstractResponse
from diglm.hybrid import Hybrid
from diglm.types import Key

PROPOSALS = 16_384
MOST_PROPOSED = 2**24  # numbers held at a time
MOST_ROUNDS = 2_000
SLICE_STEPS = 100
SLICE_STARTS = 4_096  # draws from the base, of which each chain starts at one
MOST_TURNS = 60  # of narrowing an angle
STRAIGHT = 1e-3  # sine of an angle below which two directions lie on one line


def latents_given(model: Hybrid, ys: Array, *, key: Key) -> Float[np.ndarray, "n dim"]:
    """One draw of u ~ p(u|y) for each entry of `ys` (class numbers, or y in the head's units).

    Heads of classes and counts are drawn by rejection from the base, a Gaussian head of one
    variance that reads the latents themselves in closed form. Elsewhere each draw is the end of its
    own elliptical slice chain of 100 steps, exact in the limit of long chains.
    """
    head, base = model.head, model.source.flow.base
    if model.log_prob_bound(ys[:1]) is not None:
        return _by_rejection(model, np.asarray(ys), key)
    linear = head.linear_gaussian()
    if linear is not None and model.density is None:
        variance = cast(Normal, base).variance  # what is built for all but classes
        return np.asarray(_conditioned(*linear, ys, variance, key))
    return np.asarray(_by_slices(model, ys, key))


def answers_at(model: Hybrid, us: Float[Array, "n ..."]) -> AbstractResponse:
    """p(y|x) of rows at latents `us` of the density, stacked as `jax.vmap` does."""
    if model.density is None:
        return model.responses(us, us)  # the head reads the latents themselves
    xs = model.density.flow.bijection.inverse_rows(us)[0]
    return model.responses(xs, model.flow.bijection.forward_rows(xs)[0])


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
        return straight_line(first, second, steps)
    turned = np.sin((1 - share) * angle) * first / lengths[0]
    turned = (turned + np.sin(share * angle) * second / lengths[1]) / sine
    return ((1 - share) * lengths[0] + share * lengths[1]) * turned


def straight_line(
    first: Float[np.ndarray, " dim"], second: Float[np.ndarray, " dim"], steps: int
) -> Float[np.ndarray, "steps dim"]:
    r"""$z_t = (1 - t) z_0 + t z_1$."""
    share = np.linspace(0.0, 1.0, steps)[:, None]
    return (1 - share) * first + share * second


WAYS = {"circle": great_circle, "line": straight_line}


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
def _propose(model: Hybrid, y: Array, n: int, key: Key):
    key_u, key_keep = jax.random.split(key)
    us = model.source.flow.base.sample(key_u, n)
    log_py = jax.vmap(lambda response: response.log_prob(y))(answers_at(model, us))
    log_keep = log_py - cast(Array, model.log_prob_bound(y))
    return us.reshape(n, -1), jnp.log(jax.random.uniform(key_keep, (n,))) < log_keep


def _by_rejection(model: Hybrid, ys: np.ndarray, key: Key):
    dim = math.prod(model.source.flow.base.shape)
    drawn, n = np.zeros((len(ys), dim)), max(1, min(PROPOSALS, MOST_PROPOSED // dim))
    for value in np.unique(ys):
        places, found = np.flatnonzero(ys == value), 0
        for turn in range(MOST_ROUNDS):
            key, key_turn = jax.random.split(key)
            us, kept = _propose(model, jnp.asarray(value), n, key_turn)
            fresh = np.asarray(us)[np.asarray(kept)][: len(places) - found]
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
def _by_slices(model: Hybrid, ys: Array, key: Key) -> Float[Array, "n dim"]:
    """Elliptical slice sampling (Murray et al., 2010) of the base's noise, one chain a draw.

    A chain starts at one of many draws from the base, picked by how well each fits, and stays in
    its part of the base: it would seldom find the way to another.
    """
    base = model.source.flow.base
    dim = math.prod(base.shape)

    def log_likelihoods(parts, noise, ys):
        us = jax.vmap(base.at)(parts, noise)
        return jax.vmap(lambda response, y: response.log_prob(y))(answers_at(model, us), ys)

    def starts(key):
        key_part, key_noise, key_pick = jax.random.split(key, 3)
        parts = base.choose(key_part, SLICE_STARTS)
        noise = jax.random.normal(key_noise, (SLICE_STARTS, dim))
        told = answers_at(model, jax.vmap(base.at)(parts, noise))
        fits = jax.vmap(lambda y: jax.vmap(lambda response: response.log_prob(y))(told))(ys)
        picked = jax.vmap(jax.random.categorical)(jax.random.split(key_pick, len(ys)), fits)
        return parts[picked], noise[picked]

    def step(carry, key_step):
        parts, noise = carry
        key_other, key_height, key_angle, key_shrink = jax.random.split(key_step, 4)
        other = jax.random.normal(key_other, noise.shape)
        n = (len(ys),)
        heights = log_likelihoods(parts, noise, ys) + jnp.log(jax.random.uniform(key_height, n))
        angle = jax.random.uniform(key_angle, n, minval=0.0, maxval=2 * jnp.pi)

        def propose(angle):
            return noise * jnp.cos(angle)[:, None] + other * jnp.sin(angle)[:, None]

        def outside(angle):
            return log_likelihoods(parts, propose(angle), ys) < heights

        def going(state):
            _, _, _, out, _, turns = state
            return jnp.any(out) & (turns < MOST_TURNS)

        def shrink(state):
            angle, low, high, out, key, turns = state
            low = jnp.where(out & (angle < 0), angle, low)
            high = jnp.where(out & (angle >= 0), angle, high)
            key, key_draw = jax.random.split(key)
            drawn = low + (high - low) * jax.random.uniform(key_draw, n)
            angle = jnp.where(out, drawn, angle)
            return angle, low, high, out & outside(angle), key, turns + 1

        start = (angle, angle - 2 * jnp.pi, angle, outside(angle), key_shrink, 0)
        angle, _, _, out, _, _ = jax.lax.while_loop(going, shrink, start)
        return (parts, jnp.where(out[:, None], noise, propose(angle))), None

    key_start, key_steps = jax.random.split(key)
    chain = jax.lax.scan(step, starts(key_start), jax.random.split(key_steps, SLICE_STEPS))
    return jax.vmap(base.at)(*chain[0])
