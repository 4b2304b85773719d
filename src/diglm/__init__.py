"""diglm: a predictor that knows when not to predict."""

from diglm import bijections, heads, objectives, training
from diglm.__about__ import __version__
from diglm.estimators import HybridClassifier, HybridRegressor, load
from diglm.estimators.sweeping import sweep
from diglm.flows import Flow
from diglm.hybrid import Hybrid

__all__ = [
    "Flow",
    "Hybrid",
    "HybridClassifier",
    "HybridRegressor",
    "__version__",
    "bijections",
    "heads",
    "load",
    "objectives",
    "sweep",
    "training",
]
