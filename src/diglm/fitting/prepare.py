"""From rows to a model that is ready to train: target, split, encoder, recipe, starting head."""

import warnings
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Int

from diglm.data.encoder import Rows
from diglm.fitting.begin import chosen_target, with_head
from diglm.fitting.learned import Learned, learn
from diglm.fitting.members import rivals, with_members
from diglm.fitting.request import Request
from diglm.fitting.sources import AbstractSource
from diglm.fitting.split import Split, split_labels, split_rows
from diglm.fitting.trainers import Begun
from diglm.hybrid import Hybrid
from diglm.objectives import JointObjective
from diglm.predictor.look import at_centres
from diglm.recipes import AbstractRecipe, Material, Sizes, recipe_of
from diglm.targets import AbstractTarget
from diglm.targets.base import Column
from diglm.training import Settings
from diglm.types import Batch, partition

MOSTLY = 0.5  # of the rows; with fewer labels, rows without one shape what the head reads
FEWEST_EXACT_STEPS = 300  # along the evidence of all rows, each as good as an epoch


class DataWarning(UserWarning):
    """Something about the rows that a person should know."""


@dataclass(frozen=True)
class Prepared:
    """A run before training.

    Attributes:
        request: what was asked.
        learned: of the rows, with p(y).
        ruling: rows that set the threshold; what it is set on has not seen them.
        train: rows to train on, as batches; targets less what groups explain.
        expected: what groups explain of the targets of all rows; None if nothing.
        recipe: of the flow.
        sizes: of network and training.
        begun: the model to train.
        density: a density of its own to train beside it, or None.
    """

    request: Request
    learned: Learned
    ruling: Int[np.ndarray, " rows"]
    train: Batch
    expected: np.ndarray | None
    recipe: AbstractRecipe
    sizes: Sizes
    begun: Begun
    density: Begun | None

    @property
    def whole_split(self) -> Split:
        """Which rows are trained on, and all that are not."""
        split = self.learned.split
        return split._replace(held_out=np.union1d(split.held_out, self.ruling))

    @property
    def n_held_out(self) -> int:
        """How many rows are not trained on."""
        return len(self.whole_split.held_out)

    def weighing(self, generative_weight: float) -> "Prepared":
        """The same run with another weight of log p(x)."""
        request, learned = self.request.weighing(generative_weight), self.learned
        n_rows = float(self.begun.objective.n_rows)
        objective = request.objective(learned.target, learned.encoder.dim, n_rows)
        begun = self.begun.weighing(float(objective.generative_weight))._replace(
            settings=self.recipe.settings(self.sizes, learned.encoder, request.weight)
        )
        return replace(self, request=request, begun=begun)

    def encode(self, X: Rows, y: Column, weights: np.ndarray) -> Batch:
        """Further rows as a batch."""
        encoder = self.learned.encoder
        encoded = encoder.encode(X, owner=self.request.owner)
        labels = self.learned.target.read(y)
        return labels.batch(at_centres(encoder, encoded.values), weights)


def prepare(source: AbstractSource, request: Request) -> Prepared:
    """Everything up to training."""
    learned = _learned(source, request)
    judging, ruling = request.shared_out(learned.split.held_out)
    target, encoder = learned.target, learned.encoder
    recipe = recipe_of(request.flow, encoder.layout)
    n_rows = learned.rows.n_rows or len(learned.split.train)
    material = learned.material(n_rows, request)
    alone = target.density_only
    density = own_density(recipe, material, request, learned.of(judging), alone=alone)
    _check_base(recipe, target, request, density)
    reads_head = density is None or request.rules_read_head(encoder.layout)
    if reads_head or alone:  # else the threshold hangs on log p(x), and all of these may judge y
        learned = learned.divided(learned.split._replace(held_out=judging))
    smooth = recipe.smooths and learned.groups is None and _is_smooth(learned)
    usual, request = (
        request.settled(smooth=one, own_density=density is not None) for one in (False, smooth)
    )
    if alone and density is not None:
        sizes = recipe.sizes(request.sizes, n_rows, drops_features=target.drops_features)
        train = learned.of(learned.split.train)
        return Prepared(request, learned, ruling, train, None, recipe, sizes, density, None)
    kept = request.compares or (reads_head and judging is ruling)
    beside = density is not None and source.holds_all
    run = _Answering(request, usual, recipe, material, kept=kept, may_team=beside)
    return run.prepared(learned, ruling, density)


