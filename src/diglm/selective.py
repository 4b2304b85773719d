"""When not to predict: the reject rule, p-values, and curves that show what refusing buys."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class RejectRule:
    r"""Refuse x when $\log p(x) < \tau$.

    Rules:
        "conformal": $\tau$ is the $\lfloor \alpha(n+1) \rfloor$-th smallest log p(x) of n held-out
            rows, so that a new row of the same kind is refused with probability at most $\alpha$.
        "minimum": the paper's $\tau = \min_n \log p(x_n) - c$ over the rows of training.
        "never": $\tau = -\infty$.

    With fewer than $1/\alpha - 1$ held-out rows no finite threshold carries the conformal promise;
    then the paper's rule is used, over all rows, and `rule` says so.
    """

    threshold: float
    rule: str
    calibration: Float[np.ndarray, " n"]  # sorted log p(x) of the held-out rows

    @classmethod
    def fit(
        cls,
        reject: Any,
        *,
        training: Float[np.ndarray, " rows"],
        held_out: Float[np.ndarray, " n"],
        slack: float = 0.0,
    ) -> "RejectRule":
        """Set the threshold from log p(x) of the training rows and of the held-out rows."""
        check_reject(reject, slack)
        ranked = np.sort(np.asarray(held_out if len(held_out) else training, float))
        if reject is None:
            return cls(-math.inf, "never", ranked)
        if not isinstance(reject, str):
            rank = math.floor(reject * (len(held_out) + 1))
            if rank >= 1:
                return cls(float(ranked[rank - 1]), "conformal", ranked)
        lowest = min(np.min(training), ranked[0])
        return cls(float(lowest) - slack, "minimum", ranked)

    def rejects(self, log_px: Float[np.ndarray, " rows"]) -> np.ndarray:
        """Whether each row is refused."""
        return np.asarray(log_px) < self.threshold

    def p_value(self, log_px: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        """The conformal p-value: how rarely held-out rows are as improbable as this one."""
        below = np.searchsorted(self.calibration, log_px, side="right")
        return (below + 1) / (len(self.calibration) + 1)


def check_reject(reject: Any, slack: Any) -> None:
    """Raise a clear error unless `reject` is a rate, "minimum" or None, and `slack` a number."""
    is_rate = isinstance(reject, int | float) and not isinstance(reject, bool) and 0 < reject < 1
    if not (reject is None or reject == "minimum" or is_rate):
        raise ValueError(
            "reject must be a rate between 0 and 1 (share of familiar rows that may be refused), "
            f"'minimum' (the paper's rule) or None (never refuse); got {reject!r}."
        )
    if not (isinstance(slack, int | float) and math.isfinite(slack)):
        raise ValueError(f"slack must be a finite number of nats; got {slack!r}.")


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
