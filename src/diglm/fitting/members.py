"""Committees before training: who learns from which rows, and who is judged by which.

Rows with a label teach one committee. Where rows without one are to shape the answers, a second
learns from all rows, under the terms of the objective, and sets out from the same networks. The
same labelled rows are left out of both, so that these can tell which of them should answer.
"""

import numpy as np
from jaxtyping import Int

from diglm.fitting.begin import with_head
from diglm.fitting.learned import Learned
from diglm.fitting.split import Split, deal
from diglm.fitting.trainers import MOST_KNOWN, NOTHING, Begun
from diglm.hybrid import Hybrid
from diglm.recipes import AbstractRecipe, Sizes

FEWEST_TO_DEAL = 2  # rows held out for each member of a committee
COMMITTEE = 2  # tells its seeds from those of other parts


def with_members(
    begun: Begun,
    recipe: AbstractRecipe,
    sizes: Sizes,
    learned: Learned,
    own: Split,
    seed: int,
    *,
    kept: Int[np.ndarray, " some"] | None,
    unjudged: bool = False,
) -> Begun:
    """A run of a committee that sets out as the model does, or the run as it is without one.

    Labelled rows alone, those of `own`, teach and judge it: others say nothing of y, and p(x) is
    learned elsewhere. A row that judges is left out by half of the members and teaches the others,
    so that all rows teach and still each is answered by some who never saw it; but those that must
    be `kept` teach nobody. Heads are fitted to the rows that teach their member. Without rows to
    judge by there is no committee, unless it may be `unjudged`.
    """
    n_train, n_judges = len(own.train), len(own.held_out)
    n_members = recipe.n_members(n_train) if begun.model.head.pools else 1
    if n_members == 1 or (n_judges == 0 and not unjudged):
        return begun
    judges = np.arange(n_judges)
    left_out = (judges,) * n_members
    free = kept is None or not np.any(np.isin(own.held_out, kept))
    if free and n_judges >= FEWEST_TO_DEAL * n_members:
        strata = learned.target.strata(learned.labels)
        left_out = deal(judges, n_members, None if strata is None else strata[own.held_out], seed)
    seeds = np.random.SeedSequence([seed, COMMITTEE]).generate_state(n_members - 1)
    every = [begun.model, *recipe.others(begun.model, sizes, [int(number) for number in seeds])]
    members = []
    for member, left in zip(every, left_out, strict=True):
        taught = np.concatenate([own.train, np.delete(own.held_out, left)])
        members.append(with_head(member, learned, Split(taught, own.held_out[left]))[0])
    plain = begun.model
    if not np.array_equal(own.train, learned.split.train):
        plain = with_head(plain, learned, own)[0]
    return begun._replace(
        model=Hybrid.committee(members, None),
        plain=plain,
        rows=learned.of(np.concatenate([own.train, own.held_out])),
        split=own,
        left_out=tuple(n_train + left for left in left_out),
    )


def with_unlabelled(begun: Begun, learned: Learned) -> Begun:
    """The run of a committee with rows without a label among those that teach.

    Of these the held-out ones choose the best epoch, by the terms of the objective, beside labelled
    ones that are left out. Where labels are so few that none of the split's held-out rows has one,
    the labels that teach say whether they are learned: those left out are then kept for telling
    which committee should answer.
    """
    own = begun.split
    if own is None:
        raise ValueError("Only a committee learns beside a rival.")
    split, labelled = learned.split, learned.labels.labelled
    others, aside = (part[~labelled[part]] for part in split)
    few = len(aside) > 0 and not np.any(labelled[split.held_out])
    again = own.train[:MOST_KNOWN] if few else own.train[:0]
    numbers = np.concatenate([own.train, own.held_out, others, aside, again])
    rows = learned.of(numbers)
    weight = np.array(rows.weight)
    weight[len(numbers) - len(again) :] *= NOTHING
    unseen = np.arange(len(numbers) - len(again) - len(aside), len(numbers))
    left_out = tuple(np.concatenate([left, unseen]) for left in begun.left_out)
    return begun._replace(
        rows=rows._replace(weight=weight),
        left_out=left_out,
        judges=(unseen,) * len(left_out) if few else (),
    )


def rivals(begun: Begun, alone: Begun, learned: Learned) -> Begun:
    """The run of a committee: `alone`, or that of `begun` where it has terms, or both.

    `alone` is the same without terms that nobody asked for by name: labels tell which answers.
    """
    own = alone.split
    if own is None:
        return begun
    if alone.objective.terms:  # epochs are then passes over all rows
        longer = alone._replace(settings=begun.settings)
        alone = with_unlabelled(longer, learned)
    if begun.objective.terms == alone.objective.terms:
        return alone
    smooth = begun._replace(
        model=alone.model, plain=alone.plain, split=own, left_out=alone.left_out
    )
    judged = len(own.held_out) > 0
    return with_unlabelled(smooth, learned)._replace(rival=alone if judged else None)
