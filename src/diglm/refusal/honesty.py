"""Are probabilities what they say? Reliability, proper scores, and where targets stand."""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int


@runtime_checkable
class Quantiles(Protocol):
    """A distribution of each row, known by its quantiles, such as `predict_dist` gives."""

    def quantile(self, q: np.ndarray) -> np.ndarray:
        """Quantiles (rows, levels)."""
        ...


class Reliability(NamedTuple):
    """Bins of confidence: how sure, how often right, and how many rows."""

    confidence: Float[np.ndarray, " bins"]
    accuracy: Float[np.ndarray, " bins"]
    count: Int[np.ndarray, " bins"]


def reliability(
    confidence: Float[np.ndarray, " rows"], right: np.ndarray, n_bins: int = 15
) -> Reliability:
    """Rows by how sure the model is of its answer, in bins of equal width; empty ones left out."""
    sure, right = np.asarray(confidence, float), np.asarray(right, float)
    if sure.ndim != 1 or sure.shape != right.shape or len(sure) == 0:
        raise ValueError(f"Expected two columns of one length; got {sure.shape}, {right.shape}.")
    if not np.all((sure >= 0) & (sure <= 1)):
        raise ValueError("confidence is a probability, between 0 and 1.")
    if n_bins < 1:
        raise ValueError(f"n_bins must be 1 or more; got {n_bins}.")
    place = np.minimum((sure * n_bins).astype(int), n_bins - 1)
    count = np.bincount(place, minlength=n_bins)
    used = count > 0
    mean_sure, mean_right = (
        np.bincount(place, values, minlength=n_bins)[used] / count[used] for values in (sure, right)
    )
    return Reliability(mean_sure, mean_right, count[used])


def calibration_error(
    confidence: Float[np.ndarray, " rows"], right: np.ndarray, n_bins: int = 15
) -> float:
    """ECE: how far confidence is from accuracy, on average over the rows, bin by bin."""
    bins = reliability(confidence, right, n_bins)
    apart = np.abs(bins.confidence - bins.accuracy)
    return float(np.average(apart, weights=bins.count))


def brier(probabilities: Float[np.ndarray, "rows classes"], codes: np.ndarray) -> float:
    """Mean squared distance of probabilities from the truth, summed over the classes; 0 to 2.

    `codes` are positions of the true classes among the columns.
    """
    probabilities, codes = np.asarray(probabilities, float), np.asarray(codes)
    if probabilities.ndim != 2 or codes.shape != probabilities.shape[:1] or len(codes) == 0:
        raise ValueError(
            f"Expected probabilities (rows, classes) and a code a row; got {probabilities.shape}, "
            f"{codes.shape}."
        )
    truth = np.eye(probabilities.shape[1])[codes.astype(int)]
    return float(np.mean(np.sum(np.square(probabilities - truth), axis=1)))


def crps(
    distribution: Quantiles, y: Float[np.ndarray, " rows"], n_levels: int = 128
) -> Float[np.ndarray, " rows"]:
    r"""$\int (F(t) - 1[t \ge y])^2\, dt$ of each row, in the units of y; the lower, the better.

    As twice the pinball loss averaged over all quantile levels, at the nodes of Gauss and Legendre.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n_levels)
    levels, weights = (nodes + 1) / 2, weights / 2
    above = np.asarray(y, float)[:, None] - distribution.quantile(levels)
    pinball = np.where(above > 0, levels, levels - 1) * above
    return 2 * pinball @ weights
