"""Parameters that people set: a table of what each may be, checked in one way everywhere.

Estimators, and the objects that are given to them (`flow=Glow(reader=48)`, `head=Mixed(...)`,
`reject=Minimum(slack=1)`), list their constraints by name. What is wrong is said when a model is
fitted, not when it is made, so that scikit-learn can clone and search.
"""

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol, runtime_checkable


@runtime_checkable
class Constraint(Protocol):
    """What a parameter may be."""

    def allows(self, value: object) -> bool:
        """Whether the value may be used."""
        ...

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Real:
    """A finite number within bounds, which belong to it unless they are `open`."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def allows(self, value: object) -> bool:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            return False
        number = float(value)
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        return math.isfinite(number) and above and below

    def __str__(self) -> str:
        bounds = []
        if self.low > -math.inf:
            bounds.append(f"{'>' if self.open_low else '>='} {self.low:g}")
        if self.high < math.inf:
            bounds.append(f"{'<' if self.open_high else '<='} {self.high:g}")
        return f"a finite number {' and '.join(bounds)}".strip()


@dataclass(frozen=True)
class Whole:
    """A whole number of at least `low`."""

    low: int = 1

    def allows(self, value: object) -> bool:
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        return whole and int(value) >= self.low  # type: ignore[call-overload]

    def __str__(self) -> str:
        return f"a whole number of at least {self.low}"


@dataclass(frozen=True)
class OneOf:
    """One of some names, or None."""

    options: tuple[str | int | None, ...]

    def __init__(self, *options: str | int | None):
        object.__setattr__(self, "options", options)

    def allows(self, value: object) -> bool:
        return any(value is option or (type(value) is str and value == option)
                   for option in self.options)  # fmt: skip

    def __str__(self) -> str:
        return " or ".join(map(repr, self.options))


@dataclass(frozen=True)
class Like:
    """An object of a kind; `says` is what to call it."""

    kinds: tuple[type, ...]
    says: str

    def allows(self, value: object) -> bool:
        return isinstance(value, self.kinds)

    def __str__(self) -> str:
        return self.says


@dataclass(frozen=True)
class ListOf:
    """Several values, each as one constraint has it."""

    item: Constraint

    def allows(self, value: object) -> bool:
        if not isinstance(value, Sequence) or isinstance(value, str):
            return False
        return len(value) > 0 and all(map(self.item.allows, value))

    def __str__(self) -> str:
        return f"a list, each {self.item}"


class Anything:
    """Checked elsewhere, by those who know more."""

    def allows(self, value: object) -> bool:
        """Whatever it is."""
        return True

    def __str__(self) -> str:
        return "anything"


Constraints = Mapping[str, Sequence[Constraint]]
AUTO = OneOf("auto")


def check_parameters(values: Mapping[str, object], table: Constraints) -> None:
    """Raise for the first value that none of its constraints allows; without any it may be all."""
    for name, value in values.items():
        allowed = table.get(name, [Anything()])
        if not any(constraint.allows(value) for constraint in allowed):
            raise ValueError(f"{name} must be {' or '.join(map(str, allowed))}; got {value!r}.")


def check_whole(name: str, value: object, low: int = 1) -> int:
    """The whole number, or an error that names it."""
    check_parameters({name: value}, {name: [Whole(low)]})
    return int(value)  # type: ignore[call-overload]


def check_real(name: str, value: object, constraint: Real) -> float:
    """The number, or an error that names it."""
    check_parameters({name: value}, {name: [constraint]})
    return float(value)  # type: ignore[arg-type]


class Parameters:
    """What a dataclass of parameters needs so that scikit-learn can clone it and search within.

    `constraints` says what each field may be.
    """

    constraints: ClassVar[Constraints] = {}

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore

    def set_params(self, **values: object) -> "Parameters":
        """Change fields; an unknown one is an error."""
        known = self.get_params()
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has {sorted(known)}; got {name!r}.")
            setattr(self, name, value)
        return self

    def check(self) -> None:
        """Raise for a field that is out of bounds, naming it."""
        check_parameters(self.get_params(), self.constraints)
