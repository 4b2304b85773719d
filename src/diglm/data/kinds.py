"""Kinds of data that models are fitted to, and how they are told apart."""

from typing import Any

from diglm.data.encoder import AbstractEncoder
from diglm.data.image import ImageEncoder
from diglm.data.table.encoder import TableEncoder
from diglm.registry import Registry

# Asked in this order backwards: what was registered last is asked first, tables take all the rest.
ENCODERS: Registry[type[AbstractEncoder]] = Registry(
    "kind of data", {"table": TableEncoder, "image": ImageEncoder}
)


def encoder_of(X: Any) -> type[AbstractEncoder]:
    """The encoder for rows given as `X`: the newest of the registered ones that accepts them."""
    return next(kind for kind in reversed(list(ENCODERS.values())) if kind.accepts(X))


def name_of(encoder: AbstractEncoder) -> str:
    """Under which name an encoder's class is registered."""
    return next(name for name, kind in ENCODERS.items() if kind is type(encoder))
