"""Predictors as files."""

import os
from typing import Any

import jax
import jax.numpy as jnp

from diglm import __about__
from diglm.data.kinds import ENCODERS, name_of
from diglm.hybrid import Hybrid
from diglm.predictor import persistence
from diglm.predictor.agreement import Agreement
from diglm.predictor.look import Groups
from diglm.predictor.memory import Memory
from diglm.predictor.predictor import Predictor
from diglm.refusal import Refusal
from diglm.targets import AbstractTarget

PARTS = {
    "target": AbstractTarget,
    "model": Hybrid,
    "refusal": Refusal,
    "groups": Groups | None,
    "memory": Memory | None,
    "owner": str,
    "agreement": Agreement | None,
}
LATER = {"agreement": None}  # what files of earlier versions do not know


def content_of(predictor: Predictor) -> dict[str, Any]:
    """A predictor as a file holds it."""
    return {
        "version": __about__.__version__,
        "encoder": {"kind": name_of(predictor.encoder), "content": predictor.encoder.to_dict()},
        **{name: getattr(predictor, name) for name in PARTS},
    }


def predictor_of(content: dict[str, Any]) -> Predictor:
    """The predictor that `content_of` described; an error if anything is out of place."""
    content = LATER | content
    kind = ENCODERS[content["encoder"]["kind"]]
    encoder = kind.from_dict(content["encoder"]["content"])
    for name, expected in PARTS.items():
        if not isinstance(content[name], expected):
            raise ValueError(f"its {name} is a {type(content[name]).__name__}")
    predictor = Predictor(encoder, **{name: content[name] for name in PARTS})
    # Shapes must fit together before the first row is asked about.
    row = jax.ShapeDtypeStruct(encoder.shape, jnp.result_type(float))
    jax.eval_shape(lambda x: predictor.model(x), row)
    return predictor


def save_predictor(
    predictor: Predictor, path: str | os.PathLike, about: dict[str, Any] | None = None
) -> None:
    """Write a predictor, replacing an earlier file atomically; `about` is kept beside it."""
    persistence.write(path, content_of(predictor) | {"about": about or {}})


def read_stored(path: str | os.PathLike) -> tuple[Predictor, dict[str, Any]]:
    """The predictor that `save_predictor` wrote, and what was kept beside it."""
    content = persistence.read(path)
    try:
        return predictor_of(content), content["about"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} does not describe a diglm model: {error}.") from error


def load_predictor(path: str | os.PathLike) -> Predictor:
    """The predictor that `save_predictor` wrote."""
    return read_stored(path)[0]
