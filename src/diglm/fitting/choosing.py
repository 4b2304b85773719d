"""Which head a target gets: candidates fitted exactly to the features of the untrained flow.

Nothing is trained for this. Each candidate is a GLM that Newton's method fits to the training
rows, judged by the rows held out; see `diglm.heads.auto` for who is a candidate and who wins.
"""

import jax
import jax.numpy as jnp
import numpy as np

from diglm.compiling import jit_once
from diglm.data.encoder import Encoded
from diglm.fitting.sources import Read
from diglm.fitting.split import Split
from diglm.heads import AbstractHead, AbstractResponse, Features
from diglm.heads.auto import better, resolution
from diglm.predictor.look import Viewer
from diglm.targets import AbstractTarget, Labels
from diglm.types import bucket, padded, placed

FEWEST_TO_CHOOSE = 20  # rows held out
ROWS_TO_CHOOSE = 5_000  # to train on, and to be judged by


def chosen_target(
    target: AbstractTarget, rows: Read, encoded: Encoded, split: Split, viewer: Viewer
) -> AbstractTarget:
    """The target with the head that held-out rows prefer; the usual one where few could tell."""
    offered = target.candidates(rows.y, rows.weights)
    known = target.read(rows.y).labelled & (rows.weights > 0)
    train, held_out = (part[known[part]][:ROWS_TO_CHOOSE] for part in split)
    if len(offered) == 1 or len(held_out) < FEWEST_TO_CHOOSE or len(train) == 0:
        return offered[0]
    zs = [viewer.features(encoded.take(part)) for part in (train, held_out)]
    width = resolution(rows.y[known].astype(float))
    told = []
    for candidate in offered:
        labels = candidate.read(rows.y)
        seen, judged = (
            Features(z, labels.ys[part], rows.weights[part].astype(float))
            for z, part in zip(zs, (train, held_out), strict=True)
        )
        head = at_marginal(candidate, zs[0].shape[1], 0, labels, rows.weights, train)
        fitted = head.begin(seen, judged, exactly=False)
        told.append(candidate.judged(_responses(fitted, zs[1]), rows.y[held_out], width))
    cells, errors = (np.stack(parts) for parts in zip(*told, strict=True))
    return offered[better(cells, errors, rows.weights[held_out].astype(float))]


def at_marginal(
    target: AbstractTarget,
    dim: int,
    n_groups: int,
    labels: Labels,
    weights: np.ndarray,
    train: np.ndarray,
) -> AbstractHead:
    """The head at the marginal of y; padded, so that tables of similar size share a program."""
    head = target.head(dim, n_groups)
    if target.density_only:
        return head
    known = train[labels.labelled[train]]
    if len(known) == 0:
        raise ValueError("No training row has a label, so there is nothing to predict.")
    factors = 1.0 if labels.factors is None else labels.factors[known]
    counted = (weights[known] * factors).astype(jnp.result_type(float))
    ys, counted = padded((np.asarray(labels.ys)[known], counted), bucket(len(known)))
    return _start_head(head, placed(ys), placed(counted))


@jit_once
def _start_head(head: AbstractHead, ys: jax.Array, weights: jax.Array) -> AbstractHead:
    return head.start(ys, weights)


def _responses(head: AbstractHead, z: np.ndarray) -> AbstractResponse:
    """Responses to rows, as NumPy's arrays."""
    (rows,) = padded((z,), bucket(len(z)))
    found = _respond(head, placed(rows))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(z)], found)


@jit_once
def _respond(head: AbstractHead, zs: jax.Array) -> AbstractResponse:
    return jax.vmap(head)(zs)
