"""When not to predict: a score says how strange a row is, a rule how strange is too strange."""

from diglm.refusal.curves import (
    aupr,
    aurc,
    auroc,
    excess_aurc,
    fpr_at,
    precision_recall,
    risk_coverage,
    roc,
)
from diglm.refusal.honesty import brier, calibration_error, crps, reliability
from diglm.refusal.known import Known
from diglm.refusal.refusal import LeftOut, Refusal, fit_refusal, recalibrated
from diglm.refusal.rules.base import AbstractRule, Calibration, SmallTableWarning
from diglm.refusal.rules.registry import RULES, rule_of
from diglm.refusal.rules.risk import Cost, RiskControl
from diglm.refusal.rules.usual import Conformal, Contamination, Minimum, Never
from diglm.refusal.scores.base import AbstractScore
from diglm.refusal.scores.combined import Combined, Evidence
from diglm.refusal.scores.density import Density, Typicality, typical_batch
from diglm.refusal.scores.neighbours import Neighbours
from diglm.refusal.scores.registry import SCORES, score_of
from diglm.refusal.scores.samples import NearestOfSamples
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
    "Cost",
    "Density",
    "Evidence",
    "Known",
    "LeftOut",
    "Minimum",
    "NearestOfSamples",
    "Neighbours",
    "Never",
    "Ranks",
    "Refusal",
    "RiskControl",
    "SmallTableWarning",
    "Threshold",
    "Typicality",
    "aupr",
    "aurc",
    "auroc",
    "brier",
    "calibration_error",
    "crps",
    "excess_aurc",
    "fit_refusal",
    "fpr_at",
    "precision_recall",
    "recalibrated",
    "reliability",
    "risk_coverage",
    "roc",
    "rule_of",
    "score_of",
    "typical_batch",
]
