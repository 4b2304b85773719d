"""Changes of the training rows that leave their labels true, drawn afresh at every step."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from diglm.rows import draw_rows
from diglm.types import Key


class Translate(eqx.Module):
    """Each image moved by up to `pixels` in both directions; what comes in repeats the edge."""

    pixels: int = eqx.field(static=True)

    def __call__(self, xs: Array, *, key: Key) -> Array:
        """Images (rows, height, width, channels), moved."""
        most = self.pixels
        _, height, width, _ = xs.shape
        moves = draw_rows(lambda n: jax.random.randint(key, (n, 2), -most, most + 1), len(xs))

        def moved(x: Array, by: Int[Array, "2"]) -> Array:
            rows = jnp.clip(jnp.arange(height) + by[0], 0, height - 1)
            columns = jnp.clip(jnp.arange(width) + by[1], 0, width - 1)
            return x[rows[:, None], columns[None, :]]

        return jax.vmap(moved)(xs, moves)
