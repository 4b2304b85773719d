"""Invertible 1x1 convolution: at every pixel, one learned matrix mixes the channels."""

import math

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from diglm.bijections.base import AbstractImageBijection, along_first
from diglm.bijections.linear import LULinear
from diglm.networks.base import over_channels
from diglm.types import Key


class Convolution1x1(AbstractImageBijection):
    r"""$z_{:, i, j} = P L U\, x_{:, i, j} + b$ at every pixel, starting as a random rotation.

    The log-determinant is that of `LULinear`, height times width over. Examples side by side are
    further columns of one matrix product.

    Reference: Kingma and Dhariwal (2018), https://arxiv.org/abs/1807.03039
    """

    linear: LULinear
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], *, key: Key):
        self.linear = LULinear(shape[0], key=key)
        self.in_shape = self.out_shape = tuple(shape)

    def forward_and_log_det(
        self, x: Float[Array, "channels height width *rows"], *, key: Key | None = None
    ) -> tuple[Float[Array, "channels height width *rows"], Float[Array, "*rows"]]:
        lower, upper, log_scale = self.linear.factors()
        z = over_channels(lower @ upper, x) + along_first(self.linear.bias, x)
        return z, self._log_det(log_scale, x)

    def inverse_and_log_det(
        self, z: Float[Array, "channels height width *rows"]
    ) -> tuple[Float[Array, "channels height width *rows"], Float[Array, "*rows"]]:
        lower, upper, log_scale = self.linear.factors()
        order = jnp.argsort(self.linear.rows.value)
        identity = jnp.eye(len(order), dtype=z.dtype)[order]
        inner = solve_triangular(lower[order], identity, lower=True, unit_diagonal=True)
        # Pixels are many, channels few: the inverse once and one product, not a solve for each.
        inverse = solve_triangular(upper, inner)
        x = over_channels(inverse, z - along_first(self.linear.bias, z))
        return x, -self._log_det(log_scale, z)

    def _log_det(self, log_scale: Array, x: Array) -> Array:
        places = math.prod(self.in_shape[1:])
        return jnp.broadcast_to(places * jnp.sum(log_scale), x.shape[3:])
