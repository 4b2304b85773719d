"""What people ask for: heads by name or as objects whose parameters are theirs alone."""

import re
from abc import ABC
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from diglm.heads.base import AbstractHead
from diglm.heads.families.categorical import CategoricalHead
from diglm.heads.families.gaussian import StudentTFamily
from diglm.heads.family import AbstractFamily, standard_unit
from diglm.heads.glm import GLMHead
from diglm.parameters import Constraints, Like, Parameters, Real


class AbstractHeadChoice(Parameters, ABC):
    """A head not yet built, and what it expects of the target.

    A choice that says how to build a head `for_numbers` serves regressors, `for_classes`
    classifiers; one may do both.

    Attributes:
        several: whether a row may have several numbers to predict.
        mixture_base: whether each class may have a normal of its own as the base of its features.
    """

    several: ClassVar[bool] = False
    mixture_base: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """What people call it."""
        return _as_name(type(self).__name__)

    def candidates(
        self, y: Float[np.ndarray, " rows *several"]
    ) -> "tuple[AbstractHeadChoice, ...]":
        """What held-out rows may choose among, given all targets; the usual one first."""
        return (self,)

    @property
    def exact_steps(self) -> bool:
        """Whether training steps along the exact evidence of all rows."""
        return False

    @property
    def slopes(self) -> Any:
        """Columns whose slopes vary between groups; None for none."""
        return None

    def check_support(self, y: Float[np.ndarray, " rows"]) -> None:
        """Raise for targets that the head cannot have."""

    def unit(self, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        """Location and scale of the head's unit of y."""
        return standard_unit(y)

    def for_numbers(
        self, dim: int, *, n_targets: int, scale: float | np.ndarray, n_groups: int
    ) -> AbstractHead:
        """The head of `n_targets` numbers whose unit is `scale`; `n_groups` is 0 without groups."""
        raise ValueError(f"{self!r} tells classes apart; for numbers choose another head.")

    def for_classes(self, dim: int, *, n_classes: int, n_groups: int) -> AbstractHead:
        """The head of classes, for `dim` features."""
        raise ValueError(f"{self!r} predicts numbers; for classes choose another head.")

    def require_no_groups(self, n_groups: int) -> None:
        """Raise if rows have groups that this head could make nothing of."""
        if n_groups:
            raise ValueError(f"groups belong to head='mixed'; this model has head={self!r}.")


@dataclass
class GLM(AbstractHeadChoice):
    """A generalised linear model of numbers.

    Args:
        family: kind of response, such as `diglm.heads.GammaFamily(link="reciprocal")`.
        l2: precision of a normal prior on its weights, beside the sum over rows.
    """

    family: AbstractFamily = field(default_factory=StudentTFamily)
    l2: float = 0.0

    constraints: ClassVar[Constraints] = {
        "family": [Like((AbstractFamily,), "a family of diglm.heads")],
        "l2": [Real(0.0)],
    }

    @property
    def name(self) -> str:
        return _as_name(type(self.family).__name__.removesuffix("Family"))

    def check_support(self, y: Float[np.ndarray, " rows"]) -> None:
        self.family.check_support(y)

    def unit(self, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        return self.family.unit(y)

    def for_numbers(
        self, dim: int, *, n_targets: int, scale: float | np.ndarray, n_groups: int
    ) -> GLMHead:
        self.require_no_groups(n_groups)
        return GLMHead(self.family, dim, l2=self.l2)


@dataclass
class Softmax(AbstractHeadChoice):
    """Softmax regression of classes.

    Args:
        l2: precision of a normal prior on its weights, beside the sum over rows.
    """

    l2: float = 0.0

    mixture_base: ClassVar[bool] = True
    constraints: ClassVar[Constraints] = {"l2": [Real(0.0)]}

    @property
    def name(self) -> str:
        return "categorical"

    def for_classes(self, dim: int, *, n_classes: int, n_groups: int) -> GLMHead:
        self.require_no_groups(n_groups)
        return CategoricalHead(dim, n_classes, l2=self.l2)


def _as_name(kind: str) -> str:
    """The name of a class as `HEADS` writes it: NegativeBinomial is negative_binomial."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()
