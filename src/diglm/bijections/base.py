"""What every bijection offers: both directions, both log-determinants, and a view of a batch."""

from abc import abstractmethod

import equinox as eqx
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
