"""Layers of flows for rows of numbers."""

from collections.abc import Callable

from diglm.bijections import (
    AbstractBijection,
    ActNorm,
    AffineCoupling,
    Chain,
    Exchange,
    Identity,
    InvertibleResidual,
    LULinear,
    NeuralODE,
    Planar,
    Scan,
    Spline,
    SplineCoupling,
    random_permutation,
)
from diglm.networks import network
from diglm.types import Key, split_key

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


def continuous(
    dim: int,
    *,
    n_blocks: int,
    width: int,
    depth: int,
    tolerance: float,
    exact_up_to: int,
    n_probes: int,
    key: Key,
) -> AbstractBijection:
    """`n_blocks` differential equations, each with a field of its own, one after the other."""

    def block(block_key: Key) -> AbstractBijection:
        return NeuralODE(
            dim,
            width,
            depth,
            tolerance=tolerance,
            exact_up_to=exact_up_to,
            n_probes=n_probes,
            key=block_key,
        )

    return Chain([block(one) for one in split_key(key, n_blocks)])


def residual(
    dim: int,
    *,
    n_blocks: int,
    width: int,
    depth: int,
    steepness: float,
    tolerance: float,
    exact_up_to: int,
    n_probes: int,
    key: Key,
) -> AbstractBijection:
    """`n_blocks` invertible residual layers, each after a scaling of the dimensions, as one scan.

    A residual layer stretches no direction by more than 1 + c; the scalings may by any factor.
    """

    def block(block_key: Key) -> AbstractBijection:
        layer = InvertibleResidual(
            dim,
            width,
            depth,
            steepness=steepness,
            tolerance=tolerance,
            exact_up_to=exact_up_to,
            n_probes=n_probes,
            key=block_key,
        )
        return Chain([ActNorm(dim), layer])

    return Scan(block, n_blocks, key=key)


def linear(dim: int, *, key: Key) -> AbstractBijection:
    """One learned invertible matrix: p(x) is a full-covariance Gaussian, the head a plain GLM."""
    return LULinear(dim, key=key)


def identity(dim: int) -> AbstractBijection:
    """No change: the head becomes an ordinary GLM on the columns."""
    return Identity(dim)
