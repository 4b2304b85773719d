"""How little there is to say about an image: bytes of a lossless code."""

import zlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, UInt8

from diglm.refusal.known import Known
from diglm.refusal.scores.base import AbstractScore

HEADER = 8  # bytes that even the shortest code of zlib has
PIECE = 512  # images coded at a time
LEAST_SCALE = 0.5  # of a residual, in levels


def code_lengths(known: Known) -> Float[np.ndarray, " rows"]:
    """Bytes of each image's code: that of zlib or that of photographs, whichever is shorter.

    Drawings repeat themselves, which zlib finds; photographs never do, but a pixel is much like
    those around.
    """
    images = np.ascontiguousarray(known.values)
    drawn = np.array([len(zlib.compress(image.tobytes(), 9)) - HEADER for image in images], float)
    pieces = [images[i : i + PIECE] for i in range(0, len(images), PIECE)]
    seen = [photograph_lengths(piece) for piece in pieces]
    return np.minimum(drawn, np.concatenate([*seen, np.zeros(0)]))


def photograph_lengths(
    images: UInt8[np.ndarray, "rows height width channels"],
) -> Float[np.ndarray, " rows"]:
    r"""Bytes that an arithmetic coder needs for images, pixel by pixel from the top left.

    Of colours green is coded, and how far the others are from it. A pixel is expected to be the
    median of its left neighbour a, its upper neighbour b and a + b - c, with c between them. What
    is left, r, has the probability $\frac{1-t}{1+t} t^{|r|}$ with $t = e^{-1/s}$ and s the mean
    $|r|$ of the four neighbours that were coded before. The prediction is that of LOCO-I
    (Weinberger et al., 2000, https://doi.org/10.1109/83.855427).
    """
    planes = images.astype(np.int32)
    if planes.shape[-1] == 3:
        green = planes[..., 1:2]
        planes = np.concatenate([green, planes[..., ::2] - green], axis=-1)
    sizes = np.abs(planes - _expected(planes)).astype(np.float32)
    left, above, between = _before(sizes)
    right = np.concatenate([above[:, :, 1:], above[:, :, -1:]], axis=2)
    scale = 0.3 * (left + above) + 0.2 * (between + right) + LEAST_SCALE
    nats = sizes / scale - np.log(np.tanh(0.5 / scale))
    return np.sum(nats, axis=(1, 2, 3), dtype=float) / np.log(256)


def _expected(planes: Int[np.ndarray, "rows height width n"]) -> Int[np.ndarray, "..."]:
    left, above, between = _before(planes)
    least, most = np.minimum(left, above), np.maximum(left, above)
    return np.clip(left + above - between, least, most)


def _before(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The left, the upper and the upper left neighbour; on an edge the one that there is."""
    padded = np.pad(planes, ((0, 0), (1, 0), (1, 0), (0, 0)))
    left, above, between = padded[:, 1:, :-1], padded[:, :-1, 1:], padded[:, :-1, :-1]
    left, above, between = left.copy(), above.copy(), between.copy()
    above[:, 0] = between[:, 0] = left[:, 0]
    left[:, 1:, 0] = between[:, 1:, 0] = above[:, 1:, 0]
    return left, above, between


def only_images(known: Known) -> str:
    """Why rows have no code of their own; empty for images."""
    if known.values.dtype == np.uint8:
        return ""
    return "a lossless code is one of pixels, and these rows are no images. Use score='auto'."


@dataclass
class Simplicity(AbstractScore):
    r"""$-\log L(x)$ with L the length of a lossless code: blank images, dots, lines, plain shapes.

    Densities of images find them the most probable of all.
    """

    def why_not(self, known: Known) -> str:
        return only_images(known)

    def reads_head(self, layout: str) -> bool:
        return False

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        return -np.log(code_lengths(known))


@dataclass
class Complexity(AbstractScore):
    r"""$-\log p(x) - L(x) \log 256$: improbable, and not because there is much to say of it.

    Reference: Serra et al. (2020), https://arxiv.org/abs/1909.11480
    """

    def why_not(self, known: Known) -> str:
        return only_images(known)

    def reads_head(self, layout: str) -> bool:
        return False

    def __call__(self, known: Known) -> Float[np.ndarray, " rows"]:
        return -known.log_px - np.log(256) * code_lengths(known)
