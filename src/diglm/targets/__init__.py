"""What is predicted: classes, numbers or nothing; all that depends on which of them it is."""

from diglm.targets.base import AbstractTarget, Labels, as_column
from diglm.targets.classes import ClassTarget
from diglm.targets.distribution import PredictiveDistribution
from diglm.targets.nothing import NoTarget
from diglm.targets.numbers import NumberTarget

__all__ = [
    "AbstractTarget",
    "ClassTarget",
    "Labels",
    "NoTarget",
    "NumberTarget",
    "PredictiveDistribution",
    "as_column",
]
