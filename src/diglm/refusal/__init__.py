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
from diglm.refusal.scores import SCORES, AbstractScore, Density, Known, score_of
from diglm.refusal.threshold import Ranks, Threshold

__all__ = [
    "RULES",
    "SCORES",
    "AbstractRule",
    "AbstractScore",
    "Calibration",
    "Conformal",
    "Contamination",
    "Density",
    "Known",
    "Minimum",
    "Never",
    "Ranks",
    "Refusal",
    "SmallTableWarning",
    "Threshold",
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
    "reliability",
    "risk_coverage",
    "roc",
    "rule_of",
    "score_of",
]
