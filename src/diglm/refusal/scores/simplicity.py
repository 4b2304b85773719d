"""How little there is to say about an image: bytes of a lossless code."""

import zlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diglm.refusal.known import Known
from diglm.refusal.scores.base import AbstractScore

HEADER = 8  # bytes that even the shortest code has


def code_lengths(known: Known) -> Float[np.ndarray, " rows"]:
    """Bytes of each image's code, by zlib."""
    images = np.ascontiguousarray(known.values)
    return np.array([len(zlib.compress(image.tobytes(), 9)) - HEADER for image in images], float)


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
