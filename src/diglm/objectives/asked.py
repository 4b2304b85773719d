"""Terms as people ask for them, before it is known how many rows have a label."""

from dataclasses import dataclass

from diglm.objectives.entropy import Entropy
from diglm.objectives.registry import terms_of
from diglm.objectives.term import AbstractTerm
from diglm.objectives.vat import VirtualAdversarial

USUAL_VAT = 3.0


@dataclass(frozen=True)
class AskedTerms:
    """What is minimised besides the joint; "auto" is settled by the rows.

    Attributes:
        entropy: weight of the entropy of answers to rows without a label.
        vat: weight of virtual adversarial training, or "auto".
        radius: length of its step, or "auto".
        others: further terms.
    """

    entropy: float = 0.0
    vat: float | str = 0.0
    radius: float | str = "auto"
    others: tuple[AbstractTerm, ...] = ()

    def settled(self, *, smooth: bool) -> tuple[AbstractTerm, ...]:
        """The terms; `smooth` says what "auto" is to mean for VAT."""
        weight = self.vat
        if isinstance(weight, str):
            weight = USUAL_VAT if smooth else 0.0
        radius = None if isinstance(self.radius, str) else float(self.radius)
        named = [Entropy(float(self.entropy)), VirtualAdversarial(float(weight), radius)]
        return terms_of(named) + self.others
