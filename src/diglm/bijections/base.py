"""What every bijection offers: both directions, both log-determinants, and a view of a batch."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.networks.base import map_rows
from diglm.types import Key, Scalar


class AbstractBijection(eqx.Module):
    r"""An invertible map $z = f(x)$ of one example, with $\log|\det \partial f/\partial x|$.

    `forward` is always data to features, `inverse` features to data. Methods take one example;
    use `jax.vmap` for many. A `key` switches on training-time randomness (dropout); without it a
    bijection is a fixed function, and only then are densities exact.
    """

    in_shape: eqx.AbstractVar[tuple[int, ...]]
    out_shape: eqx.AbstractVar[tuple[int, ...]]
    changes_units: ClassVar[bool] = False  # and nothing else, entry by entry

    @abstractmethod
    def forward_and_log_det(
        self, x: Float[Array, "..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "..."], Scalar]:
        """The features of one example and the log-determinant of the forward Jacobian."""

    @abstractmethod
    def inverse_and_log_det(self, z: Float[Array, "..."]) -> tuple[Float[Array, "..."], Scalar]:
        """The example with features `z` and the log-determinant of the inverse Jacobian."""

    def forward(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Data to features."""
        return self.forward_and_log_det(x)[0]

    def inverse(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """Features to data."""
        return self.inverse_and_log_det(z)[0]

    def forward_rows(
        self, xs: Float[Array, "rows ..."]
    ) -> tuple[Float[Array, "rows ..."], Float[Array, " rows"]]:
        """`forward_and_log_det` of many examples; overridden where `vmap` is not the fastest."""
        return jax.vmap(self.forward_and_log_det)(xs)

    def inverse_rows(
        self, zs: Float[Array, "rows ..."]
    ) -> tuple[Float[Array, "rows ..."], Float[Array, " rows"]]:
        """`inverse_and_log_det` of many examples."""
        return jax.vmap(self.inverse_and_log_det)(zs)

    def entered(self, xs: Float[Array, "rows ..."]) -> Float[Array, "rows ..."]:
        """Many examples behind the layers that only change units, such as the logit of pixels.

        Black and white are at the ends of an interval, next to which a step of a given length means
        anything; behind the logit it means the same everywhere.
        """
        return xs

    def rows_entered(self, places: Float[Array, "rows ..."]) -> Float[Array, "rows ..."]:
        """Features from what `entered` gives."""
        return self.forward_rows(places)[0]

    def first_entered(self, places: Float[Array, "rows ..."], n: int) -> Float[Array, "rows first"]:
        """The first `n` features from what `entered` gives, without more than they need."""
        return self.rows_entered(places)[:, :n]

    def forward_batch(
        self, xs: Float[Array, "rows ..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows ..."], Float[Array, " rows"], "AbstractBijection"]:
        """Training's view: features and log-determinants of a batch, and the layer afterwards.

        Layers that learn from the batch itself override this. Batch norm normalises with the
        batch's statistics and returns a copy whose running averages have moved; actnorm sets
        itself from the batch once, when `start` is True. All others return themselves. Keeping
        this one door apart leaves `forward_and_log_det` a function of one example.
        """
        zs, log_dets = map_rows(self.forward_and_log_det, xs, key=key)
        return zs, log_dets, self

    def retrace(
        self,
        z: Float[Array, "..."],
        grad_z: Float[Array, "..."],
        grad_log_det: Float[Array, "*rows"],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."], "AbstractBijection"]:
        """From an output and its gradients: the input, its gradient, and that of the layer.

        What back-propagation needs where no input was kept. Overridden where inverting and
        differentiating share work.
        """
        x, _ = self.inverse_and_log_det(z)
        _, pull_back = eqx.filter_vjp(lambda layer, x: layer.forward_and_log_det(x), self, x)
        grad_layer, grad_x = pull_back((grad_z, grad_log_det))
        return x, grad_x, grad_layer


class AbstractImageBijection(AbstractBijection):
    """A layer of images (channels, height, width), several of which may lie side by side.

    Both directions take further axes after the third, one log-determinant for each example along
    them. So `forward_batch` has its rows last and needs no `vmap`.
    """

    def forward_batch(
        self, xs: Float[Array, "..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "..."], Float[Array, " rows"], "AbstractImageBijection"]:
        return *self.forward_and_log_det(xs, key=key), self

    def first_entered(self, places: Float[Array, "..."], n: int) -> Float[Array, " first *rows"]:
        return self.forward_and_log_det(places)[0][:n]


def sum_over(values: Float[Array, "..."], shape: tuple[int, ...]) -> Float[Array, "*rows"]:
    """The sum over an example of this shape; further axes are examples and stay."""
    return jnp.sum(values, axis=tuple(range(len(shape))))


def n_rows(xs: Float[Array, "..."], shape: tuple[int, ...]) -> int:
    """How many examples of this shape a batch holds: along the first axis, of images the last."""
    return xs.shape[0] if xs.shape[1:] == shape else xs.shape[-1]


def along_first(vector: Float[Array, " dim"], x: Float[Array, "dim ..."]) -> Float[Array, "..."]:
    """A number for each entry of the first axis, shaped to meet `x`."""
    return vector.reshape(-1, *(1,) * (x.ndim - 1))
