"""What a classifier can do where its rows come from elsewhere, or where labels are dear."""

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, NamedTuple, Self, TypeVar

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from diglm.data.encoder import Rows
from diglm.estimators.predicting import AbstractPredictingEstimator
from diglm.parameters import check_whole
from diglm.predictor import LabelShift, asking, class_frequencies
from diglm.targets import ClassTarget

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
else:
    ArrayLike = object


Model = TypeVar("Model")


class Adapted(NamedTuple, Generic[Model]):
    """What `adapt_labels` gives.

    Attributes:
        model: a copy whose p(y|x) has the new frequencies.
        shift: the frequencies, with their standard errors.
    """

    model: Model
    shift: LabelShift


def has_doubts(estimator: "AbstractAdaptingClassifier") -> bool:
    """Whether the fitted model has versions that a label would tell between."""
    check_is_fitted(estimator, "predictor_")
    if estimator.predictor_.model.others is None and not estimator.predictor_.model.head.learns_all:
        raise AttributeError(
            "information_gain() needs a model that doubts: head='bayesian', or several networks; "
            "this one has a single network and weights that are taken as known."
        )
    return True


class AbstractAdaptingClassifier(AbstractPredictingEstimator):
    """A classifier that learns how frequent classes are elsewhere, and asks for labels."""

    def adapt_labels(self, X: Rows, *, groups: ArrayLike | None = None) -> Adapted[Self]:
        """How frequent the classes are among rows without a label, and a model that knows it.

        For label shift: classes are more or less frequent than in training, and p(x|y) is as it
        was. The copy's p(y|x), its sets and the p(y) that answers for refused rows are those of
        the new frequencies. Density, samples and refusals stay those of the rows of fit. See
        `diglm.predictor.priors`.

        Args:
            X: rows of the place where the model is to be used.
            groups: their groups, for a model that was fitted with groups.
        """
        encoded = self._encode(X)
        predictor, target = self.predictor_, self._class_target
        before = target.trained
        if np.any(before <= 0):
            name = target.classes[before <= 0].tolist()[0]
            raise ValueError(f"No row of class {name!r} counted in fit, so p(x|y) is not known.")
        known = predictor.known(encoded, self._codes(groups, len(encoded)))
        log_probs = log_softmax(target.as_fitted.logits(known.response), axis=1)
        frequencies, errors, gain = class_frequencies(log_probs, before)
        refused = float(np.mean(predictor.refusal.rejects(known)))
        shift = LabelShift(target.classes, before, frequencies, errors, gain, len(encoded), refused)
        return Adapted(self._with(target.adapted(frequencies)), shift)

    @available_if(has_doubts)
    def information_gain(self, X: Rows) -> Float[np.ndarray, " rows"]:
        r"""$I(y; b \mid x)$: nats that a row's label would teach about what the model doubts.

        What it doubts are its weights, of `head="bayesian"`, or which of its networks is right.
        """
        return asking.information_gain(self.predictor_, self._encode(X))

    def most_informative(self, X: Rows, n: int = 1) -> Int[np.ndarray, " chosen"]:
        """Numbers of the `n` rows whose labels together teach most, best first.

        Chosen one after the other, each given that the labels of those before it will be known. A
        model without doubts asks for the rows whose class is least clear. Rows that the model would
        refuse are never asked about; there may be fewer than `n` others.
        """
        encoded = self._encode(X)
        return asking.most_informative_classes(self.predictor_, encoded, check_whole("n", n))

    @property
    def _class_target(self) -> ClassTarget:
        return self.predictor_.target  # type: ignore[return-value]

    def _with(self, target: ClassTarget) -> Self:
        other = copy(self)
        other.predictor_ = replace(self.predictor_, target=target)
        return other
