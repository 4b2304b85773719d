r"""Cross-conformal calibration: how strange every row is to a model that it was left out of.

Of a small table, too few rows are held out to carry a rate of refusals. So the rows are cut into
folds, and for each the encoder and what gives log p(x) are fitted anew to the others, some of which
choose the best epoch. Every row is then as new to the model that judges it as rows that come later
are to the model of the table, and all n rows set the threshold instead of those held out.

Reference: Vovk (2015), https://arxiv.org/abs/1208.0806
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from os import cpu_count
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from diglm.fitting.begin import with_head
from diglm.fitting.learned import Learned, learn
from diglm.fitting.prepare import Prepared, own_density
from diglm.fitting.sources import AbstractSource
from diglm.fitting.split import Split
from diglm.fitting.trainers import AbstractTrainer, Begun, NoTrainer
from diglm.refusal import Known, LeftOut
from diglm.training.progress import Record

MOST_ROWS = 4_000  # of larger tables enough rows are held out, or a rate is very small
SHARE_JUDGING = 0.1  # of the rows, by which the best epoch of a fold is chosen


class Fold(NamedTuple):
    """One fold: the rows left out, and those that teach and judge what is fitted to the others."""

    left_out: Int[np.ndarray, " m"]
    split: Split


def folds_of(split: Split, n_folds: int, seed: int) -> list[Fold]:
    """Every row left out once; what is trained on has one size in all folds."""
    every = np.random.default_rng([seed, n_folds]).permutation(np.concatenate(split))
    n_judging = max(round(SHARE_JUDGING * len(every)), 2) if len(split.held_out) else 0
    n_train = len(every) - -(-len(every) // n_folds) - n_judging
    found = []
    for k in range(n_folds):
        left, others = every[k::n_folds], np.roll(every, -k)[: len(every)]
        others = others[~np.isin(others, left)]
        judging, train = others[:n_judging], others[n_judging : n_judging + n_train]
        found.append(Fold(np.sort(left), Split(np.sort(train), np.sort(judging))))
    return found


def crosses(source: AbstractSource, prepared: Prepared) -> bool:
    """Whether rows are left out, fold by fold: the rule gains, and it costs no more than it may."""
    request, target = prepared.request, prepared.learned.target
    n_rows = len(prepared.learned.split.train) + prepared.n_held_out
    alone = prepared.density is None  # one flow gives log p(x) and what the head reads
    joint = target.choice is not None and target.choice.exact_steps
    return (
        source.holds_all
        and not prepared.recipe.chunked  # an epoch takes long, and so would every fold
        and prepared.learned.groups is None
        and prepared.recipe.class_base == "never"
        and request.rule.n_folds(len(prepared.ruling), n_rows) > 0
        and n_rows <= MOST_ROWS
        and not (alone and (joint or request.compares))
        and (alone or not request.rules_read_head(prepared.learned.encoder.layout))
    )


@contextmanager
def left_out(
    source: AbstractSource, prepared: Prepared, trainer: AbstractTrainer
) -> Iterator[Callable[[], LeftOut | None]]:
    """Yields what gives the rows as models without them see them; None where nothing is left out.

    The folds are trained meanwhile on other cores.
    """
    if not crosses(source, prepared):
        yield lambda: None
        return
    n_rows = len(prepared.learned.split.train) + prepared.n_held_out
    n_folds = prepared.request.rule.n_folds(len(prepared.ruling), n_rows)
    folds = folds_of(prepared.whole_split, n_folds, prepared.request.seed)
    given_up = threading.Event()

    def epoch_done(record: Record) -> None:
        if given_up.is_set():
            raise InterruptedError("The fit was given up.")

    pool = ThreadPoolExecutor(min(cpu_count() or 1, n_folds))
    told: list[Future] = []

    def start() -> None:
        for k, fold in enumerate(folds):
            told.append(pool.submit(_judged, source, prepared, trainer, fold, k, epoch_done))

    if trainer.keeps_one_core:
        start()

    def found() -> LeftOut:
        if not told:
            start()
        return LeftOut([future.result() for future in told])

    try:
        yield found
    except BaseException:
        given_up.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _judged(
    source: AbstractSource,
    prepared: Prepared,
    trainer: AbstractTrainer,
    fold: Fold,
    place: int,
    progress: Callable[[Record], None],
) -> tuple[Known, Known, Known]:
    """The rows left out, those taught and those that judged, as the model of a fold sees them."""
    request = prepared.request
    learned = learn(
        source, prepared.learned.rows, prepared.learned.target, fold.split, request.owner
    )
    begun, own = _begun(prepared, learned), trainer
    if begun.exact:
        own = NoTrainer()
    else:
        train, seed = learned.of(fold.split.train), request.seed + place
        own = source.trainer(prepared.recipe, train, begun.settings, prepared.encode, seed)
    model = own.train(begun, progress=progress).model
    n_wanted = min(request.score.wants_training, len(fold.split.train))
    some = np.linspace(0, len(fold.split.train) - 1, max(n_wanted, 1)).astype(int)
    parts = (fold.left_out, fold.split.train[some], fold.split.held_out)
    left, training, judging = (learned.known(model, part) for part in parts)
    return left, training, judging if judging.n_rows else training


def _begun(prepared: Prepared, learned: Learned) -> Begun:
    """The run that gives log p(x): of a density of its own, or of the flow that the head reads."""
    request, recipe, alone = prepared.request, prepared.recipe, learned.target.density_only
    train, held_out = (learned.of(part) for part in learned.split)
    # Sizes are those of the model of the table.
    material = learned.material(len(prepared.train.weight), request)
    begun = own_density(recipe, material, request, held_out, alone=alone)
    if begun is not None:
        return begun._replace(clock=prepared.begun.clock)
    exact = prepared.begun.exact
    model = recipe.build(material, prepared.sizes)
    model, _ = with_head(model, learned, learned.split, exact=exact)
    return prepared.begun._replace(model=model, held_out=held_out, known=train)
