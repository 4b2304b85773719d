"""Special functions in forms that keep their digits and never overflow.

Textbook likelihoods of counts and positive numbers subtract large terms from one another: in
single precision a count of 1e5 loses the whole log-likelihood. Written as the value at the best
mean minus a deviance (Loader, 2000, "Fast and accurate computation of binomial probabilities"),
every term is about as large as the answer.
"""

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

LOG_2PI = 1.8378770664093453

# What `log_prob` answers outside the support. Its exponential is exactly zero, yet a row of weight
# zero times it is zero, where minus infinity would give NaN.
IMPOSSIBLE = -1e30

# Coefficients B_2k / (2k (2k - 1)) of x^(1 - 2k) in the Stirling series.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_SERIES_FROM = 10  # the first term left out is below 1e-15 from here on

_SUMMED = 64  # counts whose entropy terms are summed one by one; beyond, an integral
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(256)


def stirling_error(x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    r"""$s(x) = \log\Gamma(x) - (x - 1/2)\log x + x - \tfrac12\log 2\pi$ for $x > 0$.

    Its derivative is $\psi(x) - \log x + 1/(2x)$, equally free of cancellation. Only logarithms
    and rational functions: a library's log-gamma is slow to compile once differentiated twice.
    """
    small = x < _SERIES_FROM
    below = jnp.where(small, x, 1.0)
    above = jnp.where(small, x + _SERIES_FROM, x)
    inverse = 1 / above
    square, series = inverse * inverse, jnp.zeros_like(x)
    for coefficient in reversed(_STIRLING):
        series = series * square + coefficient
    # Gamma(x) = Gamma(x + 10) / (x (x + 1) ... (x + 9)) leads from small x into the series' range.
    product = below
    for step in range(1, _SERIES_FROM):
        product = product * (below + step)
    end = below + _SERIES_FROM
    shift = (end - 0.5) * jnp.log(end) - (below - 0.5) * jnp.log(below) - _SERIES_FROM
    return series * inverse + jnp.where(small, shift - jnp.log(product), 0.0)


def exp_excess(u: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    r"""$e^u - 1 - u \ge 0$: half the unit deviance of Poisson and Gamma, at a log-ratio $u$."""
    u = limit(u, 0.6)
    return jnp.expm1(u) - u


def limit(exponent: Float[Array, "*batch"], fraction: float = 0.3) -> Float[Array, "*batch"]:
    """Keep an exponent within a fraction of the largest one that does not overflow.

    The default leaves room for a product of three such exponentials: about e±26 in single and
    e±212 in double precision.
    """
    largest = fraction * math.log(float(jnp.finfo(exponent.dtype).max))
    return jnp.clip(exponent, -largest, largest)


def entropy_of_counts(
    log_prob: Callable[[Float[Array, "..."]], Float[Array, "..."]],
    mean: Float[Array, "*batch"],
    variance: Float[Array, "*batch"],
) -> Float[Array, "*batch"]:
    r"""$-\sum_y p(y) \log p(y)$ over $y = 0, 1, \dots$, to about 1e-6.

    Poisson and negative binomial have no closed form. With $h(y) = -p(y) \log p(y)$, the terms
    below $a = 64$ are summed; the rest is $\int_{a - 1/2}^\infty h + h'(a - 1/2) / 24$
    (Euler-Maclaurin at midpoints), the integral by 256 Gauss-Legendre nodes on $\log y$, from
    twelve standard deviations below the mean to where the tail has vanished, which falls by $e$
    at least every variance / mean.

    Args:
        log_prob: Log mass of values that carry a new last axis behind the batch's.
        mean: The mean of the counts.
        variance: Their variance.
    """
    sd = jnp.sqrt(variance)

    def terms(y):
        log_p = log_prob(y)
        return -jnp.exp(log_p) * log_p

    counts = jnp.arange(_SUMMED + 1, dtype=mean.dtype)
    first = terms(jnp.broadcast_to(counts, (*mean.shape, _SUMMED + 1)))
    slope = first[..., -1] - first[..., -2]
    edge = _SUMMED - 0.5
    low = jnp.log(jnp.maximum(mean - 12 * sd, edge))
    high = jnp.log(jnp.maximum(mean + 12 * sd + 40 * variance / mean, 2 * edge))
    half = 0.5 * (high - low)
    nodes = jnp.broadcast_to(jnp.asarray(_NODES, mean.dtype), (*mean.shape, len(_NODES)))
    ys = jnp.exp(low[..., None] + half[..., None] * (1 + nodes))
    rest = half * ((terms(ys) * ys) @ jnp.asarray(_NODE_WEIGHTS, mean.dtype))
    total = jnp.sum(first[..., :-1], axis=-1) + rest + slope / 24
    # A peak this narrow is Gaussian to 1e-6, and too narrow for the digits of log y.
    return jnp.where(sd < 1e-3 * mean, jnp.log(sd) + 0.5 * (1 + LOG_2PI), total)


def normal_divergence(
    mean: Array, variance: Array, mean_q: Array, variance_q: Array
) -> Float[Array, ""]:
    """The KL divergence of normal distributions, over all targets."""
    v, v_q = jnp.maximum(variance, 1e-6), jnp.maximum(variance_q, 1e-6)
    ratio = v / v_q
    return 0.5 * jnp.sum(ratio - 1 - jnp.log(ratio) + jnp.square(mean - mean_q) / v_q)
