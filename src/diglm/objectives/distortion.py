"""Images turned, scaled, sheared and moved, parts of them hidden: what leaves a label true."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.rows import draw_rows
from diglm.types import Key


class Distortion(eqx.Module):
    r"""$\tilde x(p) = x(A p + t)$ with a matrix $A$ and a step $t$ of each image's own.

    Values between pixels are interpolated, what comes in repeats the edge. Then one square of each
    image takes the value of its first pixel, a corner.

    Args:
        turn: degrees by which images are turned at most.
        scale: share by which each side is stretched or squeezed at most.
        shear: tangent of the angle by which it is sheared at most.
        shift: share of a side by which it is moved at most.
        hide: side of the hidden square at most, as a share of the image's.
    """

    turn: float = eqx.field(static=True, default=15.0)
    scale: float = eqx.field(static=True, default=0.15)
    shear: float = eqx.field(static=True, default=0.2)
    shift: float = eqx.field(static=True, default=0.1)
    hide: float = eqx.field(static=True, default=0.3)

    def __call__(self, xs: Array, *, key: Key) -> Float[Array, "rows height width channels"]:
        """Images (rows, height, width, channels), each distorted in its own way."""
        real = jnp.result_type(float)
        draws = draw_rows(lambda n: jax.random.uniform(key, (n, 9), real, -1.0, 1.0), len(xs))
        return jax.vmap(self._one)(xs.astype(real), draws)

    def _one(
        self, x: Float[Array, "height width channels"], draws: Float[Array, " 9"]
    ) -> Float[Array, "height width channels"]:
        height, width, _ = x.shape
        angle = jnp.deg2rad(self.turn) * draws[0]
        grow, shear = 1 + self.scale * draws[1:3], self.shear * draws[3]
        down, right = (jnp.arange(side, dtype=x.dtype) - (side - 1) / 2 for side in (height, width))
        down, right = down[:, None] / grow[0], right[None, :] / grow[1]
        down, right = down + shear * right, right
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        rows = cos * down - sin * right + (height - 1) / 2 + self.shift * height * draws[4]
        columns = sin * down + cos * right + (width - 1) / 2 + self.shift * width * draws[5]
        moved = _between(x, jnp.clip(rows, 0, height - 1), jnp.clip(columns, 0, width - 1))
        return jnp.where(self._hidden(height, width, draws[6:]), x[0, 0], moved)

    def _hidden(self, height: int, width: int, draws: Float[Array, " 3"]) -> Array:
        half = 0.25 * self.hide * (1 + draws[0])  # of a side
        centres = 0.5 * (1 + draws[1:])
        near = [
            jnp.abs((jnp.arange(side, dtype=draws.dtype) + 0.5) / side - centre) < half
            for side, centre in zip((height, width), centres, strict=True)
        ]
        return (near[0][:, None] & near[1][None, :])[..., None]


def _between(
    x: Float[Array, "height width channels"],
    rows: Float[Array, "height width"],
    columns: Float[Array, "height width"],
) -> Float[Array, "height width channels"]:
    """Values at places between pixels, from the four around."""
    height, width, _ = x.shape
    top = jnp.clip(jnp.floor(rows).astype(jnp.int32), 0, height - 2)
    left = jnp.clip(jnp.floor(columns).astype(jnp.int32), 0, width - 2)
    down = (rows - top.astype(rows.dtype))[..., None]
    right = (columns - left.astype(columns.dtype))[..., None]
    upper = x[top, left] * (1 - right) + x[top, left + 1] * right
    lower = x[top + 1, left] * (1 - right) + x[top + 1, left + 1] * right
    return upper * (1 - down) + lower * down
