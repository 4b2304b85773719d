r"""Affinities of responses: $\int \sqrt{p(y)\, q(y)}\, dy$ of every one with every other.

The probability-product kernel with exponent one half (Bhattacharyya): one for equal distributions,
zero for those that share nothing, and a positive definite matrix for any. It has a closed form for
classes, normal, Poisson and Gamma distributions; for others it is a sum over whole numbers, or over
places of y that are quantiles of all of them, so that each is looked at where it has its mass. A
mass at zero beside a density is counted apart.

Reference: Jebara, Kondor and Howard (2004), https://jmlr.org/papers/v5/jebara04a.html
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import expit

from diglm.heads.base import AbstractResponse

LEVELS = expit(np.linspace(-16.0, 16.0, 65))  # of quantiles at which a distribution is looked at
MOST_PLACES = 1_024
TINY = 1e-300


def affinities(first: AbstractResponse, second: AbstractResponse) -> Float[np.ndarray, "n m"]:
    """Of responses stacked along rows; those of several targets are multiplied."""
    rows, others = (jax.tree.map(jnp.asarray, one) for one in (first, second))
    found = jax.vmap(lambda p: jax.vmap(p.affinity)(others))(rows)
    if found is None:
        return _summed(first, second)
    return np.prod(np.asarray(found, float).reshape(*found.shape[:2], -1), axis=2)


def _summed(first: AbstractResponse, second: AbstractResponse) -> Float[np.ndarray, "n m"]:
    frozen = [one.frozen(0.0, 1.0) for one in (first, second)]
    if any(np.ndim(one.mean()) > 1 for one in frozen):
        raise ValueError(
            f"Affinities of {type(first).__name__} have no closed form for several targets at "
            "once; ask for a model of one target."
        )
    if first.discrete:
        last = max(float(np.max(one.ppf(LEVELS[-1]))) for one in frozen)
        places = np.unique(np.rint(np.linspace(0, last, min(int(last) + 1, MOST_PLACES))))
        widths = np.gradient(places) if len(places) > 1 else np.ones(1)
        roots = [_roots([one.logpmf(y) for y in places], widths) for one in frozen]
        return roots[0].T @ roots[1]
    zeros = [_mass_at_zero(one) for one in frozen]
    places = np.concatenate([_places(*pair) for pair in zip(frozen, zeros, strict=True)])
    places = np.unique(places[(places != 0) & np.isfinite(places)])
    if len(places) > MOST_PLACES:
        places = places[np.linspace(0, len(places) - 1, MOST_PLACES).astype(int)]
    widths = np.gradient(places)
    roots = [_roots([one.logpdf(y) for y in places], widths) for one in frozen]
    return roots[0].T @ roots[1] + np.sqrt(np.outer(*zeros))


def _places(frozen: Any, zero: Float[np.ndarray, " n"]) -> Float[np.ndarray, " places"]:
    """Quantiles; where zero has a mass, also those of what lies above."""
    found = [frozen.ppf(q) for q in LEVELS]
    if np.any(zero > 0):
        upto = frozen.cdf(0.0)
        found += [frozen.ppf(upto + (1 - upto) * q) for q in LEVELS]
    return np.concatenate(found)


def _roots(logs: list[Any], widths: np.ndarray) -> Float[np.ndarray, "places n"]:
    return np.exp(0.5 * (np.stack(logs) + np.log(widths)[:, None]))


def _mass_at_zero(frozen: Any) -> Float[np.ndarray, " n"]:
    return np.maximum(np.asarray(frozen.cdf(0.0) - frozen.cdf(-TINY), float), 0.0)
