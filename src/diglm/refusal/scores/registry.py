"""Scores by name."""

from collections.abc import Callable

from diglm.refusal.scores.answers import (
    Energy,
    Margin,
    PredictiveEntropy,
    PredictiveVariance,
    Undecided,
    Unseen,
)
from diglm.refusal.scores.auto import AutoScore, for_tables
from diglm.refusal.scores.background import LikelihoodRatio
from diglm.refusal.scores.base import AbstractScore
from diglm.refusal.scores.classes import ClassDensity, ClassDistance
from diglm.refusal.scores.density import Density, HighDensity, Typicality
from diglm.refusal.scores.goodness import DensityOfStates, GoodnessOfFit
from diglm.refusal.scores.neighbours import Neighbours
from diglm.refusal.scores.samples import NearestOfSamples
from diglm.refusal.scores.simplicity import Complexity, Simplicity
from diglm.registry import Registry

SCORES: Registry[Callable[[], AbstractScore]] = Registry(
    "score",
    {
        "auto": AutoScore,
        "density": Density,
        "neighbours_and_density": for_tables,
        "high_density": HighDensity,
        "typicality": Typicality,
        "neighbours": Neighbours,
        "nearest_of_samples": NearestOfSamples,
        "goodness_of_fit": GoodnessOfFit,
        "density_of_states": DensityOfStates,
        "class_distance": ClassDistance,
        "class_density": ClassDensity,
        "likelihood_ratio": LikelihoodRatio,
        "simplicity": Simplicity,
        "complexity": Complexity,
        "entropy": PredictiveEntropy,
        "undecided": Undecided,
        "margin": Margin,
        "energy": Energy,
        "variance": PredictiveVariance,
        "unseen": Unseen,
    },
)


def score_of(asked: str | AbstractScore) -> AbstractScore:
    """The score that a name stands for, or the object itself, its parameters checked."""
    score = asked if isinstance(asked, AbstractScore) else SCORES[asked]()
    score.check()
    return score
