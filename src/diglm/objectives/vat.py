"""Virtual adversarial training: predictions should not change under the worst small step."""

import math
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.hybrid import Hybrid
from diglm.objectives.term import AbstractTerm, Pass, PerRow, all_weights, divergences, rising
from diglm.rows import draw_rows, sum_over_devices
from diglm.types import Key, Scalar

RADIUS = 0.2
PROBE = 1e-2  # length of the finite step with which the sensitive direction is found


class VirtualAdversarial(AbstractTerm):
    r"""$\max_{|r| \le \rho} D(p(y|x), p(y|x+r))$, the mean over all rows.

    Args:
        weight: of the mean, beside that of log p(y|x) over rows with a label.
        radius: length of the step, in units in which an encoded column, or a pixel behind the
            flow's logit, has a standard deviation of one; None for 0.2 times the square root of
            their number, as distances between rows grow.
        steps: power iterations, each a pass forwards and backwards.
        ramp: share of training over which the weight rises.
    """

    weight: float = eqx.field(static=True, default=1.0)
    radius: float | None = eqx.field(static=True, default=None)
    steps: int = eqx.field(static=True, default=1)
    ramp: float = eqx.field(static=True, default=0.0)

    def rows(self, seen: Pass, *, key: Key) -> PerRow:
        weights, xs = all_weights(seen.batch), cast(Array, seen.batch.x)
        radius = self.radius
        if radius is None:
            radius = RADIUS * math.sqrt(xs[0].size)
        found = virtual_adversarial_divergence(
            seen.model,
            xs,
            weights,
            radius=radius,
            n_steps=self.steps,
            key=key,
        )
        return found, weights

    def strength(self, done: Scalar | float) -> Scalar | float:
        return rising(self.ramp, done)


def virtual_adversarial_divergence(
    model: Hybrid,
    xs: Array,
    weights: Float[Array, " rows"],
    *,
    radius: float,
    n_steps: int = 1,
    key: Key,
) -> Float[Array, " rows"]:
    r"""$D(p(y|x), p(y|x+r))$ per row, with $r$ of length `radius` found by power iteration.

    The divergence is least, zero, at $r = 0$, so that near it $D \approx \tfrac12 r^T H r$: a
    gradient at a short step in any direction is that direction multiplied by $H$, and doing so
    turns it towards the eigenvector of the largest eigenvalue.

    The model is as it will answer: statistics frozen, nothing dropped, open parts of rows at
    their centres. The answer at x is a target and has no gradient, and neither has the way in
    which the step was found. What labels may not shape, of a model with a reader, this may not
    either.

    Reference: Miyato et al. (2018), https://arxiv.org/abs/1704.03976
    """
    places = model.entered(xs)
    unit = _unit_of(places, weights)
    clean = jax.lax.stop_gradient(model.respond_entered(places))

    def apart(steps: Array, *, guided: bool) -> Float[Array, " rows"]:
        return divergences(clean, model.respond_entered(places + unit * steps, guided=guided))

    noise = draw_rows(lambda n: jax.random.normal(key, (n, *xs.shape[1:]), places.dtype), len(xs))
    direction = _unit(noise)
    for _ in range(n_steps):
        # Every feature has its say in where answers change most, whatever shaped it.
        slope = jax.grad(lambda steps: jnp.sum(apart(steps, guided=False)))(PROBE * direction)
        direction = _unit(slope)
    return apart(radius * jax.lax.stop_gradient(direction), guided=True)


def _unit_of(places: Array, weights: Float[Array, " rows"]) -> Scalar | float:
    """A standard deviation of what steps are taken among: one of columns, which are encoded so."""
    if places.ndim == 2:
        return 1.0
    counts = weights.reshape(-1, *(1,) * (places.ndim - 1))
    kept = jnp.where(counts > 0, places, 0.0)
    sums = jnp.stack([jnp.sum(counts * kept), jnp.sum(counts * kept * kept), jnp.sum(weights)])
    sum_x, sum_xx, total = sum_over_devices(sums)
    total = jnp.maximum(total * (places.size / len(places)), 1e-12)
    variance = sum_xx / total - jnp.square(sum_x / total)
    return jax.lax.stop_gradient(jnp.sqrt(jnp.maximum(variance, 1e-12)))


def _unit(steps: Array) -> Array:
    flat = steps.reshape(len(steps), -1)
    norm = jnp.sqrt(jnp.sum(jnp.square(flat), axis=1) + 1e-30)
    return (flat / norm[:, None]).reshape(steps.shape)
