"""The plain multilayer perceptron, and the parts every dense network is made of."""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.networks.base import AbstractNetwork, map_rows
from diglm.networks.normalisation import BatchNorm1d, Normaliser, map_with_statistics
from diglm.types import Key, generator, split_key

ACTIVATIONS = {
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
}


class AbstractDenseNetwork(AbstractNetwork):
    """A network written as one body, `run`, that serves one example and a batch alike."""

    norms: eqx.AbstractVar[tuple[BatchNorm1d, ...]]

    @abstractmethod
    def run(
        self, x: Float[Array, " in_dim"], norm: Normaliser, key: Key | None
    ) -> Float[Array, " out_dim"]:
        """The network on one example, given how it meets its norms."""

    def __call__(
        self, x: Float[Array, " in_dim"], *, key: Key | None = None
    ) -> Float[Array, " out_dim"]:
        return self.run(x, Normaliser(self.norms, moving=False), key)

    def forward_batch(
        self, xs: Float[Array, "rows in_dim"], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows out_dim"], "AbstractDenseNetwork"]:
        if not self.norms:
            return map_rows(self, xs, key=key), self

        def run(x, *, key):
            norm = Normaliser(self.norms, moving=True, start=start)
            y = self.run(x, norm, key)
            return y, tuple(norm.met)

        ys, norms = map_with_statistics(run, xs, key=key)
        return ys, eqx.tree_at(lambda n: n.norms, self, norms)


class MLP(AbstractDenseNetwork):
    r"""$h_{l+1} = \sigma(W_l h_l + b_l)$ for `depth` hidden layers, then $y = W h + b$.

    The output layer starts at zero, so a coupling that reads its parameters here starts as the
    identity.

    Args:
        in_dim: size of the input.
        out_dim: size of the output.
        width: size of every hidden layer.
        depth: number of hidden layers.
        activation: "silu", "relu", "tanh" or "gelu".
        dropout: probability with which a hidden unit is dropped; only active with a `key`.
        batch_norm: normalise hidden layers before the activation.
        key: seeds the weights.
    """

    hidden: tuple[eqx.nn.Linear, ...]
    norms: tuple[BatchNorm1d, ...]
    output: eqx.nn.Linear
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
        check_settings("MLP", in_dim, out_dim, width, depth, activation, dropout)
        sizes = [in_dim] + [width] * depth
        self.hidden = tuple(
            linear(n_in, n_out, key=layer_key)
            for n_in, n_out, layer_key in zip(
                sizes[:-1], sizes[1:], split_key(key, depth), strict=True
            )
        )
        self.norms = tuple(BatchNorm1d(width) for _ in range(depth if batch_norm else 0))
        self.output = linear(sizes[-1], out_dim, scale=0.0, key=key)
        self.activation, self.dropout = activation, dropout

    def run(
        self, x: Float[Array, " in_dim"], norm: Normaliser, key: Key | None
    ) -> Float[Array, " out_dim"]:
        activation = ACTIVATIONS[self.activation]
        for i, layer in enumerate(self.hidden):
            x = drop(activation(norm(layer(x))), self.dropout, fold(key, i))
        return self.output(x)


def linear(n_in: int, n_out: int, *, scale: float = math.sqrt(2.0), key: Key) -> eqx.nn.Linear:
    """A dense layer with weights of standard deviation `scale / sqrt(n_in)`; zero with scale 0.

    The default scale keeps the size of activations through relu-like layers. Biases are spread
    too: with few inputs, as in couplings of small tables, zero biases would put every kink at 0.
    """
    rng, scale = generator(key), scale / math.sqrt(n_in)
    weight = scale * rng.normal(size=(n_out, n_in))
    bias = scale * rng.uniform(-1.0, 1.0, size=n_out)
    layer = eqx.filter_eval_shape(eqx.nn.Linear, n_in, n_out, key=key)
    return eqx.tree_at(
        lambda layer: (layer.weight, layer.bias),
        layer,
        (jnp.asarray(weight, float), jnp.asarray(bias, float)),
    )


def drop(x: Array, rate: float, key: Key | None) -> Array:
    """Zero each entry with probability `rate` and scale up the others; nothing without a key."""
    if key is None or rate == 0.0:
        return x
    kept = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(kept, x / (1.0 - rate), 0.0)


def fold(key: Key | None, i: int) -> Key | None:
    """The key of layer `i`, or None."""
    return None if key is None else jax.random.fold_in(key, i)


def check_settings(
    name: str, in_dim: int, out_dim: int, width: int, depth: int, activation: str, dropout: float
) -> None:
    """Raise `ValueError` for settings from which no dense network can be built."""
    for setting, value, least in (
        ("in_dim", in_dim, 1),
        ("out_dim", out_dim, 1),
        ("width", width, 1),
        ("depth", depth, 0),
    ):
        if value < least:
            raise ValueError(f"{name} needs {setting} >= {least}; got {value}.")
    if activation not in ACTIVATIONS:
        raise ValueError(f"{name} knows the activations {sorted(ACTIVATIONS)}; got {activation!r}.")
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"{name} needs 0 <= dropout < 1; got {dropout}.")
