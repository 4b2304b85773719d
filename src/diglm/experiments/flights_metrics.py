"""Predictive distributions of one number per row, and scores that treat them all alike.

Flight delays are whole minutes; every density here is per minute, so log scores are comparable with
one another and with a density of the delay in minutes from any other model.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

LEVELS = (0.5, 0.9, 0.95)  # of the central intervals whose coverage is reported
MOST_RESIDUALS = 100_000  # more would not move a fit of two or three numbers


class Predictive(ABC):
    """A distribution of y for each row; every method answers with one number per row."""

    mean: np.ndarray

    @abstractmethod
    def log_prob(self, y: np.ndarray) -> np.ndarray:
        """log p(y), natural logarithm."""

    @abstractmethod
    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y <= y)."""

    @abstractmethod
    def quantile(self, q: float) -> np.ndarray:
        """The number below which Y falls with probability `q`."""

    @abstractmethod
    def crps(self, y: np.ndarray) -> np.ndarray:
        r"""The continuous ranked probability score $\int (F(t) - 1[t \ge y])^2 dt$."""


@dataclass(frozen=True)
class Gaussian(Predictive):
    """$y = m + s e$ with $e$ standard normal."""

    mean: np.ndarray
    sd: np.ndarray

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        return _log_normal((y - self.mean) / self.sd) - np.log(self.sd)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return special.ndtr((y - self.mean) / self.sd)

    def quantile(self, q: float) -> np.ndarray:
        return self.mean + self.sd * special.ndtri(q)

    def crps(self, y: np.ndarray) -> np.ndarray:
        return _mean_distance(y - self.mean, self.sd) - self.sd / math.sqrt(math.pi)


@dataclass(frozen=True)
class StudentT(Predictive):
    r"""$y = m + s t_\nu$, with the density of Student's t with $\nu$ degrees of freedom.

    `mean` is the location $m$; it is the mean where $\nu > 1$, and no other distribution has one.
    """

    mean: np.ndarray
    scale: np.ndarray
    df: float

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        return log_student_t((y - self.mean) / self.scale, self.df) - np.log(self.scale)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return special.stdtr(self.df, (y - self.mean) / self.scale)

    def quantile(self, q: float) -> np.ndarray:
        return self.mean + self.scale * special.stdtrit(self.df, q)

    def crps(self, y: np.ndarray) -> np.ndarray:
        r"""In units of s: $z(2F(z) - 1) + 2 f(z) (\nu + z^2)/(\nu - 1)$ less half of $E|T - T'|$.

        Infinite for $\nu \le 1$, where the distance to a draw has no expectation.
        """
        if self.df <= 1.0:
            return np.full(len(y), np.inf)
        z, df = (y - self.mean) / self.scale, self.df
        log_ratio = special.betaln(0.5, df - 0.5) - 2.0 * special.betaln(0.5, df / 2)
        between = 2.0 * math.sqrt(df) / (df - 1.0) * math.exp(log_ratio)
        to_y = z * (2.0 * special.stdtr(df, z) - 1.0)
        to_y += 2.0 * np.exp(log_student_t(z, df)) * (df + z**2) / (df - 1.0)
        return self.scale * (to_y - between)


