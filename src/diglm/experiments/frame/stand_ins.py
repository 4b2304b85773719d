"""Data that comes with scikit-learn, for small runs where a data set is not at hand.

Digits of 8 x 8 pixels enlarged stand in for MNIST and, coloured, for SVHN; pieces of two
photographs for CIFAR-10 and Fashion-MNIST; digits turned on their side for NotMNIST. One table of
diabetes patients stands in for UCI's, tumours for ADBench's anomalies, made-up rows for flights.
"""

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_sample_images

from diglm.data.downloads import Split, adbench, uci_regression
from diglm.data.image_sets import Labelled, load_images
from diglm.data.listing import is_here

N_DIGITS_TO_LEARN, N_PIECES, SHARE_TO_TEST = 1_200, 1_500, 0.1
GREY, COLOUR = (28, 1), (32, 3)  # side and channels
SEEDS = {"train": 0, "test": 1}


def lacking(needs: Sequence[str]) -> tuple[str, ...]:
    """Those of the data sets that are not on this machine."""
    return tuple(name for name in needs if not is_here(name))


def images(name: str, part: str, embedded: Sequence[str] = ()) -> Labelled:
    """A part of an image set, or what stands in for it."""
    return IMAGES[name](part) if name in embedded else load_images(name, part)


def uci_split(name: str, split: int, embedded: bool) -> Split:
    """A UCI table on a published split, or diabetes patients on one of its own."""
    if not embedded:
        return uci_regression(name, split)
    x, y = map(np.asarray, load_diabetes(return_X_y=True))
    test = np.random.default_rng(split).random(len(y)) < SHARE_TO_TEST
    return Split(x[~test], y[~test], x[test], y[test])


def anomalies(name: str, embedded: bool) -> tuple[np.ndarray, np.ndarray]:
    """An ADBench table and which of its rows are anomalies, or tumours, the malign ones so."""
    if not embedded:
        return adbench(name)
    x, benign = map(np.asarray, load_breast_cancer(return_X_y=True))
    return x, benign == 0


def made_flights(n_rows: int = 120_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with the flights' eight columns and delays that move with the months, in order."""
    rng = np.random.default_rng(seed)
    month = np.sort(rng.integers(1, 5, n_rows))
    leaves, miles = rng.uniform(300, 1400, n_rows), rng.gamma(3.0, 250.0, n_rows)
    minutes = 20 + miles / 7.5 + rng.normal(0, 5, n_rows)
    x = [month, rng.integers(1, 32, n_rows), rng.integers(1, 8, n_rows), leaves]
    x += [(leaves + minutes) % 1440, minutes, miles, rng.integers(0, 30, n_rows)]
    late = (leaves / 700) ** 2 * rng.gamma(1.0, 12.0, n_rows) + month * rng.normal(1, 4, n_rows)
    return np.rint(np.stack(x, axis=1)), np.rint(late - 12)


def _digits(part: str, size: tuple[int, int]) -> Labelled:
    """scikit-learn's digits, each pixel a square; in colour on a background of some colour."""
    side, channels = size
    x, y = map(np.asarray, load_digits(return_X_y=True))
    rows = slice(N_DIGITS_TO_LEARN) if part == "train" else slice(N_DIGITS_TO_LEARN, None)
    x, y = x[rows].reshape(-1, 8, 8) / 16, y[rows]
    cut = (32 - side) // 2
    x = np.kron(x, np.ones((4, 4)))[:, cut : 32 - cut, cut : 32 - cut, None]
    if channels > 1:
        ink, paper = np.random.default_rng(SEEDS[part]).random((2, len(x), 1, 1, channels))
        x = x * ink + (1 - x) * paper
    return Labelled(np.rint(255 * x).astype(np.uint8), y)


def _turned(part: str) -> Labelled:
    upright = _digits(part, GREY)
    return Labelled(np.ascontiguousarray(np.rot90(upright.x, axes=(1, 2))), upright.y)


def _photographs(part: str, size: tuple[int, int]) -> Labelled:
    """Pieces of two photographs, upper halves to learn and lower ones to test; classes are four."""
    side, channels = size
    rng, pieces, labels = np.random.default_rng(SEEDS[part]), [], []
    for label, photograph in enumerate(load_sample_images().images):
        middle = len(photograph) // 2
        half = photograph[:middle] if part == "train" else photograph[middle:]
        for _ in range(N_PIECES // 2):
            i, j = (rng.integers(0, n - side) for n in half.shape[:2])
            pieces.append(half[i : i + side, j : j + side])
            labels.append(2 * label + int(j > half.shape[1] // 2))
    order = rng.permutation(len(pieces))
    x, y = np.stack(pieces)[order], np.asarray(labels)[order]
    x = x if channels > 1 else np.rint(x.mean(axis=3, keepdims=True)).astype(np.uint8)
    return Labelled(x, y)


IMAGES: dict[str, Callable[[str], Labelled]] = {
    "mnist": lambda part: _digits(part, GREY),
    "svhn": lambda part: _digits(part, COLOUR),
    "notmnist": _turned,
    "fashion-mnist": lambda part: _photographs(part, GREY),
    "cifar10": lambda part: _photographs(part, COLOUR),
}
