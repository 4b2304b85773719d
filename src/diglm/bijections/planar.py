"""Planar flow: a bend along one direction, with a true inverse."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.bijections.base import AbstractBijection
from diglm.types import Key, Scalar, generator, placed

LEAST_SLOPE = 1e-3
HALVINGS = 32
NEWTON_STEPS = 3


class Planar(AbstractBijection):
    r"""$z = x + \hat u \tanh(w^T x + b)$, with $\hat u$ near u and $w^T \hat u > -1$.

    $\hat u$ is u moved along w until $w^T \hat u = m(w^T u)$, where
    $m(a) = (1 - \epsilon) \log(1 + (e - 1) e^a) - 1 + \epsilon$; unlike the map in the paper,
    $m(0) = 0$, so a layer with $u = 0$ is the identity. The inverse solves
    $a + w^T \hat u \tanh(a + b) = w^T z$ for $a = w^T x$; the left side increases in a.

    Reference: Rezende and Mohamed (2015), https://arxiv.org/abs/1505.05770
    """

    w: Float[Array, " dim"]
    u: Float[Array, " dim"]
    b: Float[Array, ""]
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, dim: int, *, key: Key):
        if dim < 1:
            raise ValueError(f"Planar needs dim >= 1; got {dim}.")
        rng = generator(key)
        w, u = rng.normal(size=(2, dim)) / math.sqrt(dim)
        self.w, self.u = placed(w), placed(0.1 * u)
        self.b = placed(rng.normal())
        self.in_shape = self.out_shape = (dim,)

    def forward_and_log_det(
        self, x: Float[Array, " dim"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim"], Scalar]:
        u, slope = self._direction()
        bend = jnp.tanh(jnp.dot(self.w, x) + self.b)
        return x + u * bend, jnp.log(_derivative(bend, slope))

    def inverse_and_log_det(self, z: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Scalar]:
        u, slope = self._direction()
        bend = jnp.tanh(_solve(jnp.dot(self.w, z) + self.b, slope))
        return z - u * bend, -jnp.log(_derivative(bend, slope))

    def _direction(self) -> tuple[Array, Array]:
        r"""The constrained direction, and $1 + w^T \hat u$, the slope in the middle of the bend."""
        overlap, square = jnp.dot(self.w, self.u), jnp.sum(jnp.square(self.w))
        slope = jax.nn.softplus(overlap + math.log(math.e - 1.0))
        slope = LEAST_SLOPE + (1.0 - LEAST_SLOPE) * slope
        safe = jnp.where(square > 0.0, square, 1.0)
        return self.u + (slope - 1.0 - overlap) * self.w / safe, slope


def _derivative(bend: Array, slope: Array) -> Array:
    r"""$1 + w^T \hat u \tanh'$ without cancellation, from $\tanh' = 1 - \tanh^2$."""
    return jnp.square(bend) + (1.0 - jnp.square(bend)) * slope


def _solve(target: Array, slope: Array) -> Array:
    r"""The root $c$ of $c + (slope - 1) \tanh(c) = target$.

    Halving the bracket cannot fail but is slow, Newton's steps are fast but need a close start.
    The last of them alone carries gradients, which by the implicit function theorem suffices.
    """
    fixed_target, fixed_slope = jax.lax.stop_gradient((target, slope))

    def newton(c, target, slope):
        residual = c + (slope - 1.0) * jnp.tanh(c) - target
        return c - residual / jax.lax.stop_gradient(_derivative(jnp.tanh(c), slope))

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        below = middle + (fixed_slope - 1.0) * jnp.tanh(middle) < fixed_target
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    reach = jnp.abs(fixed_slope - 1.0)
    low, high = jax.lax.fori_loop(0, HALVINGS, halve, (fixed_target - reach, fixed_target + reach))
    c = 0.5 * (low + high)
    for _ in range(NEWTON_STEPS - 1):
        c = jnp.clip(newton(c, fixed_target, fixed_slope), low, high)
    return newton(c, target, slope)
