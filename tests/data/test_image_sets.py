"""Image sets from files: what is read, and what is said of files that are absent or wrong."""

import gzip
import hashlib
import io
import tarfile

import numpy as np
import pytest
from scipy.io import savemat

from diglm.data import downloads, image_sets
from diglm.data.downloads import Source
from diglm.data.image_sets import load_images


def idx_files(folder, n=3):
    """Four tiny files in the likeness of MNIST's, and the checksums of what they hold."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, checksums = np.random.default_rng(0), {}
    for part in ("train", "t10k"):
        images = rng.integers(0, 256, (n, 28, 28), np.uint8)
        labels = np.arange(n, dtype=np.uint8)
        for stem, header, data in (
            (f"{part}-images-idx3", 16, images),
            (f"{part}-labels-idx1", 8, labels),
        ):
            content = bytes(header) + data.tobytes()
            (folder / f"{stem}-ubyte.gz").write_bytes(gzip.compress(content))
            checksums[stem] = hashlib.sha256(content).hexdigest()
    return checksums


def differences(images):
    """The stored form of colour images, from their definition."""
    red, green, blue = np.moveaxis(images, -1, 0)
    planes = np.stack([red - green, green, blue - green])
    planes = np.diff(planes, axis=2, prepend=np.uint8(0))
    return np.diff(planes, axis=3, prepend=np.uint8(0))


def test_mnist_and_its_likeness(tmp_path, monkeypatch):
    prefix, _, *rest = image_sets.IDX_MNIST
    monkeypatch.setattr(image_sets, "IDX_MNIST", (prefix, idx_files(tmp_path), *rest))
    x, y = load_images("mnist", "train", tmp_path)
    assert x.shape == (3, 28, 28, 1) and x.dtype == np.uint8 and y.tolist() == [0, 1, 2]
    packaged = tmp_path / "package"
    prefix, _, url, _, about = image_sets.IDX_FASHION
    own = (prefix, idx_files(packaged), url, str(packaged), about)
    monkeypatch.setattr(image_sets, "IDX_FASHION", own)
    assert load_images("fashion-mnist", "test", tmp_path).x.shape == (3, 28, 28, 1)


def test_colours_come_back_from_their_differences(tmp_path, monkeypatch):
    images = np.random.default_rng(1).integers(0, 256, (4, 32, 32, 3), np.uint8)
    path = tmp_path / "cifar10_test.npz"
    np.savez(path, d=differences(images), y=np.arange(4, dtype=np.uint8))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(image_sets, "CIFAR10_TEST", Source(path.name, digest, "images"))
    x, y = load_images("cifar10", data_dir=tmp_path)
    np.testing.assert_array_equal(x, images)
    assert y.dtype == np.int64


def test_official_files_of_colour_images(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    images = np.random.default_rng(2).integers(0, 256, (5, 32, 32, 3), np.uint8)
    labels = np.array([10, 1, 2, 9, 10], np.uint8)  # SVHN calls a zero ten
    path = tmp_path / "test_32x32.mat"
    savemat(path, {"X": images.transpose(1, 2, 3, 0), "y": labels[:, None]})
    official = {"test": Source(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), "images")}
    monkeypatch.setattr(image_sets, "SVHN_OFFICIAL", official)
    x, y = load_images("svhn", "test", tmp_path)
    np.testing.assert_array_equal(x, images)
    assert y.tolist() == [0, 1, 2, 9, 0]

    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for i in range(1, 6):
            record = bytes([i]) + images[i - 1].transpose(2, 0, 1).tobytes()
            member = tarfile.TarInfo(f"cifar-10-batches-bin/data_batch_{i}.bin")
            member.size = len(record)
            archive.addfile(member, io.BytesIO(record))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(image_sets, "CIFAR10_OFFICIAL", Source(path.name, digest, "images"))
    x, y = load_images("cifar10", "train", tmp_path)
    np.testing.assert_array_equal(x, images)
    assert y.tolist() == [1, 2, 3, 4, 5]


def test_what_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match="Unknown image set 'imagenet'; choose one of"):
        load_images("imagenet")
    with pytest.raises(ValueError, match=r"notmnist has the parts \['test'\]; got 'train'"):
        load_images("notmnist", "train")
    with pytest.raises(FileNotFoundError, match="notmnist_test.npz .* Put it there"):
        load_images("notmnist", "test", tmp_path)

    def offline(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(downloads.urllib.request, "urlopen", offline)
    for name in ("mnist", "svhn", "cifar10"):
        with pytest.raises(FileNotFoundError, match="could not be downloaded"):
            load_images(name, "train", tmp_path)


def test_a_damaged_file_is_named(tmp_path, monkeypatch):
    checksums = idx_files(tmp_path)
    monkeypatch.setattr(image_sets, "MNIST_SHA256", checksums)
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a whole gzip file"):
        load_images("mnist", "test", tmp_path)
    path.write_bytes(gzip.compress(b"something else"))
    with pytest.raises(ValueError, match="not the expected file"):
        load_images("mnist", "test", tmp_path)
