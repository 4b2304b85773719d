"""How far a row is from the nearest row of each of several samples of training rows."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import ndtri

from diglm.blocks import in_blocks
from diglm.parameters import Constraints, Whole
from diglm.refusal.known import Known
from diglm.refusal.scores.base import AbstractScore, learned

FARTHEST = 1e4  # units from the centre of a column; what lies beyond is as strange as can be
KNOTS = 17  # of the distribution of a column
ROWS_A_SAMPLE = 8  # at least; of fewer rows there are fewer samples
CHUNK = 256  # rows that are compared at a time
FEW = 16  # rows, that are looked at by a program of their own
ROUNDING = 4e-6  # of squared lengths, within which rows are the same row


class Space(NamedTuple):
    """Where rows are compared, and the samples that they are compared with.

    Attributes:
        knots: quantiles of the columns.
        scores: their normal scores by mid-ranks, so that tied values share one.
        scales: $s_v$ and $s_g$.
        points: of the samples.
    """

    knots: Float[np.ndarray, "columns knots"]
    scores: Float[np.ndarray, "columns knots"]
    scales: Float[np.ndarray, " two"]
    points: Float[np.ndarray, "samples n both"]


@dataclass
class NearestOfSamples(AbstractScore):
    r"""$\frac1G \sum_g \min_{r \in R_g} |r - s(x)|$: mean distance to G samples of training.

    The nearest of a small sample orders rows as well as the nearest of all do, and is found by one
    matrix product and a minimum, in a compiled loop. Points are encoded columns v and the same with
    margins made roughly normal, $s(v) = (v / s_v, g(v) / s_g)$ with g linear between a few
    quantiles: distances in v see how far out a value is, those in g(v) in a column of heavy tails
    also what lies between familiar ones. A row with gaps is compared in the c of C columns that it
    tells, its squared distances times C / c; in samples, what is missing stands at the median.

    Reference: Sugiyama and Borgwardt (2013), Rapid Distance-Based Outlier Detection via Sampling,
    https://papers.nips.cc/paper/2013/hash/d296c101daa88a51f6ca8cfc1ac79b50-Abstract.html

    Args:
        samples: G.
        most: rows of training that are kept, of all samples together.
    """

    samples: int = 16
    most: int = 512
    columns: Int[np.ndarray, " columns"] | None = learned()
    space: Space | None = learned()

    wants_training: ClassVar[int] = 4_000
    constraints: ClassVar[Constraints] = {"samples": [Whole()], "most": [Whole()]}

    def reads_head(self, layout: str) -> bool:
        return False

    def fit(self, training: Known, aside: Known) -> "NearestOfSamples":
        values, told = _within(training), _told(training)
        columns = np.arange(values.shape[1])
        if told is not None:
            columns = np.flatnonzero(told.any(axis=0)) if told.any() else columns
            values = np.where(told, values, _medians(values, told))[:, columns]
        knots, scores = _margins(values)
        normal = _interpolated(values, knots, scores)
        spreads = (float(np.mean(np.var(part, axis=0))) for part in (values, normal))
        scales = np.array([np.sqrt(spread) or 1.0 for spread in spreads], np.float32)
        points = np.concatenate([values / scales[0], normal / scales[1]], axis=1)
        n_kept = min(self.most, len(points))
        points = points[np.linspace(0, len(points) - 1, n_kept).astype(int)]
        n_samples = max(1, min(self.samples, n_kept // ROWS_A_SAMPLE))
        size = 1 << (-(-n_kept // n_samples) - 1).bit_length()  # few sizes: few programs
        places = [np.resize(np.arange(g, n_kept, n_samples), size) for g in range(n_samples)]
        space = Space(knots, scores, scales, points[np.stack(places)])
        return replace(self, columns=columns, space=space)

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        assert self.columns is not None and self.space is not None, "fit() comes first"
        values, told = _within(known), _told(known)
        if values.shape[1] > len(self.columns):
            values = values[:, self.columns]
            told = None if told is None else told[:, self.columns]
        if told is None or told.all():
            return in_blocks(_distance, self.space, values, (), CHUNK, few=FEW).astype(float)
        values = np.where(told, values, np.float32(0))
        distances = in_blocks(_distance, self.space, values, (), CHUNK, few=FEW).astype(float)
        gaps = ~told.all(axis=1)
        beside = np.concatenate([values[gaps], told[gaps]], axis=1)
        distances[gaps] = in_blocks(_distance_told, self.space, beside, (), CHUNK, few=FEW)
        return distances


def _distance(
    space: Space, values: Float[Array, "chunk columns"], _: tuple
) -> Float[Array, " chunk"]:
    """Mean distance of each row to the nearest of each sample."""
    points, (n_samples, size, _) = _points(space, values), space.points.shape
    flat = space.points.reshape(n_samples * size, -1)
    lengths = jnp.sum(points**2, axis=1)
    squares = jnp.sum(flat**2, axis=1)[None] - 2 * points @ flat.T
    nearest = jnp.min(squares.reshape(-1, n_samples, size), axis=2)
    return _mean(nearest + lengths[:, None], lengths)


def _distance_told(
    space: Space, beside: Float[Array, "chunk twice"], _: tuple
) -> Float[Array, " chunk"]:
    """The same of rows with gaps, beside which lies what was told."""
    values, told = jnp.split(beside, 2, axis=1)
    told = jnp.concatenate([told, told], axis=1)
    points, (n_samples, size, _) = told * _points(space, values), space.points.shape
    flat = space.points.reshape(n_samples * size, -1)
    lengths = jnp.sum(points**2, axis=1)
    squares = told @ (flat**2).T - 2 * points @ flat.T
    nearest = jnp.min(squares.reshape(-1, n_samples, size), axis=2)
    share = jnp.maximum(jnp.mean(told, axis=1), 1 / told.shape[1])
    return _mean((nearest + lengths[:, None]) / share[:, None], lengths / share)


def _points(space: Space, values: Float[Array, "chunk columns"]) -> Float[Array, "chunk both"]:
    """Rows where they are compared; between knots what is added up is linear."""
    steps, rises = jnp.diff(space.knots, axis=1), jnp.diff(space.scores, axis=1)
    slopes = jnp.where(steps > 0, rises / jnp.where(steps > 0, steps, 1.0), 0.0)
    above = jnp.clip(values[:, :, None] - space.knots[None, :, :-1], 0.0, steps[None])
    normal = jnp.sum(above * slopes[None], axis=2) + space.scores[None, :, 0]
    return jnp.concatenate([values / space.scales[0], normal / space.scales[1]], axis=1)


def _mean(
    squares: Float[Array, "chunk samples"], lengths: Float[Array, " chunk"]
) -> Float[Array, " chunk"]:
    """Of the roots. A row at no distance at all is taken for the row itself, and passed over."""
    same = squares <= ROUNDING * lengths[:, None]
    roots = jnp.where(same, 0.0, jnp.sqrt(jnp.where(same, 1.0, squares)))
    n_samples = squares.shape[1]
    others = jnp.where(jnp.any(same, axis=1), max(n_samples - 1, 1), n_samples)
    return jnp.sum(roots, axis=1) / others


def _within(known: Known) -> Float[np.ndarray, "rows columns"]:
    return np.clip(known.flat, -FARTHEST, FARTHEST)


def _told(known: Known) -> Bool[np.ndarray, "rows columns"] | None:
    return None if known.told is None else known.told.reshape(known.n_rows, -1)


def _medians(
    values: Float[np.ndarray, "rows columns"], told: Bool[np.ndarray, "rows columns"]
) -> Float[np.ndarray, " columns"]:
    """Of what was told; zero for a column of which nothing was."""
    pairs = zip(values.T, told.T, strict=True)
    return np.array([np.median(v[given]) if given.any() else 0.0 for v, given in pairs], np.float32)


def _margins(
    values: Float[np.ndarray, "rows columns"],
) -> tuple[Float[np.ndarray, "columns knots"], Float[np.ndarray, "columns knots"]]:
    """Quantiles of the columns and their normal scores."""
    ordered = np.sort(values, axis=0).T
    places = np.rint(np.linspace(0, len(values) - 1, KNOTS)).astype(int)
    knots = np.ascontiguousarray(ordered[:, places])
    ranks = [
        np.searchsorted(column, at, side="left") + np.searchsorted(column, at, side="right")
        for column, at in zip(ordered, knots, strict=True)
    ]
    scores = ndtri((0.5 * np.stack(ranks) + 0.5) / (len(values) + 1))
    return knots, scores.astype(np.float32)


def _interpolated(
    values: Float[np.ndarray, "rows columns"],
    knots: Float[np.ndarray, "columns knots"],
    scores: Float[np.ndarray, "columns knots"],
) -> Float[np.ndarray, "rows columns"]:
    columns = zip(values.T, knots, scores, strict=True)
    return np.stack([np.interp(*column) for column in columns], axis=1).astype(np.float32)
