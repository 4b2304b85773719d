"""A head before training: fitted to the features of the untrained flow."""

import equinox as eqx
import numpy as np

from diglm.data.encoder import AbstractEncoder, Encoded
from diglm.fitting.split import Split
from diglm.heads import Features
from diglm.hybrid import Hybrid
from diglm.predictor.look import Groups, Viewer
from diglm.types import Batch


def features_of(
    z: np.ndarray,
    batch: Batch,
    encoded: Encoded,
    groups: Groups | None,
    codes: np.ndarray | None,
) -> Features:
    """Rows as a head sees them."""
    weight = np.asarray(batch.weight, float) * np.asarray(batch.labelled, float)
    design = None if groups is None else groups.design(encoded.values)
    return Features(z, np.asarray(batch.y), weight, design, codes)


def with_head(
    model: Hybrid,
    encoder: AbstractEncoder,
    rows: tuple[Encoded, Split, Batch],
    groups: Groups | None,
    codes: np.ndarray | None,
    exact: bool,
) -> tuple[Hybrid, np.ndarray | None]:
    """The model with its head fitted to the features of the untrained flow.

    Training then can only improve on a GLM on the features of a Gaussian copula. Also what effects
    of groups explain of the targets of all rows, which the flow need not learn.
    """
    (encoded, split, batch), viewer = rows, Viewer(encoder, model, groups)
    every = features_of(np.zeros((len(encoded), 0)), batch, encoded, groups, codes)
    n_start = len(split.train)
    if not exact and groups is None:
        n_start = model.head.rows_for_start(n_start)
    parts = []
    for part in (split.train[:n_start], split.held_out):
        known = part[every.weight[part] > 0]
        z = np.zeros((0, encoder.dim))
        if len(known):
            z = viewer.read(encoded.take(known))
        parts.append(every.take(known)._replace(z=z))
    expected = model.head.explained(parts[0], every)
    if expected is not None:
        less = every._replace(y=every.y - expected)
        for i, part in enumerate((split.train[:n_start], split.held_out)):
            known = part[every.weight[part] > 0]
            parts[i] = parts[i]._replace(y=less.y[known])
    head = model.head.begin(*parts, exactly=exact)
    return eqx.tree_at(lambda m: m.head, model, head), expected
