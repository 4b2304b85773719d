"""Whether labels are read better off columns made normal than off columns as they are.

A monotone map of each column bends what is linear in it. Where rows are few, nothing that is
learned afterwards can straighten it again; where a column is skewed, bending helps. Ridge
regression tells, row by row, by what it says of a row that was left out.
"""

import numpy as np
from jaxtyping import Bool, Float

MOST_ROWS = 2_000  # decide it
FEWEST = 10
PENALTIES = np.logspace(-3, 3, 7)  # times the mean square of the columns


def reads_better(
    first: Float[np.ndarray, "rows dim"],
    second: Float[np.ndarray, "rows dim"],
    relation: Float[np.ndarray, "rows k"],
) -> bool:
    """Whether the first features predict better, by more than a standard error of the gain."""
    known: Bool[np.ndarray, " rows"] = np.all(np.isfinite(relation), axis=1)
    known &= np.cumsum(known) <= MOST_ROWS
    n = int(np.sum(known))
    if n < FEWEST:
        return False
    errors = [left_out_errors(features[known], relation[known]) for features in (first, second)]
    gains = errors[1] - errors[0]
    return bool(np.mean(gains) > np.std(gains) / np.sqrt(n))


def left_out_errors(
    features: Float[np.ndarray, "rows dim"], relation: Float[np.ndarray, "rows k"]
) -> Float[np.ndarray, " rows"]:
    r"""Squared errors of ridge regression in rows left out, under its best penalty.

    With $Z = U S V^\top$ of centred features and $h_n = 1/N + \sum_j u_{nj}^2 s_j^2 / (s_j^2 +
    \lambda)$, the residual of a row left out is that of the row left in, over $1 - h_n$.
    """
    n = len(features)
    spread = np.std(features, axis=0)
    moved = (features - np.mean(features, axis=0)) / np.where(spread > 0, spread, 1.0)
    targets = relation - np.mean(relation, axis=0)
    u, s, _ = np.linalg.svd(moved, full_matrices=False)
    best = None
    for penalty in PENALTIES * n:
        shrunk = s**2 / (s**2 + penalty)
        leverage = 1 / n + (u**2) @ shrunk
        residuals = targets - (u * shrunk) @ (u.T @ targets)
        errors = np.sum(residuals**2, axis=1) / np.maximum(1 - leverage, 1e-6) ** 2
        if best is None or np.mean(errors) < np.mean(best):
            best = errors
    return best  # type: ignore[return-value]
