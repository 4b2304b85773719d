"""Objectives: (model, batch, key) -> loss and its terms."""

from diglm.objectives.asked import AskedTerms
from diglm.objectives.consistency import Consistency
from diglm.objectives.distortion import Distortion
from diglm.objectives.entropy import Entropy
from diglm.objectives.joint import JointObjective, Terms
from diglm.objectives.pseudo_labels import PseudoLabels
from diglm.objectives.registry import TERMS, terms_of
from diglm.objectives.term import (
    AbstractTerm,
    Pass,
    all_weights,
    divergences,
    rising,
    unlabelled_weights,
    weighted_mean,
)
from diglm.objectives.two_passes import two_passes
from diglm.objectives.vat import VirtualAdversarial, virtual_adversarial_divergence
from diglm.objectives.wasserstein import Wasserstein

__all__ = [
    "TERMS",
    "AbstractTerm",
    "AskedTerms",
    "Consistency",
    "Distortion",
    "Entropy",
    "JointObjective",
    "Pass",
    "PseudoLabels",
    "Terms",
    "VirtualAdversarial",
    "Wasserstein",
    "all_weights",
    "divergences",
    "rising",
    "terms_of",
    "two_passes",
    "unlabelled_weights",
    "virtual_adversarial_divergence",
    "weighted_mean",
]
