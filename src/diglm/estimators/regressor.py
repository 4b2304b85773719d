"""HybridRegressor: predictive distributions, and a refusal for inputs unlike the training data."""

import dataclasses
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.base import RegressorMixin

from diglm.estimators.base import Prepared, _check_number
from diglm.estimators.counterfactual import Counterfactual, nearest_at_predictor
from diglm.estimators.online import AbstractOnlineRegressor
from diglm.estimators.predictive import PredictiveDistribution
from diglm.estimators.sampling import features_given
from diglm.estimators.targets import NumberTarget, WeightPrior, check_support, numbers_of, numeric
from diglm.heads import ConjugateHead
from diglm.hybrid import Hybrid
from diglm.training import FitResult, ProgressBar, fit_evidence

HEADS = (
    "gaussian",
    "heteroscedastic",
    "student_t",
    "mixture",
    "poisson",
    "negative_binomial",
    "gamma",
    "bayesian",
    "bayesian_poisson",
    "mixed",
    "mixed_poisson",
)
RANDOM_WEIGHTS = ("bayesian", "bayesian_poisson", "mixed", "mixed_poisson")
INFERENCE = {
    "bayesian": ("exact", "minibatch"),
    "mixed": ("exact", "minibatch"),
    "bayesian_poisson": ("elbo", "elbo-diagonal", "laplace"),
    "mixed_poisson": ("laplace",),
}
DEFAULT_HEAD = "student_t"
FEWEST_EXACT_STEPS = 300  # along the evidence of all rows, each as good as an epoch


