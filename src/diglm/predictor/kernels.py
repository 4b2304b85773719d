r"""Kernels of rows that a fitted model implies, by name.

- "implied": of a head with a posterior, $k(x, x') = l^{-1} (f(x), 1)^\top (f(x'), 1)$, that of the
  Gaussian process that the model is.
- "fisher": $k(x, x') = s(x)^\top I^{-1} s(x')$ with the scores
  $s(x) = \partial \log p(x) / \partial \theta$ of the density and their covariance I (Jaakkola and
  Haussler, 1999). $\theta$ are the parameters of the base, means, scales and weights, at which
  scores and information have closed forms; the determinant does not depend on them, so that these
  are scores of log p(x) itself. For a normal base
  $k = u^\top u' + \tfrac12 \sum_i (u_i^2 - 1)(u_i'^2 - 1)$.
- "product": $k(x, x') = \int \sqrt{p(y|x)\, p(y|x')}\, dy$, how much the answers have in common
  (Jebara, Kondor and Howard, 2004).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diglm.data.encoder import Encoded
from diglm.heads.affinity import affinities
from diglm.hybrid import Hybrid
from diglm.predictor import evaluate, online
from diglm.predictor.look import at_centres
from diglm.predictor.predictor import Predictor
from diglm.registry import Registry

Kernel = Callable[[Predictor, Encoded, Encoded], Float[np.ndarray, "*targets n m"]]


def implied(
    predictor: Predictor, first: Encoded, second: Encoded
) -> Float[np.ndarray, "*targets n m"]:
    """That of a Gaussian process; for models whose head has an exact posterior."""
    if predictor.memory is None:
        raise ValueError(
            "kind='implied' needs the exact posterior of head='bayesian'; kind='fisher' and, with "
            "a target, kind='product' need none."
        )
    return online.kernel(predictor, first, second)


def fisher(predictor: Predictor, first: Encoded, second: Encoded) -> Float[np.ndarray, "n m"]:
    """By what the rows would change in the density."""
    scores = (_fisher_vectors(predictor, rows) for rows in (first, second))
    return next(scores) @ next(scores).T


def product(predictor: Predictor, first: Encoded, second: Encoded) -> Float[np.ndarray, "n m"]:
    """By what the answers to the rows have in common."""
    return affinities(predictor.response(first), predictor.response(second))


KERNELS: Registry[Kernel] = Registry(
    "kernel", {"implied": implied, "fisher": fisher, "product": product}
)


def _fisher_vectors(predictor: Predictor, rows: Encoded) -> Float[np.ndarray, "n scores"]:
    places = at_centres(predictor.encoder, rows.values)
    found = evaluate.evaluate(_scores, predictor.model, places, np.zeros(0))
    return np.asarray(found, float)


def _scores(model: Hybrid, xs: jax.Array, shared: jax.Array) -> Float[jax.Array, "rows scores"]:
    us = evaluate.latents(model, xs, shared)
    base = model.source.flow.base
    return jax.vmap(lambda u: base.fisher_vector(jnp.reshape(u, base.shape)))(us)
