r"""The evidence of all rows and its exact gradient, in two passes and constant memory.

The log evidence of a Bayesian linear head depends on the features only through the sums $S$, $v$
of `diglm.heads.bayesian.regression`. Its gradient by them is
$G_S = -\tfrac12 (A^{-1} + m m^T) / s^2$ and $G_v = m / s^2$, and the chain rule needs for each row

$$z_n^T G_S z_n + y_n G_v^T z_n =
-\frac{1}{2 s^2} \bigl( (y_n - m^T z_n)^2 + z_n^T A^{-1} z_n \bigr) + const,$$

which is $E[\log N(y_n; b^T z_n, s^2)]$ over the posterior, held still. So one pass over the rows
adds up the sums, the posterior follows in closed form, and a second pass back-propagates each
row's expected log-likelihood: the exact gradient of the whole, however many rows there are, with
one chunk of them in memory at a time. The noise's and the prior's gradients come the same way.

Minibatches can follow the same expression with a posterior that is not quite up to date
(`ConjugateHead.in_training`). That is the gradient of a lower bound, and its bias is the gradient
of the gap: the divergence of the posterior used from the posterior that belongs to the features.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.heads import ConjugateHead
from diglm.heads.bayesian.regression import Statistics, log_evidence
from diglm.hybrid import Hybrid
from diglm.types import Batch, Key, Scalar, partition

Chunks = Callable[[], Iterable[Batch]]


class Evaluated(NamedTuple):
    """What two passes found.

    Attributes:
        loss: -(log evidence / weight of labelled rows + lambda mean of log p(x)).
        log_evidence: of all labelled rows.
        log_px: weighted mean of log p(x).
        n_labelled: sum of the weights of labelled rows.
        gradient: of the loss, by the trained numbers of the model.
        model: with the exact posterior in its head.
    """

    loss: float
    log_evidence: float
    log_px: float
    n_labelled: float
    gradient: Any
    model: Hybrid


def two_passes(
    model: Hybrid, chunks: Chunks, *, generative_weight: float = 1.0, key: Key | None = None
) -> Evaluated:
    """Loss and exact gradient over all rows; `chunks()` yields the same rows at each call.

    Args:
        model: a hybrid with a `ConjugateHead`, whose posterior mean does not train here.
        chunks: rows in pieces, preferably of one size, which then share a program. Rows without
            a label count for the density, rows of weight zero not at all.
        generative_weight: the lambda of log p(x).
        key: of the noise that fills cells and gaps; None puts them at their centres.
    """
    head = cast(ConjugateHead, model.head).frozen()
    model = eqx.tree_at(lambda m: m.head, model, head)
    known, sum_px, total = Statistics.zero(head.dim + 1, head.n_targets), 0.0, 0.0
    for i, chunk in enumerate(chunks()):
        found, log_px, weight = _sums(model, chunk, _fold(key, i))
        known = known.plus(jax.tree.map(lambda a: np.asarray(a, float), found))
        sum_px, total = sum_px + float(log_px), total + float(weight)
    if total <= 0:
        raise ValueError("No row has a positive weight, so there is no evidence. Check weights.")
    n_labelled = float(known.count)
    # Each part over its own rows, as in `diglm.objectives.joint`.
    counted = n_labelled if n_labelled > 0 else total
    generative_weight = generative_weight * (counted / total)
    model = eqx.tree_at(lambda m: m.head, model, head.at(known))
    penalty, gradient = _prior_slopes(model)
    value = -float(penalty)
    for i, chunk in enumerate(chunks()):
        part, slope = _slopes(model, chunk, jnp.asarray(generative_weight, float), _fold(key, i))
        value += float(part)
        gradient = _added(gradient, slope)
    gradient = _scaled(gradient, jnp.asarray(-1 / counted, float))
    return Evaluated(
        -(value + generative_weight * sum_px) / counted,
        value,
        sum_px / total,
        n_labelled,
        gradient,
        model,
    )


def direct_log_evidence(model: Hybrid, rows: Batch, *, key: Key | None = None) -> Scalar:
    """The log evidence of rows held in memory at once, for autodiff to differentiate."""
    head = cast(ConjugateHead, model.head)
    known, _, _ = _chunk_sums(model, rows, key)
    return sum(  # type: ignore[return-value]
        log_evidence(known, head.noise[t], head.precision[t], t) for t in range(head.n_targets)
    )


def in_chunks(rows: Batch, size: int) -> Chunks:
    """Rows in memory as chunks of `size`, the last padded with rows of weight zero."""
    n = len(rows.weight)
    if n == size:  # one chunk: on the device once and for all
        only = Batch(*map(jnp.asarray, rows))
        return lambda: [only]

    def chunks() -> Iterable[Batch]:
        for start in range(0, n, size):
            index = np.arange(start, start + size)
            inside = index < n
            picked = Batch(*(np.asarray(column)[np.where(inside, index, 0)] for column in rows))
            weight = np.where(inside, picked.weight, 0).astype(np.asarray(rows.weight).dtype)
            yield Batch(*map(jnp.asarray, picked._replace(weight=weight)))

    return chunks


def _fold(key: Key | None, i: int) -> Key | None:
    return None if key is None else jax.random.fold_in(key, i)


def _look(model: Hybrid, xs: Array, key: Key | None) -> tuple[Array, Float[Array, " rows"]]:
    """Features and log p(x) with frozen statistics, open parts filled with this key's noise."""
    real = jnp.result_type(float)  # pixels come as bytes
    log_q = jnp.zeros(len(xs), real)
    if model.completion is not None:
        uniform = (
            jnp.full(xs.shape, 0.5, real)
            if key is None
            else jax.random.uniform(key, xs.shape, real, 1e-6, 1 - 1e-6)
        )
        xs, log_q = jax.vmap(model.completion.draw)(xs, uniform)
    zs, log_px = model.flow.forward_rows(xs)
    return zs.reshape(len(zs), -1), log_px - log_q


