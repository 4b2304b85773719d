r"""Covariate shift: rows of one place weighted until they are like those of another.

If rows lie elsewhere and p(y|x) is as it was, then what a model loses on new rows is an average
over old ones,
$$E_{new}[\ell] = E_{old}[w(x)\, \ell], \qquad w(x) = p_{new}(x) / p_{old}(x),$$
and two exact densities give w. Weighted, n rows are worth $(\sum w)^2 / \sum w^2$ unweighted ones;
where places hardly overlap that is a handful, and a fit to them is worse than one that ignores the
shift. Between the two lie $w^\gamma$ with $0 \le \gamma \le 1$, and weights that are cut off: less
noise for some bias. A model that is right everywhere needs no weights at all.

Reference: Shimodaira (2000), Improving predictive inference under covariate shift by weighting the
log-likelihood function, Journal of Statistical Planning and Inference 90(2).
"""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from jaxtyping import Float
from sklearn.base import clone

from diglm.data.encoder import Rows
from diglm.estimators import HybridDensity
from diglm.estimators.common import checked_rows
from diglm.parameters import Real, check_real

FEW = (
    0.1  # of the rows: if no more are left, or if more of the new ones are strange, people are told
)


class ShiftWarning(UserWarning):
    """Two places overlap so little that weights cannot make one of the other."""


class Density(Protocol):
    """Whatever gives log p(x) of rows."""

    def score_samples(self, X: Any) -> np.ndarray:
        """log p(x) of each row."""
        ...


class Estimator(Protocol):
    """Whatever takes weights of rows."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit to weighted rows."""
        ...


@dataclass(frozen=True)
class CovariateWeights:
    r"""What each row of one place counts so that together they are like those of another.

    Attributes:
        weights: with mean one; the `sample_weight` of `fit`.
        log_ratios: log p_new(x) - log p_old(x), before anything was flattened or cut.
        effective_rows: how many unweighted rows these are worth, $(\sum w)^2 / \sum w^2$.
    """

    weights: Float[np.ndarray, " rows"]
    log_ratios: Float[np.ndarray, " rows"]
    effective_rows: float


class Fitted(NamedTuple):
    """What `fit_for` gives.

    Attributes:
        model: fitted to the weighted rows.
        weights: what the rows counted.
        uncovered: share of the new rows that are strange to the old place. Weights do not help
            there: no old row is like them.
    """

    model: Any
    weights: CovariateWeights
    uncovered: float


def covariate_weights(
    source: Density,
    target: Density,
    X: Rows,
    *,
    flatten: float = 1.0,
    clip: float | None = None,
) -> CovariateWeights:
    r"""Weights that make rows of `source` like rows of `target`.

    Args:
        source: a fitted density of the place that the rows come from.
        target: a fitted density of the place that they shall stand for.
        X: rows of the source.
        flatten: $\gamma$ of $w^\gamma$: 1 for the ratio itself, 0 for no weights.
        clip: the largest weight, as a multiple of the mean before it is cut; None for no limit.

    Raises:
        ValueError: where a ratio does not exist, or where none of the rows is possible in the new
            place.
    """
    power = check_real("flatten", flatten, Real(0.0, 1.0))
    limit = None if clip is None else check_real("clip", clip, Real(1.0))
    new, old = (np.asarray(one.score_samples(X), float) for one in (target, source))
    if new.shape != old.shape or new.ndim != 1:
        raise ValueError(f"Expected one log p(x) a row from both; got {new.shape} and {old.shape}.")
    impossible = ~np.isfinite(old) | np.isnan(new) | (new == np.inf)
    if np.any(impossible):
        raise ValueError(
            f"{impossible.sum()} of {len(old)} rows have no ratio of densities: log p(x) of the "
            "source must be finite at its own rows. Is the source given first?"
        )
    if not np.any(new > -np.inf):
        raise ValueError(
            "To the target density every row is impossible: the places do not overlap."
        )
    ratios = new - old
    weights = np.exp(power * (ratios - np.max(ratios))) if power > 0 else np.ones(len(ratios))
    weights = weights / np.mean(weights)
    if limit is not None:
        weights = np.minimum(weights, limit)
        weights = weights / np.mean(weights)
    effective = effective_rows(weights)
    if effective < FEW * len(weights):
        warnings.warn(
            f"The weights leave {len(weights)} rows worth {effective:.1f}: the two places hardly "
            "overlap, and a fit to these rows is mostly noise. Flatten the weights (flatten=0.5), "
            "cut them off (clip=10), or ask for labels from the new place.",
            ShiftWarning,
            stacklevel=2,
        )
    return CovariateWeights(weights, ratios, effective)


def effective_rows(weights: Float[np.ndarray, " rows"]) -> float:
    r"""$(\sum w)^2 / \sum w^2$: how many unweighted rows have a mean as noisy as these."""
    scaled = np.asarray(weights, float) / np.max(weights)
    return float(np.sum(scaled) ** 2 / np.sum(scaled**2))


def fit_for(
    model: Estimator,
    X: Rows,
    y: Any,
    X_new: Rows,
    *,
    density: HybridDensity | None = None,
    flatten: float = 1.0,
    clip: float | None = None,
) -> Fitted:
    """Fit `model` to rows whose targets are known, weighted to be like rows of another place.

    Args:
        model: an estimator of diglm or of scikit-learn that takes `sample_weight`; it is fitted.
        X: rows of the old place.
        y: their targets.
        X_new: rows of the new place, without targets.
        density: how densities are fitted, once to each place; None for `HybridDensity` with seed 0.
        flatten: as for `covariate_weights`.
        clip: as for `covariate_weights`.
    """
    recipe = HybridDensity(random_state=0) if density is None else density
    X, X_new = checked_rows(X), checked_rows(X_new)
    source, target = _copy(recipe).fit(X), _copy(recipe).fit(X_new)
    weights = covariate_weights(source, target, X, flatten=flatten, clip=clip)
    uncovered = float(np.mean(source.rejects(X_new)))
    if uncovered > FEW:
        warnings.warn(
            f"{uncovered:.0%} of the new rows are strange to the old place. No weights make up for "
            "rows that are not there: ask for labels of these.",
            ShiftWarning,
            stacklevel=2,
        )
    model.fit(X, y, sample_weight=weights.weights)
    return Fitted(model, weights, uncovered)


def _copy(density: HybridDensity) -> HybridDensity:
    """One that has not been fitted."""
    return cast(HybridDensity, clone(density))
