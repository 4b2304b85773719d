"""What is asked of a fit: parameters, checked and resolved, whoever asks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from diglm.bijections import AbstractBijection
from diglm.objectives import AbstractTerm, AskedTerms, JointObjective
from diglm.recipes.base import AbstractRecipe, AskedSizes
from diglm.refusal import AbstractRule, AbstractScore
from diglm.refusal.refusal import n_for_rule
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
        generative_weight: w of lambda = w / D, or "auto".
        volume_weight: lambda of the log-determinant alone, instead; or None.
        asked_terms: what else is minimised, as far as it can be said without rows.
        validation_fraction: share of rows held out, or "auto".
        score: what refusals are judged by.
        rule: how strange is too strange.
        max_time: seconds that the fit may take, or None.
        seed: of everything random.
        verbose: True, False, or "auto" for a bar where a person watches.
        parameters: as they were given, by name; what a checkpoint is known by.
        compares: whether answers to the rows held out will be compared, which then teach nobody.
        terms: what else is minimised; see `settled`.
    """

    owner: str
    flow: str | AbstractRecipe | AbstractBijection
    sizes: AskedSizes
    learn_target: Learner
    generative_weight: float | str
    volume_weight: float | None
    asked_terms: AskedTerms
    validation_fraction: float | str
    score: AbstractScore
    rule: AbstractRule
    max_time: float | None
    seed: int
    verbose: bool | str
    parameters: Mapping[str, object]
    compares: bool = False

    def rules_read_head(self, layout: str) -> bool:
        """Whether the threshold is set on what the head makes of rows."""
        return self.rule.reads_answers or self.score.reads_head(layout)

    def shared_out(self, held_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the rows held out, those that judge training, and those that set the threshold.

        Every second of them each where half is enough for what the rule promises; else all.
        """
        if n_for_rule(self.score, self.rule, len(held_out)) == len(held_out):
            return held_out, held_out
        return held_out[0::2], held_out[1::2]

    terms: tuple[AbstractTerm, ...] = ()

    def settled(self, *, smooth: bool, own_density: bool) -> "Request":
        """The same with what the rows make of "auto".

        Answers are made smooth, by virtual adversarial training, where most rows have no label; of
        a committee the rival is what this gives without. The flow that the head reads then leaves
        p(x) to a density of its own, if there is one: normal features have no gap between the
        classes through which an answer could change.
        """
        weight = self.generative_weight
        if isinstance(weight, str):
            weight = 0.0 if smooth and own_density else 1.0
        terms = self.asked_terms.settled(smooth=smooth)
        return replace(self, generative_weight=float(weight), terms=terms)

    def weighing(self, generative_weight: float) -> "Request":
        """The same with another weight of log p(x)."""
        return replace(self, generative_weight=float(generative_weight))

    @property
    def weight(self) -> float | None:
        """The weight of log p(x), w of lambda = w / D; None where only the volume is weighed."""
        return None if self.volume_weight is not None else float(self.generative_weight)

    def objective(self, target: AbstractTarget, dim: int, n_rows: float) -> JointObjective:
        """What is minimised over so many rows with a label, of `dim` numbers each."""
        weight = self.volume_weight
        if target.density_only:
            weight = 1.0
        elif weight is None:
            weight = float(self.generative_weight) / dim
        return JointObjective(
            float(weight), n_rows=n_rows, terms=self.terms, density_only=target.density_only
        )

    def held_out_share(self, weights: np.ndarray) -> float:
        """The share of rows to hold out; "auto" is 200 rows, within a tenth and a fifth of all."""
        if isinstance(self.validation_fraction, str):
            return float(np.clip(200 / max(1, np.sum(weights > 0)), 0.1, 0.2))
        return float(self.validation_fraction)
