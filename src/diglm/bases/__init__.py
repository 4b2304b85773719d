"""Densities of latents."""

from diglm.bases.base import AbstractBase, Normal
from diglm.bases.clumps import Clumps
from diglm.bases.em import fit_clumps
from diglm.bases.mixture import NormalMixture

__all__ = ["AbstractBase", "Clumps", "Normal", "NormalMixture", "fit_clumps"]
