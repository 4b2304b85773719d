"""Flow = bijection + base density, and the recipes that estimators know by name."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
from jaxtyping import Array, Float

from diglm.bases import AbstractBase, Normal
from diglm.bijections import (
    AbstractBijection,
    ActNorm,
    AffineCoupling,
    Chain,
    Convolution1x1,
    EvenPart,
    Exchange,
    Identity,
    Images,
    Logit,
    LULinear,
    MultiScale,
    Planar,
    Scan,
    Spline,
    SplineCoupling,
    Squeeze,
    random_permutation,
)
from diglm.networks import ConvolutionalNetwork, Pyramid, network
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


LARGEST_LOGIT = 15.0  # beyond that of a pixel at the default margin
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


def glow(
    shape: tuple[int, int, int],
    *,
    n_blocks: int | Sequence[int] = 8,
    width: int | Sequence[int] = (48, 128, 128),
    depth: int = 1,
    factor_out: bool = False,
    highway: bool = False,
    last: int = 3,
    dropout: float = 0.0,
    batch_norm: bool = False,
    bound: float = 2.0,
    n_bins: int = 16,
    alpha: float = 1e-6,
    reader: int = 0,
    reversible: bool = False,
    unroll: int = 1,
    key: Key,
) -> Images:
    """Glow for images of bytes, dequantised to [0, 256): logit, spline, levels of couplings.

    A level squeezes 2 x 2 pixels into channels and applies its blocks: actnorm, invertible 1 x 1
    convolution, affine coupling with a convolutional conditioner. There are as many levels as
    `n_blocks` has entries; a single number means that many blocks on each of `n_levels(shape)`.

    Args:
        shape: height, width and channels.
        n_blocks: coupling blocks of each level.
        width: hidden channels of the conditioners, one number or one a level.
        depth: 1 x 1 layers inside each conditioner.
        factor_out: whether half of the channels leave after each level (multi-scale).
        highway: whether those layers are gated, as in the paper.
        last: size of each conditioner's last kernel, 3 or 1.
        dropout: of hidden numbers, in training.
        batch_norm: inside the conditioners.
        bound: largest absolute log-scale of a coupling.
        n_bins: pieces of the spline, one a colour, that follows the logit; 0 for none. Affine
            couplings cannot change the shape of a distribution, and pixels that are all black have,
            after the logit, the shape of an exponential one.
        alpha: margin of the logit.
        reader: width of a network that reads the whole image into one channel; 0 for none. See
            `reading`.
        reversible: whether blocks are inverted in the backward pass rather than kept.
        unroll: blocks laid out per turn of the compiled loop.
        key: seeds the weights.
    """
    height, width_, channels = shape
    if isinstance(n_blocks, int):
        n_blocks = [n_blocks] * n_levels(shape)
    widths = [width] * len(n_blocks) if isinstance(width, int) else list(width)
    if not 1 <= len(n_blocks) <= n_levels(shape) or len(widths) < len(n_blocks):
        raise ValueError(
            f"Images of {height} x {width_} can be halved {n_levels(shape)} times, so n_blocks has "
            f"1 to {n_levels(shape)} entries, and width at least as many; got {list(n_blocks)} and "
            f"{widths}."
        )
    if reader < 0:
        raise ValueError(f"reader is a width, or 0 for none; got {reader}.")
    if reversible and (dropout > 0 or batch_norm):
        raise ValueError("Reversible blocks can have neither dropout nor batch norm inside.")
    now: tuple[int, ...] = (channels, height - height % 2, width_ - width_ % 2)
    layers: list[AbstractBijection] = []
    levels: list[AbstractBijection] = []
    *keys, key_reader = split_key(key, len(n_blocks) + 1)
    for level, (n, hidden, key_level) in enumerate(zip(n_blocks, widths, keys, strict=False)):
        squeeze = Squeeze(now)
        now = squeeze.out_shape
        layers.append(squeeze)
        if level == 0 and reader > 0:
            levels.append(Chain([squeeze, *reading(now, hidden, reader, key=key_reader)]))
            layers, now = [], (now[0] - 1, *now[1:])

        def block(block_key: Key, shape=now, hidden=hidden) -> AbstractBijection:
            key_mix, key_net = split_key(block_key, 2)
            net = ConvolutionalNetwork(
                shape[0] // 2,
                AffineCoupling.n_parameters(shape[0]),
                hidden,
                depth,
                last=last,
                highway=highway,
                dropout=dropout,
                batch_norm=batch_norm,
                key=key_net,
            )
            mix = Convolution1x1(shape, key=key_mix)
            return Chain([ActNorm(shape), mix, AffineCoupling(shape, net, bound=bound)])

        layers.append(Scan(block, n, unroll=unroll, reversible=reversible, key=key_level))
        if factor_out:
            levels.append(Chain(layers))
            layers, now = [], (now[0] // 2, *now[1:])
    inner = MultiScale(levels if factor_out else [*levels, Chain(layers)])
    whole = (channels, height, width_)
    body = inner if inner.in_shape == whole else EvenPart(inner, whole)
    front: list[AbstractBijection] = [Logit(whole, alpha=alpha, high=256.0)]
    if n_bins > 0:
        front.append(Spline(whole, n_bins, bound=LARGEST_LOGIT))
    return Images(Chain([*front, body]))


def reading(
    shape: tuple[int, ...], width: int, reader: int, *, key: Key
) -> list[AbstractBijection]:
    r"""Couplings that turn the last channel $b$ into what the others, $a$, say of the whole image.

    $b \leftarrow b \odot e^{s(a)} + t(a)$ twice: with a small network that predicts $b$ from the
    pixels around, so that little is left of it, then with a deep one that sees the whole image and
    writes what it has read over that little. The other channels go on to the rest of the flow, and
    what was read is a feature at once: a head finds there what a deep network knows, and blocks
    that learn the density of all else need not compute it on their way.
    """
    kept, n_out = shape[0] - 1, AffineCoupling.n_parameters(shape[0], shape[0] - 1)
    key_near, key_whole = split_key(key, 2)
    near = ConvolutionalNetwork(kept, n_out, width, key=key_near)
    whole = Pyramid((kept, *shape[1:]), n_out, reader, key=key_whole)
    return [
        ActNorm(shape),
        AffineCoupling(shape, near, kept=kept, bound=3.0),
        ActNorm(shape),
        AffineCoupling(shape, whole, kept=kept, bound=3.0),
    ]


def n_read(shape: tuple[int, int, int]) -> int:
    """How many features, the first ones, the reader of a `glow` writes."""
    return (shape[0] // 2) * (shape[1] // 2)


def n_levels(shape: tuple[int, int, int]) -> int:
    """How often an image can be halved: up to three times, while both sides stay even."""
    sides = [side - side % 2 for side in shape[:2]]
    if min(sides) < 4:
        raise ValueError(
            f"Glow needs images of at least 4 x 4 pixels; got {shape[0]} x {shape[1]}. Give "
            "smaller ones as a table: X.reshape(len(X), -1)."
        )
    n = 0
    while n < 3 and all(side % 2 == 0 and side >= 4 for side in sides):
        sides, n = [side // 2 for side in sides], n + 1
    return n


def planar(dim: int, *, n_blocks: int, key: Key) -> AbstractBijection:
    """`n_blocks` planar flows (Rezende and Mohamed, 2015), as in the paper's Figure 2."""
    return Chain([Planar(dim, key=k) for k in split_key(key, n_blocks)])


def linear(dim: int, *, key: Key) -> AbstractBijection:
    """One learned invertible matrix: p(x) is a full-covariance Gaussian, the head a plain GLM."""
    return LULinear(dim, key=key)


def identity(dim: int) -> AbstractBijection:
    """No change: the head becomes an ordinary GLM on the columns."""
    return Identity(dim)