def _chunk_sums(model: Hybrid, chunk: Batch, key: Key | None) -> tuple[Statistics, Scalar, Scalar]:
    head = cast(ConjugateHead, model.head)
    zs, log_px = _look(model, cast(Array, chunk.x), key)
    weight = cast(Array, chunk.weight)
    known = weight * chunk.labelled.astype(weight.dtype)
    features = jnp.concatenate([zs, jnp.ones((len(zs), 1), zs.dtype)], axis=1)
    ys = chunk.y.astype(zs.dtype).reshape(len(zs), -1)
    shapes = jax.vmap(head.noise_shape)(zs)
    sums = Statistics.of(features, ys, known, shapes)
    return sums, jnp.sum(jnp.where(weight > 0, log_px, 0.0) * weight), jnp.sum(weight)


@eqx.filter_jit
def _sums(model: Hybrid, chunk: Batch, key: Key | None) -> tuple[Statistics, Scalar, Scalar]:
    return _chunk_sums(model, chunk, key)


@eqx.filter_jit
def _slopes(
    model: Hybrid, chunk: Batch, generative_weight: Scalar, key: Key | None
) -> tuple[Scalar, Any]:
    """A chunk's expected log-likelihood, and the gradient of that and of its log p(x)."""
    trainable, fixed = partition(model)
    weight = cast(Array, chunk.weight)
    known = weight * chunk.labelled.astype(weight.dtype)

    def value(trainable: Any) -> tuple[Scalar, Scalar]:
        current = eqx.combine(trainable, fixed)
        zs, log_px = _look(current, cast(Array, chunk.x), key)
        log_py = jax.vmap(lambda z, y: current.head.in_training(z).log_prob(y))(zs, chunk.y)
        sum_py = jnp.sum(jnp.where(known > 0, log_py, 0.0) * known)
        sum_px = jnp.sum(jnp.where(weight > 0, log_px, 0.0) * weight)
        return sum_py + generative_weight.astype(sum_px.dtype) * sum_px, sum_py

    (_, sum_py), slope = jax.value_and_grad(value, has_aux=True)(trainable)
    return sum_py, slope


@eqx.filter_jit
def _prior_slopes(model: Hybrid) -> tuple[Scalar, Any]:
    """The head's penalty, and the gradient of its negative."""
    trainable, fixed = partition(model)
    penalty, slope = jax.value_and_grad(lambda t: eqx.combine(t, fixed).head.penalty())(trainable)
    return penalty, jax.tree.map(jnp.negative, slope)


@eqx.filter_jit
def _added(first: Any, second: Any) -> Any:
    return jax.tree.map(jnp.add, first, second)


@eqx.filter_jit
def _scaled(gradient: Any, by: Scalar) -> Any:
    return jax.tree.map(lambda g: g * by.astype(g.dtype), gradient)
