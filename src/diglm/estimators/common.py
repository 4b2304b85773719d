"""What the estimators take, and what each parameter may be."""

from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from diglm.bijections import AbstractBijection
from diglm.data.encoder import Encoded, Rows
from diglm.data.kinds import encoder_of
from diglm.fitting.sources import unit_of
from diglm.heads import AbstractHeadChoice
from diglm.objectives import AbstractTerm
from diglm.parameters import AUTO, Anything, Constraints, Like, ListOf, OneOf, Real, Whole
from diglm.recipes import AbstractRecipe
from diglm.refusal import AbstractRule, AbstractScore
from diglm.targets import as_column

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Flow = str | AbstractRecipe | AbstractBijection
Size = int | str
Sizes = int | Sequence[int] | str
Head = str | AbstractHeadChoice
Score = str | AbstractScore
Reject = float | str | AbstractRule | None
Terms = Mapping[str, float] | Sequence[AbstractTerm]
Seed = int | np.random.RandomState | None
Verbose = bool | str


class method_and_parameter:
    """A method that shares its name with a parameter of the constructor.

    scikit-learn calls `score(X, y)`, and `score=` says what refusals are judged by. Setting the
    attribute stores the parameter, getting it gives the method; `get_params` reads what is stored.
    """

    def __init__(self, method: Callable):
        self.method, self.__doc__ = method, method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> Callable:
        return self.method if instance is None else MethodType(self.method, instance)

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)[self.name] = value


NETWORK: Constraints = {
    "flow": [Like((str, AbstractRecipe, AbstractBijection), "a name, a recipe or a bijection")],
    "n_blocks": [AUTO, Whole(), ListOf(Whole())],
    "width": [AUTO, Whole(), ListOf(Whole())],
    "depth": [AUTO, Whole()],
    "n_epochs": [AUTO, Whole()],
    "max_time": [OneOf(None), Real(0.0, open_low=True)],
    "batch_size": [AUTO, Whole()],
    "learning_rate": [AUTO, Real(0.0, open_low=True)],
    "validation_fraction": [AUTO, Real(0.0, 0.9)],
    "patience": [AUTO, Whole()],
    "score": [Like((str, AbstractScore), "the name of a score, or a score")],
    "reject": [Anything()],  # says more by itself
    "extra": [OneOf("error", "ignore")],
    "absent": [OneOf("error", "draw")],
    "random_state": [Anything()],
    "verbose": [AUTO, OneOf(True, False)],
}
PREDICTING: Constraints = {
    **NETWORK,
    "dropout": [AUTO, Real(0.0, 1.0, open_high=True)],
    "head": [Like((str, AbstractHeadChoice), "the name of a head, or a head of diglm.heads")],
    "generative_weight": [AUTO, Real(0.0)],
    "volume_weight": [OneOf(None), Real(0.0, open_low=True)],
    "unlabelled": [Anything()],
    "entropy_weight": [Real(0.0)],
    "vat_weight": [AUTO, Real(0.0)],
    "vat_radius": [AUTO, Real(0.0)],
    "terms": [
        Like((Mapping, list, tuple), "a dictionary of names and weights, or a list of terms")
    ],
}


def checked_rows(X: Rows) -> Rows:
    """Rows of a kind that is known, or a clear error."""
    return encoder_of(X).check(X)


def checked_column(y: "ArrayLike", X: Rows | Encoded, what: str = "y") -> np.ndarray:
    """One value a row."""
    column = column_or_1d(as_column(y), warn=True)
    require_length(column, X, what)
    return column


def require_length(column: np.ndarray, X: Rows | Encoded, what: str) -> None:
    """Raise unless there is one value a row."""
    if len(column) != len(X):  # type: ignore[arg-type]
        raise ValueError(
            f"X has {len(X)} rows, but {what} has {len(column)}; give one a row."  # type: ignore
        )


def checked_weights(sample_weight: "ArrayLike | None", X: Rows) -> tuple[np.ndarray, float]:
    """Weights with mean one over the rows that have any, and what was divided by."""
    weights = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
    unit = unit_of(weights)
    return weights / unit, unit


def seed_of(random_state: Seed) -> int:
    """A seed drawn from scikit-learn's kinds of random state."""
    return int(check_random_state(random_state).randint(2**31 - 1))