class HybridRegressor(RegressorMixin, AbstractOnlineRegressor):
    r"""$\log p(y, x) = \log p(y \mid \eta = W f(x) + b) + \log p_z(f(x)) + \log|\det f'(x)|$.

    Fits tables (NumPy, pandas, polars) of continuous, whole-number, categorical and missing
    values; a NaN target marks a row without a label. The predicted location never leaves the
    training range of y widened by one range on either side, however strange the input.

    Args:
        flow: "auto" or "coupling" (affine couplings), "spline" (spline couplings), "planar",
            "linear", "identity", for images "glow", or a bijection.
        n_blocks: couplings (or planar layers) in the flow; "auto" chooses.
        width: hidden units of each conditioner; "auto" chooses from rows and columns.
        depth: hidden layers of each conditioner; "auto" chooses.
        dropout: rate on the features before the head, in training; "auto" chooses.
        head: "gaussian", "heteroscedastic", "student_t", "mixture" (of Gaussians, for skewed
            targets), "poisson", "negative_binomial", "gamma", "bayesian" (normal, with a
            posterior of the weights in closed form), "bayesian_poisson", "mixed" (with random
            effects, of groups or of observations), "mixed_poisson", or "auto" (Student-t with its
            own scale a row).
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
        prior_precision: of the normal prior on the weights of a Bayesian head, in units of the
            features and of the standardised target; "auto" learns it.
        noise: standard deviation of y about its mean under a Bayesian head; "auto" learns it.
        random_effects: of a mixed head: "intercept" for one a group, "slopes" for slopes of every
            column as well, a list of columns for slopes of those, "observation" for effects of
            each single row, which let the noise vary; "auto" is "intercept" with groups and
            "observation" without.
        inference: how a Bayesian head is trained or fitted, see the page on Bayesian heads; "auto"
            chooses.
        augment: pixels by which training images are moved at most, at random; "auto" chooses.
        reader: width of the network that reads whole images for the head, while the rest of the
            flow learns their density; None for none, so that labels shape the whole flow; "auto"
            is 48 for images in colour. See `diglm.flows.reading`.
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
        prior_precision: Any = "auto",
        noise: Any = "auto",
        random_effects: Any = "auto",
        inference: Any = "auto",
        augment: Any = "auto",
        reader: Any = "auto",
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
        self.prior_precision = prior_precision
        self.noise = noise
        self.random_effects = random_effects
        self.inference = inference
        self.augment = augment
        self.reader = reader
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        checkpoint: Any = None,
    ) -> "HybridRegressor":
        """Fit to rows `X` and numbers `y`; NaN in `y` marks a row without a label.

        Args:
            X: a table, or images (rows, height, width, channels) of bytes or floats in [0, 1].
            y: numbers, one a row; head="bayesian" takes several columns of them.
            sample_weight: what each row counts.
            groups: the group of each row, for head="mixed".
            checkpoint: folder where a fit to images is kept; the same call again resumes it.
        """
        if y is None:
            raise ValueError("HybridRegressor requires y to be passed, but the target y is None.")
        X = self._validate(X, reset=True)
        y = numbers_of(y, self._head_name)
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows, but y has {len(y)}; give one number a row.")
        weights = self._weights(X, sample_weight)
        with self._grouping(groups, X):
            target = self._learn_target(y, weights)
            self._fit(X, y, target, weights, checkpoint)
            self._remember(target, y, weights)
        self.weight_unit_ = 1.0 if sample_weight is None else _unit_of(sample_weight)
        return self

    def _learn_target(
        self, y: np.ndarray, weights: np.ndarray | None = None, *, nulls: bool = False
    ) -> NumberTarget:
        return NumberTarget.learn(
            y, self._head_name, self.unlabelled, weights, self._weight_prior(self._head_name)
        )

    @property
    def _head_name(self) -> str:
        name = DEFAULT_HEAD if self.head == "auto" else self.head
        if name not in HEADS:
            raise ValueError(f"HybridRegressor's head must be one of {HEADS}; got {self.head!r}.")
        return name

    def _weight_prior(self, name: str) -> WeightPrior | None:
        """What was asked of random weights; None for heads without."""
        if name not in RANDOM_WEIGHTS:
            return None
        numbers = {}
        for key in ("prior_precision", "noise"):
            value = getattr(self, key)
            if value != "auto":
                _check_number(key, value, low=0.0, open_low=True)
            numbers[key] = None if value == "auto" else float(value)
        if self.inference not in ("auto", *INFERENCE[name]):
            raise ValueError(
                f"inference of head={name!r} must be 'auto' or one of {INFERENCE[name]}; got "
                f"{self.inference!r}."
            )
        method = self.inference if "poisson" in name and self.inference != "auto" else "elbo"
        return WeightPrior(
            numbers["prior_precision"], numbers["noise"], method, self._effects_of_rows
        )

    def _trained(self, ready: Prepared, bar: ProgressBar) -> FitResult:
        """By minibatches, or by steps along the exact evidence of all rows."""
        conjugate = isinstance(ready.begun.model.head, ConjugateHead)
        if self.inference != "exact" or not conjugate:
            return super()._trained(ready, bar)
        settings = ready.begun.settings
        result = fit_evidence(
            ready.begun.model,
            ready.train,
            objective=ready.begun.objective,
            validation=ready.held_out if len(ready.held_out.weight) else None,
            settings=dataclasses.replace(
                settings,
                n_epochs=max(settings.n_epochs, FEWEST_EXACT_STEPS)
                if self.n_epochs == "auto"
                else settings.n_epochs,
            ),
            seed=ready.seed,
            progress=bar,
        )
        head = cast(ConjugateHead, result.model.head).thawed()
        result.model = eqx.tree_at(lambda m: m.head, result.model, head)
        return result

    def _remember(self, target: NumberTarget, y: np.ndarray, weights: np.ndarray) -> None:
        self.head_ = target.head_name
        y = numbers_of(y, self.head_)
        self.y_location_, self.y_scale_ = target.location, target.scale
        known = target.read(y).labelled & (weights > 0)
        mean = np.average(y[known], weights=weights[known], axis=0)
        spread = np.average((y[known] - mean) ** 2, weights=weights[known], axis=0)
        several = y.ndim == 2
        self.y_mean_ = mean if several else float(mean)
        self.y_std_ = np.sqrt(spread) if several else float(np.sqrt(spread))

    def predict_dist(self, X: Any, *, groups: Any = None) -> PredictiveDistribution:
        """p(y|x) of each row, in the units of y; of a mixed head also given the rows' groups.

        A group that training did not see, or None, stands for one drawn from the population.
        """
        encoded = self._encode(X)
        return self._dist(self._responses(encoded, self._codes_of(groups, len(encoded.values))))

    def predict(self, X: Any, return_std: bool = False, *, groups: Any = None) -> Any:
        """E[y|x] of each row, refused or not; with `return_std` also the standard deviation."""
        dist = self.predict_dist(X, groups=groups)
        return (dist.mean, dist.std) if return_std else dist.mean

    def safe_predict(self, X: Any, return_std: bool = False) -> Any:
        """As `predict`, but the mean (and deviation) of y itself for rows that are refused."""
        encoded = self._encode(X)
        refused = self.reject_rule_.rejects(self._log_px(encoded))
        dist = self._dist(self._responses(encoded))
        refused = refused[:, None] if np.ndim(self.y_mean_) else refused
        mean = np.where(refused, self.y_mean_, dist.mean)
        return (mean, np.where(refused, self.y_std_, dist.std)) if return_std else mean

    def log_joint(self, X: Any, y: Any) -> Float[np.ndarray, " rows"]:
        """log p(x) + log p(y|x) of each row."""
        encoded = self._encode(X)
        y = numbers_of(y, self.head_)
        if len(y) != len(encoded.values):
            raise ValueError(f"X has {len(encoded.values)} rows, but y has {len(y)}.")
        log_py = self._dist(self._responses(encoded)).log_prob(y)
        return self._log_px(encoded) + log_py.reshape(len(y), -1).sum(axis=1)

    def counterfactual(self, X: Any, target: Any) -> Counterfactual:
        """The nearest rows, in feature space, whose predicted mean is `target`.

        `target` is one number or one a row; it must be a value the model can predict. Rounding to
        whole numbers or categories moves the prediction: see `.prediction`.
        """
        encoded = self._encode(X)
        if np.size(self.y_location_) > 1:
            raise ValueError("counterfactual() asks for one target; this model has several.")
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
        if dist.mean.ndim == 1:
            return {"prediction": dist.mean, "sd": dist.std}
        columns = {}
        for t, (mean, sd) in enumerate(zip(dist.mean.T, dist.std.T, strict=True)):
            columns |= {f"prediction_{t}": mean, f"sd_{t}": sd}
        return columns

    def _targets(self, drawn: np.ndarray) -> np.ndarray:
        return self.y_location_ + self.y_scale_ * np.asarray(drawn, float)

    def _features_given(self, wanted: np.ndarray, key: Any, model: Hybrid) -> np.ndarray:
        wanted = numeric(wanted)
        check_support(self.head_, wanted)
        ys = jnp.asarray((wanted - self.y_location_) / self.y_scale_, jnp.result_type(float))
        return features_given(model, ys, key=key)


def _unit_of(sample_weight: Any) -> float:
    """The weight that counts as one: the mean of those above zero."""
    weights = np.asarray(sample_weight, float)
    return float(np.mean(weights[weights > 0]))
