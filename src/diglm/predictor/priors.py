r"""Label shift: how frequent classes are among new rows that have no label, by EM.

If only the classes have become more or less frequent, p(x|y) is as it was, and new rows have
$$p'(x) = \sum_k \pi_k\, p(x \mid k) = p(x) \sum_k \frac{\pi_k}{\rho_k}\, p(k \mid x),$$
with $\rho$ the frequencies in training. All that an estimate of $\pi$ needs of a row is therefore
$g_k = p(k \mid x) / \rho_k$, which is p(x|k) of the joint up to a factor of the row. The likelihood
is concave in $\pi$. The model counts as one more row, of which nothing is known but $\rho$: so no
class has a frequency of exactly zero because a few rows show none of it.

Reference: Saerens, Latinne and Decaestecker (2002), Adjusting the outputs of a classifier to new a
priori probabilities, Neural Computation 14(1).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp
from scipy.stats import chi2

GAP = 1e-4  # nats of all rows that may still be gained when EM stops
MOST_STEPS = 100_000
SINGULAR = 1e-10  # of the largest information: what rows say of no more than this they do not tell


@dataclass(frozen=True)
class LabelShift:
    """How frequent the classes are among rows without a label.

    Attributes:
        classes: in the model's order.
        before: their frequencies in training, times what rows of each class counted there.
        frequencies: among the new rows.
        standard_errors: of these, because the rows are so many and no more; infinite where rows
            cannot tell classes apart. That p(y|x) is itself an estimate is not counted.
        gain: nats by which the rows are more probable under the new frequencies than under the old.
        n_rows: how many there were.
        refused: the share of them that the model refuses. They count like others, but many more
            of them than in training are a sign that more has changed than frequencies.
    """

    classes: np.ndarray
    before: Float[np.ndarray, " classes"]
    frequencies: Float[np.ndarray, " classes"]
    standard_errors: Float[np.ndarray, " classes"]
    gain: float
    n_rows: int
    refused: float

    @property
    def p_value(self) -> float:
        r"""Of the hypothesis that frequencies are as before: $2\,\mathrm{gain} \sim \chi^2$."""
        return float(chi2.sf(2 * max(self.gain, 0.0), len(self.classes) - 1))

    def __str__(self) -> str:
        parts = [
            f"{name} {now:.3f} ± {error:.3f} (before {was:.3f})"
            for name, now, error, was in zip(
                self.classes.tolist(),
                self.frequencies,
                self.standard_errors,
                self.before,
                strict=True,
            )
        ]
        return f"{', '.join(parts)}; {self.n_rows} rows, p-value of no shift {self.p_value:.2g}"


def class_frequencies(
    log_probs: Float[np.ndarray, "rows classes"], before: Float[np.ndarray, " classes"]
) -> tuple[Float[np.ndarray, " classes"], Float[np.ndarray, " classes"], float]:
    """Frequencies of classes, their standard errors, and the nats gained over `before`.

    Args:
        log_probs: log p(y|x) of new rows, by a model for which classes are as frequent as `before`.
        before: those frequencies, none of them zero.
    """
    log_ratios = log_probs - np.log(before)
    # p(x|k) up to a factor of each row: the largest is one.
    scaled = np.exp(log_ratios - np.max(log_ratios, axis=1, keepdims=True))
    now = np.array(before)
    for _ in range(MOST_STEPS):
        pulls = _pulls(scaled, now).sum(axis=0) + before / now
        now = now * pulls
        now /= now.sum()
        # Concave: no frequencies are better than these by more than the largest pull says.
        if pulls.max() - (len(scaled) + 1) < GAP:
            break
    weighted, usual = (np.asarray(logsumexp(log_ratios, axis=1, b=b)) for b in (now, before))
    return now, _standard_errors(_pulls(scaled, now)), float(np.sum(weighted - usual))


def _pulls(
    scaled: Float[np.ndarray, "rows classes"], frequencies: Float[np.ndarray, " classes"]
) -> Float[np.ndarray, "rows classes"]:
    """Slopes of each row's log-likelihood by the frequencies."""
    return scaled / (scaled @ frequencies)[:, None]


def _standard_errors(pulls: Float[np.ndarray, "rows classes"]) -> Float[np.ndarray, " classes"]:
    """From the observed information, along directions in which frequencies still sum to one."""
    n = pulls.shape[1]
    along = np.linalg.svd(np.ones((1, n)))[2][1:]  # an orthonormal basis of those directions
    information, turns = np.linalg.eigh((pulls @ along.T).T @ (pulls @ along.T))
    told = information > SINGULAR * max(float(information.max(initial=0.0)), 1.0)
    loadings = (turns.T @ along) ** 2
    variances = np.sum(loadings[told] / information[told][:, None], axis=0)
    untold = np.sum(loadings[~told], axis=0) > SINGULAR
    return np.where(untold, np.inf, np.sqrt(variances))
