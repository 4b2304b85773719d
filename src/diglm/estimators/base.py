"""What both estimators share: fitting a table, densities, refusal, samples, features, files."""

import dataclasses
import math
import numbers
from abc import abstractmethod
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from diglm import __about__
from diglm.completion import fixed_offsets
from diglm.data.tabular import Encoded, TableEncoder
from diglm.estimators import engine, persistence
from diglm.estimators.counterfactual import Counterfactual
from diglm.estimators.frames import is_frame, table_like
from diglm.estimators.recipes import build_hybrid, choose_sizes
from diglm.heads import GLMHead, fit_head
from diglm.hybrid import Hybrid
from diglm.objectives import JointObjective
from diglm.selective import RejectRule, check_reject
from diglm.training import FitResult, ProgressBar, Settings, bucket, fit, pad
from diglm.types import Batch, partition

SCORING_OFFSETS = 8
FEWEST_TO_CALIBRATE = 30
LARGEST_EXACT_HEAD = 5_000  # weights; above, a Newton step would cost more than it gives
HEAD_PRECISIONS = (1.0, 3.0, 10.0, 30.0, 100.0)  # of the Gaussian prior on its weights
UNSEEN_LOG_MASS = -1e6  # nats per cell that training gave no meaning: always refused, yet finite


