"""Training: settings, the compiled epoch, the loop around it, the bar that shows it."""

from diglm.training.exact import fit_evidence
from diglm.training.loop import FitResult, NonFiniteTrainingWarning, bucket, fit, pad
from diglm.training.progress import ProgressBar
from diglm.training.settings import Settings

__all__ = [
    "FitResult",
    "NonFiniteTrainingWarning",
    "ProgressBar",
    "Settings",
    "bucket",
    "fit",
    "fit_evidence",
    "pad",
]
