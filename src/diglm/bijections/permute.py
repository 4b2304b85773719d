"""Bijections that reorder coordinates; their log-determinant is zero."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from diglm.bijections.base import AbstractBijection
from diglm.types import Buffer, Key, Scalar, generator, placed


class Permute(AbstractBijection):
    r"""$z_i = x_{\pi(i)}$ for a fixed permutation $\pi$."""

    indices: Buffer
    inverse_indices: Buffer
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, indices: Sequence[int] | np.ndarray | Int[Array, " dim"]):
        values = np.asarray(indices)
        if values.ndim != 1 or not np.array_equal(np.sort(values), np.arange(values.size)):
            raise ValueError(
                f"Permute needs each of 0, ..., dim - 1 once, in any order; got {indices}."
            )
        self.indices = Buffer(placed(values))
        self.inverse_indices = Buffer(placed(np.argsort(values)))
        self.in_shape = self.out_shape = values.shape

    def forward_and_log_det(
        self, x: Float[Array, " dim"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim"], Scalar]:
        return x[self.indices.value], jnp.zeros((), x.dtype)

    def inverse_and_log_det(self, z: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Scalar]:
        return z[self.inverse_indices.value], jnp.zeros((), z.dtype)


class Reverse(AbstractBijection):
    r"""$z_i = x_{D - 1 - i}$."""

    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, dim: int):
        self.in_shape = self.out_shape = (dim,)

    def forward_and_log_det(
        self, x: Float[Array, " dim"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim"], Scalar]:
        return x[::-1], jnp.zeros((), x.dtype)

    def inverse_and_log_det(self, z: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Scalar]:
        return z[::-1], jnp.zeros((), z.dtype)


class Exchange(AbstractBijection):
    r"""$z = (x_b, x_a)$, where $x_a$ is the part a coupling keeps, the first $\lfloor D/2 \rfloor$.

    After a coupling this brings coordinates just transformed to the front, to be read next. For
    odd D the parts differ in size and the split moves on by half a turn each time, so that in a
    stack every coordinate is both read and transformed.
    """

    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, dim: int):
        self.in_shape = self.out_shape = (dim,)

    def forward_and_log_det(
        self, x: Float[Array, " dim"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim"], Scalar]:
        a, b = jnp.split(x, [x.shape[0] // 2])
        return jnp.concatenate([b, a]), jnp.zeros((), x.dtype)

    def inverse_and_log_det(self, z: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Scalar]:
        b, a = jnp.split(z, [z.shape[0] - z.shape[0] // 2])
        return jnp.concatenate([a, b]), jnp.zeros((), z.dtype)


def random_permutation(dim: int, *, key: Key) -> Permute:
    """A permutation of `dim` coordinates drawn uniformly."""
    return Permute(generator(key).permutation(dim))
