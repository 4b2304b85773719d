"""Spaces in which rows have neighbours: columns, latents, features, pooled pixels."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped
from scipy import linalg, ndimage
from scipy.special import ndtri

from diglm.refusal.known import Known
from diglm.registry import Registry

KNOTS = 101  # of the distribution of a column
FARTHEST = 1e4  # units from the centre of a column; what lies beyond is as strange as can be
LEADING = 64  # directions of features that are kept
POOLED_SIDE = 16  # pixels of a pooled image, at most


class AbstractSpace(ABC):
    """From what is known of rows to points; made by `of`, from rows of training."""

    @classmethod
    @abstractmethod
    def of(cls, training: Known) -> "AbstractSpace":
        """The space of a model's rows."""

    @abstractmethod
    def __call__(self, known: Known) -> Shaped[np.ndarray, "rows dim"]:
        """The point of each row, in the type that points are stored in."""


@dataclass(frozen=True)
class ColumnSpace(AbstractSpace):
    r"""Encoded columns $v$, and the same with margins made normal: $(v / s_v, g(v) / s_g)$.

    Distances in $v$ see how far out a value is, those in $g(v) = \Phi^{-1}(F(v))$ in a column of
    heavy tails also what is between familiar ones. What is missing stands at the median.

    Attributes:
        medians: of the columns.
        knots: quantiles of the columns; scores are their normal scores.
        scores: by mid-ranks, so that tied values share one.
        scales: $s_v$ and $s_g$.
    """

    medians: Float[np.ndarray, " columns"]
    knots: Float[np.ndarray, "columns knots"]
    scores: Float[np.ndarray, "columns knots"]
    scales: tuple[float, float]

    @classmethod
    def of(cls, training: Known) -> "ColumnSpace":
        values = _within(training.flat)
        medians = _medians(values)
        values = np.where(np.isnan(values), medians, values)
        knots = np.quantile(values, np.linspace(0, 1, KNOTS), axis=0, method="nearest").T
        columns = np.sort(values, axis=0)
        ranks = [
            np.searchsorted(column, at, side="left") + np.searchsorted(column, at, side="right")
            for column, at in zip(columns.T, knots, strict=True)
        ]
        scores = ndtri((0.5 * np.stack(ranks) + 0.5) / (len(values) + 1))
        parts = (medians, knots.astype(np.float32), scores.astype(np.float32))
        raw = cls(*parts, (1.0, 1.0))(training)
        own, normal = np.split(np.var(raw, axis=0), 2)
        scales = tuple(float(np.sqrt(np.mean(part))) or 1.0 for part in (own, normal))
        return cls(*parts, scales)  # type: ignore[arg-type]

    def __call__(self, known: Known) -> Float[np.ndarray, "rows both"]:
        values = _within(known.flat)
        missing = np.isnan(values)
        if np.any(missing):
            values = np.where(missing, self.medians, values)
        both = np.empty((len(values), 2 * values.shape[1]), np.float32)
        own, normal = np.split(both, 2, axis=1)
        own[:] = values / np.float32(self.scales[0])
        for j, (knots, scores) in enumerate(zip(self.knots, self.scores, strict=True)):
            normal[:, j] = np.interp(values[:, j], knots, scores)
        normal /= np.float32(self.scales[1])
        return both


@dataclass(frozen=True)
class LatentSpace(AbstractSpace):
    """u, where familiar rows are normal."""

    @classmethod
    def of(cls, training: Known) -> "LatentSpace":
        return cls()

    def __call__(self, known: Known) -> Float[np.ndarray, "rows dim"]:
        return known.u.astype(np.float32)


@dataclass(frozen=True)
class FeatureSpace(AbstractSpace):
    """Leading directions of the features z, in half precision.

    Attributes:
        directions: of largest variance among rows of training.
    """

    directions: Float[np.ndarray, "dim leading"]

    @classmethod
    def of(cls, training: Known) -> "FeatureSpace":
        z = training.z.astype(np.float64)
        z = z - z.mean(axis=0)
        n, dim = z.shape
        n_leading = min(LEADING, dim)
        if dim <= n:
            directions = linalg.eigh(z.T @ z)[1][:, ::-1][:, :n_leading]
        else:  # of few rows, the directions that they span
            values, vectors = linalg.eigh(z @ z.T)
            kept = vectors[:, ::-1][:, : min(n_leading, n)]
            directions = z.T @ (kept / np.sqrt(np.maximum(values[::-1][: kept.shape[1]], 1e-12)))
        return cls(directions.astype(np.float16))

    def __call__(self, known: Known) -> Float[np.ndarray, "rows leading"]:
        points = known.z.astype(np.float32) @ self.directions.astype(np.float32)
        return np.clip(points, -6e4, 6e4).astype(np.float16)


@dataclass(frozen=True)
class PixelSpace(AbstractSpace):
    """Images made soft and small: strokes count, not their edges.

    Attributes:
        stride: pixels that become one.
    """

    stride: int

    @classmethod
    def of(cls, training: Known) -> "PixelSpace":
        return cls(-(-max(training.values.shape[1:3]) // POOLED_SIDE))

    def __call__(self, known: Known) -> Shaped[np.ndarray, "rows pixels"]:
        images = known.values.astype(np.float32)
        soft = 0.5 * self.stride
        if self.stride > 1:
            images = ndimage.gaussian_filter(images, (0, soft, soft, 0))
        small = images[:, :: self.stride, :: self.stride]
        return np.round(small).astype(np.uint8).reshape(len(small), math.prod(small.shape[1:]))


SPACES: Registry[Callable[[Known], AbstractSpace]] = Registry(
    "space",
    {
        "columns": ColumnSpace.of,
        "latents": LatentSpace.of,
        "features": FeatureSpace.of,
        "pixels": PixelSpace.of,
    },
)
USUAL_SPACES: Registry[str] = Registry("layout", {"vector": "columns", "image": "pixels"})


def _within(values: np.ndarray) -> np.ndarray:
    return np.clip(values, -FARTHEST, FARTHEST)


def _medians(values: np.ndarray) -> np.ndarray:
    """Of the columns, zero for one without a value."""
    known = ~np.all(np.isnan(values), axis=0)
    medians = np.zeros(values.shape[1], values.dtype)
    medians[known] = np.nanmedian(values[:, known], axis=0)
    return medians
