"""A network that reads whole images: small neighbourhoods first, then ever larger ones."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.networks.base import AbstractNetwork
from diglm.networks.convolution import Convolution
from diglm.types import Key, split_key

MOST_HALVINGS = 2
GROWTH = 5 / 3  # of the width with each halving


class Pyramid(AbstractNetwork):
    r"""Levels of 3 x 3 convolutions, the image halved and the width raised from each to the next.

    The first level is one convolution, $h = \sigma(C x)$; at full size more would cost most of all.
    Each further one halves the image by keeping the largest of 2 x 2 places, and adds a residual
    block: $h \leftarrow \sigma(h + B\,\sigma(A h))$. What the last level knows of a place goes to
    the pixels that the place stands for. So the output depends on the whole image, where that of a
    network without halving depends on a few pixels around.

    Args:
        shape: channels, height and width of the input. Its sides are halved twice, or as long as
            they are even and above four.
        n_out: channels of the output, which has the height and width of the input.
        width: channels of the first level.
        key: seeds the weights.
    """

    entries: tuple[Convolution, ...]
    blocks: tuple[tuple[Convolution, Convolution], ...]
    output: Convolution

    def __init__(self, shape: tuple[int, ...], n_out: int, width: int, *, key: Key):
        if width < 1:
            raise ValueError(f"Pyramid needs width >= 1; got {width}.")
        n_halved = _n_halvings(shape)
        widths = [round(width * GROWTH**level) for level in range(n_halved + 1)]
        key_entries, key_blocks, key_last = split_key(key, 3)
        self.entries = tuple(
            Convolution(n_in, n, 3, key=k)
            for n_in, n, k in zip(
                [shape[0], *widths], widths, split_key(key_entries, len(widths)), strict=False
            )
        )
        keys = split_key(key_blocks, 2 * n_halved)
        self.blocks = tuple(
            # The second starts small: a block is close to its input, and depth blows nothing up.
            (Convolution(n, n, 3, key=first), Convolution(n, n, 3, scale=0.2, key=second))
            for n, first, second in zip(widths[1:], keys[:n_halved], keys[n_halved:], strict=True)
        )
        # Not zero: a head that is fitted first finds something to read, and both can learn at once.
        n_last = n_out * 4**n_halved
        self.output = Convolution(widths[-1], n_last, 1, scale=0.5, key=key_last)

    def __call__(
        self, x: Float[Array, "channels height width *rows"], *, key: Key | None = None
    ) -> Float[Array, "out height width *rows"]:
        h = jax.nn.relu(self.entries[0](x))
        for entry, (first, second) in zip(self.entries[1:], self.blocks, strict=True):
            h = jax.nn.relu(entry(_halved(h)))
            h = jax.nn.relu(h + second(jax.nn.relu(first(h))))
        return _spread(self.output(h), len(self.blocks))

    def forward_batch(
        self,
        xs: Float[Array, "channels height width rows"],
        *,
        key: Key | None = None,
        start: bool = False,
    ) -> tuple[Float[Array, "out height width rows"], "Pyramid"]:
        return self(xs, key=key), self


def _n_halvings(shape: tuple[int, ...]) -> int:
    sides, n = shape[1:3], 0
    while n < MOST_HALVINGS and all(side % 2 == 0 and side > 4 for side in sides):
        sides, n = tuple(side // 2 for side in sides), n + 1
    return n


def _halved(x: Float[Array, "channels height width *rows"]) -> Array:
    channels, height, width, *rows = x.shape
    return jnp.max(x.reshape(channels, height // 2, 2, width // 2, 2, *rows), axis=(2, 4))


def _spread(x: Float[Array, "channels height width *rows"], times: int) -> Array:
    """Channels become the 2**times x 2**times pixels of each place."""
    side = 2**times
    channels, height, width, *rows = x.shape
    parts = x.reshape(channels // side**2, side, side, height, width, *rows)
    order = (0, 3, 1, 4, 2, *range(5, parts.ndim))
    return parts.transpose(order).reshape(-1, height * side, width * side, *rows)
