"""A head before training: which one, and fitted to the features of the untrained flow.

Nothing is trained for either. Each candidate is a GLM that Newton's method fits to the training
rows, judged by the rows held out; see `diglm.heads.auto` for who is a candidate and who wins.
"""

import equinox as eqx
import jax
import numpy as np

from diglm.compiling import jit_once
from diglm.fitting.learned import Learned, at_marginal
from diglm.fitting.split import Split
from diglm.heads import AbstractHead, AbstractResponse, Features
from diglm.heads.auto import better, resolution
from diglm.hybrid import Hybrid
from diglm.targets import AbstractTarget
from diglm.types import bucket, padded, placed

FEWEST_TO_CHOOSE = 20  # rows held out
ROWS_TO_CHOOSE = 5_000  # to train on, and to be judged by


def with_head(
    model: Hybrid, learned: Learned, split: Split, *, exact: bool = False
) -> tuple[Hybrid, np.ndarray | None]:
    """The model with its head fitted to the features of the untrained flow.

    Training then can only improve on a GLM on the features of a Gaussian copula. Also what effects
    of groups explain of the targets of all rows, which the flow need not learn.
    """
    every, n_start = learned.as_features, len(split.train)
    if not exact and learned.groups is None:
        n_start = model.head.rows_for_start(n_start)
    numbers = [part[every.weight[part] > 0] for part in (split.train[:n_start], split.held_out)]
    train, held_out = (learned.features(model, part) for part in numbers)
    expected = model.head.explained(train, every)
    if expected is not None:
        less = every.y - expected
        train, held_out = (
            part._replace(y=less[rows])
            for part, rows in zip((train, held_out), numbers, strict=True)
        )
    head = model.head.begin(train, held_out, exactly=exact)
    return eqx.tree_at(lambda m: m.head, model, head), expected


def chosen_target(learned: Learned, split: Split, model: Hybrid) -> AbstractTarget:
    """The target with the head that held-out rows prefer; the usual one where few could tell."""
    rows, viewer = learned.rows, learned.viewer(model)
    offered = learned.target.candidates(rows.y, rows.weights)
    known = learned.labels.labelled & (rows.weights > 0)
    train, held_out = (part[known[part]][:ROWS_TO_CHOOSE] for part in split)
    if len(offered) == 1 or len(held_out) < FEWEST_TO_CHOOSE or len(train) == 0:
        return offered[0]
    zs = [viewer.features(learned.encoded.take(part)) for part in (train, held_out)]
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


def _responses(head: AbstractHead, z: np.ndarray) -> AbstractResponse:
    """Responses to rows, as NumPy's arrays."""
    (rows,) = padded((z,), bucket(len(z)))
    found = _respond(head, placed(rows))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(z)], found)


@jit_once
def _respond(head: AbstractHead, zs: jax.Array) -> AbstractResponse:
    return jax.vmap(head)(zs)