class AbstractHybridEstimator(TransformerMixin, BaseEstimator):
    """A hybrid model of a table behind scikit-learn's contract."""

    # Parameters that the constructors store and this class reads.
    flow: Any
    generative_weight: float
    volume_weight: float | None
    validation_fraction: float | str
    reject: float | str | None
    slack: float
    entropy_weight: float
    vat_weight: float
    vat_radius: float
    random_state: Any
    verbose: bool | str

    encoder_: TableEncoder
    model_: Hybrid
    reject_rule_: RejectRule
    history_: list[dict[str, float | int]]

    def __sklearn_tags__(self):
        """Missing values and strings are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # ------------------------------------------------------------------ fitting

    def _fit(
        self,
        X: Any,
        ys: np.ndarray,
        labelled: np.ndarray,
        *,
        relation: np.ndarray,
        strata: np.ndarray | None,
        head_for: Any,
        metric: str,
        weights: np.ndarray,
    ) -> None:
        """Fit encoder, hybrid, calibration and reject rule; attributes are set only on success."""
        self._check_numbers()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        encoder = TableEncoder.fit(X, relation, weights=(weights > 0).astype(float))
        encoded = encoder.encode(X, owner=type(self).__name__)
        fraction = self.validation_fraction
        if fraction == "auto":
            fraction = float(np.clip(200 / max(1, np.sum(weights > 0)), 0.1, 0.2))
        train, held_out = _split(cast(float, fraction), strata, weights, seed)
        values = encoded.values.astype(jnp.result_type(float))
        sizes = choose_sizes(
            self.get_params(deep=False), len(train), encoder.dim, classes=strata is not None
        )
        variance = 1.0 if self.volume_weight is None else float(self.volume_weight)
        known = train[labelled[train]]
        if len(known) == 0:
            raise ValueError("No training row has a label, so there is nothing to predict.")
        model = build_hybrid(
            self.flow,
            _started(
                head_for(encoder.dim), Batch(ys[known], ys[known], labelled[known], weights[known])
            ),
            values[train],
            encoder.widths,
            encoder.can_be_missing,
            sizes,
            variance=variance,
            seed=seed,
        )
        rows = Batch(values, ys, labelled, weights)
        part = [Batch(*(column[i] for column in rows)) for i in (train, held_out)]
        fixed = len(jax.tree.leaves(partition((model.flow, model.completion))[0])) == 0
        offsets = fixed_offsets(encoder.dim, SCORING_OFFSETS)
        model = _with_fitted_head(model, part[0], part[1], offsets, exactly=fixed)
        generative = (
            self.generative_weight / encoder.dim if self.volume_weight is None else variance
        )
        objective = JointObjective(
            generative,
            self.entropy_weight,
            self.vat_weight,
            self.vat_radius,
            n_rows=float(len(train)),
        )
        settings = Settings(
            n_epochs=sizes.n_epochs,
            batch_size=sizes.batch_size,
            learning_rate=sizes.learning_rate,
            patience=sizes.patience,
        )
        with ProgressBar(settings.n_epochs, metric, self.verbose) as bar:
            # With nothing to train but the head, its exact fit is the whole fit.
            result = (
                FitResult(model, stopped="exact")
                if fixed
                else fit(
                    model,
                    part[0],
                    objective=objective,
                    validation=part[1] if len(held_out) else None,
                    settings=settings,
                    seed=seed,
                    progress=bar,
                )
            )
        self.encoder_, self.model_, self.history_ = encoder, result.model, result.history
        self.stopped_, self.skipped_steps_ = result.stopped, result.skipped_steps
        self.fit_seconds_ = result.seconds
        self.n_epochs_ = len(result.history)
        seen = engine.evaluate(engine.look, self.model_, encoded.values, self._offsets)
        if not fixed:
            self._calibrate(seen.z[held_out], part[1])
        log_px = self._in_user_units(seen.log_px, encoded)
        self.reject_rule_ = RejectRule.fit(
            self.reject, training=log_px[train], held_out=log_px[held_out], slack=self.slack
        )

    def _calibrate(self, zs: np.ndarray, held_out: Batch) -> None:
        """Scale the head's confidence by the one number that suits the held-out rows best."""
        known = np.flatnonzero(held_out.labelled & (held_out.weight > 0))
        if len(known) < FEWEST_TO_CALIBRATE:
            return
        rows = Batch(zs.reshape(len(zs), -1), *held_out[1:])
        rows = pad(Batch(*(column[known] for column in rows)), bucket(len(known)))
        head = _best_calibration(self._head, rows)
        self.model_ = eqx.tree_at(lambda model: model.head, self.model_, head)

    def _check_numbers(self) -> None:
        """Errors for parameters that are out of range, before any work is done."""
        check_reject(self.reject, self.slack)
        for name in ("generative_weight", "entropy_weight", "vat_weight", "vat_radius"):
            _check_number(name, getattr(self, name), low=0.0)
        if self.volume_weight is not None:
            _check_number("volume_weight", self.volume_weight, low=0.0, open_low=True)
        if self.validation_fraction != "auto":
            _check_number("validation_fraction", self.validation_fraction, low=0.0, high=0.9)

    # ------------------------------------------------------------------ densities and refusal

    def score_samples(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Exact log p(x) of each row, natural log, in the units of the columns given.

        Whole numbers, rounded numbers and categories are cells: their part is a log mass per
        unit, estimated from 8 fixed places in the cell. A category that training never saw, or a
        value missing where none was, costs 1e6 nats: finite, and always refused.
        """
        return self._log_px(self._encode(X))

    @property
    def threshold_(self) -> float:
        """Rows with log p(x) below this are refused."""
        return self.reject_rule_.threshold

    def rejects(self, X: Any) -> np.ndarray:
        """Whether each row is refused: log p(x) < `threshold_`."""
        return self.reject_rule_.rejects(self.score_samples(X))

    def p_value(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Conformal p-value of each row: the share of held-out rows at most as probable."""
        return self.reject_rule_.p_value(self.score_samples(X))

    def assess(self, X: Any) -> Any:
        """One pass, one table: prediction, probability or sd, log_px, p_value, rejected.

        The table is of the library of `X` (pandas or polars); for arrays it is a pandas frame
        where pandas is installed, else a NumPy record array.
        """
        encoded = self._encode(X)
        seen = self._evaluate(engine.look, encoded)
        log_px = self._in_user_units(seen.log_px, encoded)
        columns = self._answers(seen.response) | {
            "log_px": log_px,
            "p_value": self.reject_rule_.p_value(log_px),
            "rejected": self.reject_rule_.rejects(log_px),
        }
        return table_like(X, columns)

    # ------------------------------------------------------------------ features and samples

    def transform(self, X: Any) -> Float[np.ndarray, "rows dim"]:
        """Features z = f(x)."""
        return self._features(self._encode(X))

    def inverse_transform(self, Z: Any) -> Any:
        """Rows with features `Z`, in the container and units of the training table."""
        check_is_fitted(self, "model_")
        Z = np.asarray(Z, float)
        if Z.ndim != 2 or Z.shape[1] != self.encoder_.dim:
            raise ValueError(
                f"Expected features of shape (rows, {self.encoder_.dim}); got {Z.shape}. "
                "Use the output of transform()."
            )
        if not np.all(np.isfinite(Z)):
            raise ValueError("Features must be finite numbers; found NaN or infinity.")
        return self.encoder_.decode(
            engine.evaluate(engine.invert, self.model_, Z, self._offsets).astype(float)
        )

    def sample(self, n: int = 1, y: Any = None, random_state: Any = None) -> Any:
        """`n` rows like the training rows; with `y` (one value, or n of them) exactly given it."""
        check_is_fitted(self, "model_")
        key = self._key(random_state)
        if y is None:
            return self.inverse_transform(self.model_.flow.base.sample(key, _whole("n", n)))
        wanted = np.asarray(y).ravel()
        if wanted.size not in (1, n):
            raise ValueError(f"y must be one value or n = {n} values; got {wanted.size}.")
        return self.inverse_transform(self._features_given(np.resize(wanted, n), key))

    def sample_joint(self, n: int = 1, random_state: Any = None) -> tuple[Any, np.ndarray]:
        """`n` rows and targets drawn from the joint p(x, y)."""
        check_is_fitted(self, "model_")
        key_z, key_y = jax.random.split(self._key(random_state))
        zs = self.model_.flow.base.sample(key_z, _whole("n", n))
        keys = jax.random.split(key_y, n)
        drawn = jax.vmap(lambda z, key: self.model_.head(z).sample(key))(zs, keys)
        return self.inverse_transform(zs), self._targets(np.asarray(drawn))

    def interpolate(self, a: Any, b: Any, steps: int = 8) -> Any:
        """`steps` rows on the straight line, in feature space, from row `a` to row `b`."""
        ends = [self.transform(_one_row(row, name)) for row, name in ((a, "a"), (b, "b"))]
        share = np.linspace(0.0, 1.0, _whole("steps", steps))[:, None]
        return self.inverse_transform((1 - share) * ends[0] + share * ends[1])

    def _as_counterfactual(self, before: np.ndarray, zs: np.ndarray) -> Counterfactual:
        """The rows at features `zs`, evaluated afresh as what they became after rounding."""
        x = self.inverse_transform(zs)
        encoded = self._encode(x)
        seen = self._evaluate(engine.look, encoded)
        log_px = self._in_user_units(seen.log_px, encoded)
        return Counterfactual(
            x=x,
            z=seen.z,
            log_px=log_px,
            rejected=self.reject_rule_.rejects(log_px),
            prediction=self._answers(seen.response)["prediction"],
            distance=np.linalg.norm(seen.z - before, axis=1),
        )

    # ------------------------------------------------------------------ files

    def save(self, path: Any) -> None:
        """Write the model to `path` (safetensors with a JSON header), replacing it atomically."""
        check_is_fitted(self, "model_")
        own = {
            name: value
            for name, value in vars(self).items()
            if name.endswith("_") and name not in ("encoder_", "reject_rule_")
        }
        content = {
            "estimator": type(self).__name__,
            "version": __about__.__version__,
            "parameters": self.get_params(deep=False),
            "encoder": self.encoder_.to_dict(),
            "reject_rule": dataclasses.asdict(self.reject_rule_),
            "attributes": own,
        }
        persistence.write(path, content)

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> "AbstractHybridEstimator":
        estimator = cls(**content["parameters"])
        estimator.encoder_ = TableEncoder.from_dict(content["encoder"])
        estimator.reject_rule_ = RejectRule(**content["reject_rule"])
        for name, value in content["attributes"].items():
            if not (isinstance(name, str) and name.endswith("_") and not name.startswith("_")):
                raise ValueError(f"it sets an attribute {name!r} that no model has")
            setattr(estimator, name, value)
        model, dim = estimator.model_, estimator.encoder_.dim
        if not isinstance(model, Hybrid):
            raise ValueError("it holds no hybrid model")
        # Shapes must fit together before the first row is asked about.
        jax.eval_shape(lambda x: model(x), jax.ShapeDtypeStruct((dim,), jnp.result_type(float)))
        return estimator

    # ------------------------------------------------------------------ shared steps

    def _validate(self, X: Any, *, reset: bool) -> Any:
        """scikit-learn's checks of the container; what the cells mean is the encoder's business."""
        if is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        return validate_data(
            self, X, dtype=None, ensure_all_finite="allow-nan", reset=reset, accept_sparse=False
        )

    def _encode(self, X: Any) -> Encoded:
        check_is_fitted(self, "model_")
        encoded = self.encoder_.encode(self._validate(X, reset=False), owner=type(self).__name__)
        return self._filled(self.encoder_, encoded)

    @staticmethod
    def _filled(encoder: TableEncoder, encoded: Encoded) -> Encoded:
        """Cells missing where training had none stand at the middle; `unseen` counts them."""
        strange = np.isnan(encoded.values) & ~encoder.can_be_missing
        return encoded._replace(values=np.where(strange, 0.0, encoded.values))

    def _features(self, encoded: Encoded) -> np.ndarray:
        return self._evaluate(engine.respond, encoded).z

    def _responses(self, encoded: Encoded) -> Any:
        return self._evaluate(engine.respond, encoded).response

    def _log_px(self, encoded: Encoded) -> np.ndarray:
        return self._in_user_units(self._evaluate(engine.density, encoded).log_px, encoded)

    def _evaluate(self, part: Any, encoded: Encoded) -> Any:
        """The part of a look that is asked for, as NumPy arrays stacked along the rows.

        Where one pass gives all, that one program gives any part.
        """
        function = engine.look if self.model_.completion is None else part
        return engine.evaluate(function, self.model_, encoded.values, self._offsets)

    @staticmethod
    def _in_user_units(log_px: np.ndarray, encoded: Encoded) -> np.ndarray:
        return log_px.astype(float) + encoded.log_scale + UNSEEN_LOG_MASS * encoded.unseen

    @property
    def _head(self) -> GLMHead:
        return _head_of(self.model_)

    @property
    def _offsets(self) -> np.ndarray:
        return fixed_offsets(self.encoder_.dim, SCORING_OFFSETS)

    def _key(self, random_state: Any) -> Any:
        return jax.random.key(int(check_random_state(random_state).randint(2**31 - 1)))

    def _weights(self, X: Any, sample_weight: Any) -> np.ndarray:
        """Weights with mean one over the rows that have any."""
        weights = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
        return weights / np.mean(weights[weights > 0])

    @abstractmethod
    def _answers(self, response: Any) -> dict[str, np.ndarray]:
        """Columns of `assess` that depend on the kind of target; "prediction" comes first."""

    @abstractmethod
    def _targets(self, drawn: np.ndarray) -> np.ndarray:
        """Targets in the user's terms from draws of the head."""

    @abstractmethod
    def _features_given(self, wanted: np.ndarray, key: Any) -> np.ndarray:
        """One draw of z given each wanted target, in the user's terms."""


def _split(
    fraction: float, strata: np.ndarray | None, weights: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to hold out; classes keep their shares.

    Fewer than 20 rows are all trained on: what one could hold out would settle nothing.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.flatnonzero(weights > 0))
    n_held = round(fraction * len(order))
    if fraction == 0 or len(order) < 20:
        return np.sort(order), np.zeros(0, int)
    n_held = max(n_held, 4)
    if strata is not None:
        # Deal the rows out class by class, then take every k-th: shares are kept to one row.
        order = order[np.argsort(strata[order], kind="stable")]
        start = rng.random()
        places = np.floor((np.arange(n_held) + start) * len(order) / n_held).astype(int)
    else:
        places = np.arange(n_held)
    held = np.zeros(len(order), bool)
    held[places] = True
    return np.sort(order[~held]), np.sort(order[held])


def _with_fitted_head(
    model: Hybrid, rows: Batch, held_out: Batch, offsets: np.ndarray, *, exactly: bool
) -> Hybrid:
    """The model with its head fitted by Newton's method to the features of the untrained flow.

    Training then sets out from a Gaussian copula and a GLM on its features instead of from a head
    that knows nothing, and never returns anything worse on the held-out rows. `exactly` gives the
    unpenalised GLM, to convergence. Otherwise the start has the prior precision, of a few, that
    suits the held-out rows best, and training goes on with the weakest of them.
    """
    head = _head_of(model)
    if head.weight.size > LARGEST_EXACT_HEAD:
        return model
    rows, held_out = (_features_of(model, part, offsets) for part in (rows, held_out))
    if exactly:
        return _with_head(model, _newton(head, rows, 0.0, max_steps=200, tolerance=1e-9))
    judged = held_out if len(held_out.weight) >= FEWEST_TO_CALIBRATE else None
    if judged is None:
        return _with_head(model, _newton(head, rows, 1.0))
    judged = pad(judged, bucket(len(judged.weight)))
    fitted = [_newton(head, rows, precision) for precision in HEAD_PRECISIONS]
    scores = [float(_log_likelihood(candidate, judged)) for candidate in fitted]
    best = fitted[int(np.nanargmax(scores))]
    return _with_head(model, _with_precision(best, HEAD_PRECISIONS[0]))


def _head_of(model: Hybrid) -> GLMHead:
    """The model's head, which in an estimator's hybrid is always a generalised linear model."""
    return cast(GLMHead, model.head)


def _features_of(model: Hybrid, rows: Batch, offsets: np.ndarray) -> Batch:
    """The rows that have labels, as features."""
    known = np.flatnonzero(rows.labelled & (rows.weight > 0))
    rows = Batch(*(column[known] for column in rows))
    if len(known) == 0:
        return rows
    zs = engine.evaluate(engine.look, model, np.asarray(rows.x), offsets).z
    return rows._replace(x=zs.reshape(len(zs), -1))


def _newton(
    head: GLMHead, rows: Batch, l2: float, *, max_steps: int = 30, tolerance: float = 1e-5
) -> GLMHead:
    rows = pad(rows, bucket(len(rows.weight)))
    return fit_head(
        _with_precision(head, l2),
        rows.x,
        rows.y,
        weights=rows.weight,
        max_steps=max_steps,
        tolerance=tolerance,
        warm_start=True,
    )


def _with_precision(head: GLMHead, l2: float) -> GLMHead:
    return eqx.tree_at(lambda h: h.l2.value, head, jnp.full_like(head.l2.value, l2))


def _with_head(model: Hybrid, head: GLMHead) -> Hybrid:
    """The model with that head, unless its fit went astray."""
    finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in (head.weight, head.bias))
    return eqx.tree_at(lambda m: m.head, model, head) if finite else model


