"""What refusing buys: risk against coverage, and how well strange rows are told apart.

Scores say how familiar or how sure: rows with a higher one are answered first. Equal scores are
taken in random order, and what is expected over that order is given: no result depends on the order
of the rows. Infinite scores are the first or the last; NaN and empty groups are errors.
"""

import numpy as np
from jaxtyping import Float


def risk_coverage(
    confidence: Float[np.ndarray, " rows"], wrong: np.ndarray
) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
    """Share of rows answered, and error among them, as ever less confident rows are answered.

    `wrong` is true or false, or a loss such as the squared error.
    """
    confidence, loss = _checked(confidence, "confidence"), np.asarray(wrong, float)
    if loss.shape != confidence.shape:
        raise ValueError(f"Expected one loss a row, {len(confidence)}; got shape {loss.shape}.")
    n, order = len(confidence), np.argsort(-confidence, kind="stable")
    # Rows that are tied are exchangeable: each has the mean loss of all of them.
    _, place, counts = np.unique(-confidence, return_inverse=True, return_counts=True)
    mean = np.bincount(place, loss) / counts
    coverage = np.arange(1, n + 1) / n
    return coverage, np.cumsum(mean[place][order]) / np.arange(1, n + 1)


def aurc(confidence: Float[np.ndarray, " rows"], wrong: np.ndarray) -> float:
    """Area under the curve of risk against coverage: the mean risk over all coverages."""
    return float(np.mean(risk_coverage(confidence, wrong)[1]))


def excess_aurc(confidence: Float[np.ndarray, " rows"], wrong: np.ndarray) -> float:
    """`aurc` less that of the best confidence there could be, which answers right rows first.

    Reference: Geifman et al. (2019), https://arxiv.org/abs/1805.08206
    """
    loss = np.asarray(wrong, float)
    return aurc(confidence, loss) - aurc(-loss, loss)


def auroc(familiar: Float[np.ndarray, " n"], strange: Float[np.ndarray, " m"]) -> float:
    """Probability that a familiar score exceeds a strange one, ties counting half."""
    familiar, strange = np.sort(_checked(familiar, "familiar")), _checked(strange, "strange")
    below = np.searchsorted(familiar, strange, side="left")
    ties = np.searchsorted(familiar, strange, side="right") - below
    return float(np.mean(1 - (below + 0.5 * ties) / len(familiar)))


def aupr(familiar: Float[np.ndarray, " n"], strange: Float[np.ndarray, " m"]) -> float:
    """Average precision in telling strange rows apart, the least familiar first."""
    recall, precision = precision_recall(familiar, strange)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def fpr_at(
    familiar: Float[np.ndarray, " n"], strange: Float[np.ndarray, " m"], caught: float = 0.95
) -> float:
    """Share of familiar rows refused where at least a share `caught` of the strange ones is."""
    if not 0 < caught <= 1:
        raise ValueError(f"caught is a share of the strange rows, 0 < caught <= 1; got {caught}.")
    familiar, strange = _checked(familiar, "familiar"), np.sort(_checked(strange, "strange"))
    threshold = strange[int(np.ceil(caught * len(strange) - 1e-9)) - 1]
    return float(np.mean(familiar <= threshold))


def roc(
    familiar: Float[np.ndarray, " n"], strange: Float[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Shares of familiar and of strange rows refused, by ever higher thresholds."""
    familiar, strange = _checked(familiar, "familiar"), _checked(strange, "strange")
    at = np.unique(np.concatenate([familiar, strange]))
    shares = (np.searchsorted(np.sort(s), at, side="right") / len(s) for s in (familiar, strange))
    return tuple(np.concatenate([[0.0], share]) for share in shares)  # type: ignore[return-value]


def precision_recall(
    familiar: Float[np.ndarray, " n"], strange: Float[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Share of the strange rows refused, and share of strange ones among those refused."""
    false, caught = (part[1:] for part in roc(familiar, strange))
    n_false, n_caught = false * len(familiar), caught * len(strange)
    return caught, n_caught / (n_caught + n_false)


def _checked(scores: Float[np.ndarray, " n"], name: str) -> Float[np.ndarray, " n"]:
    scores = np.asarray(scores, float)
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(f"{name} must be scores of at least one row; got shape {scores.shape}.")
    if np.any(np.isnan(scores)):
        raise ValueError(f"{name} holds NaN in {np.isnan(scores).sum()} of {len(scores)} rows.")
    return scores
