"""Terms by name."""

from collections.abc import Callable, Mapping, Sequence

from diglm.objectives.consistency import Consistency
from diglm.objectives.entropy import Entropy
from diglm.objectives.pseudo_labels import PseudoLabels
from diglm.objectives.term import AbstractTerm
from diglm.objectives.vat import VirtualAdversarial
from diglm.objectives.wasserstein import Wasserstein
from diglm.parameters import Real
from diglm.registry import Registry

WEIGHT = Real(0.0)

TERMS: Registry[Callable[..., AbstractTerm]] = Registry(
    "term",
    {
        "consistency": Consistency,
        "entropy": Entropy,
        "pseudo": PseudoLabels,
        "vat": VirtualAdversarial,
        "wasserstein": Wasserstein,
    },
)


def terms_of(asked: Mapping[str, float] | Sequence[AbstractTerm]) -> tuple[AbstractTerm, ...]:
    """Terms given as objects, or as names with weights; those of weight zero are left out."""
    if isinstance(asked, Mapping):
        asked = [TERMS[name](weight=float(weight)) for name, weight in asked.items()]
    for term in asked:
        if not isinstance(term, AbstractTerm):
            raise TypeError(
                "terms must be a dictionary of names and weights, or a list of terms of "
                f"diglm.objectives; got {term!r} among them."
            )
        if not WEIGHT.allows(term.weight):
            raise ValueError(f"The weight of a term must be {WEIGHT}; got {term!r}.")
    return tuple(term for term in asked if term.weight > 0)
