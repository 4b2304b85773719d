"""HybridRegressor: predictive distributions, and a refusal for inputs unlike the training data."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from diglm.estimators.base import AbstractHybridEstimator
from diglm.estimators.counterfactual import Counterfactual, nearest_at_predictor
from diglm.estimators.predictive import PredictiveDistribution
from diglm.estimators.sampling import features_given
from diglm.estimators.targets import NumberTarget, check_support, numeric

HEADS = (
    "gaussian",
    "heteroscedastic",
    "student_t",
    "mixture",
    "poisson",
    "negative_binomial",
    "gamma",
)
DEFAULT_HEAD = "student_t"


class HybridRegressor(RegressorMixin, AbstractHybridEstimator):
    r"""$\log p(y, x) = \log p(y \mid \eta = W f(x) + b) + \log p_z(f(x)) + \log|\det f'(x)|$.

    Fits tables (NumPy, pandas, polars) of continuous, whole-number, categorical and missing
    values; a NaN target marks a row without a label. The predicted location never leaves the
    training range of y widened by one range on either side, however strange the input.

    Args:
        flow: "auto" or "coupling" (affine couplings), "spline" (spline couplings), "planar",
            "linear", "identity", or a bijection.
        n_blocks: couplings (or planar layers) in the flow; "auto" chooses.
        width: hidden units of each conditioner; "auto" chooses from rows and columns.
        depth: hidden layers of each conditioner; "auto" chooses.
        dropout: rate on the features before the head, in training; "auto" chooses.
        head: "gaussian", "heteroscedastic", "student_t", "mixture" (of Gaussians, for skewed
            targets), "poisson", "negative_binomial", "gamma", or "auto" (Student-t with its own
            scale a row).
        generative_weight: w of lambda = w / D, the weight of log p(x) in the objective; 0 trains
            the purely discriminative model.
        volume_weight: None, or the weight lambda of the log-determinant alone (the base density
            then has variance lambda, see `diglm.objectives.joint`); replaces generative_weight.
        n_epochs: passes over the rows at most; "auto" chooses.
        batch_size: rows a step; "auto" chooses.
        learning_rate: the highest rate of the schedule; "auto" chooses.
        validation_fraction: share of rows held out to stop, to calibrate and to set the threshold;
            "auto" holds out 200 rows, within a tenth and a fifth of all.
        patience: epochs without improvement before stopping; "auto" chooses.
        reject: rate of familiar rows that may be refused (conformal), "minimum", or None.
        slack: nats subtracted from the threshold of the "minimum" rule.
        unlabelled: a value of y that marks a row without a label, besides NaN.
        entropy_weight: weight of the entropy of p(y|x) on unlabelled rows.
        vat_weight: weight of virtual adversarial training, on all rows.
        vat_radius: length of its step, in standardised units.
        random_state: seed of everything random.
        verbose: True, False, or "auto" for a bar where a person watches.
    """

    def __init__(
        self,
        flow: Any = "auto",
        *,
        n_blocks: Any = "auto",
        width: Any = "auto",
        depth: Any = "auto",
        dropout: Any = "auto",
        head: Any = "auto",
        generative_weight: Any = 1.0,
        volume_weight: Any = None,
        n_epochs: Any = "auto",
        batch_size: Any = "auto",
        learning_rate: Any = "auto",
        validation_fraction: Any = "auto",
        patience: Any = "auto",
        reject: Any = 0.01,
        slack: Any = 0.0,
        unlabelled: Any = None,
        entropy_weight: Any = 0.0,
        vat_weight: Any = 0.0,
        vat_radius: Any = 1.0,
        random_state: Any = None,
        verbose: Any = "auto",
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
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.reject = reject
        self.slack = slack
        self.unlabelled = unlabelled
        self.entropy_weight = entropy_weight
        self.vat_weight = vat_weight
        self.vat_radius = vat_radius
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "HybridRegressor":
        """Fit to rows `X` and numbers `y`; NaN in `y` marks a row without a label."""
        if y is None:
            raise ValueError("HybridRegressor requires y to be passed, but the target y is None.")
        X = self._validate(X, reset=True)
        y = numeric(y)
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows, but y has {len(y)}; give one number a row.")
        weights = self._weights(X, sample_weight)
        target = self._learn_target(y, weights)
        self._fit(X, y, target, weights)
        self._remember(target, y, weights)
        return self

    def _learn_target(
        self, y: np.ndarray, weights: np.ndarray | None = None, *, nulls: bool = False
    ) -> NumberTarget:
        name = DEFAULT_HEAD if self.head == "auto" else self.head
        if name not in HEADS:
            raise ValueError(f"HybridRegressor's head must be one of {HEADS}; got {self.head!r}.")
        return NumberTarget.learn(y, name, self.unlabelled, weights)

    def _remember(self, target: NumberTarget, y: np.ndarray, weights: np.ndarray) -> None:
        self.head_ = target.head_name
        y = numeric(y)
        self.y_location_, self.y_scale_ = target.location, target.scale
        known = target.read(y).labelled & (weights > 0)
        self.y_mean_ = float(np.average(y[known], weights=weights[known]))
        self.y_std_ = float(
            np.sqrt(np.average((y[known] - self.y_mean_) ** 2, weights=weights[known]))
        )

    def predict_dist(self, X: Any) -> PredictiveDistribution:
        """p(y|x) of each row, in the units of y."""
        return self._dist(self._responses(self._encode(X)))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """E[y|x] of each row, refused or not; with `return_std` also the standard deviation."""
        dist = self.predict_dist(X)
        return (dist.mean, dist.std) if return_std else dist.mean

    def safe_predict(self, X: Any, return_std: bool = False) -> Any:
        """As `predict`, but the mean (and deviation) of y itself for rows that are refused."""
        encoded = self._encode(X)
        refused = self.reject_rule_.rejects(self._log_px(encoded))
        dist = self._dist(self._responses(encoded))
        mean = np.where(refused, self.y_mean_, dist.mean)
        return (mean, np.where(refused, self.y_std_, dist.std)) if return_std else mean

    def log_joint(self, X: Any, y: Any) -> Float[np.ndarray, " rows"]:
        """log p(x) + log p(y|x) of each row."""
        encoded = self._encode(X)
        y = numeric(y)
        if len(y) != len(encoded.values):
            raise ValueError(f"X has {len(encoded.values)} rows, but y has {len(y)}.")
        return self._log_px(encoded) + self._dist(self._responses(encoded)).log_prob(y)

    def counterfactual(self, X: Any, target: Any) -> Counterfactual:
        """The nearest rows, in feature space, whose predicted mean is `target`.

        `target` is one number or one a row; it must be a value the model can predict. Rounding to
        whole numbers or categories moves the prediction: see `.prediction`.
        """
        encoded = self._encode(X)
        before = self._features(encoded).astype(float)
        wanted = np.resize(numeric(np.atleast_1d(target)), len(before))
        check_support(self.head_, wanted)
        head = self._head
        if self.head_ == "mixture":
            head.eta_for_mean(0.0)  # says why there is none
        low, high = (np.asarray(b.value, float)[0] for b in (head.eta_low, head.eta_high))
        eta = np.asarray(
            [
                head.eta_for_mean(jnp.asarray(m))
                for m in (wanted - self.y_location_) / self.y_scale_
            ],
            float,
        )
        if np.any((eta < low) | (eta > high)):
            raise ValueError(
                "target lies beyond what this model can predict: the training range of y widened "
                "by one range on either side."
            )
        weight = np.asarray(head.weight, float)[0]
        now = before @ weight + float(head.bias[0])
        return self._as_counterfactual(before, nearest_at_predictor(before, weight, now, eta))

    def _dist(self, response: Any) -> PredictiveDistribution:
        return PredictiveDistribution(response, self.y_location_, self.y_scale_)

    def _answers(self, response: Any) -> dict[str, np.ndarray]:
        dist = self._dist(response)
        return {"prediction": dist.mean, "sd": dist.std}

    def _targets(self, drawn: np.ndarray) -> np.ndarray:
        return self.y_location_ + self.y_scale_ * np.asarray(drawn, float)

    def _features_given(self, wanted: np.ndarray, key: Any) -> np.ndarray:
        check_is_fitted(self, "model_")
        wanted = numeric(wanted)
        check_support(self.head_, wanted)
        ys = jnp.asarray((wanted - self.y_location_) / self.y_scale_, jnp.result_type(float))
        return features_given(self.model_, ys, key=key)
