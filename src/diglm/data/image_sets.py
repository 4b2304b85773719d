"""Image sets of the paper's studies: bytes (rows, height, width, channels), and labels."""

import gzip
import os
import tarfile
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.io import loadmat

from diglm.data.downloads import Source, find, locate

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FASHION_URL = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"
FASHION_FOLDER = "/usr/share/datasets/fashion-mnist"  # Debian's package dataset-fashion-mnist
IDX_HEADERS = {"images": 16, "labels": 8}  # bytes before the data

MNIST_SHA256 = {
    "train-images-idx3": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
FASHION_SHA256 = {
    "train-images-idx3": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
IDX_MNIST = ("", MNIST_SHA256, MNIST_URL, None, "MNIST")
IDX_FASHION = ("fashion-mnist/", FASHION_SHA256, FASHION_URL, FASHION_FOLDER, "Fashion-MNIST")
NOTMNIST_TEST = Source(
    "notmnist_test.npz",
    "67176220dc2276e974ffb5a6519ae30dc4bc9f691b697f2018e7ace894751453",
    "10,000 letters A to J of notMNIST, white on black",
)
SVHN = {
    "train": (
        Source(
            "svhn_train_part1.npz",
            "692f7d99cbb5dc1971c169f33a1df9f28233a04a7660c3eb26f3c047b07c1be8",
            "street view house numbers, cropped, first half of the training images",
        ),
        Source(
            "svhn_train_part2.npz",
            "b4d97a2f3493f3aa0a3e5131397320ec245f5ba3f75c9681cf01ea12a951d2b7",
            "street view house numbers, cropped, second half of the training images",
        ),
    ),
    "test": (
        Source(
            "svhn_test.npz",
            "3eecbe0d52b0465dff6cdbc6c3a10a4a42722d187c2c2a83e71965200a64fbec",
            "street view house numbers, cropped, test images",
        ),
    ),
}
SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"
SVHN_OFFICIAL = {
    part: Source(f"{part}_32x32.mat", sha256, f"SVHN, {part} images", f"{SVHN_URL}{part}_32x32.mat")
    for part, sha256 in {
        "train": "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
        "test": "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
    }.items()
}
CIFAR10_OFFICIAL = Source(
    "cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    "CIFAR-10",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
)
CIFAR10_MEMBERS = {
    "train": [f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)],
    "test": ["cifar-10-batches-bin/test_batch.bin"],
}
CIFAR10_TEST = Source(
    "cifar10_test.npz",
    "2bddf1d1ad3b8b6783f8d801cda2e86562d6ff5f96ae6846fbbd0e5786689712",
    "CIFAR-10, test images",
)


class Labelled(NamedTuple):
    """Images of bytes and the numbers of their classes."""

    x: np.ndarray
    y: np.ndarray


def load_images(
    name: str, part: str = "test", data_dir: str | os.PathLike | None = None
) -> Labelled:
    """The "train" or "test" part of "mnist", "fashion-mnist", "svhn", "cifar10" or "notmnist".

    Of NotMNIST there is only the test part.
    """
    if name not in IMAGE_SETS:
        raise ValueError(f"Unknown image set {name!r}; choose one of {sorted(IMAGE_SETS)}.")
    parts, read = IMAGE_SETS[name]
    if part not in parts:
        raise ValueError(f"{name} has the parts {list(parts)}; got {part!r}.")
    return read(part, data_dir)


def files_of(name: str) -> tuple[tuple[Source, ...], ...]:
    """The files of an image set; where several collections hold it, any of them will do."""
    idx = {"mnist": IDX_MNIST, "fashion-mnist": IDX_FASHION}
    if name in idx:
        parts = (_idx_sources(part, *idx[name]).values() for part in ("train", "test"))
        return (tuple(source for some in parts for source in some),)
    return {
        "notmnist": ((NOTMNIST_TEST,),),
        "svhn": ((*SVHN["train"], *SVHN["test"]), tuple(SVHN_OFFICIAL.values())),
        "cifar10": ((CIFAR10_OFFICIAL,), (CIFAR10_TEST,)),
    }[name]


def _mnist(part: str, data_dir: str | os.PathLike | None) -> Labelled:
    return _idx(part, data_dir, *IDX_MNIST)


def _fashion(part: str, data_dir: str | os.PathLike | None) -> Labelled:
    return _idx(part, data_dir, *IDX_FASHION)


def _idx_sources(part, prefix, checksums, url, folder, about) -> dict[str, Source]:
    """Images and labels of a part."""
    found = {}
    for kind, rank in (("images", 3), ("labels", 1)):
        stem = f"{'train' if part == 'train' else 't10k'}-{kind}-idx{rank}"
        name = f"{stem}-ubyte.gz"
        about_it = f"{about}, {part} {kind}"
        found[kind] = Source(prefix + name, checksums[stem], about_it, url + name, folder)
    return found


def _idx(part, data_dir, prefix, checksums, url, folder, about) -> Labelled:
    """The four files of MNIST and of what was made in its likeness."""
    found = {}
    for kind, source in _idx_sources(part, prefix, checksums, url, folder, about).items():
        content = gzip.decompress(find(source, data_dir).read_bytes())
        found[kind] = np.frombuffer(content, np.uint8, offset=IDX_HEADERS[kind])
    return Labelled(found["images"].reshape(-1, 28, 28, 1), found["labels"].astype(np.int64))


def _notmnist(part: str, data_dir: str | os.PathLike | None) -> Labelled:
    with np.load(find(NOTMNIST_TEST, data_dir), allow_pickle=False) as stored:
        return Labelled(stored["x"][..., None], stored["y"].astype(np.int64))


def _svhn(part: str, data_dir: str | os.PathLike | None) -> Labelled:
    """From compact files where they are at hand, else from the official ones."""
    if all(locate(source, data_dir) is not None for source in SVHN[part]):
        parts = [_from_differences(source, data_dir) for source in SVHN[part]]
        return Labelled(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    stored = loadmat(find(SVHN_OFFICIAL[part], data_dir))
    labels = stored["y"].ravel().astype(np.int64) % 10  # a zero is called ten there
    return Labelled(np.ascontiguousarray(stored["X"].transpose(3, 0, 1, 2)), labels)


def _cifar10(part: str, data_dir: str | os.PathLike | None) -> Labelled:
    if part == "test" and locate(CIFAR10_TEST, data_dir) is not None:
        return _from_differences(CIFAR10_TEST, data_dir)
    records = []
    with tarfile.open(find(CIFAR10_OFFICIAL, data_dir)) as archive:
        for member in CIFAR10_MEMBERS[part]:
            stored = archive.extractfile(member)
            assert stored is not None, f"{member} is a file in the archive of that checksum"
            records.append(np.frombuffer(stored.read(), np.uint8).reshape(-1, 1 + 3 * 32 * 32))
    rows = np.concatenate(records)
    planes = rows[:, 1:].reshape(-1, 3, 32, 32)
    return Labelled(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, 0].astype(np.int64))


def _from_differences(source: Source, data_dir: str | os.PathLike | None) -> Labelled:
    """Colours stored as R - G, G, B - G, each as differences along both sides, all modulo 256."""
    with np.load(find(source, data_dir), allow_pickle=False) as stored:
        sums = np.cumsum(stored["d"], 2, dtype=np.uint8)
        red, green, blue = np.cumsum(sums, 3, dtype=np.uint8)
        labels = stored["y"].astype(np.int64)
    return Labelled(np.stack([red + green, green, blue + green], axis=-1), labels)


Reader = Callable[[str, str | os.PathLike | None], Labelled]
IMAGE_SETS: dict[str, tuple[tuple[str, ...], Reader]] = {
    "mnist": (("train", "test"), _mnist),
    "fashion-mnist": (("train", "test"), _fashion),
    "notmnist": (("test",), _notmnist),
    "svhn": (("train", "test"), _svhn),
    "cifar10": (("train", "test"), _cifar10),
}
