"""Recipes: how flows are built, sized and trained, a class each."""

from diglm.recipes.base import AbstractRecipe, AskedSizes, Material, Sizes
from diglm.recipes.couplings import CouplingFlow, SplineFlow
from diglm.recipes.images import GivenImages, Glow
from diglm.recipes.implicit import ContinuousFlow, ResidualFlow
from diglm.recipes.registry import RECIPES, recipe_of
from diglm.recipes.tables import (
    AbstractTableRecipe,
    GivenVector,
    IdentityFlow,
    LinearFlow,
    PlanarFlow,
)

__all__ = [
    "RECIPES",
    "AbstractRecipe",
    "AbstractTableRecipe",
    "AskedSizes",
    "ContinuousFlow",
    "CouplingFlow",
    "GivenImages",
    "GivenVector",
    "Glow",
    "IdentityFlow",
    "LinearFlow",
    "Material",
    "PlanarFlow",
    "ResidualFlow",
    "Sizes",
    "SplineFlow",
    "recipe_of",
]
