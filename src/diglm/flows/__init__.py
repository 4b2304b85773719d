"""Flow = bijection + base density, and the layers that recipes are made of."""

from diglm.flows.flow import Flow
from diglm.flows.images import glow, n_levels, n_read, reading
from diglm.flows.vectors import (
    LARGEST_LEARNED_MIXING,
    continuous,
    coupling,
    identity,
    linear,
    planar,
    residual,
)

__all__ = [
    "LARGEST_LEARNED_MIXING",
    "Flow",
    "continuous",
    "coupling",
    "glow",
    "identity",
    "linear",
    "n_levels",
    "n_read",
    "planar",
    "reading",
    "residual",
]
