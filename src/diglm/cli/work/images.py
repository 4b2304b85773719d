"""Images that a command was given: arrays in a .npz file, or picture files in folders."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diglm.cli.errors import CommandError
from diglm.optional import optional, require

pillow: Any = optional("PIL.Image", "images")

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
GREY = np.array([0.299, 0.587, 0.114])  # how bright the eye finds red, green and blue


@dataclass(frozen=True)
class Images:
    """Bytes (rows, height, width, channels), and a label a row where labels are known."""

    pixels: np.ndarray
    labels: np.ndarray | None

    def take(self, places: np.ndarray) -> "Images":
        """Some of them."""
        labels = None if self.labels is None else self.labels[places]
        return Images(self.pixels[places], labels)

    def with_channels(self, n: int) -> np.ndarray:
        """The pixels with so many channels, if colour can be made grey or grey repeated."""
        have = self.pixels.shape[-1]
        if have == 3 and n == 1:
            return np.rint(self.pixels @ GREY).astype(np.uint8)[..., None]
        return np.repeat(self.pixels, n, axis=-1) if have == 1 and n > 1 else self.pixels


def is_image_folder(path: Path) -> bool:
    """Whether a folder holds pictures, itself or in the folders of classes."""
    return any(_pictures(path)) or any(any(_pictures(inside)) for inside in _folders(path))


def read_folder(path: Path) -> Images:
    """Pictures in a folder a class, whose name is the label; or in one folder, without labels."""
    require(pillow)
    classes = [(inside.name, _pictures(inside)) for inside in _folders(path)]
    classes = [(name, files) for name, files in classes if files]
    loose = _pictures(path)
    if loose and classes:
        raise CommandError(
            f"{path} holds pictures both beside and inside folders, such as {loose[0].name}.",
            "put every picture into the folder of its class, or all into one folder.",
        )
    files = loose or [file for _, some in classes for file in some]
    labels = np.array([name for name, some in classes for _ in some]) if classes else None
    pictures = [_read(file) for file in files]
    if any(picture.shape[-1] == 3 for picture in pictures):
        pictures = [np.repeat(one, 3, axis=-1) if one.shape[-1] == 1 else one for one in pictures]
    for file, picture in zip(files, pictures, strict=True):
        if picture.shape != pictures[0].shape:
            raise CommandError(
                f"{file} is {picture.shape[1]} pixels wide and {picture.shape[0]} high; "
                f"{files[0].name} is {pictures[0].shape[1]} wide and {pictures[0].shape[0]} high.",
                "scale all pictures to one size.",
            )
    return Images(np.stack(pictures), labels)


def read_npz(path: Path) -> Images:
    """The array of images in a .npz file, and that of labels: `x` and `y`, or the only ones fit."""
    try:
        # Opened here: NumPy leaves a file open in which it finds no arrays.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise CommandError(
            f"{path} cannot be read as arrays ({error}).",
            "write it with numpy.savez(x=..., y=...).",
        ) from error
    found = [name for name, array in arrays.items() if array.ndim in (3, 4)]
    name = "x" if "x" in found else found[0] if len(found) == 1 else None
    if name is None:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise CommandError(
            f"{path} has no one array of images; it holds {shapes or 'nothing'}.",
            "images are x of shape (rows, height, width) or (rows, height, width, channels); "
            "tables are CSV, Parquet or Arrow files.",
        )
    pixels = arrays[name] if arrays[name].ndim == 4 else arrays[name][..., None]
    flat = [one for other, one in arrays.items() if one.ndim == 1 and len(one) == len(pixels)]
    labels = arrays["y"] if "y" in arrays else flat[0] if len(flat) == 1 else None
    if labels is not None and labels.shape != (len(pixels),):
        raise CommandError(
            f"{path}: y has shape {labels.shape}, but there are {len(pixels)} images.",
            "give one label an image.",
        )
    return Images(pixels, labels)


def _folders(path: Path) -> list[Path]:
    return sorted(inside for inside in path.iterdir() if inside.is_dir() and inside.name[0] != ".")


def _pictures(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.suffix.lower() in PICTURES)


def _read(file: Path) -> np.ndarray:
    """One picture as bytes, grey or in colour."""
    try:
        with pillow.open(file) as picture:
            grey = picture.mode in ("1", "L", "LA", "I", "I;16")
            array = np.asarray(picture.convert("L" if grey else "RGB"))
    except OSError as error:
        raise CommandError(
            f"{file} cannot be read as a picture.", f"open or remove it: {error}"
        ) from error
    return array[..., None] if array.ndim == 2 else array
