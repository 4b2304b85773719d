"""Images as bijections see them: channels first, and what changes their shape without arithmetic.

Layers of images work on arrays (channels, height, width, ...): axes after the third are examples
side by side. With the examples last, shifting an image is moving whole blocks of memory, a 1x1
convolution is one matrix product, and elementwise work runs along the examples whatever the number
of channels. `Images` is the door: outside it, images are (height, width, channels) like everywhere.
"""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.bijections.base import AbstractBijection, AbstractImageBijection
from diglm.bijections.normalisation import ActNorm
from diglm.types import Key, Scalar


class Squeeze(AbstractImageBijection):
    r"""Blocks of 2 x 2 pixels become channels: $(c, h, w) \to (4c, h/2, w/2)$."""

    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...]):
        channels, height, width = shape
        if height % 2 or width % 2:
            raise ValueError(
                f"Squeeze halves height and width, so both must be even; got {height} x {width}."
            )
        self.in_shape = (channels, height, width)
        self.out_shape = (4 * channels, height // 2, width // 2)

    def forward_and_log_det(
        self, x: Float[Array, "channels height width *rows"], *, key: Key | None = None
    ) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
        channels, height, width = self.in_shape
        rows = x.shape[3:]
        blocks = x.reshape(channels, height // 2, 2, width // 2, 2, *rows)
        order = (2, 4, 0, 1, 3, *range(5, blocks.ndim))
        return blocks.transpose(order).reshape(*self.out_shape, *rows), jnp.zeros(rows, x.dtype)

    def inverse_and_log_det(
        self, z: Float[Array, "channels height width *rows"]
    ) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
        channels, height, width = self.in_shape
        rows = z.shape[3:]
        blocks = z.reshape(2, 2, channels, height // 2, width // 2, *rows)
        order = (2, 3, 0, 4, 1, *range(5, blocks.ndim))
        return blocks.transpose(order).reshape(*self.in_shape, *rows), jnp.zeros(rows, z.dtype)


class EvenPart(AbstractImageBijection):
    r"""A bijection of the even part of an image of odd height or width; z ends with the edge.

    The last row or column, which has no partner to be squeezed with, takes part as
    $(x + b) \odot e^s$, with $b$ and $s$ for every pixel of it.

    Args:
        bijection: from `(channels, height - height % 2, width - width % 2)` to a vector.
        shape: `(channels, height, width)` of the whole image.
    """

    bijection: AbstractBijection
    edge: ActNorm
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, bijection: AbstractBijection, shape: tuple[int, ...]):
        channels, height, width = self.in_shape = tuple(shape)
        even = (channels, height - height % 2, width - width % 2)
        if bijection.in_shape != even:
            raise ValueError(
                f"EvenPart of {self.in_shape} needs a bijection of {even}; got one of "
                f"{bijection.in_shape}."
            )
        self.bijection, self.out_shape = bijection, (math.prod(self.in_shape),)
        n_edge = math.prod(self.in_shape) - math.prod(even)
        if n_edge == 0:
            raise ValueError(
                f"Both sides of {self.in_shape} are even: nothing is left to set aside."
            )
        self.edge = ActNorm((n_edge, 1, 1))

    def forward_and_log_det(
        self, x: Float[Array, "channels height width *rows"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim *rows"], Float[Array, "*rows"]]:
        even, edge = self._parted(x)
        z, log_det = self.bijection.forward_and_log_det(even, key=key)
        edge, more = self.edge.forward_and_log_det(edge)
        return self._joined(z, edge), log_det + more

    def inverse_and_log_det(
        self, z: Float[Array, " dim *rows"]
    ) -> tuple[Float[Array, "channels height width *rows"], Float[Array, "*rows"]]:
        channels, height, width = self.in_shape
        n_even, rows = self.bijection.out_shape[0], z.shape[1:]
        even, log_det = self.bijection.inverse_and_log_det(z[:n_even])
        edge, more = self.edge.inverse_and_log_det(z[n_even:].reshape(-1, 1, 1, *rows))
        n_bottom = channels * (height % 2) * even.shape[2]
        bottom = edge[:n_bottom].reshape(channels, height % 2, even.shape[2], *rows)
        right = edge[n_bottom:].reshape(channels, height, width % 2, *rows)
        x = jnp.concatenate([jnp.concatenate([even, bottom], axis=1), right], axis=2)
        return x, log_det + more

    def forward_batch(
        self,
        xs: Float[Array, "channels height width rows"],
        *,
        key: Key | None = None,
        start: bool = False,
    ) -> tuple[Float[Array, "dim rows"], Float[Array, " rows"], "EvenPart"]:
        even, edge = self._parted(xs)
        zs, log_dets, moved = self.bijection.forward_batch(even, key=key, start=start)
        edge, more, moved_edge = self.edge.forward_batch(edge, start=start)
        layer = eqx.tree_at(lambda part: (part.bijection, part.edge), self, (moved, moved_edge))
        return self._joined(zs, edge), log_dets + more, layer

    def _parted(self, x: Array) -> tuple[Array, Array]:
        """The even part, and what lies below and right of it, a channel a number."""
        _, height, width = self.bijection.in_shape
        rows = x.shape[3:]
        outside = (x[:, height:, :width], x[:, :, width:])
        edge = jnp.concatenate([part.reshape(-1, 1, 1, *rows) for part in outside])
        return x[:, :height, :width], edge

    def _joined(self, z: Array, edge: Array) -> Array:
        return jnp.concatenate([z, edge.reshape(-1, *z.shape[1:])])


class Images(AbstractBijection):
    """A bijection of channels-first images, for images (height, width, channels); z is a vector.

    Args:
        bijection: from `(channels, height, width)` to `(dim,)`, taking examples side by side along
            a last axis.
    """

    bijection: AbstractBijection
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, bijection: AbstractBijection):
        channels, height, width = bijection.in_shape
        self.bijection = bijection
        self.in_shape, self.out_shape = (height, width, channels), bijection.out_shape

    def forward_and_log_det(
        self, x: Float[Array, "height width channels"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim"], Scalar]:
        return self.bijection.forward_and_log_det(x.transpose(2, 0, 1), key=key)

    def inverse_and_log_det(
        self, z: Float[Array, " dim"]
    ) -> tuple[Float[Array, "height width channels"], Scalar]:
        x, log_det = self.bijection.inverse_and_log_det(z)
        return x.transpose(1, 2, 0), log_det

    def forward_rows(
        self, xs: Float[Array, "rows height width channels"]
    ) -> tuple[Float[Array, "rows dim"], Float[Array, " rows"]]:
        zs, log_dets = self.bijection.forward_and_log_det(xs.transpose(3, 1, 2, 0))
        return zs.T, log_dets

    def entered(
        self, xs: Float[Array, "rows height width channels"]
    ) -> Float[Array, "rows height width channels"]:
        return self.bijection.entered(xs.transpose(3, 1, 2, 0)).transpose(3, 1, 2, 0)

    def rows_entered(
        self, places: Float[Array, "rows height width channels"]
    ) -> Float[Array, "rows dim"]:
        return self.bijection.rows_entered(places.transpose(3, 1, 2, 0)).T

    def first_entered(
        self, places: Float[Array, "rows height width channels"], n: int
    ) -> Float[Array, "rows first"]:
        return self.bijection.first_entered(places.transpose(3, 1, 2, 0), n).T

    def inverse_rows(
        self, zs: Float[Array, "rows dim"]
    ) -> tuple[Float[Array, "rows height width channels"], Float[Array, " rows"]]:
        xs, log_dets = self.bijection.inverse_and_log_det(zs.T)
        return xs.transpose(3, 1, 2, 0), log_dets

    def forward_batch(
        self,
        xs: Float[Array, "rows height width channels"],
        *,
        key: Key | None = None,
        start: bool = False,
    ) -> tuple[Float[Array, "rows dim"], Float[Array, " rows"], "Images"]:
        zs, log_dets, moved = self.bijection.forward_batch(
            xs.transpose(3, 1, 2, 0), key=key, start=start
        )
        return zs.T, log_dets, eqx.tree_at(lambda images: images.bijection, self, moved)
