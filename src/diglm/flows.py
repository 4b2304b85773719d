"""Flow = bijection + base density, and the recipes that estimators know by name."""

from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, Float

from diglm.bases import AbstractBase, Normal
from diglm.bijections import (
    AbstractBijection,
    AffineCoupling,
    Chain,
    Exchange,
    Identity,
    LULinear,
    Planar,
    Scan,
    Spline,
    SplineCoupling,
    random_permutation,
)
from diglm.networks import network
from diglm.types import Key, Scalar, split_key


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

    def sample(self, key: Key, n: int) -> Float[Array, "n ..."]:
        """`n` draws of x."""
        return jax.vmap(self.bijection.inverse)(self.base.sample(key, n))

    def forward_batch(
        self, xs: Float[Array, "rows ..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows ..."], Float[Array, " rows"], "Flow"]:
        """Training's view of a batch: features, log p(x), and the flow with moved statistics."""
        zs, log_dets, bijection = self.bijection.forward_batch(xs, key=key, start=start)
        log_px = jax.vmap(self.base.log_prob)(zs) + log_dets
        return zs, log_px, eqx.tree_at(lambda flow: flow.bijection, self, bijection)


LARGEST_LEARNED_MIXING = 256  # above, a D x D matrix per block costs more than it gives


def coupling(
    dim: int,
    *,
    n_blocks: int,
    width: int,
    depth: int,
    kind: str = "affine",
    mixing: str = "auto",
    conditioner: str = "mlp",
    activation: str = "silu",
    dropout: float = 0.0,
    batch_norm: bool = False,
    n_bins: int = 8,
    unroll: int = 1,
    key: Key,
) -> AbstractBijection:
    """`n_blocks` couplings, each after a mixing of the dimensions, as one scan.

    `kind` is "affine" (RealNVP) or "spline" (neural spline flow); `mixing` is "exchange",
    "random", "lu" or "auto" (learned up to 256 dimensions, random above). One dimension cannot
    be coupled; there the recipe is a learned monotone spline.
    """
    if dim == 1:
        return Spline(dim, n_bins=max(n_bins, 16))
    if mixing == "auto":
        mixing = "lu" if dim <= LARGEST_LEARNED_MIXING else "random"
    mixers: dict[str, Callable[[Key], AbstractBijection]] = {
        "exchange": lambda _: Exchange(dim),
        "random": lambda key: random_permutation(dim, key=key),
        "lu": lambda key: LULinear(dim, key=key),
    }
    if mixing not in mixers:
        raise ValueError(f"mixing must be one of {sorted(mixers)} or 'auto'; got {mixing!r}.")
    if kind not in ("affine", "spline"):
        raise ValueError(f"kind must be 'affine' or 'spline'; got {kind!r}.")
    n_outputs = (
        AffineCoupling.n_parameters(dim)
        if kind == "affine"
        else SplineCoupling.n_parameters(dim, n_bins)
    )

    def block(block_key: Key) -> AbstractBijection:
        key_mix, key_net = split_key(block_key, 2)
        net = network(
            conditioner,
            dim // 2,
            n_outputs,
            width,
            depth,
            activation=activation,
            dropout=dropout,
            batch_norm=batch_norm,
            key=key_net,
        )
        layer = (
            AffineCoupling(dim, net)
            if kind == "affine"
            else SplineCoupling(dim, net, n_bins=n_bins)
        )
        return Chain([mixers[mixing](key_mix), layer])

    return Scan(block, n_blocks, unroll=unroll, key=key)


def planar(dim: int, *, n_blocks: int, key: Key) -> AbstractBijection:
    """`n_blocks` planar flows (Rezende and Mohamed, 2015), as in the paper's Figure 2."""
    return Chain([Planar(dim, key=k) for k in split_key(key, n_blocks)])


def linear(dim: int, *, key: Key) -> AbstractBijection:
    """One learned invertible matrix: p(x) is a full-covariance Gaussian, the head a plain GLM."""
    return LULinear(dim, key=key)


def identity(dim: int) -> AbstractBijection:
    """No change: the head becomes an ordinary GLM on the columns."""
    return Identity(dim)
