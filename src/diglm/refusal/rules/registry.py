"""Rules by name."""

import numbers
from collections.abc import Callable

from diglm.refusal.rules.base import AbstractRule
from diglm.refusal.rules.risk import Cost, RiskControl
from diglm.refusal.rules.usual import RATE, Conformal, Contamination, Minimum, Never
from diglm.registry import Registry

RULES: Registry[Callable[[], AbstractRule]] = Registry(
    "rule",
    {
        "conformal": Conformal,
        "minimum": Minimum,
        "contamination": Contamination,
        "never": Never,
        "risk": RiskControl,
        "cost": Cost,
    },
)


def rule_of(reject: object) -> AbstractRule:
    """The rule that `reject` stands for: a rate, a name, an object, or None for never."""
    if reject is None:
        return Never()
    if isinstance(reject, AbstractRule):
        rule = reject
    elif isinstance(reject, numbers.Real) and not isinstance(reject, bool):
        if not RATE.allows(reject):
            raise ValueError(
                "reject must be a rate between 0 and 1 (share of familiar rows that may be "
                f"refused), a rule or None (never refuse); got {reject!r}."
            )
        rule = Conformal(float(reject))
    elif isinstance(reject, str):
        rule = RULES[reject]()
    else:
        raise ValueError(
            "reject must be a rate between 0 and 1, the name of a rule "
            f"({', '.join(map(repr, RULES))}), a rule object, or None; got {reject!r}."
        )
    rule.check()
    return rule
