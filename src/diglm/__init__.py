"""diglm: a predictor that knows when not to predict."""

from diglm import bijections, heads, objectives, recipes, refusal, training
from diglm.__about__ import __version__
from diglm.estimators import HybridClassifier, HybridDensity, HybridRegressor, load, sweep
from diglm.flows import Flow
from diglm.hybrid import Hybrid
from diglm.predictor import Predictor

__all__ = [
    "Flow",
    "Hybrid",
    "HybridClassifier",
    "HybridDensity",
    "HybridRegressor",
    "Predictor",
    "__version__",
    "bijections",
    "heads",
    "load",
    "objectives",
    "recipes",
    "refusal",
    "sweep",
    "training",
]
