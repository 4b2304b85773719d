"""Convolutional conditioners of images (channels, height, width), examples side by side after that.

A 3 x 3 convolution is written as what it is made of. Where few channels come in: the nine shifted
copies of the input, stacked, in one matrix product. Where few go out: one product that gives nine
maps, shifted and added. On a CPU this runs several times as fast, forwards and backwards, as XLA's
own convolution, which accelerators do better: there `lax.conv_general_dilated` is used.

The gradient of a slice is a padded array as large as the whole; the gradient of `jnp.split` is one
concatenation. So maps are split, never sliced, and shifting one back is shifting the other way.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.networks.base import AbstractNetwork, over_channels
from diglm.networks.highway import GATE_BIAS
from diglm.networks.mlp import ACTIVATIONS, fold
from diglm.networks.normalisation import EPSILON, blend
from diglm.rows import draw_rows, pool_statistics
from diglm.types import Buffer, Key, generator, placed, split_key

OFFSETS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]


class Convolution(eqx.Module):
    r"""$y = W * x + b$ with a kernel of 1 x 1 or 3 x 3 and zeros around the image.

    Weights start with standard deviation `scale` over the root of the number of inputs.
    """

    weight: Float[Array, "out inputs"]  # inputs are channels, or channels at each of nine places
    bias: Float[Array, " out"]
    size: int = eqx.field(static=True)

    def __init__(
        self, n_in: int, n_out: int, size: int, *, scale: float = math.sqrt(2.0), key: Key
    ):
        if size not in (1, 3):
            raise ValueError(f"Convolution takes kernels of size 1 or 3; got {size}.")
        self.size = size
        n_inputs = n_in * size**2
        weight = generator(key).normal(size=(n_out, n_inputs)) * scale / math.sqrt(n_inputs)
        self.weight, self.bias = placed(weight), placed(np.zeros(n_out))

    def __call__(self, x: Float[Array, "channels height width *rows"]) -> Float[Array, "..."]:
        n_out, n_in = len(self.bias), x.shape[0]
        if self.size == 1:
            y = over_channels(self.weight, x)
        elif jax.default_backend() != "cpu":
            y = _library_convolution(x, self.weight.reshape(n_out, 9, n_in))
        elif n_in <= n_out:
            copies = jnp.concatenate([shifted(x, i, j) for i, j in OFFSETS])
            y = over_channels(self.weight, copies)
        else:
            taps = self.weight.reshape(n_out, 9, n_in).transpose(1, 0, 2).reshape(-1, n_in)
            maps = jnp.split(over_channels(taps, x), 9)
            moved = [shifted(m, i, j) for m, (i, j) in zip(maps, OFFSETS, strict=True)]
            y = sum(moved[1:], start=moved[0])
        return y + self.bias.reshape(-1, *(1,) * (y.ndim - 1))


def shifted(x: Float[Array, "channels height width *rows"], i: int, j: int) -> Array:
    """$y_{:, a, b} = x_{:, a + i, b + j}$, zero where that lies outside."""
    _, height, width = x.shape[:3]
    i, j = (max(-n, min(n, d)) for d, n in ((i, height), (j, width)))
    kept = x[:, max(i, 0) : height + min(i, 0), max(j, 0) : width + min(j, 0)]
    around = [(0, 0), (max(-i, 0), max(i, 0)), (max(-j, 0), max(j, 0))]
    return jnp.pad(kept, around + [(0, 0)] * (x.ndim - 3))


def _library_convolution(x: Array, weight: Float[Array, "out nine channels"]) -> Array:
    n_out, _, n_in = weight.shape
    batch = x.reshape(*x.shape[:3], -1)
    kernel = weight.reshape(n_out, 3, 3, n_in).transpose(0, 3, 1, 2)
    y = jax.lax.conv_general_dilated(
        batch, kernel, (1, 1), "SAME", dimension_numbers=("CHWN", "OIHW", "CHWN")
    )
    return y.reshape(n_out, *x.shape[1:])


class ChannelNorm(eqx.Module):
    r"""Batch norm of images: mean and variance of each channel, over pixels and examples."""

    gain: Float[Array, " width"]
    bias: Float[Array, " width"]
    mean: Buffer
    var: Buffer

    def __init__(self, width: int):
        self.gain, self.bias = placed(np.ones(width)), placed(np.zeros(width))
        self.mean, self.var = Buffer(placed(np.zeros(width))), Buffer(placed(np.ones(width)))

    def __call__(self, x: Array) -> Array:
        return self._normalised(x, self.mean.value, self.var.value)

    def moving(self, x: Array, *, start: bool) -> tuple[Array, "ChannelNorm"]:
        """Normalised by the batch's own statistics, towards which the running ones have moved."""
        axes = tuple(range(1, x.ndim))
        mean, var = pool_statistics(jnp.mean(x, axes), jnp.var(x, axes))
        moved = eqx.tree_at(
            lambda norm: (norm.mean, norm.var),
            self,
            (blend(self.mean, mean, start=start), blend(self.var, var, start=start)),
        )
        return self._normalised(x, mean, var), moved

    def _normalised(self, x: Array, mean: Array, var: Array) -> Array:
        scale = self.gain * jax.lax.rsqrt(var + EPSILON)
        scale, shift = (
            v.reshape(-1, *(1,) * (x.ndim - 1)) for v in (scale, self.bias - mean * scale)
        )
        return x * scale + shift