@dataclass(frozen=True)
class GaussianMixture(Predictive):
    """A mixture of Gaussians: all fields have a row for each component; equal without `shares`."""

    means: np.ndarray
    sds: np.ndarray
    shares: np.ndarray | None = None

    @property
    def weights(self) -> np.ndarray:
        """The share of each component in each row."""
        equal = np.full(self.means.shape, 1.0 / len(self.means))
        return equal if self.shares is None else self.shares

    @property
    def mean(self) -> np.ndarray:
        return np.sum(self.weights * self.means, axis=0)

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        each = _log_normal((y - self.means) / self.sds) - np.log(self.sds)
        return np.asarray(special.logsumexp(each, axis=0, b=self.weights))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return np.sum(self.weights * special.ndtr((y - self.means) / self.sds), axis=0)

    def quantile(self, q: float) -> np.ndarray:
        """By bisection between the components' own quantiles, which enclose the mixture's."""
        each = self.means + self.sds * special.ndtri(q)
        low, high = each.min(axis=0), each.max(axis=0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Mean distance of y to a draw, less half of that between two draws; all pairs summed."""
        n, weights = len(self.means), self.weights
        between = sum(
            weights[i]
            * weights[j]
            * _mean_distance(self.means[i] - self.means[j], np.hypot(self.sds[i], self.sds[j]))
            for i in range(n)
            for j in range(n)
        )
        to_y = np.sum(weights * _mean_distance(y - self.means, self.sds), axis=0)
        return to_y - 0.5 * between


def scores(predictive: Predictive, y: np.ndarray, y_train: np.ndarray) -> dict[str, float]:
    """How good the predictions of `y` are; errors in the unit of y, log scores in nats.

    A row is counted as wild when its predicted mean lies outside the range of `y_train` widened by
    that range on either side: no sum of squares would then be worth reading.
    """
    y = np.asarray(y, dtype=np.float64)
    mean, below = predictive.mean, predictive.cdf(y)
    least, most = float(np.min(y_train)), float(np.max(y_train))
    wild = (mean < 2.0 * least - most) | (mean > 2.0 * most - least) | ~np.isfinite(mean)
    coverage = {
        f"coverage_{round(100 * level)}": float(np.mean(np.abs(2.0 * below - 1.0) <= level))
        for level in LEVELS
    }
    return {
        "rmse": float(np.sqrt(np.mean((mean - y) ** 2))),
        "nll": float(-np.mean(predictive.log_prob(y))),
        "crps": float(np.mean(predictive.crps(y))),
        **coverage,
        "width_90": float(np.mean(predictive.quantile(0.95) - predictive.quantile(0.05))),
        "largest_mean": float(np.max(np.abs(mean))),
        "wild": int(np.sum(wild)),
    }


def fit_student_t(
    residuals: np.ndarray, scales: np.ndarray | None = None, *, shifted: bool = False
) -> tuple[float, float, float]:
    r"""Maximum likelihood of $r_n = s_n (a + c\, t_\nu)$: returns $(a, c, \nu)$.

    Args:
        residuals: errors on rows that were not trained on.
        scales: $s_n$, the relative scale of each row; 1 when None.
        shifted: fit $a$; it is 0 otherwise, so that a location stays where a model put it.
    """
    ratios = residuals if scales is None else residuals / scales
    ratios = np.random.default_rng(0).permutation(ratios)[:MOST_RESIDUALS]
    unit = float(np.median(np.abs(ratios - np.median(ratios)))) or 1.0
    centre = float(np.median(ratios)) if shifted else 0.0
    errors = (ratios - centre) / unit

    def loss(parameters: np.ndarray) -> float:
        log_scale, log_df, shift = (*parameters, 0.0)[:3]
        z = (errors - shift) * math.exp(-log_scale)
        return float(log_scale - np.mean(log_student_t(z, math.exp(log_df))))

    start = [0.0, math.log(4.0)] + ([0.0] if shifted else [])
    bounds = [(-10.0, 10.0), (math.log(0.2), math.log(1e3))] + ([(-10.0, 10.0)] if shifted else [])
    found = optimize.minimize(loss, start, bounds=bounds, method="L-BFGS-B")
    log_scale, log_df, shift = (*found.x, 0.0)[:3]
    return centre + unit * float(shift), unit * math.exp(log_scale), math.exp(log_df)


def log_student_t(z: np.ndarray, df: float) -> np.ndarray:
    """Log density of Student's t with location 0 and scale 1."""
    constant = -0.5 * math.log(df) - float(special.betaln(0.5, df / 2))
    return constant - 0.5 * (df + 1.0) * np.log1p(z**2 / df)


def _log_normal(z: np.ndarray) -> np.ndarray:
    return -0.5 * (z**2 + math.log(2.0 * math.pi))


def _mean_distance(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """E|m + s e| of a standard normal e."""
    z = mean / sd
    return mean * (2.0 * special.ndtr(z) - 1.0) + 2.0 * sd * np.exp(_log_normal(z))
