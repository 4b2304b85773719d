"""Residual network of dense layers, in the pre-activation order."""

import math

import equinox as eqx
from jaxtyping import Array, Float

from diglm.networks.mlp import (
    ACTIVATIONS,
    AbstractDenseNetwork,
    Dense,
    check_settings,
    drop,
    fold,
)
from diglm.networks.normalisation import BatchNorm1d, Normaliser
from diglm.types import Key, split_key


class Residual(AbstractDenseNetwork):
    r"""$h_{l+1} = h_l + V_l\, \sigma(W_l\, \sigma(h_l) + b_l) + c_l$ for `depth` blocks.

    An input projection comes first; last, an activation and an output projection that starts at
    zero. Batch norm acts before both activations of a block, dropout after the second.

    Arguments as for `MLP`, except that `depth` counts blocks of two layers.

    Reference: He et al. (2016), https://arxiv.org/abs/1603.05027
    """

    projection: Dense
    blocks: tuple[tuple[Dense, Dense], ...]
    norms: tuple[BatchNorm1d, ...]
    output: Dense
    activation: str = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        width: int,
        depth: int,
        *,
        activation: str = "silu",
        dropout: float = 0.0,
        batch_norm: bool = False,
        key: Key,
    ):
        check_settings("Residual", in_dim, out_dim, width, depth, activation, dropout)
        keys = split_key(key, 2 * depth + 1)
        self.projection = Dense(in_dim, width, key=keys[0])
        # Blocks add up, so each starts with its share of the variance.
        share = 1.0 / math.sqrt(max(depth, 1))
        self.blocks = tuple(
            (
                Dense(width, width, key=keys[2 * i + 1]),
                Dense(width, width, scale=share, key=keys[2 * i + 2]),
            )
            for i in range(depth)
        )
        self.norms = tuple(BatchNorm1d(width) for _ in range(2 * depth if batch_norm else 0))
        self.output = Dense(width, out_dim, scale=0.0, key=key)
        self.activation, self.dropout = activation, dropout

    def run(
        self, xs: Float[Array, "*rows in_dim"], norm: Normaliser, key: Key | None
    ) -> Float[Array, "*rows out_dim"]:
        activation = ACTIVATIONS[self.activation]
        h = self.projection(xs)
        for i, (first, second) in enumerate(self.blocks):
            inner = activation(norm(first(activation(norm(h)))))
            h = h + second(drop(inner, self.dropout, fold(key, i)))
        return self.output(activation(h))
