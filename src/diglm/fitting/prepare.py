"""From rows to a model that is ready to train: target, split, encoder, recipe, starting head."""

import warnings
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Int

from diglm.data.encoder import AbstractEncoder, Encoded, Rows
from diglm.fitting.begin import features_of, with_head
from diglm.fitting.choosing import at_marginal, chosen_target
from diglm.fitting.members import rivals, with_members
from diglm.fitting.request import Request
from diglm.fitting.sources import AbstractSource, Read
from diglm.fitting.split import Split, split_labels, split_rows
from diglm.fitting.trainers import Begun
from diglm.heads import Features
from diglm.hybrid import Hybrid
from diglm.objectives import JointObjective
from diglm.predictor.look import Groups, Viewer, at_centres
from diglm.recipes import AbstractRecipe, Material, Sizes, recipe_of
from diglm.targets import AbstractTarget, Labels
from diglm.targets.base import Column
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
        rows: to start from.
        target: what is predicted, with p(y).
        encoder: fitted to the training rows.
        encoded: all rows to start from.
        split: which of them are trained on, and which held out to judge that.
        ruling: those that set the threshold; what it is set on has not seen them.
        train: those, as batches; targets less what groups explain.
        expected: what groups explain of the targets of all rows; None if nothing.
        groups: those of the rows, or None.
        codes: the rows' numbers among them.
        recipe: of the flow.
        sizes: of network and training.
        begun: the model to train.
        density: a density of its own to train beside it, or None.
    """

    request: Request
    rows: Read
    target: AbstractTarget
    encoder: AbstractEncoder
    encoded: Encoded
    split: Split
    ruling: Int[np.ndarray, " rows"]
    train: Batch
    expected: np.ndarray | None
    groups: Groups | None
    codes: np.ndarray | None
    recipe: AbstractRecipe
    sizes: Sizes
    begun: Begun
    density: Begun | None

    @property
    def whole_split(self) -> Split:
        """Which rows are trained on, and all that are not."""
        return self.split._replace(held_out=np.union1d(self.split.held_out, self.ruling))

    @property
    def n_held_out(self) -> int:
        """How many rows are not trained on."""
        return len(self.whole_split.held_out)

    @property
    def batch(self) -> Batch:
        """All rows, with the targets that people gave."""
        values = at_centres(self.encoder, self.encoded.values)
        return self.target.read(self.rows.y).batch(values, self.rows.weights)

    def weighing(self, generative_weight: float) -> "Prepared":
        """The same run with another weight of log p(x)."""
        request = self.request.weighing(generative_weight)
        n_rows = float(self.begun.objective.n_rows)
        objective = objective_of(request, self.target, self.encoder.dim, n_rows)
        begun = self.begun.weighing(float(objective.generative_weight))._replace(
            settings=self.recipe.settings(self.sizes, self.encoder, lambda_of(request)),
        )
        return replace(self, request=request, begun=begun)

    def encode(self, X: Rows, y: Column, weights: np.ndarray) -> Batch:
        """Further rows as a batch."""
        encoded = self.encoder.encode(X, owner=self.request.owner)
        return self.target.read(y).batch(at_centres(self.encoder, encoded.values), weights)

    def features(self, viewer: Viewer, part: np.ndarray) -> Features:
        """Some of the rows as the head sees them, with the targets that people gave."""
        batch = self.target.read(self.rows.y).batch(self.encoded.values, self.rows.weights)
        z = np.zeros((len(self.encoded), 0))
        some = features_of(z, batch, self.encoded, self.groups, self.codes).take(part)
        if len(part) == 0:
            return some._replace(z=np.zeros((0, self.encoder.dim)))
        return some._replace(z=viewer.read(self.encoded.take(part)))


def prepare(source: AbstractSource, request: Request) -> Prepared:
    """Everything up to training."""
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
    judging, ruling = request.shared_out(split.held_out)
    encoder = _encoder(source, rows, target, labels, split)
    encoded = encoder.encode(rows.X, owner=request.owner)
    batch = labels.batch(at_centres(encoder, encoded.values), rows.weights)
    train, held_out = (Batch(*(c[part] for c in batch)) for part in (split.train, judging))
    groups, codes = _groups(rows, target, encoder)
    recipe = recipe_of(request.flow, encoder.layout)
    n_rows = rows.n_rows or len(train.weight)
    variance = 1.0 if request.volume_weight is None else float(request.volume_weight)
    n_groups = 0 if groups is None else len(groups.names)
    head = at_marginal(target, encoder.dim, n_groups, labels, rows.weights, split.train)
    relation = target.relation(labels)
    relation = None if relation is None else relation[split.train]
    material = Material(encoder, head, train, n_rows, variance, request.seed, relation)
    density = own_density(recipe, material, request, held_out, alone=target.density_only)
    _check_base(recipe, target, request, density)
    reads_head = density is None or request.rules_read_head(encoder.layout)
    if reads_head or target.density_only:
        split = split._replace(held_out=judging)
    else:  # the threshold is set on log p(x), whatever the head makes of these rows
        held_out = Batch(*(column[split.held_out] for column in batch))
    smooth = recipe.smooths and groups is None and _is_smooth(target, labels)
    usual, request = (
        request.settled(smooth=one, own_density=density is not None) for one in (False, smooth)
    )
    sizes = longest = recipe.sizes(request.sizes, n_rows, drops_features=target.drops_features)
    expected = None
    if target.density_only and density is not None:
        begun, density = density, None
    else:
        single = groups is not None or density is None or not source.holds_all
        own, strata = _of_labels(request, target, split, labels, rows)
        if not single and head.pools and recipe.n_members(len(own.train)) > 1:
            sizes = recipe.sizes(
                request.sizes, len(own.train), drops_features=target.drops_features
            )
        model = recipe.build(material, sizes)
        if groups is None:
            named = target
            target = chosen_target(named, rows, encoded, own, Viewer(encoder, model))
            if target.choice is not named.choice:
                labels = target.read(rows.y)
                batch = labels.batch(np.asarray(batch.x), rows.weights)
                train, held_out = (Batch(*(column[part] for column in batch)) for part in split)
                head = at_marginal(target, encoder.dim, 0, labels, rows.weights, split.train)
                model = eqx.tree_at(lambda m: m.head, model, head)
        exact = _is_exact(model, request)
        parts = (encoded, split, batch)
        model, expected = with_head(model, encoder, parts, groups, codes, exact)
        if expected is not None:
            taken = (batch.y - expected).astype(batch.y.dtype)
            train, held_out = (Batch(*(c[part] for c in batch._replace(y=taken))) for part in split)
        settings = recipe.settings(longest, encoder, lambda_of(request))
        if _exact_steps(target) and isinstance(request.sizes.n_epochs, str):
            settings = replace(settings, n_epochs=max(settings.n_epochs, FEWEST_EXACT_STEPS))
        n_labelled = rows.n_labelled or n_rows * float(np.mean(train.labelled))
        objective = objective_of(request, target, encoder.dim, float(n_labelled))
        augment = recipe.augmentation(encoder)
        begun = Begun(model, objective, settings, held_out, augment, exact, known=train)
        kept = request.compares or (reads_head and judging is ruling)
        if not single and not exact:
            alone = begun._replace(
                objective=objective_of(usual, target, encoder.dim, float(len(own.train))),
                settings=recipe.settings(sizes, encoder, lambda_of(usual)),
            )
            alone = with_members(
                alone, recipe, sizes, encoder, parts, (own, strata), request.seed,
                kept=split.held_out if kept else None, unjudged=bool(request.terms),
            )  # fmt: skip
            begun = rivals(begun, alone, split, batch, labels.labelled)
    target = target.with_marginal(rows.y, rows.weights)
    return Prepared(
        request, rows, target, encoder, encoded, split, ruling, train, expected, groups, codes,
        recipe, sizes, begun, density,
    )  # fmt: skip


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


def lambda_of(request: Request) -> float | None:
    """The weight of log p(x), times D; None where only the volume is weighed."""
    return None if request.volume_weight is not None else float(request.generative_weight)


def objective_of(
    request: Request, target: AbstractTarget, dim: int, n_rows: float
) -> JointObjective:
    """What is minimised over rows of `dim` numbers."""
    weight = request.volume_weight
    if target.density_only:
        weight = 1.0
    elif weight is None:
        weight = float(request.generative_weight) / dim
    return JointObjective(
        float(weight), n_rows=n_rows, terms=request.terms, density_only=target.density_only
    )


def _encoder(
    source: AbstractSource, rows: Read, target: AbstractTarget, labels: Labels, split: Split
) -> AbstractEncoder:
    """Fitted to training rows alone: those held out will meet it as new rows do."""
    trained = np.zeros(len(rows.weights))
    trained[split.train] = rows.weights[split.train] > 0
    encoder = source.encoder_kind(rows.X).fit(rows.X, target.relation(labels), weights=trained)
    for remark in (*target.remarks, *encoder.remarks):
        warnings.warn(remark, DataWarning, stacklevel=2)
    return encoder


def _groups(
    rows: Read, target: AbstractTarget, encoder: AbstractEncoder
) -> tuple[Groups | None, np.ndarray | None]:
    if rows.groups is None:
        return None, None
    names, codes = np.unique(rows.groups, return_inverse=True)
    slopes = None if target.choice is None else target.choice.slopes
    places = () if slopes is None else tuple(encoder.slopes(slopes))
    return Groups(names, places), codes


def _is_exact(model: Hybrid, request: Request) -> bool:
    """Whether there is nothing to train but a head that is fitted in closed form."""
    others = jax.tree.leaves(partition((model.flow, model.completion))[0])
    return not others and model.head.has_closed_form and not request.terms


def _of_labels(
    request: Request, target: AbstractTarget, split: Split, labels: Labels, rows: Read
) -> tuple[Split, np.ndarray | None]:
    """Which labelled rows teach a committee, which judge it, and what they are stratified by."""
    strata, labelled = target.strata(labels), labels.labelled
    share = request.held_out_share(rows.weights * labelled)
    return split_labels(split, labelled, share, strata, rows.weights, request.seed), strata


def _is_smooth(target: AbstractTarget, labels: Labels) -> bool:
    """Whether answers should be made smooth: of classes that most rows say nothing of."""
    few = float(np.mean(labels.labelled)) < MOSTLY
    return target.smooth and few and not _exact_steps(target)


def _exact_steps(target: AbstractTarget) -> bool:
    return target.choice is not None and target.choice.exact_steps