@dataclass(frozen=True)
class _Answering:
    """How what predicts y is set up.

    Attributes:
        request: what was asked.
        usual: the same without terms that rows without a label ask for.
        recipe: of the flow.
        material: that it is built from.
        kept: whether the rows held out teach nobody.
        may_team: whether several networks may answer.
    """

    request: Request
    usual: Request
    recipe: AbstractRecipe
    material: Material
    kept: bool
    may_team: bool

    def prepared(
        self, learned: Learned, ruling: Int[np.ndarray, " rows"], density: Begun | None
    ) -> Prepared:
        """The run, with one network or several."""
        own = self._of_labels(learned)
        longest = self._sizes(learned, self.material.n_rows)
        teams = self.may_team and learned.groups is None
        pools = teams and self.material.head.pools and self.recipe.n_members(len(own.train)) > 1
        sizes = self._sizes(learned, len(own.train)) if pools else longest
        model = self.recipe.build(self.material, sizes)
        if learned.groups is None:
            learned, model = _with_chosen_head(learned, own, model)
        exact = _is_exact(model, self.request)
        model, expected = with_head(model, learned, learned.split, exact=exact)
        batch = learned.batch
        if expected is not None:
            batch = batch._replace(y=(batch.y - expected).astype(batch.y.dtype))
        train, held_out = (Batch(*(c[part] for c in batch)) for part in learned.split)
        n_labelled = learned.rows.n_labelled
        n_labelled = n_labelled or self.material.n_rows * float(np.mean(train.labelled))
        augment = self.recipe.augmentation(learned.encoder)
        begun = Begun(
            model,
            self.request.objective(learned.target, learned.encoder.dim, float(n_labelled)),
            self._settings(learned, longest),
            held_out,
            augment,
            exact,
            known=train,
        )
        if teams and not exact:
            begun = self._with_team(begun, learned, own, sizes)
        learned = learned.with_target(
            learned.target.with_marginal(learned.rows.y, learned.rows.weights)
        )
        return Prepared(
            self.request, learned, ruling, train, expected, self.recipe, sizes, begun, density
        )

    def _sizes(self, learned: Learned, n_rows: int) -> Sizes:
        drops = learned.target.drops_features
        return self.recipe.sizes(self.request.sizes, n_rows, drops_features=drops)

    def _settings(self, learned: Learned, sizes: Sizes) -> Settings:
        settings = self.recipe.settings(sizes, learned.encoder, self.request.weight)
        if _exact_steps(learned.target) and isinstance(self.request.sizes.n_epochs, str):
            return replace(settings, n_epochs=max(settings.n_epochs, FEWEST_EXACT_STEPS))
        return settings

    def _of_labels(self, learned: Learned) -> Split:
        """Which labelled rows teach a committee, and which judge it."""
        labelled, weights = learned.labels.labelled, learned.rows.weights
        share = self.request.held_out_share(weights * labelled)
        strata = learned.target.strata(learned.labels)
        return split_labels(learned.split, labelled, share, strata, weights, self.request.seed)

    def _with_team(self, begun: Begun, learned: Learned, own: Split, sizes: Sizes) -> Begun:
        """The run of several networks, where these pay."""
        settings = self.recipe.settings(sizes, learned.encoder, self.usual.weight)
        n_labelled = float(len(own.train))
        objective = self.usual.objective(learned.target, learned.encoder.dim, n_labelled)
        alone = with_members(
            begun._replace(objective=objective, settings=settings),
            self.recipe,
            sizes,
            learned,
            own,
            self.request.seed,
            kept=learned.split.held_out if self.kept else None,
            unjudged=bool(self.request.terms),
        )
        return rivals(begun, alone, learned)


def _learned(source: AbstractSource, request: Request) -> Learned:
    """Target, split and encoder, with what a person should know of the rows."""
    rows = source.read(request.seed, request.validation_fraction)
    target = request.learn_target(rows.y, rows.weights, nulls=rows.nulls)
    labels = target.read(rows.y)
    split = rows.split or split_rows(
        request.held_out_share(rows.weights),
        target.strata(labels),
        rows.weights,
        request.seed,
        None if target.density_only else labels.labelled,
    )
    learned = learn(source, rows, target, split, request.owner)
    for remark in (*target.remarks, *learned.encoder.remarks):
        warnings.warn(remark, DataWarning, stacklevel=2)
    return learned


def _with_chosen_head(learned: Learned, own: Split, model: Hybrid) -> tuple[Learned, Hybrid]:
    """The target with the head that the rows of `own` prefer, which takes the model's place."""
    target = chosen_target(learned, own, model)
    if target.choice is learned.target.choice:
        return learned.with_target(target), model
    learned = learned.with_target(target)
    return learned, eqx.tree_at(lambda m: m.head, model, learned.head)


def own_density(
    recipe: AbstractRecipe, material: Material, request: Request, held_out: Batch, *, alone: bool
) -> Begun | None:
    """The density to train beside the head's flow, or `alone`; None where the recipe has none."""
    asked = request.sizes if alone else request.sizes._replace(n_blocks="auto")
    sizes = recipe.density_sizes(asked, material.n_rows)
    model = recipe.density(material, sizes)
    if model is None:
        return None
    objective = JointObjective(1.0, n_rows=float(material.n_rows), density_only=True)
    return Begun(model, objective, recipe.settings(sizes, material.encoder, None), held_out)


def _check_base(
    recipe: AbstractRecipe, target: AbstractTarget, request: Request, density: Begun | None
) -> None:
    if recipe.class_base != "always":
        return
    if density is not None or not can_have_class_base(target, request):
        raise ValueError(
            "base='mixture' goes with head='categorical', where the head reads what the density "
            "is of (tail=0), and without volume_weight, which sets the variance of the one normal; "
            "use base='auto' or base='normal'."
        )


def can_have_class_base(target: AbstractTarget, request: Request) -> bool:
    """Whether each class may have a normal of its own as the base of its features."""
    choice = target.choice
    return choice is not None and choice.mixture_base and request.volume_weight is None


def _is_exact(model: Hybrid, request: Request) -> bool:
    """Whether there is nothing to train but a head that is fitted in closed form."""
    others = jax.tree.leaves(partition((model.flow, model.completion))[0])
    return not others and model.head.has_closed_form and not request.terms


def _is_smooth(learned: Learned) -> bool:
    """Whether answers should be made smooth: of classes that most rows say nothing of."""
    few = float(np.mean(learned.labels.labelled)) < MOSTLY
    return learned.target.smooth and few and not _exact_steps(learned.target)


def _exact_steps(target: AbstractTarget) -> bool:
    return target.choice is not None and target.choice.exact_steps
