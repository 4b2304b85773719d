"""Layers of flows for images: Glow, and a reader of whole images for the head."""

from collections.abc import Sequence

from diglm.bijections import (
    AbstractBijection,
    ActNorm,
    AffineCoupling,
    Chain,
    Convolution1x1,
    EvenPart,
    Images,
    Logit,
    MultiScale,
    Scan,
    Spline,
    Squeeze,
)
from diglm.networks import ConvolutionalNetwork, Pyramid
from diglm.types import Key, split_key

LARGEST_LOGIT = 15.0  # beyond that of a pixel at the default margin


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
