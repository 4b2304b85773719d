"""HybridRegressor: predictive distributions, and a refusal for inputs unlike the training data."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from diglm.estimators.base import AbstractHybridEstimator
from diglm.estimators.counterfactual import Counterfactual, nearest_at_predictor
from diglm.estimators.predictive import PredictiveDistribution
from diglm.estimators.sampling import features_given
from diglm.heads import make_head

HEADS = ("gaussian", "heteroscedastic", "student_t", "poisson", "negative_binomial", "gamma")
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
        head: "gaussian", "heteroscedastic", "student_t", "poisson", "negative_binomial", "gamma",
            or "auto" (Student-t with its own scale a row).
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
        name = DEFAULT_HEAD if self.head == "auto" else self.head
        if name not in HEADS:
            raise ValueError(f"HybridRegressor's head must be one of {HEADS}; got {self.head!r}.")
        if y is None:
            raise ValueError("HybridRegressor requires y to be passed, but the target y is None.")
        X = self._validate(X, reset=True)
        y = _numeric(y)
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows, but y has {len(y)}; give one number a row.")
        labelled = ~np.isnan(y)
        if self.unlabelled is not None:
            labelled &= y != self.unlabelled
        _check_support(name, y[labelled])
        weights = self._weights(X, sample_weight).astype(jnp.result_type(float))
        location, scale = _units(name, y[labelled & (weights > 0)])
        ys = np.where(labelled, (y - location) / scale, 0.0).astype(jnp.result_type(float))
        self._fit(
            X,
            ys,
            labelled,
            relation=np.where(labelled, y, np.nan)[:, None],
            strata=None,
            head_for=lambda dim: make_head(name, dim),
            metric="rmse",
            weights=weights,
        )
        self.head_ = name
        self.y_location_, self.y_scale_ = location, scale
        known = labelled & (weights > 0)
        self.y_mean_ = float(np.average(y[known], weights=weights[known]))
        self.y_std_ = float(
            np.sqrt(np.average((y[known] - self.y_mean_) ** 2, weights=weights[known]))
        )
        return self

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
        y = _numeric(y)
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
        wanted = np.resize(_numeric(np.atleast_1d(target)), len(before))
        _check_support(self.head_, wanted)
        head = self._head
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
        wanted = _numeric(wanted)
        _check_support(self.head_, wanted)
        ys = jnp.asarray((wanted - self.y_location_) / self.y_scale_, jnp.result_type(float))
        return features_given(self.model_, ys, key=key)


def _numeric(y: Any) -> np.ndarray:
    y = column_or_1d(y, warn=True)
    try:
        if np.iscomplexobj(y):
            raise TypeError
        numbers = y.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"HybridRegressor predicts numbers; y holds {y.dtype.name} values such as "
            f"{y[0]!r}. For classes use HybridClassifier."
        ) from error
    if np.any(np.isinf(numbers)):
        raise ValueError("Input y contains infinity or a value too large for float64.")
    return numbers


def _check_support(head: str, y: np.ndarray) -> None:
    """Counts are whole and not negative; a Gamma response is positive."""
    y = y[~np.isnan(y)]
    if head in ("poisson", "negative_binomial") and np.any((y < 0) | (y != np.round(y))):
        raise ValueError(
            f"head={head!r} needs whole numbers y >= 0; got {y[(y < 0) | (y != np.round(y))][0]}."
        )
    if head == "gamma" and np.any(y <= 0):
        raise ValueError(f"head='gamma' needs y > 0; got {y[y <= 0][0]}.")


def _units(head: str, y: np.ndarray) -> tuple[float, float]:
    """The head's unit of y: standardised for locations, the mean for Gamma, none for counts."""
    if len(y) == 0:
        return 0.0, 1.0
    if head in ("poisson", "negative_binomial"):
        return 0.0, 1.0
    if head == "gamma":
        return 0.0, float(np.mean(y))
    scale = float(np.std(y))
    return float(np.mean(y)), scale if scale > 1e-12 * max(1.0, abs(float(np.mean(y)))) else 1.0
