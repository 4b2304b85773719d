"""Heads before training: fitted to features of untrained flows, alone or for a committee."""

import equinox as eqx
import numpy as np

from diglm.data.encoder import AbstractEncoder, Encoded
from diglm.fitting.split import Split, deal
from diglm.fitting.trainers import Begun
from diglm.heads import Features
from diglm.hybrid import Hybrid
from diglm.predictor.look import Groups, Viewer
from diglm.recipes import AbstractRecipe, Sizes
from diglm.types import Batch

FEWEST_TO_DEAL = 2  # rows held out for each member of a committee
COMMITTEE = 2  # tells its seeds from those of other parts


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


def with_members(
    begun: Begun,
    recipe: AbstractRecipe,
    sizes: Sizes,
    encoder: AbstractEncoder,
    parts: tuple[Encoded, Split, Batch],
    of_labels: tuple[Split, np.ndarray | None],
    seed: int,
    *,
    kept: np.ndarray | None,
) -> Begun:
    """A run of a committee that sets out as the model does, or the run as it is without one.

    Labelled rows alone teach and judge it: others say nothing of y, and p(x) is learned elsewhere.
    A row that judges is left out by half of the members and teaches the others, so that all rows
    teach and still each is answered by some who never saw it; but those that must be `kept` teach
    nobody. Heads are fitted to the rows that teach their member.
    """
    (encoded, split, batch), (own, strata) = parts, of_labels
    n_train, n_judges = len(own.train), len(own.held_out)
    n_members = recipe.n_members(n_train) if begun.model.head.pools else 1
    if n_members == 1 or n_judges == 0:
        return begun
    judges = np.arange(n_judges)
    left_out = (judges,) * n_members
    free = kept is None or not np.any(np.isin(own.held_out, kept))
    if free and n_judges >= FEWEST_TO_DEAL * n_members:
        left_out = deal(judges, n_members, None if strata is None else strata[own.held_out], seed)
    seeds = np.random.SeedSequence([seed, COMMITTEE]).generate_state(n_members - 1)
    every = [begun.model, *recipe.others(begun.model, sizes, [int(number) for number in seeds])]
    members = []
    for member, left in zip(every, left_out, strict=True):
        taught = np.concatenate([own.train, np.delete(own.held_out, left)])
        part = (encoded, Split(taught, own.held_out[left]), batch)
        members.append(with_head(member, encoder, part, None, None, False)[0])
    plain = begun.model
    if not np.array_equal(own.train, split.train):
        plain = with_head(plain, encoder, (encoded, own, batch), None, None, False)[0]
    numbers = np.concatenate([own.train, own.held_out])
    return begun._replace(
        model=Hybrid.committee(members, None),
        plain=plain,
        rows=Batch(*(column[numbers] for column in batch)),
        split=own,
        left_out=tuple(n_train + left for left in left_out),
    )
