"""What refusing buys: risk against coverage, and how well strange rows are told apart."""

import numpy as np
from jaxtyping import Float


def risk_coverage(
    confidence: Float[np.ndarray, " rows"], wrong: np.ndarray
) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
    """Share of rows answered, and error among them, as ever less confident rows are answered."""
    order = np.argsort(-np.asarray(confidence), kind="stable")
    n = len(order)
    coverage = np.arange(1, n + 1) / n
    return coverage, np.cumsum(np.asarray(wrong, float)[order]) / np.arange(1, n + 1)


def auroc(familiar: Float[np.ndarray, " n"], strange: Float[np.ndarray, " m"]) -> float:
    """Probability that a familiar score exceeds a strange one, ties counting half."""
    familiar, strange = np.sort(familiar), np.asarray(strange)
    below = np.searchsorted(familiar, strange, side="left")
    ties = np.searchsorted(familiar, strange, side="right") - below
    return float(np.mean(1 - (below + 0.5 * ties) / len(familiar)))
