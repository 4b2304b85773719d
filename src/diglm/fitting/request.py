"""What is asked of a fit: parameters, checked and resolved, whoever asks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from diglm.bijections import AbstractBijection
from diglm.objectives import AbstractTerm
from diglm.recipes.base import AbstractRecipe, AskedSizes
from diglm.refusal import AbstractRule, AbstractScore
from diglm.targets import AbstractTarget

Learner = Callable[..., AbstractTarget]


@dataclass(frozen=True)
class Request:
    """All that a fit depends on besides rows.

    Attributes:
        owner: who asks, for error messages and files.
        flow: name of a recipe, a recipe, or a bijection.
        sizes: of the network and of training; "auto" is resolved by the recipe.
        learn_target: `learn_target(y, weights, nulls=)` finds the meaning of the targets; with
            `nulls` a missing one is a missing label.
        generative_weight: w of lambda = w / D.
        volume_weight: lambda of the log-determinant alone, instead; or None.
        terms: what else is minimised.
        validation_fraction: share of rows held out, or "auto".
        score: what refusals are judged by.
        rule: how strange is too strange.
        max_time: seconds that the fit may take, or None.
        seed: of everything random.
        verbose: True, False, or "auto" for a bar where a person watches.
        parameters: as they were given, by name; what a checkpoint is known by.
    """

    owner: str
    flow: str | AbstractRecipe | AbstractBijection
    sizes: AskedSizes
    learn_target: Learner
    generative_weight: float
    volume_weight: float | None
    terms: tuple[AbstractTerm, ...]
    validation_fraction: float | str
    score: AbstractScore
    rule: AbstractRule
    max_time: float | None
    seed: int
    verbose: bool | str
    parameters: Mapping[str, object]

    def weighing(self, generative_weight: float) -> "Request":
        """The same with another weight of log p(x)."""
        return replace(self, generative_weight=float(generative_weight))

    def held_out_share(self, weights: np.ndarray) -> float:
        """The share of rows to hold out; "auto" is 200 rows, within a tenth and a fifth of all."""
        if isinstance(self.validation_fraction, str):
            return float(np.clip(200 / max(1, np.sum(weights > 0)), 0.1, 0.2))
        return float(self.validation_fraction)
