"""Conditioners: networks of one example, from which couplings read their parameters."""

from diglm.networks.base import AbstractNetwork
from diglm.networks.convolution import ConvolutionalNetwork
from diglm.networks.highway import Highway
from diglm.networks.mlp import MLP
from diglm.networks.normalisation import BatchNorm1d
from diglm.networks.pyramid import Pyramid
from diglm.networks.residual import Residual
from diglm.types import Key

__all__ = [
    "AbstractNetwork",
    "BatchNorm1d",
    "ConvolutionalNetwork",
    "Highway",
    "MLP",
    "Pyramid",
    "Residual",
    "network",
]

NETWORKS = {"mlp": MLP, "highway": Highway, "residual": Residual}


def network(
    name: str,
    in_dim: int,
    out_dim: int,
    width: int,
    depth: int,
    *,
    activation: str = "silu",
    dropout: float = 0.0,
    batch_norm: bool = False,
    key: Key,
) -> AbstractNetwork:
    """The dense network called `name`: "mlp", "highway" or "residual"; the rest as for `MLP`."""
    if name not in NETWORKS:
        raise ValueError(f"Expected a network among {sorted(NETWORKS)}; got {name!r}.")
    return NETWORKS[name](
        in_dim,
        out_dim,
        width,
        depth,
        activation=activation,
        dropout=dropout,
        batch_norm=batch_norm,
        key=key,
    )
