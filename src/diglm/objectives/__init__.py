"""Objectives: (model, batch, key) -> loss and its terms."""

from diglm.objectives.joint import JointObjective, Terms
from diglm.objectives.two_passes import two_passes
from diglm.objectives.vat import virtual_adversarial_divergence

__all__ = ["JointObjective", "Terms", "two_passes", "virtual_adversarial_divergence"]
