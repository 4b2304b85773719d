"""What is learned of rows before any network: target, encoder, who teaches and who judges."""

from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from diglm.compiling import jit_once
from diglm.data.encoder import AbstractEncoder, Encoded
from diglm.fitting.request import Request
from diglm.fitting.sources import AbstractSource, Read
from diglm.fitting.split import Split
from diglm.heads import AbstractHead, AbstractResponse, Features
from diglm.hybrid import Hybrid
from diglm.predictor import evaluate
from diglm.predictor.look import Groups, Viewer, at_centres
from diglm.recipes import Material
from diglm.refusal import Known
from diglm.targets import AbstractTarget, Labels
from diglm.types import Batch, bucket, padded, placed

Some = Int[np.ndarray, " some"]  # numbers of rows


@dataclass(frozen=True)
class Learned:
    """Rows, and what was learned of them before any network.

    Attributes:
        rows: to start from.
        target: what is predicted.
        encoder: fitted to the rows to train on: those held out meet it as new rows do.
        encoded: all rows.
        centres: their values, with what is missing at its expectation.
        split: which of them are trained on, and which judge that.
        groups: those of the rows, or None.
        codes: the rows' numbers among them.
    """

    rows: Read
    target: AbstractTarget
    encoder: AbstractEncoder
    encoded: Encoded
    centres: np.ndarray
    split: Split
    groups: Groups | None
    codes: np.ndarray | None

    @cached_property
    def labels(self) -> Labels:
        """The targets of all rows, as a head takes them."""
        return self.target.read(self.rows.y)

    @cached_property
    def batch(self) -> Batch:
        """All rows, with the targets that people gave."""
        return self.labels.batch(self.centres, self.rows.weights)

    def of(self, part: Some) -> Batch:
        """Some of the rows."""
        return Batch(*(column[part] for column in self.batch))

    @cached_property
    def head(self) -> AbstractHead:
        """The target's head, at the marginal of the rows to train on."""
        n_groups = 0 if self.groups is None else len(self.groups.names)
        train, dim = self.split.train, self.encoder.dim
        return at_marginal(self.target, dim, n_groups, self.labels, self.rows.weights, train)

    def material(self, n_rows: int, request: Request) -> Material:
        """What recipes build from; `n_rows` rows train in all."""
        variance = 1.0 if request.volume_weight is None else float(request.volume_weight)
        relation, train = self.target.relation(self.labels), self.split.train
        relation = None if relation is None else relation[train]
        return Material(
            self.encoder, self.head, self.of(train), n_rows, variance, request.seed, relation
        )

    @cached_property
    def as_features(self) -> Features:
        """All rows as a head sees them, but for what a flow makes of them."""
        batch = self.batch
        weight = np.asarray(batch.weight, float) * np.asarray(batch.labelled, float)
        design = None if self.groups is None else self.groups.design(self.encoded.values)
        nothing = np.zeros((len(self.encoded), 0))
        return Features(nothing, np.asarray(batch.y), weight, design, self.codes)

    def viewer(self, model: Hybrid) -> Viewer:
        """What looks at the rows by a model."""
        return Viewer(self.encoder, model, self.groups)

    def features(self, model: Hybrid, part: Some) -> Features:
        """Some of the rows as the head of a model sees them."""
        z = np.zeros((0, self.encoder.dim))
        if len(part):
            z = self.viewer(model).read(self.encoded.take(part))
        return self.as_features.take(part)._replace(z=z)

    def known(self, model: Hybrid, part: Some) -> Known:
        """All that a model knows of some of the rows."""
        return self.viewer(model).known(self.encoded.take(part), self._codes(part))

    def response(self, model: Hybrid, part: Some, *, once: bool = False) -> AbstractResponse:
        """p(y|x) of some of the rows; `once` of a model on the way to the one that will answer."""
        viewer, codes = replace(self.viewer(model), once=once), self._codes(part)
        seen = viewer.look(self.encoded.take(part), codes, evaluate.respond)
        return seen.response  # type: ignore[return-value]

    def _codes(self, part: Some) -> np.ndarray | None:
        return None if self.codes is None else self.codes[part]

    def with_target(self, target: AbstractTarget) -> "Learned":
        """The same with another meaning of the targets."""
        return replace(self, target=target)

    def divided(self, split: Split) -> "Learned":
        """The same with other rows to judge what is learned of those to train on."""
        return replace(self, split=split)


def learn(
    source: AbstractSource, rows: Read, target: AbstractTarget, split: Split, owner: str
) -> Learned:
    """The encoder is fitted to the rows to train on, and all rows are encoded."""
    trained = np.zeros(len(rows.weights))
    trained[split.train] = rows.weights[split.train] > 0
    relation = target.relation(target.read(rows.y))
    encoder = source.encoder_kind(rows.X).fit(rows.X, relation, weights=trained)
    encoded = encoder.encode(rows.X, owner=owner)
    centres = at_centres(encoder, encoded.values)
    groups, codes = _groups(rows, target, encoder)
    return Learned(rows, target, encoder, encoded, centres, split, groups, codes)


def _groups(
    rows: Read, target: AbstractTarget, encoder: AbstractEncoder
) -> tuple[Groups | None, np.ndarray | None]:
    if rows.groups is None:
        return None, None
    names, codes = np.unique(rows.groups, return_inverse=True)
    slopes = None if target.choice is None else target.choice.slopes
    places = () if slopes is None else tuple(encoder.slopes(slopes))
    return Groups(names, places), codes


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
