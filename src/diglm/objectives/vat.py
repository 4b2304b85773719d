"""Virtual adversarial training: predictions should not change under the worst small step."""

from typing import cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.heads import AbstractResponse, Categorical
from diglm.hybrid import Hybrid
from diglm.rows import draw_rows
from diglm.types import Key, Scalar

PROBE = 1e-2  # length of the finite step with which the sensitive direction is found


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

    def total(steps):
        return jnp.sum(jax.vmap(divergence)(clean, respond(xs + steps)))

    noise = draw_rows(lambda n: jax.random.normal(key, (n, *xs.shape[1:]), xs.dtype), len(xs))
    direction = _unit(noise)
    direction = _unit(jax.lax.stop_gradient(jax.grad(total)(PROBE * direction)))
    return jax.vmap(divergence)(clean, respond(xs + radius * direction))


def divergence(first: AbstractResponse, second: AbstractResponse) -> Scalar:
    """KL divergence of class probabilities; for numbers, that of Gaussians of one variance."""
    if isinstance(first, Categorical):
        other = cast(Categorical, second)  # both are responses of one head
        log_p, log_q = jax.nn.log_softmax(first.logits), jax.nn.log_softmax(other.logits)
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q))
    return 0.5 * jnp.square(first.mean - second.mean) / jnp.maximum(first.variance, 1e-6)


def _unit(steps):
    flat = steps.reshape(len(steps), -1)
    norm = jnp.sqrt(jnp.sum(jnp.square(flat), axis=1) + 1e-30)
    return (flat / norm[:, None]).reshape(steps.shape)
