"""Scores of log p(x) itself: the paper's, and how far it is from what is typical."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from diglm.refusal.known import Known
from diglm.refusal.scores.base import AbstractScore, learned


@dataclass
class Density(AbstractScore):
    r"""$-\log p(x)$: the paper's."""

    def reads_head(self, layout: str) -> bool:
        return False

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        return -known.log_px


@dataclass
class HighDensity(AbstractScore):
    r"""$\log p(x)$: rows more probable than any familiar one are strange, too.

    Blank images are the mode of many a density of photographs, and are none.
    """

    def reads_head(self, layout: str) -> bool:
        return False

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        return known.log_px


@dataclass
class Typicality(AbstractScore):
    r"""$|\log p(x) + \hat H|$ with $\hat H$ the median of $-\log p(x)$ among familiar rows.

    Rows of many dimensions lie where log p(x) is near minus the entropy, not where it is largest.

    Reference: Nalisnick et al. (2019), https://arxiv.org/abs/1906.02994
    """

    entropy: float | None = learned()

    wants_training: ClassVar[int] = 4_000

    def fit(self, training: Known, aside: Known) -> "Typicality":
        return replace(self, entropy=float(np.median(-aside.log_px)))

    def reads_head(self, layout: str) -> bool:
        return False

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.entropy is not None, "fit() comes first"
        return np.abs(known.log_px + self.entropy)


def typical_batch(
    log_px: Float[np.ndarray, " batch"],
    familiar: Float[np.ndarray, " n"],
    *,
    n_draws: int = 2_000,
    seed: int = 0,
) -> float:
    r"""p-value of a batch: whether its rows are together as probable as familiar ones are.

    The statistic is $|\frac1M \sum_m \log p(x_m) + \hat H|$; its distribution is that of batches of
    as many familiar rows, drawn with replacement. A batch finds shifts that no single row shows.

    Reference: Nalisnick et al. (2019), https://arxiv.org/abs/1906.02994

    Args:
        log_px: log p(x) of the rows of the batch.
        familiar: log p(x) of familiar rows that the model was not trained on.
        n_draws: batches drawn.
        seed: of the draws.
    """
    log_px, familiar = np.asarray(log_px, float), np.asarray(familiar, float)
    if len(log_px) == 0 or len(familiar) == 0:
        raise ValueError(
            f"A batch is compared with familiar rows, at least one of each; got {len(log_px)} and "
            f"{len(familiar)} rows."
        )
    rng = np.random.default_rng(seed)
    middle = np.mean(familiar)
    drawn = rng.choice(familiar, (n_draws, len(log_px))).mean(axis=1)
    as_far = np.sum(np.abs(drawn - middle) >= np.abs(np.mean(log_px) - middle))
    return float((1 + as_far) / (1 + n_draws))
