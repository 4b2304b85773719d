"""Ways to train: whole epochs in memory, chunks of a stream, or the exact evidence."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx

from diglm.data.chunks import AbstractPlan, ChunkReader
from diglm.hybrid import Hybrid
from diglm.objectives import JointObjective
from diglm.objectives.two_passes import Chunks
from diglm.recipes.base import Augment
from diglm.training import FitResult, Settings, fit, fit_evidence
from diglm.training.checkpoint import Checkpoints
from diglm.training.clock import NO_LIMIT, Clock
from diglm.training.progress import Progress
from diglm.training.stream import fit_stream
from diglm.training.together import fit_together
from diglm.types import Batch


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
    """

    model: Hybrid
    objective: JointObjective
    settings: Settings
    held_out: Batch
    augment: Augment | None = None
    exact: bool = False
    clock: Clock = NO_LIMIT

    @property
    def validation(self) -> Batch | None:
        """The held-out rows, if there are any."""
        return self.held_out if len(self.held_out.weight) else None


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
        return fit_together(
            first.model,
            self.rows,
            objective=first.objective,
            generative_weights=[float(run.objective.generative_weight) for run in runs],
            validation=first.validation,
            settings=first.settings,
            seed=self.seed,
            progress=progress,
            clock=first.clock,
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
