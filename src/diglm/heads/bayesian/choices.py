"""Heads with random weights as people ask for them."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from diglm.heads.base import AbstractHead
from diglm.heads.bayesian.conjugate import ConjugateHead
from diglm.heads.bayesian.mixed import MixedHead
from diglm.heads.bayesian.variational import VariationalHead
from diglm.heads.choices import AbstractHeadChoice
from diglm.heads.families.counts import check_counts
from diglm.parameters import AUTO, Anything, Constraints, OneOf, Real

LARGEST_FULL_COVARIANCE = 256  # features; above, the posterior of the weights is diagonal
POSITIVE = Real(0.0, open_low=True)
FOR_NUMBERS, FOR_CLASSES = ("auto", "minibatch", "exact"), ("auto", "elbo", "elbo-diagonal")
FOR_CLASSES += ("laplace", "jaakkola")


@dataclass
class Bayesian(AbstractHeadChoice):
    """Weights with a posterior: exact for numbers, the best Gaussian for classes.

    Args:
        prior_precision: of the normal prior on the weights, in units of the features and of the
            standardised target; "auto" learns it.
        noise: standard deviation of y about its mean, in units of y; "auto" learns it.
        inference: for numbers "minibatch" or "exact", which takes every step of training along
            the evidence of all rows. For classes "elbo" (the evidence lower bound),
            "elbo-diagonal" (with independent weights), "laplace" or "jaakkola" (two classes).
    """

    prior_precision: float | str = "auto"
    noise: float | str = "auto"
    inference: str = "auto"

    several: ClassVar[bool] = True
    constraints: ClassVar[Constraints] = {
        "prior_precision": [AUTO, POSITIVE],
        "noise": [AUTO, POSITIVE],
        "inference": [OneOf(*dict.fromkeys(FOR_NUMBERS + FOR_CLASSES))],
    }

    @property
    def exact_steps(self) -> bool:
        return self.inference == "exact"

    def for_numbers(
        self, dim: int, *, n_targets: int, scale: float | np.ndarray, n_groups: int
    ) -> ConjugateHead:
        self.require_no_groups(n_groups)
        _require(self.inference, FOR_NUMBERS, "numbers")
        return _conjugate(self, dim, n_targets, scale)

    def for_classes(self, dim: int, *, n_classes: int, n_groups: int) -> VariationalHead:
        self.require_no_groups(n_groups)
        return _of_classes(self.inference, self.prior_precision, dim, n_classes)


@dataclass
class BayesianPoisson(AbstractHeadChoice):
    """Counts whose weights have a posterior.

    Args:
        prior_precision: of the normal prior on the weights; "auto" learns it.
        inference: "elbo", "elbo-diagonal" or "laplace".
    """

    prior_precision: float | str = "auto"
    inference: str = "auto"

    constraints: ClassVar[Constraints] = {
        "prior_precision": [AUTO, POSITIVE],
        "inference": [OneOf("auto", "elbo", "elbo-diagonal", "laplace")],
    }

    def check_support(self, y: Float[np.ndarray, " rows"]) -> None:
        check_counts(y)

    def unit(self, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        return 0.0, 1.0

    def for_numbers(
        self, dim: int, *, n_targets: int, scale: float | np.ndarray, n_groups: int
    ) -> VariationalHead:
        self.require_no_groups(n_groups)
        return _variational("poisson", self.inference, self.prior_precision, dim)


@dataclass
class Mixed(AbstractHeadChoice):
    """Numbers, or two classes, with random effects of groups.

    With `fit(X, y, groups=...)` each group has a level of its own, and slopes where asked. Numbers
    without groups have effects of every single row, which let the noise vary with the input.

    Args:
        slopes: None, "all", or a list of columns whose slopes vary between groups.
        prior_precision: of the normal prior on the weights; "auto" learns it.
        noise: standard deviation of y about its mean, in units of y; "auto" learns it.
        inference: of numbers, "minibatch" or "exact".
    """

    slopes: Any = None
    prior_precision: float | str = "auto"
    noise: float | str = "auto"
    inference: str = "auto"

    constraints: ClassVar[Constraints] = {
        "slopes": [Anything()],  # what they may be depends on the columns: the encoder checks
        "prior_precision": [AUTO, POSITIVE],
        "noise": [AUTO, POSITIVE],
        "inference": [OneOf(*FOR_NUMBERS)],
    }

    @property
    def exact_steps(self) -> bool:
        return self.inference == "exact"

    def for_numbers(
        self, dim: int, *, n_targets: int, scale: float | np.ndarray, n_groups: int
    ) -> AbstractHead:
        if n_groups == 0:
            _require_groups(self.slopes is None, self)
            return _conjugate(self, dim, n_targets, scale, effects=True)
        noise = _number(self.noise)
        variance = None if noise is None else (noise / float(scale)) ** 2
        inner = _conjugate(self, dim, n_targets, scale)
        return MixedHead(inner, "gaussian", n_groups=n_groups, noise=variance)

    def for_classes(self, dim: int, *, n_classes: int, n_groups: int) -> MixedHead:
        if n_classes != 2:
            raise ValueError(f"head='mixed' is for two classes; y has {n_classes}.")
        _require_groups(n_groups > 0, self)
        inner = _of_classes("auto", self.prior_precision, dim, n_classes)
        return MixedHead(inner, "binary", n_groups=n_groups)


@dataclass
class MixedPoisson(AbstractHeadChoice):
    """Counts with random effects of groups.

    Args:
        slopes: None, "all", or a list of columns whose slopes vary between groups.
        prior_precision: of the normal prior on the weights; "auto" learns it.
    """

    slopes: Any = None
    prior_precision: float | str = "auto"

    constraints: ClassVar[Constraints] = {
        "slopes": [Anything()],
        "prior_precision": [AUTO, POSITIVE],
    }

    def check_support(self, y: Float[np.ndarray, " rows"]) -> None:
        check_counts(y)

    def unit(self, y: Float[np.ndarray, " rows"]) -> tuple[float, float]:
        return 0.0, 1.0

    def for_numbers(
        self, dim: int, *, n_targets: int, scale: float | np.ndarray, n_groups: int
    ) -> MixedHead:
        _require_groups(n_groups > 0, self)
        inner = _variational("poisson", "auto", self.prior_precision, dim)
        return MixedHead(inner, "poisson", n_groups=n_groups)


def _conjugate(
    asked: Bayesian | Mixed, dim: int, n_targets: int, scale: float | np.ndarray, effects=False
) -> ConjugateHead:
    noise = _number(asked.noise)
    return ConjugateHead(
        dim,
        n_targets=n_targets,
        noise=None if noise is None else noise / scale,
        precision=_number(asked.prior_precision),
        effects=effects,
    )


def _of_classes(
    inference: str, precision: float | str, dim: int, n_classes: int
) -> VariationalHead:
    _require(inference, FOR_CLASSES, "classes")
    if inference == "jaakkola" and n_classes != 2:
        raise ValueError(f"inference='jaakkola' is for two classes; y has {n_classes}.")
    kind = "binary" if n_classes == 2 else "categorical"
    return _variational(kind, inference, precision, dim, n_classes)


def _variational(
    kind: str, inference: str, precision: float | str, dim: int, n_classes: int = 2
) -> VariationalHead:
    method, _, form = ("elbo" if inference == "auto" else inference).partition("-")
    full = dim <= LARGEST_FULL_COVARIANCE and not form
    return VariationalHead(
        kind,
        dim,
        n_classes=n_classes,
        covariance="full" if full else "diagonal",
        precision=_number(precision),
        method=method,
    )


def _number(value: float | str) -> float | None:
    """None for "auto"; strings other than that were refused."""
    return None if isinstance(value, str) else float(value)


def _require(inference: str, allowed: tuple[str, ...], what: str) -> None:
    if inference not in allowed:
        raise ValueError(f"inference for {what} must be one of {allowed}; got {inference!r}.")


def _require_groups(holds: bool, asked: AbstractHeadChoice) -> None:
    if not holds:
        raise ValueError(f"{asked!r} needs the group of each row: fit(X, y, groups=...).")
