"""Highway network: layers that learn how much of their input to let through unchanged."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
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
from diglm.types import Key, placed, split_key

GATE_BIAS = -1.0


class Highway(AbstractDenseNetwork):
    r"""$h_{l+1} = T \odot H + (1 - T) \odot h_l$, with $H = \sigma(W h_l + b)$, $T = s(V h_l + c)$.

    An input projection, `depth` highway layers of `width` units ($s$ is the logistic function),
    and an output projection that starts at zero. The gate's bias $c$ starts negative: at first a
    layer mostly carries its input, so deep networks train from the start.

    Arguments as for `MLP`; batch norm and dropout act on $H$.

    Reference: Srivastava et al. (2015), https://arxiv.org/abs/1505.00387
    """

    projection: Dense
    layers: tuple[Dense, ...]
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
        check_settings("Highway", in_dim, out_dim, width, depth, activation, dropout)
        key_in, key_layers = split_key(key, 2)
        self.projection = Dense(in_dim, width, scale=1.0, key=key_in)
        self.layers = tuple(
            highway_layer(width, key=layer_key) for layer_key in split_key(key_layers, depth)
        )
        self.norms = tuple(BatchNorm1d(width) for _ in range(depth if batch_norm else 0))
        self.output = Dense(width, out_dim, scale=0.0, key=key)
        self.activation, self.dropout = activation, dropout

    def run(
        self, xs: Float[Array, "*rows in_dim"], norm: Normaliser, key: Key | None
    ) -> Float[Array, "*rows out_dim"]:
        activation = ACTIVATIONS[self.activation]
        h = self.projection(xs)
        for i, layer in enumerate(self.layers):
            content, gate = jnp.split(layer(h), 2, axis=-1)
            content = drop(activation(norm(content)), self.dropout, fold(key, i))
            h = h + jax.nn.sigmoid(gate) * (content - h)
        return self.output(h)


def highway_layer(width: int, *, key: Key) -> Dense:
    """One matrix for content and gate together: one product of twice the size is the faster."""
    layer = Dense(width, 2 * width, key=key)
    bias = np.array(layer.bias)
    bias[width:] = GATE_BIAS
    return eqx.tree_at(lambda layer: layer.bias, layer, placed(bias))
