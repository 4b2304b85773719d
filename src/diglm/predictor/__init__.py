"""The fitted thing, and all that can be asked of it."""

from diglm.predictor.counterfactual import Counterfactual, MissedTargetWarning, counterfactual
from diglm.predictor.drift import Drift
from diglm.predictor.errors import log_px_error
from diglm.predictor.explain import Explanation, explain
from diglm.predictor.look import Groups, Viewer
from diglm.predictor.memory import Memory
from diglm.predictor.monitor import Monitor
from diglm.predictor.online import WeightPosterior
from diglm.predictor.predictor import Predictor
from diglm.predictor.priors import LabelShift, class_frequencies
from diglm.predictor.stored import load_predictor, read_stored, save_predictor

__all__ = [
    "Counterfactual",
    "Drift",
    "Explanation",
    "Groups",
    "LabelShift",
    "Memory",
    "MissedTargetWarning",
    "Monitor",
    "Predictor",
    "Viewer",
    "WeightPosterior",
    "class_frequencies",
    "counterfactual",
    "explain",
    "load_predictor",
    "log_px_error",
    "read_stored",
    "save_predictor",
]
