"""Networks that stretch no distance by more than a given factor, whatever their weights."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.networks.base import AbstractNetwork
from diglm.networks.mlp import Dense, check_settings
from diglm.types import Key, Scalar, clamp, placed, split_key

STEEPEST = 1.1044  # by how much (s(t), s(-t)) may move as t does, rounded up from 1.10436
SHARPNESS = 4.0  # of bends at the start: matrices of norm one make numbers that are small
LARGEST_LOG = 5.0  # sharpness stays between the exponentials of minus this and this
SQUARINGS = 5  # of the Gram matrix: the bound of a 64 x 64 matrix is then at most 4 % too high


def norm_bound(weight: Float[Array, "n_out n_in"]) -> Scalar:
    r"""An upper bound of the largest singular value, by squaring the Gram matrix.

    With $G_0 = W W^\top$ (or $W^\top W$, the smaller) and $G_{i+1} = (G_i / |G_i|_F)^2$,
    $$\log \sigma_{max}^2(W) \le \sum_{i=0}^k 2^{-i} \log |G_i|_F,$$
    with equality as k grows. Power iteration comes from below and has a state to be carried; this
    comes from above after any number of steps, so that what is divided by it cannot be too large.

    Reference: Delattre et al. (2023), https://arxiv.org/abs/2305.16173
    """
    tiny = float(jnp.finfo(weight.dtype).tiny) ** 0.5
    wide = weight.shape[0] < weight.shape[1]
    size = jnp.sqrt(jnp.sum(jnp.square(weight)) + tiny)
    unit = weight / size
    gram = unit @ unit.T if wide else unit.T @ unit
    log_square = 2 * jnp.log(size)
    for i in range(SQUARINGS + 1):
        norm = jnp.sqrt(jnp.sum(jnp.square(gram)) + tiny)
        log_square += jnp.log(norm) / 2**i
        gram = gram / norm
        gram = gram @ gram
    return jnp.exp(0.5 * log_square)


class LipschitzNetwork(AbstractNetwork):
    r"""$g = W_L \sigma(\dots \sigma(W_1 x + b_1)) + b_L$ with $|g(x) - g(x')| \le c |x - x'|$.

    Each matrix is multiplied by $\min(1, c^{1/L} / \hat\sigma(W_l))$, where $\hat\sigma$ bounds its
    largest singular value from above, and $\sigma(t) = (s(t), s(-t)) / 1.1044$ with
    $s(t) = t / (1 + e^{-\beta t})$ moves no more than t does, however sharply it bends: $\beta$ is
    trained, one a unit. Of the pair one moves where the other is flat, so that more of c is used
    than by either alone. The output starts at zero.

    Reference: Chen et al. (2019), https://arxiv.org/abs/1906.02735; Perugachi-Diaz et al. (2021),
    https://arxiv.org/abs/2102.02694

    Args:
        dim: size of input and output.
        width: size of every hidden layer.
        depth: number of hidden layers.
        steepness: c.
        key: seeds the weights.
    """

    hidden: tuple[Dense, ...]
    bends: tuple[Float[Array, " width"], ...]
    output: Dense
    steepness: float = eqx.field(static=True)

    def __init__(self, dim: int, width: int, depth: int, *, steepness: float, key: Key):
        check_settings("LipschitzNetwork", dim, dim, width, depth, "silu", 0.0)
        if not 0.0 < steepness < math.inf:
            raise ValueError(f"LipschitzNetwork needs a steepness above zero; got {steepness}.")
        sizes = [dim] + [2 * width] * depth
        *keys, key_out = split_key(key, depth + 1)
        self.hidden = tuple(
            Dense(n_in, width, key=one) for n_in, one in zip(sizes[:-1], keys, strict=True)
        )
        self.bends = tuple(placed(np.full(width, math.log(SHARPNESS))) for _ in range(depth))
        self.output = Dense(sizes[-1], dim, scale=0.0, key=key_out)
        self.steepness = float(steepness)

    def bounded(self) -> "LipschitzNetwork":
        """A copy whose matrices are no steeper than they may be, for use by `run`."""
        most = self.steepness ** (1 / (len(self.hidden) + 1))

        def bound(layer: Dense) -> Dense:
            shrink = jnp.minimum(1.0, most / norm_bound(layer.weight))
            return eqx.tree_at(lambda one: one.weight, layer, shrink * layer.weight)

        layers = tuple(map(bound, self.hidden)), bound(self.output)
        return eqx.tree_at(lambda net: (net.hidden, net.output), self, layers)

    def run(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The network with its matrices as they are."""
        for layer, bend in zip(self.hidden, self.bends, strict=True):
            t = layer(x)
            share = jax.nn.sigmoid(jnp.exp(clamp(bend, -LARGEST_LOG, LARGEST_LOG)) * t)
            x = jnp.concatenate([t * share, t * (share - 1)]) / STEEPEST
        return self.output(x)

    def __call__(self, x: Float[Array, " dim"], *, key: Key | None = None) -> Float[Array, " dim"]:
        return self.bounded().run(x)
