"""Before training and after: split, recipe, the head fitted by Newton; calibration."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from diglm.compiling import jit_once
from diglm.completion import fixed_offsets
from diglm.data.table.encoder import TableEncoder
from diglm.estimators import engine
from diglm.estimators.recipes import build_hybrid, choose_sizes
from diglm.estimators.targets import AbstractTarget
from diglm.heads import AbstractBayesianHead, AbstractHead, ConjugateHead, GLMHead, fit_head
from diglm.hybrid import Hybrid
from diglm.objectives import JointObjective
from diglm.training import Settings, bucket, pad
from diglm.types import Batch, partition

SCORING_OFFSETS = 8
FEWEST_TO_CALIBRATE = 30
LARGEST_EXACT_HEAD = 5_000  # weights; above, a Newton step would cost more than it gives
ROWS_FOR_HEAD = 20_000
FEWEST_FOR_SPREADS, LEAST_SPREAD = 200, 0.005
HEAD_PRECISIONS = (1.0, 3.0, 10.0, 30.0, 100.0)  # of the Gaussian prior on its weights


class Beginning(NamedTuple):
    """All that training needs besides rows.

    `exact` when the started model is already the fit; `augment` changes images at every step.
    """

    model: Hybrid
    objective: JointObjective
    settings: Settings
    exact: bool
    augment: Any = None


def begin(
    parameters: dict[str, Any],
    encoder: TableEncoder,
    target: AbstractTarget,
    train: Batch,
    held_out: Batch,
    *,
    n_rows: int,
    seed: int,
) -> Beginning:
    """The model with margins, whitening and head set from rows, its objective and its settings.

    Args:
        parameters: an estimator's, by name.
        encoder: what gave the rows their encoded values.
        target: what the head predicts.
        train: rows to start from: all training rows, or a sample of them.
        held_out: rows on which the head's precision is chosen.
        n_rows: how many training rows there are in all.
        seed: of starting weights.
    """
    sizes = choose_sizes(parameters, n_rows, encoder.dim, classes=target.metric == "accuracy")
    volume_weight = parameters["volume_weight"]
    variance = 1.0 if volume_weight is None else float(volume_weight)
    known = np.flatnonzero(train.labelled)
    if len(known) == 0:
        raise ValueError("No training row has a label, so there is nothing to predict.")
    model = build_hybrid(
        parameters["flow"],
        started(target.head(encoder.dim), Batch(*(column[known] for column in train))),
        np.asarray(train.x),
        encoder.widths,
        encoder.can_be_missing,
        sizes,
        variance=variance,
        seed=seed,
    )
    exact = len(jax.tree.leaves(partition((model.flow, model.completion))[0])) == 0
    if isinstance(model.head, ConjugateHead) and model.head.has_effects:
        exact = False  # effects of observations have no closed form
    offsets = fixed_offsets(encoder.dim, SCORING_OFFSETS)
    model = with_fitted_head(model, train, held_out, offsets, exactly=exact)
    objective = objective_of(parameters, encoder.dim, n_rows)
    settings = Settings(
        n_epochs=sizes.n_epochs,
        batch_size=sizes.batch_size,
        learning_rate=sizes.learning_rate,
        patience=sizes.patience,
    )
    return Beginning(model, objective, settings, exact)


def objective_of(parameters: dict[str, Any], dim: int, n_rows: int) -> JointObjective:
    """What an estimator with these parameters minimises over rows of `dim` numbers."""
    volume_weight = parameters["volume_weight"]
    weight = parameters["generative_weight"] / dim if volume_weight is None else volume_weight
    return JointObjective(
        float(weight),
        parameters["entropy_weight"],
        parameters["vat_weight"],
        parameters["vat_radius"],
        n_rows=float(n_rows),
    )


def split_rows(
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


def with_fitted_head(
    model: Hybrid, rows: Batch, held_out: Batch, offsets: np.ndarray, *, exactly: bool
) -> Hybrid:
    """The model with its head fitted by Newton's method to the features of the untrained flow.

    Training then sets out from a Gaussian copula and a GLM on its features instead of from a head
    that knows nothing, and never returns anything worse on the held-out rows. `exactly` gives the
    unpenalised GLM, to convergence. Otherwise the start has the prior precision, of a few, that
    suits the held-out rows best, and training goes on with the weakest of them. Bayesian heads
    get their posterior, and find the precision by themselves.
    """
    if isinstance(model.head, AbstractBayesianHead):
        if not exactly:
            rows = Batch(*(column[:ROWS_FOR_HEAD] for column in rows))
        found = _features_of(model, rows, offsets)
        fitted = model.head.refit(*(np.asarray(part) for part in (found.x, found.y, found.weight)))
        return eqx.tree_at(lambda m: m.head, model, fitted)
    head = head_of(model)
    if head.weight.size > LARGEST_EXACT_HEAD:
        return model
    if not exactly:  # a start is settled by fewer rows than a fit
        # Newton's cost grows with rows times the square of the predictors of a spread-out family.
        most = ROWS_FOR_HEAD // max(1, 2 * len(head.family.spreads))
        rows = Batch(*(column[:most] for column in rows))
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


def head_of(model: Hybrid) -> Any:
    """The model's head, which in an estimator's hybrid has the weights and bounds of a GLM's."""
    return model.head


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
def _log_likelihood(head: AbstractHead, rows: Batch) -> jax.Array:
    """Weighted sum of log p(y|z)."""
    per_row = jax.vmap(lambda z, y: head(z).log_prob(y))(rows.x, rows.y)
    return jnp.sum(rows.weight * jnp.where(rows.weight > 0, per_row, 0.0))