@eqx.filter_jit
def _log_likelihood(head: GLMHead, rows: Batch) -> jax.Array:
    """Weighted sum of log p(y|z)."""
    per_row = jax.vmap(lambda z, y: head(z).log_prob(y))(rows.x, rows.y)
    return jnp.sum(rows.weight * jnp.where(rows.weight > 0, per_row, 0.0))


def _started(head: GLMHead, rows: Batch) -> GLMHead:
    """The head at the marginal of y; padded, so that tables of similar size share a program."""
    rows = pad(rows, bucket(len(rows.weight)))
    return _start_head(head, jnp.asarray(rows.y), jnp.asarray(rows.weight))


@eqx.filter_jit
def _start_head(head: GLMHead, ys: jax.Array, weights: jax.Array) -> GLMHead:
    return head.start(ys, weights)


@eqx.filter_jit
def _best_calibration(head: GLMHead, rows: Batch) -> GLMHead:
    """The head at the confidence that maximises held-out likelihood, shrunk towards no change."""
    grid = jnp.exp(jnp.linspace(-1.2, 1.2, 61)).astype(rows.x.dtype)

    def likelihood(c):
        return _log_likelihood(head.calibrated(c), rows) - 0.5 * jnp.square(jnp.log(c) / 0.2)

    values = jax.lax.map(likelihood, grid)
    best = grid[jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))]
    return head.calibrated(best)


def _check_number(
    name: str, value: Any, *, low: float, high: float = math.inf, open_low: bool = False
) -> None:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = cast(float, value)  # the stubs of numbers.Real have no order with float
    if not (
        is_number
        and math.isfinite(value)
        and (number > low or (number == low and not open_low))
        and number <= high
    ):
        bounds = f"{'>' if open_low else '>='} {low:g}" + (
            "" if high == math.inf else f" and <= {high:g}"
        )
        raise ValueError(f"{name} must be a finite number {bounds}; got {value!r}.")


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
    return int(value)


def _one_row(row: Any, name: str) -> Any:
    """A table of one row from a vector or from a table of one row."""
    if is_frame(row):
        table = row
    else:
        table = np.asarray(row)
        table = table[None] if table.ndim == 1 else table
    if len(table) != 1:
        raise ValueError(f"interpolate() takes one row for {name}; got {len(table)}.")
    return table
