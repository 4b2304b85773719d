"""When not to predict: a score says how strange a row is, a rule how strange is too strange."""

from diglm.refusal.curves import auroc, risk_coverage
from diglm.refusal.known import Known
from diglm.refusal.refusal import Refusal, fit_refusal
from diglm.refusal.rules import (
    RULES,
    AbstractRule,
    Calibration,
    Conformal,
    Contamination,
    Minimum,
    Never,
    SmallTableWarning,
    rule_of,
)
from diglm.refusal.scores.base import AbstractScore
from diglm.refusal.scores.combined import Combined, Evidence
from diglm.refusal.scores.density import Density, Typicality, typical_batch
from diglm.refusal.scores.neighbours import Neighbours
from diglm.refusal.scores.registry import SCORES, score_of
from diglm.refusal.threshold import Ranks, Threshold

__all__ = [
    "RULES",
    "SCORES",
    "AbstractRule",
    "AbstractScore",
    "Calibration",
    "Combined",
    "Conformal",
    "Contamination",
    "Density",
    "Evidence",
    "Known",
    "Minimum",
    "Neighbours",
    "Never",
    "Ranks",
    "Refusal",
    "SmallTableWarning",
    "Threshold",
    "Typicality",
    "auroc",
    "fit_refusal",
    "risk_coverage",
    "rule_of",
    "score_of",
    "typical_batch",
]