def started(head: AbstractHead, rows: Batch) -> AbstractHead:
    """The head at the marginal of y; padded, so that tables of similar size share a program."""
    rows = pad(rows, bucket(len(rows.weight)))
    return _start_head(head, jnp.asarray(rows.y), jnp.asarray(rows.weight))


@jit_once
def _start_head(head: Any, ys: jax.Array, weights: jax.Array) -> AbstractHead:
    return head.start(ys, weights)


def no_surer_than_seen(head: GLMHead, zs: np.ndarray) -> GLMHead:
    """The head with its least spread raised to the one that one training row in 200 has.

    Features beyond the training rows could otherwise push a spread to its bound, a thousandth of
    the target's own, and one such row would outweigh all others in a likelihood.
    """
    spreads = list(head.family.spreads)
    if not spreads or len(zs) < FEWEST_FOR_SPREADS:
        return head
    weight, bias = np.asarray(head.weight, float)[spreads], np.asarray(head.bias, float)[spreads]
    seen = np.quantile(zs.reshape(len(zs), -1) @ weight.T + bias, LEAST_SPREAD, axis=0)
    low = np.array(head.eta_low.value)
    high = np.asarray(head.eta_high.value)[spreads]
    low[spreads] = np.clip(seen, low[spreads], high)
    return eqx.tree_at(lambda h: h.eta_low.value, head, jnp.asarray(low))


def calibrated(head: Any, zs: np.ndarray, held_out: Batch) -> Any:
    """The head with its confidence scaled by the one number that suits the held-out rows best."""
    factor = best_factor(head, zs, held_out)
    return head if factor is None else head.calibrated(factor)


def best_factor(head: AbstractHead, zs: np.ndarray, held_out: Batch) -> jax.Array | None:
    """The number by which `calibrated` should widen; None where too few rows could tell."""
    known = np.flatnonzero(held_out.labelled & (held_out.weight > 0))
    if len(known) < FEWEST_TO_CALIBRATE:
        return None
    rows = Batch(zs.reshape(len(zs), -1), *held_out[1:])
    rows = pad(Batch(*(column[known] for column in rows)), bucket(len(known)))
    return _best_calibration(head, rows)


@jit_once
def _best_calibration(head: Any, rows: Batch) -> jax.Array:
    """The confidence that maximises held-out likelihood, shrunk towards no change."""
    grid = jnp.exp(jnp.linspace(-1.2, 1.2, 61)).astype(rows.x.dtype)

    def likelihood(c):
        return _log_likelihood(head.calibrated(c), rows) - 0.5 * jnp.square(jnp.log(c) / 0.2)

    values = jax.lax.map(likelihood, grid)
    return grid[jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))]
