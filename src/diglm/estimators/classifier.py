"""HybridClassifier: classes, and a refusal for inputs unlike the training data."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import column_or_1d

from diglm.data.image import ImageEncoder
from diglm.estimators.base import Prepared, _check_number
from diglm.estimators.counterfactual import Counterfactual, nearest_leading
from diglm.estimators.mixed import AbstractMixedEstimator
from diglm.estimators.sampling import features_given
from diglm.estimators.settling import with_base_of_classes
from diglm.estimators.targets import ClassTarget, WeightPrior
from diglm.hybrid import Hybrid

BASES = ("auto", "normal", "mixture")
HEADS = ("auto", "categorical", "bayesian", "mixed")
INFERENCE = ("auto", "elbo", "elbo-diagonal", "laplace", "jaakkola")
MARGIN_DOUBLINGS = 6


class HybridClassifier(ClassifierMixin, AbstractMixedEstimator):
    r"""$\log p(y, x) = \log \mathrm{softmax}(W f(x) + b)_y + \log p_z(f(x)) + \log|\det f'(x)|$.

    Fits tables (NumPy, pandas, polars) of continuous, whole-number, categorical and missing
    values. Defaults need no tuning up to about 100,000 rows.

    Args:
        flow: "auto" or "coupling" (affine couplings), "spline" (spline couplings), "planar",
            "linear", "identity", for images "glow", or a bijection.
        base: the density of features: "normal", or "mixture", after training, with a normal for
            each class and, up to 4,096 features, one covariance; "auto" is "normal" for tables, and
            for images the one of the two that makes held-out images more probable. Predictions are
            the same with either.
        n_blocks: couplings (or planar layers) in the flow; "auto" chooses.
        width: hidden units of each conditioner; "auto" chooses from rows and columns.
        depth: hidden layers of each conditioner; "auto" chooses.
        dropout: rate on the features before the head, in training; "auto" chooses.
        head: "categorical" (softmax), "bayesian" (softmax or, for two classes, logistic, with a
            posterior of the weights), "mixed" (two classes, with random effects of groups);
            "auto" is "categorical".
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
        unlabelled: the value of y that marks a row without a label; None for no such rows.
        entropy_weight: weight of the entropy of p(y|x) on unlabelled rows.
        vat_weight: weight of virtual adversarial training, on all rows.
        vat_radius: length of its step, in standardised units.
        class_weight: None, "balanced", or a dictionary of weights by class.
        prior_precision: of the normal prior on the weights of a Bayesian head, in units of the
            features; "auto" learns it.
        random_effects: of a mixed head: "intercept" for one a group, "slopes" for slopes of every
            column as well, or a list of columns for slopes of those; "auto" is "intercept".
        inference: how a Bayesian head finds its posterior: "elbo" (the evidence lower bound),
            "elbo-diagonal" (with independent weights), "laplace", or "jaakkola" (the bound of
            Jaakkola and Jordan, for two classes); "auto" is "elbo".
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
        base: Any = "auto",
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
        class_weight: Any = None,
        prior_precision: Any = "auto",
        random_effects: Any = "auto",
        inference: Any = "auto",
        augment: Any = "auto",
        reader: Any = "auto",
        random_state: Any = None,
        verbose: Any = "auto",
    ):
        self.flow = flow
        self.base = base
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
        self.class_weight = class_weight
        self.prior_precision = prior_precision
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
    ) -> "HybridClassifier":
        """Fit to rows or images `X` and classes `y` (numbers, strings or booleans).

        Args:
            X: a table, or images (rows, height, width, channels) of bytes or floats in [0, 1].
            y: classes, one a row.
            sample_weight: what each row counts.
            groups: the group of each row, for head="mixed".
            checkpoint: folder where a fit to images is kept; the same call again resumes it.
        """
        X, y = self._validate_with_target(X, y)
        with self._grouping(groups, X):
            target, weights = self._learn_target(y), self._weights(X, sample_weight)
            self._fit(X, y, target, weights, checkpoint)
            self._remember(target, y, weights)
        return self

    def _learn_target(
        self, y: np.ndarray, weights: np.ndarray | None = None, *, nulls: bool = False
    ) -> ClassTarget:
        if self.head not in HEADS:
            raise ValueError(f"HybridClassifier's head must be one of {HEADS}; got {self.head!r}.")
        if self.base not in BASES:
            raise ValueError(f"HybridClassifier's base must be one of {BASES}; got {self.base!r}.")
        if self.base == "mixture" and not self._can_mix:
            raise ValueError(
                "base='mixture' goes with head='categorical' and without volume_weight, which sets "
                "the variance of the one normal; use base='normal'."
            )
        target = ClassTarget.learn(
            y,
            self.unlabelled,
            nulls=nulls,
            class_weight=self.class_weight,
            weight_prior=self._weight_prior(),
        )
        n_classes = len(target.classes)
        two_only = {"head": ("mixed",), "inference": ("jaakkola",)}
        for name, values in two_only.items():
            if getattr(self, name) in values and n_classes != 2:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is for two classes; y has {n_classes}."
                )
        return target

    def _weight_prior(self) -> WeightPrior | None:
        """What was asked of random weights; None for a head without."""
        if self.head not in ("bayesian", "mixed"):
            return None
        if self.prior_precision != "auto":
            _check_number("prior_precision", self.prior_precision, low=0.0, open_low=True)
        if self.inference not in INFERENCE:
            raise ValueError(f"inference must be one of {INFERENCE}; got {self.inference!r}.")
        precision = None if self.prior_precision == "auto" else float(self.prior_precision)
        return WeightPrior(precision, method="elbo" if self.inference == "auto" else self.inference)

    @property
    def _kind(self) -> str:
        return "binary"

    @property
    def _can_mix(self) -> bool:
        return self.head in ("auto", "categorical") and self.volume_weight is None

    def _with_fitted_base(self, ready: Prepared, model: Hybrid) -> Hybrid:
        wanted = self.base == "mixture" or (
            self.base == "auto" and self._can_mix and isinstance(ready.encoder, ImageEncoder)
        )
        if not wanted:
            return model
        return with_base_of_classes(
            model, ready.train, ready.held_out, always=self.base == "mixture", seed=ready.seed
        )

    def _remember(self, target: ClassTarget, y: np.ndarray, weights: np.ndarray) -> None:
        labels = target.read(y)
        known, weights = labels.labelled, labels.weighted(weights)
        counts = np.bincount(labels.ys[known], weights[known], minlength=len(target.classes))
        self.classes_ = target.classes
        self.class_prior_ = counts / counts.sum()

    def predict_proba(self, X: Any, *, groups: Any = None) -> Float[np.ndarray, "rows classes"]:
        """p(y|x), columns in the order of `classes_`; of a mixed head also given the rows' groups.

        A group that training did not see, or None, stands for one drawn from the population.
        """
        return softmax(self.decision_function(X, raw=True, groups=groups), axis=1)

    def predict_log_proba(self, X: Any, *, groups: Any = None) -> Float[np.ndarray, "rows classes"]:
        """log p(y|x)."""
        return log_softmax(self.decision_function(X, raw=True, groups=groups), axis=1)

    def decision_function(self, X: Any, *, raw: bool = False, groups: Any = None) -> np.ndarray:
        """Linear predictors of the classes; for two classes the log-odds of the second.

        With `raw` the predictors of all classes are given also when there are only two. Bayesian
        heads have log-probabilities in their place, averaged over the weights.
        """
        encoded = self._encode(X)
        codes = self._codes_of(groups, len(encoded.values))
        logits = np.asarray(self._responses(encoded, codes).logits, float)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 and not raw else logits

    def predict(self, X: Any, *, groups: Any = None) -> np.ndarray:
        """The most probable class of each row, refused or not; see `rejects`."""
        logits = self.decision_function(X, raw=True, groups=groups)
        return self.classes_[np.argmax(logits, axis=1)]

    def safe_predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """p(y|x), and the class frequencies p(y) for rows that are refused."""
        encoded = self._encode(X)
        refused = self.reject_rule_.rejects(self._log_px(encoded))
        probabilities = softmax(np.asarray(self._responses(encoded).logits, float), axis=1)
        return np.where(refused[:, None], self.class_prior_, probabilities)

    def log_joint(self, X: Any, y: Any) -> Float[np.ndarray, " rows"]:
        """log p(x) + log p(y|x) of each row."""
        encoded = self._encode(X)
        codes = self._codes(y, len(encoded.values))
        log_py = log_softmax(np.asarray(self._responses(encoded).logits, float), axis=1)
        return self._log_px(encoded) + log_py[np.arange(len(codes)), codes]

    def counterfactual(self, X: Any, target: Any, *, margin: float = 1.0) -> Counterfactual:
        """The nearest rows, in feature space, for which `target` leads by `margin` in log-odds.

        `target` is one class or one a row. Where rounding to whole numbers or categories undoes
        the change, the margin is doubled, up to six times.
        """
        encoded = self._encode(X)
        before = self._features(encoded).astype(float)
        codes = self._codes(np.resize(np.asarray(target), len(before)), len(before))
        head = self._head
        weight, bias = np.asarray(head.weight, float), np.asarray(head.bias, float)
        margins = np.full(len(before), float(margin))
        for _ in range(MARGIN_DOUBLINGS):
            zs = np.stack(
                [
                    nearest_leading(z, weight, bias, int(code), float(m))
                    for z, code, m in zip(before, codes, margins, strict=True)
                ]
            )
            found = self._as_counterfactual(before, zs)
            missed = found.prediction != self.classes_[codes]
            if not np.any(missed):
                break
            margins = np.where(missed, 2 * margins, margins)
        return found

    def _validate_with_target(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        if y is None:
            raise ValueError("HybridClassifier requires y to be passed, but the target y is None.")
        X = self._validate(X, reset=True)
        y = column_or_1d(y, warn=True)
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows, but y has {len(y)}; give one class a row.")
        return X, y

    def _codes(self, y: Any, n: int) -> np.ndarray:
        y = column_or_1d(y)
        if len(y) != n:
            raise ValueError(f"X has {n} rows, but y has {len(y)}; give one class a row.")
        return ClassTarget(self.classes_).codes(y)

    def _answers(self, response: Any) -> dict[str, np.ndarray]:
        probabilities = softmax(np.asarray(response.logits, float), axis=1)
        best = np.argmax(probabilities, axis=1)
        return {
            "prediction": self.classes_[best],
            "probability": probabilities[np.arange(len(best)), best],
        }

    def _targets(self, drawn: np.ndarray) -> np.ndarray:
        return self.classes_[drawn]

    def _features_given(self, wanted: np.ndarray, key: Any, model: Hybrid) -> np.ndarray:
        codes = self._codes(wanted, len(wanted))
        return features_given(model, jnp.asarray(codes), key=key)
