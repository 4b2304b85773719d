"""HybridRegressor: predictive distributions, and a refusal for inputs unlike the training data."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Float
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from diglm.data.encoder import Encoded, Rows
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
    require_length,
)
from diglm.estimators.online import AbstractOnlineEstimator
from diglm.heads import head_choice
from diglm.parameters import Constraints
from diglm.targets import NumberTarget, PredictiveDistribution
from diglm.targets.base import Column

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
else:
    ArrayLike = object

MeanAndStd = tuple[np.ndarray, np.ndarray]


class HybridRegressor(RegressorMixin, AbstractOnlineEstimator):
    r"""$\log p(y, x) = \log p(y \mid \eta = W f(x) + b) + \log p_z(f(x)) + \log|\det f'(x)|$.

    Fits tables (NumPy, pandas, polars) of continuous, whole-number, categorical and missing
    values, and images; a NaN target marks a row without a label. The predicted location never
    leaves the training range of y widened by one range on either side, however strange the input.

    Args:
        flow: "auto", "coupling" (affine couplings), "spline" (spline couplings), "planar",
            "linear", "identity", for images "glow"; a recipe of `diglm.recipes` with parameters of
            its own, such as `Glow(reader=48, augment=2)`; or a bijection.
        n_blocks: couplings (or planar layers) in the flow; "auto" chooses.
        width: hidden units of each conditioner; "auto" chooses from rows and columns.
        depth: hidden layers of each conditioner; "auto" chooses.
        dropout: rate on the features before the head, in training; "auto" chooses.
        head: "gaussian", "heteroscedastic", "student_t", "mixture" (of Gaussians, for skewed
            targets), "bernoulli", "poisson", "negative_binomial", "gamma", "hurdle" (zero or
            positive), "zero_inflated" (counts), "bayesian" (normal, with a posterior of the
            weights in closed form), "bayesian_poisson", "mixed" (with random effects, of groups or
            of observations), "mixed_poisson"; "auto" is "student_t", with its own scale a row,
            unless y is of a kind for which held-out rows prefer another (`diglm.heads.Auto`;
            `head_` tells which); or an object of `diglm.heads` with parameters of its own,
            such as `Bayesian(noise=0.1)` or `Mixed(slopes=["age"])`.
        generative_weight: w of lambda = w / D, the weight of log p(x) in the objective of the flow
            that the head reads; 0 trains it purely discriminatively. A density of its own, which
            tables have by default, does not depend on it. "auto" is 1.
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
        unlabelled: a value of y that marks a row without a label, besides NaN.
        entropy_weight: weight of the mean entropy of p(y|x) over unlabelled rows, beside that of
            log p(y|x) over labelled ones.
        vat_weight: weight of virtual adversarial training, a mean over all rows; "auto" is 0.
        vat_radius: length of its step, in standard deviations of a column, or of a pixel behind the
            logit; "auto" is 0.2 times the square root of their number.
        terms: what else is minimised: names of `diglm.objectives.TERMS` with weights, or terms.
        extra: "error", or "ignore" for frames with columns that fit did not see.
        absent: "error", or "draw" for frames without some columns of fit: answers are then averaged
            over draws of these given the others.
        random_state: seed of everything random.
        verbose: True, False, or "auto" for a bar where a person watches.
    """

    constraints: ClassVar[Constraints] = PREDICTING

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
        self.extra = extra
        self.absent = absent
        self.random_state = random_state
        self.verbose = verbose

    def _learn_target(
        self, y: np.ndarray, weights: np.ndarray, *, nulls: bool = False
    ) -> NumberTarget:
        choice = head_choice(self.head, usual="auto")
        return NumberTarget.learn(y, choice, unlabelled=self.unlabelled, weights=weights)

    def _targets_of(self, y: ArrayLike, X: Rows | Encoded) -> Column:
        several = np.asarray(y)
        if several.ndim == 2 and several.shape[1] > 1:
            require_length(several, X, "y")
            return several  # the target says whether its head takes several
        return super()._targets_of(y, X)

    @property
    def _target(self) -> NumberTarget:
        return self.predictor_.target  # type: ignore[return-value]

    @property
    def head_(self) -> str:
        """Name of the head that was fitted: what "auto" has chosen, if it was asked."""
        choice = self._target.choice
        return "" if choice is None else choice.name

    @property
    def y_location_(self) -> float | np.ndarray:
        """What the head's targets are less than y, before they are scaled."""
        return self._target.location

    @property
    def y_scale_(self) -> float | np.ndarray:
        """Units of y per unit of the head."""
        return self._target.scale

    @property
    def y_mean_(self) -> float | np.ndarray:
        """Mean of y, which answers for rows that are refused."""
        return self._target.mean

    @property
    def y_std_(self) -> float | np.ndarray:
        """Its standard deviation."""
        return self._target.std

    def predict_dist(self, X: Rows, *, groups: ArrayLike | None = None) -> PredictiveDistribution:
        """p(y|x) of each row, in the units of y; of a mixed head also given the rows' groups.

        A group that training did not see, or None, stands for one drawn from the population.
        """
        response = self._response(X, groups)
        return self._target.distribution(response)

    def predict(
        self, X: Rows, return_std: bool = False, *, groups: ArrayLike | None = None
    ) -> np.ndarray | MeanAndStd:
        """E[y|x] of each row, refused or not; with `return_std` also the standard deviation."""
        dist = self.predict_dist(X, groups=groups)
        return (dist.mean, dist.std) if return_std else dist.mean

    def predict_interval(
        self, X: Rows, level: float = 0.9, *, groups: ArrayLike | None = None
    ) -> Float[np.ndarray, "rows 2"]:
        """Ends of the interval that holds y with probability `level`, one row each.

        Cut from p(y|x) at quantiles that held-out rows which are answered have set, so that it
        holds among rows that are answered whatever the model: see `diglm.predictor.agreement`.
        """
        response = self._response(X, groups)
        return np.stack(self.predictor_.interval(response, level), axis=1)

    def safe_predict(
        self, X: Rows, return_std: bool = False, *, groups: ArrayLike | None = None
    ) -> np.ndarray | MeanAndStd:
        """As `predict`, but the mean (and deviation) of y itself for rows that are refused."""
        encoded = self._encode(X)
        known = self.predictor_.known(encoded, self._codes(groups, len(encoded)))
        dist, refused = (
            self._target.distribution(known.response),
            self.predictor_.refusal.rejects(known),
        )
        refused = refused[:, None] if self._target.n_targets > 1 else refused
        mean = np.where(refused, self.y_mean_, dist.mean)
        return (mean, np.where(refused, self.y_std_, dist.std)) if return_std else mean

    @method_and_parameter
    def score(
        self,
        X: Rows,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> float:
        """R^2 of the predicted means on rows `X` whose targets are `y`, refused or not."""
        return float(r2_score(y, self.predict(X, groups=groups), sample_weight=sample_weight))