class ConvolutionalNetwork(AbstractNetwork):
    r"""A 3 x 3 convolution, `depth` layers of 1 x 1, and a last convolution that starts at zero.

    With `highway`, the layers between are $h + T \odot (H - h)$, where $H = \sigma(W h + b)$ and
    the gate $T = s(V h + c)$: the paper's choice, with dropout and batch norm on $H$.

    Args:
        n_in: channels of the input.
        n_out: channels of the output.
        width: channels of the hidden layers.
        depth: hidden layers after the first.
        last: size of the last kernel, 3 or 1.
        highway: whether hidden layers are gated.
        activation: "silu", "relu", "tanh" or "gelu".
        dropout: probability with which a hidden number is dropped; only active with a `key`.
        batch_norm: normalise hidden layers before the activation.
        key: seeds the weights.
    """

    first: Convolution
    layers: tuple[Convolution, ...]
    norms: tuple[ChannelNorm, ...]
    output: Convolution
    highway: bool = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        n_in: int,
        n_out: int,
        width: int,
        depth: int = 1,
        *,
        last: int = 3,
        highway: bool = False,
        activation: str = "relu",
        dropout: float = 0.0,
        batch_norm: bool = False,
        key: Key,
    ):
        for setting, value, least in (("width", width, 1), ("depth", depth, 0)):
            if value < least:
                raise ValueError(f"ConvolutionalNetwork needs {setting} >= {least}; got {value}.")
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"ConvolutionalNetwork knows the activations {sorted(ACTIVATIONS)}; got "
                f"{activation!r}."
            )
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"ConvolutionalNetwork needs 0 <= dropout < 1; got {dropout}.")
        key_first, key_layers, key_last = split_key(key, 3)
        self.first = Convolution(n_in, width, 3, key=key_first)
        out = 2 * width if highway else width
        self.layers = tuple(
            _gate_closed(Convolution(width, out, 1, key=k))
            if highway
            else Convolution(width, out, 1, key=k)
            for k in split_key(key_layers, depth)
        )
        n_norms = depth if highway else depth + 1
        self.norms = tuple(ChannelNorm(width) for _ in range(n_norms if batch_norm else 0))
        self.output = Convolution(width, n_out, last, scale=0.0, key=key_last)
        self.highway, self.activation, self.dropout = highway, activation, float(dropout)

    def __call__(
        self, x: Float[Array, "channels height width *rows"], *, key: Key | None = None
    ) -> Float[Array, "out height width *rows"]:
        return self._run(x, key, lambda norm, h: (norm(h), norm))[0]

    def forward_batch(
        self,
        xs: Float[Array, "channels height width rows"],
        *,
        key: Key | None = None,
        start: bool = False,
    ) -> tuple[Float[Array, "out height width rows"], "ConvolutionalNetwork"]:
        ys, norms = self._run(xs, key, lambda norm, h: norm.moving(h, start=start))
        return ys, eqx.tree_at(lambda n: n.norms, self, norms)

    def _run(self, x: Array, key: Key | None, meet) -> tuple[Array, tuple[ChannelNorm, ...]]:
        """The output, and the norms as `meet(norm, h) -> (h, norm)` leaves them."""
        waiting, met = list(self.norms), []

        def active(h: Array, i: int) -> Array:
            if waiting:
                h, moved = meet(waiting.pop(0), h)
                met.append(moved)
            return _drop(ACTIVATIONS[self.activation](h), self.dropout, fold(key, i))

        h = self.first(x)
        if not self.highway:
            h = active(h, 0)
        for i, layer in enumerate(self.layers):
            if self.highway:
                content, gate = jnp.split(layer(h), 2)
                h = h + jax.nn.sigmoid(gate) * (active(content, i + 1) - h)
            else:
                h = active(layer(h), i + 1)
        return self.output(h), tuple(met)


def _drop(x: Array, rate: float, key: Key | None) -> Array:
    """`drop` for examples along the last axis, the same however many devices share them."""
    if key is None or rate == 0.0:
        return x
    if x.ndim == 3:  # one image
        kept = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    else:
        kept = jnp.moveaxis(
            draw_rows(
                lambda n: jax.random.bernoulli(key, 1.0 - rate, (n, *x.shape[:-1])), x.shape[-1]
            ),
            0,
            -1,
        )
    return jnp.where(kept, x / (1.0 - rate), 0.0)


def _gate_closed(layer: Convolution) -> Convolution:
    """A highway layer, content and gate in one product, that mostly carries its input at first."""
    bias = np.array(layer.bias)
    bias[len(bias) // 2 :] = GATE_BIAS
    return eqx.tree_at(lambda layer: layer.bias, layer, placed(bias))
