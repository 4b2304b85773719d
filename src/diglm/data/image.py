"""Images as a model sees them: pixels of a byte, whatever they came as."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from diglm.data.encoder import AbstractEncoder, Encoded
from diglm.data.facets import Facet

WHITE = 255
PATCHES = 7  # along each side: what people are shown of an image, at most


@dataclass(frozen=True)
class ImageEncoder(AbstractEncoder):
    """Images (rows, height, width, channels): bytes as they are, floats in [0, 1] as 256 levels.

    A pixel is a cell, so log p(x) is the log of a mass for bytes, and for floats that mass times
    255 for every pixel: a density per unit of the image given. Every byte is one that training
    prepares for, so that there are no facts of what is unseen.

    Attributes:
        size: height, width and channels.
        floats: whether images come, and are given back, as floats.
    """

    layout: ClassVar[str] = "image"
    n_offsets: ClassVar[int] = 2

    size: tuple[int, int, int]
    floats: bool

    @classmethod
    def accepts(cls, X: Any) -> bool:
        return is_image_array(X)

    @classmethod
    def check(cls, X: Any) -> np.ndarray:
        return as_images(X)

    @classmethod
    def fit(cls, X: Any, y: Any = None, *, weights: Any = None) -> "ImageEncoder":
        """What can be learned of images without looking at their pixels."""
        X = as_images(X)
        height, width, channels = X.shape[1:]
        return cls((height, width, channels), X.dtype.kind == "f")

    @property
    def shape(self) -> tuple[int, ...]:
        """Height, width and channels."""
        return self.size

    @property
    def n_features(self) -> int:
        """The number of pixels, each channel for itself."""
        return self.dim

    @property
    def widths(self) -> Float[np.ndarray, "height width channels"]:
        return np.ones(self.size)

    def encode(self, X: Any, *, owner: str = "The model", extra: str = "error") -> Encoded:
        """Pixels of a byte; an error for images of another size or kind."""
        return self._encode(self._checked(X, owner))

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Patches of equal size, as far as they go into the image."""
        height, width, channels = self.size
        places = np.arange(self.dim).reshape(self.size)
        ups, acrosses = (
            np.array_split(np.arange(side), min(side, PATCHES)) for side in (height, width)
        )
        return tuple(
            Facet(
                f"rows {up[0]}-{up[-1]}, columns {across[0]}-{across[-1]}",
                tuple(places[np.ix_(up, across)].ravel().tolist()),
                1.0 if self.floats else float(WHITE),
                1 / WHITE if self.floats else 1.0,
                0.0,
                1.0 if self.floats else float(WHITE),
            )
            for up in ups
            for across in acrosses
        )

    def cells(
        self, X: Any, *, owner: str = "The model", extra: str = "error", absent: str = "error"
    ) -> Float[np.ndarray, "rows cells"]:
        return self._checked(X, owner).reshape(-1, self.dim).astype(float)

    def encode_cells(
        self,
        cells: Float[np.ndarray, "rows cells"],
        absent: Bool[np.ndarray, " cells"] | None = None,
    ) -> Encoded:
        if absent is not None and np.any(absent):
            raise ValueError("Images are taken whole: no pixel can be absent.")
        return self._encode(self.decode_cells(cells))

    def decode_cells(self, cells: Float[np.ndarray, "rows cells"]) -> np.ndarray:
        images = cells.reshape(-1, *self.size)
        return images if self.floats else np.rint(images).astype(np.uint8)

    def _checked(self, X: Any, owner: str) -> np.ndarray:
        X = as_images(X)
        if X.shape[1:] != self.size:
            expected, got = (
                "{} x {} with {} channel(s)".format(*s) for s in (self.size, X.shape[1:])
            )
            raise ValueError(f"{owner} was fitted to images of {expected}; got {got}.")
        if (X.dtype.kind == "f") != self.floats:
            kinds = ("floats in [0, 1]", "bytes (uint8)")
            expected, got = kinds if self.floats else kinds[::-1]
            raise ValueError(f"{owner} was fitted to images of {expected}; got {got}.")
        return X

    def _encode(self, X: np.ndarray) -> Encoded:
        log_scale, unseen = np.zeros(len(X)), np.zeros((len(X), 0), bool)
        if not self.floats:
            return Encoded(X, log_scale, unseen)
        levels = np.round(X * WHITE).astype(np.uint8)
        return Encoded(levels, log_scale + self.dim * np.log(WHITE), unseen)

    def decode(self, values: Any) -> np.ndarray:
        """Images from points in pixel space, rounded down to the cells that hold them."""
        pixels = np.clip(np.floor(values), 0, WHITE).astype(np.uint8)
        return pixels.astype(np.float32) / WHITE if self.floats else pixels

    def to_dict(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""
        return {"shape": list(self.size), "floats": self.floats}

    @classmethod
    def from_dict(cls, content: Any) -> "ImageEncoder":
        """The encoder that `to_dict` described; ValueError if anything is out of place."""
        match content:
            case {"shape": [int(height), int(width), int(channels)], "floats": bool(floats)}:
                return cls((height, width, channels), floats)
        raise ValueError("its description of images is not one")


def is_image_array(X: Any) -> bool:
    """Whether `X` is an array of images rather than a table."""
    return getattr(X, "ndim", 2) > 2


def as_images(X: Any) -> np.ndarray:
    """Checked images, as bytes or floats: what arrived and what to do are in the error."""
    X = np.asarray(X)
    if X.ndim != 4 or 0 in X.shape:
        raise ValueError(
            f"Expected images of shape (rows, height, width, channels), none of them zero; got "
            f"{X.shape}. For grey images add an axis: X[..., None]."
        )
    if X.dtype == np.uint8:
        return X
    if X.dtype.kind in "iu":
        if X.min() < 0 or X.max() > WHITE:
            raise ValueError(
                f"Pixels are whole numbers from 0 to {WHITE}; got {X.min()} to {X.max()}."
            )
        return X.astype(np.uint8)
    if X.dtype.kind != "f":
        raise ValueError(f"Pixels are bytes (uint8) or floats in [0, 1]; got {X.dtype.name}.")
    if not np.all(np.isfinite(X)):
        raise ValueError("Images hold NaN or infinity; every pixel must be a number.")
    if X.min() < 0 or X.max() > 1:
        raise ValueError(
            f"Images of floats lie in [0, 1]; got {X.min():g} to {X.max():g}. Pixels from 0 to "
            f"{WHITE} are given as bytes: X.astype('uint8')."
        )
    return X
