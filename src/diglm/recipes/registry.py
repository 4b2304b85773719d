"""Recipes by name."""

from collections.abc import Callable

from diglm.bijections import AbstractBijection
from diglm.recipes.base import AbstractRecipe
from diglm.recipes.couplings import CouplingFlow, SplineFlow
from diglm.recipes.images import GivenImages, Glow
from diglm.recipes.implicit import ContinuousFlow, ResidualFlow
from diglm.recipes.tables import GivenVector, IdentityFlow, LinearFlow, PlanarFlow
from diglm.registry import Registry

RECIPES: Registry[Callable[[], AbstractRecipe]] = Registry(
    "flow",
    {
        "coupling": CouplingFlow,
        "spline": SplineFlow,
        "planar": PlanarFlow,
        "continuous": ContinuousFlow,
        "residual": ResidualFlow,
        "linear": LinearFlow,
        "identity": IdentityFlow,
        "glow": Glow,
    },
)
# By the layout of the rows: what "auto" means, and what takes a bijection of the user's own.
USUAL: Registry[Callable[[], AbstractRecipe]] = Registry(
    "layout", {"vector": CouplingFlow, "image": Glow}
)
GIVEN: Registry[Callable[[AbstractBijection], AbstractRecipe]] = Registry(
    "layout", {"vector": GivenVector, "image": GivenImages}
)


def recipe_of(flow: str | AbstractRecipe | AbstractBijection, layout: str) -> AbstractRecipe:
    """The recipe that `flow` stands for, for rows of that layout; its parameters checked."""
    if isinstance(flow, AbstractBijection):
        recipe = GIVEN[layout](flow)
    elif isinstance(flow, AbstractRecipe):
        recipe = flow
    elif isinstance(flow, str):
        recipe = USUAL[layout]() if flow == "auto" else RECIPES[flow]()
    else:
        raise ValueError(
            f"flow must be 'auto', one of {sorted(RECIPES)}, a recipe or a bijection; got {flow!r}."
        )
    if recipe.layout != layout:
        fitting = [name for name, kind in RECIPES.items() if kind().layout == layout]
        raise ValueError(
            f"flow={flow!r} is for rows of layout {recipe.layout!r}, and these have {layout!r}: "
            f"use {' or '.join(map(repr, fitting))} or a bijection. To treat each pixel of an "
            "image as a column, give X.reshape(len(X), -1)."
        )
    recipe.check()
    return recipe
