"""What every conditioner offers: a function of one example, and a view of a batch."""

from abc import abstractmethod

import equinox as eqx
import jax
from jaxtyping import Array, Float, Shaped

from diglm.rows import draw_rows
from diglm.types import Key


class AbstractNetwork(eqx.Module):
    """A function of one example that need not be invertible; couplings read parameters off it."""

    @abstractmethod
    def __call__(self, x: Float[Array, "..."], *, key: Key | None = None) -> Float[Array, "..."]:
        """The output for one example. A `key` switches on dropout."""

    def forward_batch(
        self, xs: Float[Array, "rows ..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows ..."], "AbstractNetwork"]:
        """Training's view: the outputs of a batch, and the network with moved statistics."""
        return map_rows(self, xs, key=key), self


def beside(vector: Float[Array, " width"], xs: Float[Array, "..."]) -> Float[Array, "..."]:
    """The vector with as many axes as `xs`, so that it meets each of its rows."""
    return vector.reshape((1,) * (xs.ndim - 1) + vector.shape)


def over_channels(
    weight: Float[Array, "out channels"], x: Float[Array, "channels height width *rows"]
) -> Float[Array, "out height width *rows"]:
    """The matrix at each place of an image, as a product of two matrices.

    Of arrays with more axes than two, XLA would lay out gradients anew before and after each
    product, in a quarter of the time of a training step.
    """
    return (weight @ x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])


def map_rows(function, xs: Float[Array, "rows ..."], *, key: Key | None):
    """Apply `function(x, key=...)` to each row, each with a key of its own when one is given."""
    if key is None:
        return jax.vmap(lambda x: function(x, key=None))(xs)
    return jax.vmap(lambda x, k: function(x, key=k))(xs, row_keys(key, xs.shape[0]))


def row_keys(key: Key, n_rows: int) -> Shaped[Array, "rows ..."]:
    """A key for each row of a batch."""
    return draw_rows(lambda n: jax.random.split(key, n), n_rows)
