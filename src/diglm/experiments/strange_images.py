"""Images that no model of digits should answer: simpler than any digit, and digits spoiled.

Each kind makes n grey images (n, side, side, 1) of bytes from some digits and a generator. Kinds
are told apart as those that scores were chosen by and those that they were judged by alone.
"""

from collections.abc import Callable

import numpy as np
from scipy import ndimage

Maker = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def blank(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One level of grey, black or nearly black in half of the images."""
    levels = np.where(rng.random(len(digits)) < 0.5, 0, rng.integers(0, 256, len(digits)))
    return np.broadcast_to(levels[:, None, None, None], digits.shape)


def dots(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One to four single white pixels on black."""
    return _drawn(digits, rng, _dots)


def lines(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One straight line of one or two pixels, level or upright, from edge to edge."""
    return _drawn(digits, rng, _line)


def blobs(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A soft round spot anywhere."""
    return _drawn(digits, rng, _blob)


def shapes(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A filled square, disc or triangle in the middle."""
    return _drawn(digits, rng, _shape)


def stripes(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Bars of equal width over the whole image."""
    return _drawn(digits, rng, _stripes)


def ramps(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Grey that grows evenly from one edge to the other."""
    return _drawn(digits, rng, _ramp)


def noise(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every pixel a byte of its own."""
    return rng.integers(0, 256, digits.shape)


def turned(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A quarter turn, to either side."""
    ways = rng.choice([1, 3], len(digits))
    return np.stack([np.rot90(image, k) for image, k in zip(digits, ways, strict=True)])


def upside_down(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Top for bottom."""
    return digits[:, ::-1]


def mirrored(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Left for right."""
    return digits[:, :, ::-1]


def halves_beside(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The left half of one digit and the right half of another image."""
    others = digits[rng.permutation(len(digits))]
    middle = digits.shape[2] // 2
    return np.concatenate([digits[:, :, :middle], others[:, :, middle:]], axis=2)


def halves_stacked(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The upper half of one digit and the lower half of another image."""
    others = digits[rng.permutation(len(digits))]
    middle = digits.shape[1] // 2
    return np.concatenate([digits[:, :middle], others[:, middle:]], axis=1)


def overlaid(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two digits in one place."""
    return np.maximum(digits, digits[rng.permutation(len(digits))])


def cut(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A square of a third of the side, taken out of the middle."""
    side, found = digits.shape[1], digits.copy()
    third = side // 3
    found[:, third : side - third, third : side - third] = 0
    return found


def quarters_shuffled(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The four quarters in another order."""
    middle = digits.shape[1] // 2
    top = np.concatenate([digits[:, middle:, middle:], digits[:, middle:, :middle]], axis=2)
    bottom = np.concatenate([digits[:, :middle, middle:], digits[:, :middle, :middle]], axis=2)
    return np.concatenate([top, bottom], axis=1)


def blurred(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Out of focus by two pixels."""
    return ndimage.gaussian_filter(digits.astype(float), (0, 2, 2, 0))


def dimmed(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A third of the light."""
    return digits // 3


def grainy(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noise of a tenth of white on every pixel."""
    return digits + rng.normal(0, 25, digits.shape)


def shrunk(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half as large, in the middle."""
    side = digits.shape[1]
    small = digits[:, ::2, ::2]
    room = side - small.shape[1]
    around = (room // 2, room - room // 2)
    return np.pad(small, ((0, 0), around, around, (0, 0)))


def inverted(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Black on white."""
    return 255 - digits


CHOSEN_BY: dict[str, Maker] = {
    "blank": blank,
    "dots": dots,
    "lines": lines,
    "noise": noise,
    "turned": turned,
    "halves beside": halves_beside,
    "cut": cut,
}
JUDGED_BY: dict[str, Maker] = {
    "blobs": blobs,
    "shapes": shapes,
    "stripes": stripes,
    "ramps": ramps,
    "mirrored": mirrored,
    "upside down": upside_down,
    "halves stacked": halves_stacked,
    "quarters shuffled": quarters_shuffled,
    "overlaid": overlaid,
    "blurred": blurred,
    "dimmed": dimmed,
    "grainy": grainy,
    "shrunk": shrunk,
    "inverted": inverted,
}
KINDS = CHOSEN_BY | JUDGED_BY


def make(kind: str, digits: np.ndarray, seed: int) -> np.ndarray:
    """Images of a kind, one from each digit, as bytes."""
    made = KINDS[kind](digits, np.random.default_rng(seed))
    return np.clip(np.round(made), 0, 255).astype(np.uint8)


def _drawn(
    digits: np.ndarray,
    rng: np.random.Generator,
    draw: Callable[[int, np.random.Generator], np.ndarray],
) -> np.ndarray:
    """Images drawn one by one, in the shape of the digits."""
    return np.stack([draw(digits.shape[1], rng) for _ in digits])[..., None]


def _dots(side: int, rng: np.random.Generator) -> np.ndarray:
    image = np.zeros((side, side))
    for _ in range(rng.integers(1, 5)):
        image[tuple(rng.integers(0, side, 2))] = 255
    return image


def _line(side: int, rng: np.random.Generator) -> np.ndarray:
    image, start, width = np.zeros((side, side)), rng.integers(0, side - 2), rng.integers(1, 3)
    image[start : start + width] = 255
    return image.T if rng.random() < 0.5 else image


def _blob(side: int, rng: np.random.Generator) -> np.ndarray:
    down, across = np.mgrid[:side, :side]
    centre, radius = rng.uniform(0.2 * side, 0.8 * side, 2), rng.uniform(0.04, 0.2) * side
    squares = (down - centre[0]) ** 2 + (across - centre[1]) ** 2
    return 255 * np.exp(-0.5 * squares / radius**2)


def _shape(side: int, rng: np.random.Generator) -> np.ndarray:
    half, middle = rng.uniform(0.15, 0.35) * side, (side - 1) / 2
    down, across = np.mgrid[:side, :side] - middle
    inside = (
        np.maximum(np.abs(down), np.abs(across)) <= half,
        np.hypot(down, across) <= half,
        (down <= half) & (np.abs(across) <= (down + half) / 2),
    )
    return 255.0 * inside[rng.integers(len(inside))]


def _stripes(side: int, rng: np.random.Generator) -> np.ndarray:
    width = rng.integers(1, 5)
    image = np.zeros((side, side))
    image[(np.arange(side) + rng.integers(0, 2 * width)) // width % 2 == 0] = 255
    return image.T if rng.random() < 0.5 else image


def _ramp(side: int, rng: np.random.Generator) -> np.ndarray:
    first, last = rng.uniform(0, 255, 2)
    image = np.broadcast_to(np.linspace(first, last, side)[:, None], (side, side))
    return image.T if rng.random() < 0.5 else image
