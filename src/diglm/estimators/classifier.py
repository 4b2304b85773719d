"""HybridClassifier: classes, and a refusal for inputs unlike the training data."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from diglm.data.encoder import Rows
from diglm.estimators.adapting import AbstractAdaptingClassifier
from diglm.estimators.common import (
    PREDICTING,
    Flow,
    Head,
    Reject,
    Score,
    Seed,
    Size,
    Sizes,
    Terms,
    Verbose,
    method_and_parameter,
)
from diglm.heads import head_choice
from diglm.parameters import Anything, Constraints
from diglm.targets import ClassTarget
from diglm.targets.classes import ClassWeight

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
else:
    ArrayLike = object


class HybridClassifier(ClassifierMixin, AbstractAdaptingClassifier):
    r"""$\log p(y, x) = \log \mathrm{softmax}(W f(x) + b)_y + \log p_z(f(x)) + \log|\det f'(x)|$.

    Fits tables (NumPy, pandas, polars) of continuous, whole-number, categorical and missing
    values, and images. Defaults need no tuning up to about 100,000 rows.

    Args:
        flow: "auto", "coupling" (affine couplings), "spline" (spline couplings), "planar",
            "linear", "identity", for images "glow"; a recipe of `diglm.recipes` with parameters of
            its own, such as `Glow(reader=48, augment=2)`; or a bijection.
        n_blocks: couplings (or planar layers) in the flow; "auto" chooses.
        width: hidden units of each conditioner; "auto" chooses from rows and columns.
        depth: hidden layers of each conditioner; "auto" chooses.
        dropout: rate on the features before the head, in training; "auto" chooses.
        head: "auto" or "categorical" (softmax), "bayesian" (with a posterior of the weights),
            "mixed" (two classes, with random effects of groups), or an object of `diglm.heads`
            with parameters of its own, such as `Bayesian(inference="laplace")`.
        generative_weight: w of lambda = w / D, the weight of log p(x) in the objective of the flow
            that the head reads; 0 trains it purely discriminatively. A density of its own, which
            tables have by default, does not depend on it. "auto" is 1, but where rows without a
            label shape the answers and there is such a density 0.
        volume_weight: None, or the weight lambda of the log-determinant alone (the base density
            then has variance lambda, see `diglm.objectives.joint`); replaces generative_weight.
        n_epochs: passes over the rows at most; "auto" chooses.
        max_time: seconds that `fit` may take, compiling included; None for as many as it needs.
            Training ends early and its rates fall in time; what fits depends on the machine.
        batch_size: rows a step; "auto" chooses.
        learning_rate: the highest rate of the schedule; "auto" chooses.
        validation_fraction: share of rows held out to stop, to calibrate and to set the threshold;
            "auto" holds out 200 rows, within a tenth and a fifth of all.
        patience: epochs without improvement before stopping; "auto" chooses.
        score: what refusals are judged by: "auto" (see `diglm.refusal`), "density" (the
            paper\'s: log p(x)), another name, or a score of `diglm.refusal`.
        reject: rate of familiar rows that may be refused (conformal), "minimum" (the paper's
            rule), None for never, or a rule of `diglm.refusal` such as `Minimum(slack=1.0)`.
        unlabelled: the value of y that marks a row without a label; None for no such rows.
        entropy_weight: weight of the mean entropy of p(y|x) over unlabelled rows, beside that of
            log p(y|x) over labelled ones.
        vat_weight: weight of virtual adversarial training, a mean over all rows; "auto" is 3 where
            most rows of a table have no label and its flow is one of couplings, beside networks
            that do without it, in shares that labels tell; else 0.
        vat_radius: length of its step, in standard deviations of a column, or of a pixel behind the
            logit; "auto" is 0.2 times the square root of their number.
        terms: what else is minimised: names of `diglm.objectives.TERMS` with weights, or terms.
        class_weight: None, "balanced", or a dictionary of weights by class, in training.
        extra: "error", or "ignore" for frames with columns that fit did not see.
        absent: "error", or "draw" for frames without some columns of fit: answers are then averaged
            over draws of these given the others.
        random_state: seed of everything random.
        verbose: True, False, or "auto" for a bar where a person watches.
    """

    constraints: ClassVar[Constraints] = {**PREDICTING, "class_weight": [Anything()]}

    def __init__(
        self,
        flow: Flow = "auto",
        *,
        n_blocks: Sizes = "auto",
        width: Sizes = "auto",
        depth: Size = "auto",
        dropout: float | str = "auto",
        head: Head = "auto",
        generative_weight: float | str = "auto",
        volume_weight: float | None = None,
        n_epochs: Size = "auto",
        max_time: float | None = None,
        batch_size: Size = "auto",
        learning_rate: float | str = "auto",
        validation_fraction: float | str = "auto",
        patience: Size = "auto",
        score: Score = "auto",
        reject: Reject = 0.01,
        unlabelled: object = None,
        entropy_weight: float = 0.0,
        vat_weight: float | str = "auto",
        vat_radius: float | str = "auto",
        terms: Terms = (),
        class_weight: ClassWeight = None,
        extra: str = "error",
        absent: str = "error",
        random_state: Seed = None,
        verbose: Verbose = "auto",
    ):
        self.flow = flow
        self.n_blocks = n_blocks
        self.width = width
        self.depth = depth
        self.dropout = dropout
        self.head = head
        self.generative_weight = generative_weight
        self.volume_weight = volume_weight
        self.n_epochs = n_epochs
        self.max_time = max_time
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.score = score
        self.reject = reject
        self.unlabelled = unlabelled
        self.entropy_weight = entropy_weight
        self.vat_weight = vat_weight
        self.vat_radius = vat_radius
        self.terms = terms
        self.class_weight = class_weight
        self.extra = extra
        self.absent = absent
        self.random_state = random_state
        self.verbose = verbose

    def _learn_target(
        self, y: np.ndarray, weights: np.ndarray, *, nulls: bool = False
    ) -> ClassTarget:
        return ClassTarget.learn(
            y,
            head_choice(self.head, usual="categorical"),
            unlabelled=self.unlabelled,
            nulls=nulls,
            class_weight=self.class_weight,
        )

    @property
    def classes_(self) -> np.ndarray:
        """The classes, in sorted order."""
        return self._class_target.classes

    @property
    def class_prior_(self) -> Float[np.ndarray, " classes"]:
        """p(y): the frequencies of the classes, which answer for rows that are refused."""
        return self._class_target.prior

    def predict_proba(
        self, X: Rows, *, groups: ArrayLike | None = None
    ) -> Float[np.ndarray, "rows classes"]:
        """p(y|x), columns in the order of `classes_`; of a mixed head also given the rows' groups.

        A group that training did not see, or None, stands for one drawn from the population.
        """
        return softmax(self.decision_function(X, raw=True, groups=groups), axis=1)

    def predict_log_proba(
        self, X: Rows, *, groups: ArrayLike | None = None
    ) -> Float[np.ndarray, "rows classes"]:
        """log p(y|x)."""
        return log_softmax(self.decision_function(X, raw=True, groups=groups), axis=1)

    def decision_function(
        self, X: Rows, *, raw: bool = False, groups: ArrayLike | None = None
    ) -> np.ndarray:
        """Linear predictors of the classes; for two classes the log-odds of the second.

        With `raw` the predictors of all classes are given also when there are only two. Bayesian
        heads have log-probabilities in their place, averaged over the weights.
        """
        response = self._response(X, groups)
        logits = self._class_target.logits(response)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 and not raw else logits

    def predict(self, X: Rows, *, groups: ArrayLike | None = None) -> np.ndarray:
        """The most probable class of each row, refused or not; see `rejects`."""
        logits = self.decision_function(X, raw=True, groups=groups)
        return self.classes_[np.argmax(logits, axis=1)]

    def safe_predict_proba(
        self, X: Rows, *, groups: ArrayLike | None = None
    ) -> Float[np.ndarray, "rows classes"]:
        """p(y|x), and the class frequencies p(y) for rows that are refused."""
        encoded = self._encode(X)
        known = self.predictor_.known(encoded, self._codes(groups, len(encoded)))
        probabilities = softmax(self._class_target.logits(known.response), axis=1)
        refused = self.predictor_.refusal.rejects(known)
        return np.where(refused[:, None], self.class_prior_, probabilities)

    def predict_set(
        self,
        X: Rows,
        level: float = 0.9,
        *,
        by: str | None = None,
        groups: ArrayLike | None = None,
    ) -> Bool[np.ndarray, "rows classes"]:
        """Which classes a row may be of: sets that hold the truth with probability `level`.

        True for the classes, in the order of `classes_`, that are as probable as held-out rows
        which are answered ask for, and for the most probable one. It holds among rows that are
        answered, whatever the model; a row that is refused has no class.

        Args:
            X: rows.
            level: how often the truth is among the classes.
            by: "class" if that shall hold among the rows of each true class; None among all.
            groups: the rows' groups, for a model that was fitted with groups.
        """
        if by not in (None, "class"):
            raise ValueError(f"by must be 'class' or None; got {by!r}.")
        encoded = self._encode(X)
        known = self.predictor_.known(encoded, self._codes(groups, len(encoded)))
        return self.predictor_.classes_within(known, level, by_class=by is not None)

    @method_and_parameter
    def score(
        self,
        X: Rows,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> float:
        """Accuracy on rows `X` whose classes are `y`, refused or not."""
        return float(accuracy_score(y, self.predict(X, groups=groups), sample_weight=sample_weight))
