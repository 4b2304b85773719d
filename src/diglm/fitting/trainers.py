"""Ways to train: whole epochs in memory, chunks of a stream, or the exact evidence."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from diglm.data.chunks import AbstractPlan, ChunkReader
from diglm.fitting.split import Split
from diglm.hybrid import Hybrid
from diglm.objectives import JointObjective
from diglm.objectives.two_passes import Chunks
from diglm.recipes.base import Augment
from diglm.training import FitResult, Settings, fit, fit_evidence
from diglm.training.checkpoint import Checkpoints
from diglm.training.clock import NO_LIMIT, Clock
from diglm.training.progress import Progress
from diglm.training.stream import fit_stream
from diglm.training.together import Run, fit_together
from diglm.types import Batch

NOTHING = 1e-6  # as a weight
MOST_KNOWN = 1_000


class Begun(NamedTuple):
    """All that training needs besides rows to train on.

    Attributes:
        model: started from rows.
        objective: what is minimised.
        settings: lengths and rates.
        held_out: rows on which the best epoch is chosen.
        augment: what changes the rows of each step, or None.
        exact: whether the started model is already the fit.
        clock: says when training must be over.
        rows: of a committee, those that teach it and, behind them, those that judge it.
        split: their numbers.
        left_out: which of them each member is not trained on.
        judges: which of those choose its best epoch; empty for all of them.
        rival: another committee, of the same judges, that answers beside it; or None.
        plain: with a committee, the untrained model with its head fitted to all rows.
        known: rows to train on, whose labels judge where no held-out row has one.
    """

    model: Hybrid
    objective: JointObjective
    settings: Settings
    held_out: Batch
    augment: Augment | None = None
    exact: bool = False
    clock: Clock = NO_LIMIT
    rows: Batch | None = None
    split: Split | None = None
    left_out: tuple[Int[np.ndarray, " some"], ...] = ()
    judges: tuple[Int[np.ndarray, " some"], ...] = ()
    rival: "Begun | None" = None
    plain: Hybrid | None = None
    known: Batch | None = None

    def weighing(self, generative_weight: float) -> "Begun":
        """The same with another lambda, for rivals too."""
        weight = jnp.asarray(generative_weight, jnp.result_type(float))
        return self._replace(
            objective=eqx.tree_at(lambda o: o.generative_weight, self.objective, weight),
            rival=None if self.rival is None else self.rival.weighing(generative_weight),
        )

    @property
    def validation(self) -> Batch | None:
        """The held-out rows, if there are any, with labels to go by.

        Where labels are so few that all are trained on, held-out rows judge the density and the
        terms, and the labels of training whether they are learned: those rows are added with a
        weight that is nothing in means over all rows.
        """
        if not len(self.held_out.weight) or self.known is None or np.any(self.held_out.labelled):
            return self.held_out if len(self.held_out.weight) else None
        labelled = np.flatnonzero(self.known.labelled)[:MOST_KNOWN]
        known = Batch(*(np.asarray(column)[labelled] for column in self.known))
        known = known._replace(weight=(NOTHING * known.weight).astype(known.weight.dtype))
        pairs = zip(self.held_out, known, strict=True)
        return Batch(*(np.concatenate([np.asarray(a), b]) for a, b in pairs))


class AbstractTrainer(ABC):
    """Trains models on the rows of a source.

    Attributes:
        keeps_one_core: whether training leaves the other cores of a CPU alone.
    """

    keeps_one_core: ClassVar[bool] = False

    @abstractmethod
    def train(
        self, begun: Begun, *, progress: Progress | None, checkpoints: Checkpoints | None = None
    ) -> FitResult:
        """The trained model."""

    def train_each(self, runs: list[Begun], *, progress: Progress | None) -> list[FitResult]:
        """Models that differ in the weight of log p(x) alone, one after the other."""
        return [self.train(begun, progress=progress) for begun in runs]


class NoTrainer(AbstractTrainer):
    """With nothing to train but the head, its exact fit is the whole fit."""

    def train(
        self, begun: Begun, *, progress: Progress | None, checkpoints: Checkpoints | None = None
    ) -> FitResult:
        return FitResult(begun.model, stopped="exact")

    def train_each(self, runs: list[Begun], *, progress: Progress | None) -> list[FitResult]:
        raise ValueError(
            "This flow has nothing to train but the head, which is fitted exactly: "
            "generative_weight makes no difference. Call fit(), or choose a flow that trains, such "
            "as 'linear' or 'coupling'."
        )


class EpochTrainer(AbstractTrainer):
    """Whole epochs of rows in memory as one compiled loop; several models as one program."""

    keeps_one_core: ClassVar[bool] = True

    def __init__(self, rows: Batch, seed: int):
        self.rows, self.seed = rows, seed

    def train(
        self, begun: Begun, *, progress: Progress | None, checkpoints: Checkpoints | None = None
    ) -> FitResult:
        if begun.left_out:
            return self.train_each([begun], progress=progress)[0]
        return fit(
            begun.model,
            self.rows,
            objective=begun.objective,
            validation=begun.validation,
            settings=begun.settings,
            seed=self.seed,
            progress=progress,
            clock=begun.clock,
        )

    def train_each(self, runs: list[Begun], *, progress: Progress | None) -> list[FitResult]:
        first = runs[0]
        rivals = [run.rival._replace(clock=run.clock) for run in runs if run.rival is not None]
        others = self.train_each(rivals, progress=None) if rivals else []
        results = fit_together(
            [one for run in runs for one in self._members(run)],
            self.rows if first.rows is None else first.rows,
            objective=first.objective,
            validation=first.validation,
            settings=first.settings,
            progress=progress,
            clock=first.clock,
        )
        size = max(1, len(first.left_out))
        found = [joined(results[i : i + size]) for i in range(0, len(results), size)]
        return [both(*pair) for pair in zip(found, others, strict=True)] if others else found

    def _members(self, begun: Begun) -> list[Run]:
        """Those of a committee, or the one model."""
        weight = float(begun.objective.generative_weight)
        if not begun.left_out:
            return [Run(begun.model, weight, self.seed)]
        judges = begun.judges or begun.left_out
        own = zip(begun.model.members, begun.left_out, judges, strict=True)
        return [Run(one, weight, self.seed + k, *rows) for k, (one, *rows) in enumerate(own)]


def joined(results: list[FitResult]) -> FitResult:
    """The committee of trained members, its history their means over those who still trained."""
    if len(results) == 1:
        return results[0]
    longest = max(results, key=lambda result: len(result.history))
    history = []
    for epoch in range(len(longest.history)):
        told = [result.history[epoch] for result in results if epoch < len(result.history)]
        history.append({name: float(np.mean([one[name] for one in told])) for name in told[0]})
        history[-1]["epoch"] = epoch
    return FitResult(
        Hybrid.committee([result.model for result in results], None),
        history,
        longest.stopped,
        sum(result.skipped_steps for result in results),
        max(result.seconds for result in results),
    )


def both(result: FitResult, rival: FitResult) -> FitResult:
    """One committee of two, with the history of the first."""
    return replace(
        result,
        model=Hybrid.committee([*result.model.members, *rival.model.members], None),
        skipped_steps=result.skipped_steps + rival.skipped_steps,
        seconds=result.seconds + rival.seconds,
    )


class Plan(NamedTuple):
    """Which rows make up which batch, and what reads them."""

    plan: AbstractPlan
    read: Callable[..., ChunkReader]


class ChunkedTrainer(AbstractTrainer):
    """Chunks of rows, so that progress is told, and the run kept, within an epoch."""

    def __init__(self, plan: Plan, rows: Batch, *, save_every: int):
        self.plan, self.rows, self.save_every = plan, rows, save_every

    def train(
        self, begun: Begun, *, progress: Progress | None, checkpoints: Checkpoints | None = None
    ) -> FitResult:
        return fit_stream(
            begun.model,
            self.plan.plan,
            self.plan.read,
            objective=begun.objective,
            validation=begun.validation,
            settings=begun.settings,
            augment=begun.augment,
            checkpoints=checkpoints,
            save_every=self.save_every,
            progress=progress,
            clock=begun.clock,
        )


class EvidenceTrainer(AbstractTrainer):
    """Steps along the exact evidence of all rows, for heads with a closed form."""

    def __init__(self, rows: Batch | Chunks, seed: int):
        self.rows, self.seed = rows, seed

    def train(
        self, begun: Begun, *, progress: Progress | None, checkpoints: Checkpoints | None = None
    ) -> FitResult:
        if checkpoints is not None:
            raise ValueError("inference='exact' keeps no checkpoints; use inference='minibatch'.")
        head = begun.model.head
        bare = eqx.tree_at(lambda m: m.head, begun.model, head.core)
        result = fit_evidence(
            bare,
            self.rows,
            objective=begun.objective,
            validation=begun.validation,
            settings=begun.settings,
            seed=self.seed,
            progress=progress,
            clock=begun.clock,
        )
        whole = head.around(result.model.head)
        result.model = eqx.tree_at(lambda m: m.head, result.model, whole)
        return result
