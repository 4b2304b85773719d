"""The plain multilayer perceptron, and the parts every dense network is made of."""

import functools
import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.networks.base import AbstractNetwork, beside
from diglm.networks.normalisation import BatchNorm1d, Normaliser
from diglm.rows import draw_rows
from diglm.types import Key, generator, placed, split_key

ACTIVATIONS = {
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
}
FEW_INPUTS = 8  # of a layer whose product is written out as a sum


class Dense(eqx.Module):
    r"""$y = W x + b$, with weights of standard deviation `scale / sqrt(n_in)`; zero with scale 0.

    The default scale keeps the size of activations through relu-like layers. Biases are spread
    too: with few inputs, as in couplings of small tables, zero biases would put every kink at 0.
    """

    weight: Float[Array, "n_out n_in"]
    bias: Float[Array, " n_out"]

    def __init__(self, n_in: int, n_out: int, *, scale: float = math.sqrt(2.0), key: Key):
        rng, scale = generator(key), scale / math.sqrt(n_in)
        self.weight = placed(scale * rng.normal(size=(n_out, n_in)))
        self.bias = placed(scale * rng.uniform(-1.0, 1.0, size=n_out))

    def __call__(self, xs: Float[Array, "*rows n_in"]) -> Float[Array, "*rows n_out"]:
        """The layer on one example or on rows of them."""
        return _product(xs, self.weight) + beside(self.bias, xs)


@jax.custom_jvp
def _product(
    xs: Float[Array, "*rows n_in"], weight: Float[Array, "n_out n_in"]
) -> Float[Array, "*rows n_out"]:
    """$X W^T$, with few inputs as a sum over them, which XLA joins with what follows."""
    turned = jax.lax.optimization_barrier(weight.T)
    if len(turned) > FEW_INPUTS:
        return xs @ turned
    terms = (xs[..., i, None] * beside(row, xs) for i, row in enumerate(turned))
    return functools.reduce(jnp.add, terms)


@_product.defjvp
def _product_and_change(primals, tangents):
    """As JAX would differentiate it, but for how the gradient of the weights is computed.

    That is a product over rows, $G^T X$, one of whose factors has to be turned, and it is cheaper
    to turn the narrower: G as it stands, or X in $(X^T G)^T$. The barriers are what XLA is not to
    see through; left to itself it turns G, or hands the product to a library slower at this size.
    """
    (xs, weight), (change_xs, change_weight) = primals, tangents
    n_out, n_in = weight.shape
    if xs.ndim != 2:
        change = xs @ change_weight.T
    elif n_in < n_out:
        turned = jax.lax.optimization_barrier(change_weight.T)
        change = jax.lax.dot_general(xs.T, turned, (((0,), (0,)), ((), ())))
    else:
        change = jax.lax.optimization_barrier(change_weight @ xs.T).T
    return _product(xs, weight), change_xs @ weight.T + change


class AbstractDenseNetwork(AbstractNetwork):
    """A network written as one body, `run`, that serves one example and rows of them alike."""

    norms: eqx.AbstractVar[tuple[BatchNorm1d, ...]]

    @abstractmethod
    def run(
        self, xs: Float[Array, "*rows in_dim"], norm: Normaliser, key: Key | None
    ) -> Float[Array, "*rows out_dim"]:
        """The network on one example or on rows, given how it meets its norms."""

    def __call__(
        self, x: Float[Array, " in_dim"], *, key: Key | None = None
    ) -> Float[Array, " out_dim"]:
        return self.run(x, Normaliser(self.norms, moving=False), key)

    def forward_batch(
        self, xs: Float[Array, "rows in_dim"], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows out_dim"], "AbstractDenseNetwork"]:
        norm = Normaliser(self.norms, moving=True, start=start)
        ys = self.run(xs, norm, key)
        return ys, eqx.tree_at(lambda network: network.norms, self, tuple(norm.met))


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

    hidden: tuple[Dense, ...]
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
        check_settings("MLP", in_dim, out_dim, width, depth, activation, dropout)
        sizes = [in_dim] + [width] * depth
        self.hidden = tuple(
            Dense(n_in, n_out, key=layer_key)
            for n_in, n_out, layer_key in zip(
                sizes[:-1], sizes[1:], split_key(key, depth), strict=True
            )
        )
        self.norms = tuple(BatchNorm1d(width) for _ in range(depth if batch_norm else 0))
        self.output = Dense(sizes[-1], out_dim, scale=0.0, key=key)
        self.activation, self.dropout = activation, dropout

    def run(
        self, xs: Float[Array, "*rows in_dim"], norm: Normaliser, key: Key | None
    ) -> Float[Array, "*rows out_dim"]:
        activation = ACTIVATIONS[self.activation]
        for i, layer in enumerate(self.hidden):
            xs = drop(activation(norm(layer(xs))), self.dropout, fold(key, i))
        return self.output(xs)


def drop(
    xs: Float[Array, "*rows width"], rate: float, key: Key | None
) -> Float[Array, "*rows width"]:
    """Zero each entry with probability `rate` and scale up the others; nothing without a key."""
    if key is None or rate == 0.0:
        return xs

    def keep(*rows: int) -> Array:
        return jax.random.bernoulli(key, 1.0 - rate, (*rows, xs.shape[-1]))

    kept = keep() if xs.ndim == 1 else draw_rows(keep, len(xs))
    return jnp.where(kept, xs / (1.0 - rate), 0.0)


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
