"""Virtual adversarial training: predictions should not change under the worst small step."""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.hybrid import Hybrid, Outputs
from diglm.objectives.term import AbstractTerm, weighted_mean
from diglm.rows import draw_rows
from diglm.types import Batch, Key, Scalar

PROBE = 1e-2  # length of the finite step with which the sensitive direction is found


class VirtualAdversarial(AbstractTerm):
    r"""$\max_{|r| \le \rho} D(p(y|x), p(y|x+r))$, on all rows; `radius` is in input units."""

    weight: float = eqx.field(static=True, default=1.0)
    radius: float = eqx.field(static=True, default=1.0)

    def __call__(self, model: Hybrid, outputs: Outputs, batch: Batch, *, key: Key) -> Scalar:
        xs, weights = cast(Array, batch.x), cast(Array, batch.weight)
        divergence = virtual_adversarial_divergence(model, xs, radius=self.radius, key=key)
        return weighted_mean(divergence, weights, weights)


def virtual_adversarial_divergence(
    model: Hybrid, xs: Float[Array, " rows *shape"], *, radius: float, key: Key
) -> Float[Array, " rows"]:
    r"""$\max_{|r| \le \rho} D(p(y|x), p(y|x+r))$ per row, by one power iteration.

    Reference: Miyato et al. (2018), https://arxiv.org/abs/1704.03976
    """
    if model.completion is not None:
        xs = jax.vmap(model.completion.centre)(xs)

    def respond(points):
        zs, _, _ = model.flow.forward_batch(points)
        return jax.vmap(model.head)(zs.reshape(len(zs), -1))

    clean = jax.lax.stop_gradient(respond(xs))

    def apart(steps):
        return jax.vmap(lambda p, q: p.divergence(q))(clean, respond(xs + steps))

    noise = draw_rows(lambda n: jax.random.normal(key, (n, *xs.shape[1:]), xs.dtype), len(xs))
    direction = _unit(noise)
    slope = jax.grad(lambda steps: jnp.sum(apart(steps)))(PROBE * direction)
    return apart(radius * _unit(jax.lax.stop_gradient(slope)))


def _unit(steps):
    flat = steps.reshape(len(steps), -1)
    norm = jnp.sqrt(jnp.sum(jnp.square(flat), axis=1) + 1e-30)
    return (flat / norm[:, None]).reshape(steps.shape)
