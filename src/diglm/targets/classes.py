"""Classes to be told apart."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import log_softmax, softmax

from diglm.heads import AbstractHead, AbstractHeadChoice, AbstractResponse
from diglm.targets.base import AbstractTarget, Column, Labels, is_missing, one_a_row
from diglm.targets.class_weights import ClassWeight, factors_of
from diglm.targets.nearest import nearest_leading


@dataclass(frozen=True)
class ClassTarget(AbstractTarget):
    """Classes, in sorted order.

    Attributes:
        classes: what there is to tell apart.
        choice: the head that was asked for.
        unlabelled: the value that is no label, or None.
        nulls: whether None and NaN are no labels either, rather than an error.
        factors: what rows of each class count in training, or None.
        shares: p(y), the frequencies of the classes.
        present: their frequencies where the model is used; None where these are as in training.
    """

    classes: np.ndarray
    choice: AbstractHeadChoice | None = None
    unlabelled: object = None
    nulls: bool = False
    factors: Float[np.ndarray, " classes"] | None = None
    shares: Float[np.ndarray, " classes"] | None = None
    present: Float[np.ndarray, " classes"] | None = None

    metric: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True
    drops_features: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    retries: ClassVar[int] = 6

    @classmethod
    def learn(
        cls,
        y: Column,
        choice: AbstractHeadChoice,
        *,
        unlabelled: object = None,
        nulls: bool = False,
        class_weight: ClassWeight = None,
    ) -> "ClassTarget":
        """Find the classes among `y`; `class_weight` is None, "balanced" or a dictionary."""
        if y.dtype.kind == "f" and np.any(np.isinf(y)):
            raise ValueError("Input y contains infinity, which names no class.")
        target = cls(np.zeros(0), choice, unlabelled, nulls)
        known = _plain(y[target._labelled(y)])
        if known.dtype.kind == "f" and np.any(known != np.round(known)):
            raise ValueError(
                "Unknown label type: continuous. Numbers such as "
                f"{known[known != np.round(known)][0]} name no class; to predict numbers use "
                "HybridRegressor."
            )
        classes, codes = np.unique(known, return_inverse=True)
        if len(classes) == 0:
            raise ValueError(
                f"HybridClassifier has no label to learn from: all {len(y)} rows are marked as "
                "rows without one. Label rows of at least two classes, or use HybridDensity."
            )
        if len(classes) < 2:
            raise ValueError(
                "HybridClassifier needs at least two classes to tell apart; y has "
                f"{len(classes)} class{'es' if len(classes) != 1 else ''}"
                + (f" ({classes.tolist()[0]!r})." if len(classes) else ".")
            )
        factors = factors_of(class_weight, classes, np.bincount(codes, minlength=len(classes)))
        return cls(classes, choice, unlabelled, nulls, factors)

    # ------------------------------------------------------------------ fitting

    def read(self, y: Column) -> Labels:
        labelled = self._labelled(y)
        codes = np.zeros(len(y), np.int32)
        codes[labelled] = self.codes(y[labelled])
        if self.factors is None:
            return Labels(codes, labelled)
        return Labels(codes, labelled, np.where(labelled, self.factors[codes], 1.0))

    def codes(self, y: Column) -> np.ndarray:
        """Positions of the classes `y`; an unknown one is an error."""
        values, inverse = np.unique(_plain(y), return_inverse=True)
        position = {value: i for i, value in enumerate(self.classes.tolist())}
        unknown = [value for value in values.tolist() if value not in position]
        if unknown:
            raise ValueError(f"Unknown class {unknown[0]!r}; the model knows {list(position)}.")
        return np.array([position[value] for value in values.tolist()], np.int32)[inverse]

    def relation(self, labels: Labels) -> Float[np.ndarray, "rows k"]:
        return np.where(labels.labelled[:, None], np.eye(len(self.classes))[labels.ys], np.nan)

    @property
    def remarks(self) -> tuple[str, ...]:
        names = self.classes.tolist()
        counted = self.classes.dtype.kind in "if" and names[0] == -1 and names[1:] and names[1] >= 0
        if self.unlabelled is not None or not counted or len(names) < 3:
            return ()
        return (
            f"y has a class -1 beside {names[1]} to {names[-1]}; if it marks rows without a label, "
            "pass unlabelled=-1.",
        )

    def strata(self, labels: Labels) -> np.ndarray:
        return np.where(labels.labelled, labels.ys, -1)

    def head(self, dim: int, n_groups: int) -> AbstractHead:
        if self.choice is None:
            raise ValueError("This target was read from a file and has no head to build.")
        return self.choice.for_classes(dim, n_classes=len(self.classes), n_groups=n_groups)

    def with_marginal(self, y: Column, weights: Float[np.ndarray, " rows"]) -> "ClassTarget":
        labels = self.read(y)
        known = labels.labelled
        counts = np.bincount(labels.ys[known], weights[known], minlength=len(self.classes))
        return replace(self, shares=counts / counts.sum())

    @property
    def as_fitted(self) -> "ClassTarget":
        return self if self.present is None else replace(self, present=None)

    def adapted(self, frequencies: Float[np.ndarray, " classes"]) -> "ClassTarget":
        """Where classes have these frequencies, and p(x|y) is as it was."""
        return replace(self, present=frequencies / frequencies.sum())

    @property
    def trained(self) -> Float[np.ndarray, " classes"]:
        """How much the classes counted in training: their frequencies times `factors`."""
        shares = np.asarray(self.shares)
        counted = shares if self.factors is None else shares * self.factors
        return counted / counted.sum()

    @property
    def prior(self) -> Float[np.ndarray, " classes"]:
        """p(y) where the model is used."""
        return np.asarray(self.shares if self.present is None else self.present)

    @property
    def log_ratios(self) -> Float[np.ndarray, " classes"]:
        """What log-probabilities of the classes have gained since training."""
        if self.present is None:
            return np.zeros(len(self.classes))
        return np.log(self.present) - np.log(self.trained)

    # ------------------------------------------------------------------ answering

    def logits(self, response: AbstractResponse) -> Float[np.ndarray, "rows classes"]:
        """Linear predictors of the classes, or log-probabilities where weights are random."""
        return np.asarray(response.logits, float) + self.log_ratios  # type: ignore[attr-defined]

    def columns(self, response: AbstractResponse) -> dict[str, np.ndarray]:
        probabilities = softmax(self.logits(response), axis=1)
        best = np.argmax(probabilities, axis=1)
        return {
            "prediction": self.classes[best],
            "probability": probabilities[np.arange(len(best)), best],
        }

    @property
    def column_names(self) -> tuple[str, ...]:
        return "prediction", "probability"

    @property
    def column_types(self) -> Mapping[str, np.dtype]:
        return {"prediction": self.classes.dtype}

    def log_prob(self, response: AbstractResponse, y: Column) -> Float[np.ndarray, " rows"]:
        labels = self.read(y)
        log_py = log_softmax(self.logits(response), axis=1)[np.arange(len(y)), labels.ys]
        return np.where(labels.labelled, log_py, np.nan)

    def places(
        self, response: AbstractResponse, y: Column, u: Float[np.ndarray, " rows"]
    ) -> Float[np.ndarray, "rows 2"]:
        """Probability of classes before y, and of those less probable, each with a share of y's.

        The first tells of classes that have become more frequent than they should be, the second
        of mistakes.
        """
        probabilities = softmax(self.logits(response), axis=1)
        codes = self.read(y).ys
        own = probabilities[np.arange(len(y)), codes][:, None]
        before = np.arange(len(self.classes)) < codes[:, None]
        tied = probabilities == own
        sums = [
            np.sum(probabilities * before, axis=1) + u * own[:, 0],
            np.sum(probabilities * (probabilities < own), axis=1)
            + u * np.sum(probabilities * tied, axis=1),
        ]
        return np.stack(sums, axis=1)

    def agreement(self, response: AbstractResponse, y: Column) -> Float[np.ndarray, "rows 1"]:
        """The probability of each row's own class."""
        return self.answers(response)[np.arange(len(y)), self.read(y).ys][:, None]

    def losses(
        self, response: AbstractResponse, y: Column
    ) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
        """1 where the most probable class is wrong, and its probability."""
        probabilities = self.answers(response)
        wrong = np.argmax(probabilities, axis=1) != self.codes(y)
        return wrong.astype(float), np.max(probabilities, axis=1)

    def answers(self, response: AbstractResponse) -> Float[np.ndarray, "rows classes"]:
        return softmax(self.logits(response), axis=1)

    def asked_of(
        self, answers: Float[np.ndarray, "rows classes"], target: object
    ) -> Int[np.ndarray, " rows"]:
        """The class that is named, one for all or one a row; else the most probable one."""
        if target is None:
            return np.argmax(answers, axis=1)
        return self.codes(one_a_row(target, len(answers), "target")).astype(int)

    def skill(
        self, response: AbstractResponse, y: Column, weights: Float[np.ndarray, " rows"]
    ) -> float:
        right = np.argmax(self.logits(response), axis=1) == self.read(y).ys
        return float(np.average(right, weights=weights))

    def in_user_terms(self, drawn: np.ndarray) -> Column:
        return self.classes[drawn]

    def in_head_terms(self, wanted: Column) -> np.ndarray:
        return self.codes(wanted)

    # ------------------------------------------------------------------ counterfactuals

    def nearest(
        self,
        head: AbstractHead,
        z: Float[np.ndarray, "rows dim"],
        wanted: Column,
        margin: Float[np.ndarray, " rows"],
    ) -> Float[np.ndarray, "rows dim"]:
        """The nearest features at which a class leads every other by `margin` in log-odds."""
        weight, bias = (np.asarray(part, float) for part in (head.weight, head.bias))  # type: ignore
        bias = bias + self.log_ratios
        asked = zip(z, self.codes(wanted), margin, strict=True)
        return np.stack([nearest_leading(a, weight, bias, int(c), float(m)) for a, c, m in asked])

    def lead(self, response: AbstractResponse, wanted: Column) -> Float[np.ndarray, " rows"]:
        """Log-odds by which the wanted class leads the best of the others."""
        logits, codes = self.logits(response), self.codes(wanted)
        rows, others = np.arange(len(codes)), logits.copy()
        others[rows, codes] = -np.inf
        return logits[rows, codes] - np.max(others, axis=1)

    def shortfall(self, lead: Float[np.ndarray, "..."], margin: float) -> Float[np.ndarray, "..."]:
        return np.maximum(margin - lead, 0.0)

    def aim(self, margin: float) -> float:
        return 1.02 * margin + 1e-3  # a little beyond: rows are rounded to what a float holds

    def reached(self, prediction: Column, wanted: Column) -> Bool[np.ndarray, " rows"]:
        return prediction == self.classes[self.codes(wanted)]

    def _labelled(self, y: Column) -> Bool[np.ndarray, " rows"]:
        missing = is_missing(y)
        if np.any(missing) and not self.nulls:
            raise ValueError(
                f"Input y contains NaN or None in {missing.sum()} of {len(y)} rows. Mark rows "
                "without a label by a value of your own and pass it as unlabelled=..."
            )
        if self.unlabelled is None:
            return ~missing
        marked = np.array([value == self.unlabelled for value in y.tolist()], bool)
        return ~missing & ~marked


def _plain(y: Column) -> Column:
    """Objects as the one type that they are of: text or numbers."""
    if y.dtype.kind != "O":
        return y
    kinds = {isinstance(value, str) for value in y.tolist()}
    if len(kinds) > 1:
        example = next(value for value in y.tolist() if not isinstance(value, str))
        raise ValueError(
            f"y mixes text and other values such as {example!r}. Name the classes by one type; a "
            "value that marks rows without a label is passed as unlabelled=..."
        )
    return np.array(y.tolist())
