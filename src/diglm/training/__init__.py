"""Training: settings, the compiled epoch, the loop around it, the bar that shows it."""

from diglm.training.exact import fit_evidence
from diglm.training.loop import FitResult, NonFiniteTrainingWarning, fit
from diglm.training.progress import ProgressBar
from diglm.training.settings import Settings

__all__ = [
    "FitResult",
    "NonFiniteTrainingWarning",
    "ProgressBar",
    "Settings",
    "fit",
    "fit_evidence",
]
