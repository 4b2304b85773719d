"""Flow = bijection + base density."""

import equinox as eqx
import jax
from jaxtyping import Array, Float

from diglm.bases import AbstractBase, Normal
from diglm.bijections import AbstractBijection
from diglm.types import Key, Scalar


class Flow(eqx.Module):
    r"""$\log p(x) = \log p_z(f(x)) + \log|\det \partial f/\partial x|$."""

    bijection: AbstractBijection
    base: AbstractBase

    def __init__(self, bijection: AbstractBijection, base: AbstractBase | None = None):
        base = Normal(bijection.out_shape) if base is None else base
        if base.shape != bijection.out_shape:
            raise ValueError(
                f"The base density has shape {base.shape}, but the bijection gives "
                f"{bijection.out_shape}."
            )
        self.bijection, self.base = bijection, base

    def forward_and_log_prob(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Scalar]:
        """Features and log p(x) of one example, from one pass."""
        if x.shape != self.bijection.in_shape:
            raise ValueError(
                f"Expected x of shape {self.bijection.in_shape}; got {x.shape}. "
                "For a batch, use jax.vmap."
            )
        z, log_det = self.bijection.forward_and_log_det(x)
        return z, self.base.log_prob(z) + log_det

    def log_prob(self, x: Float[Array, "..."]) -> Scalar:
        """log p(x) of one example."""
        return self.forward_and_log_prob(x)[1]

    def forward_rows(
        self, xs: Float[Array, "rows ..."]
    ) -> tuple[Float[Array, "rows ..."], Float[Array, " rows"]]:
        """Features and log p(x) of many examples."""
        zs, log_dets = self.bijection.forward_rows(xs)
        return zs, jax.vmap(self.base.log_prob)(zs) + log_dets

    def sample(self, key: Key, n: int) -> Float[Array, "n ..."]:
        """`n` draws of x."""
        return self.bijection.inverse_rows(self.base.sample(key, n))[0]

    def forward_batch(
        self, xs: Float[Array, "rows ..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows ..."], Float[Array, " rows"], "Flow"]:
        """Training's view of a batch: features, log p(x), and the flow with moved statistics."""
        zs, log_dets, bijection = self.bijection.forward_batch(xs, key=key, start=start)
        log_px = jax.vmap(self.base.log_prob)(zs) + log_dets
        return zs, log_px, eqx.tree_at(lambda flow: flow.bijection, self, bijection)
