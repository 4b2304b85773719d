"""Images that commands are given: folders of classes, arrays, sizes and channels."""

import numpy as np
import pytest

from diglm.cli.errors import CommandError
from diglm.cli.work.data import open_data
from diglm.cli.work.images import read_folder, read_npz

pillow = pytest.importorskip("PIL.Image")


@pytest.fixture
def draw(tmp_path):
    rng = np.random.default_rng(0)

    def one(name: str, size=(6, 5), colour=False):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        shape = (*size, 3) if colour else size
        pillow.fromarray(rng.integers(0, 256, shape).astype(np.uint8)).save(path)

    return one


def test_a_folder_a_class_gives_labels(draw, tmp_path):
    for name in ("cat/a.png", "cat/b.png", "dog/a.png"):
        draw(name)
    data = open_data(str(tmp_path))
    assert data.images.pixels.shape == (3, 6, 5, 1)
    assert data.truth(None).tolist() == ["cat", "cat", "dog"]


def test_one_folder_has_no_labels_and_grey_joins_colour(draw, tmp_path):
    draw("a.png")
    draw("b.png", colour=True)
    images = read_folder(tmp_path)
    assert images.labels is None and images.pixels.shape == (2, 6, 5, 3)
    assert images.with_channels(1).shape == (2, 6, 5, 1)


def test_images_of_two_sizes_are_refused(draw, tmp_path):
    draw("cat/a.png")
    draw("cat/b.png", size=(7, 7))
    with pytest.raises(CommandError, match="7 pixels wide"):
        read_folder(tmp_path)


def test_pictures_beside_folders_are_refused(draw, tmp_path):
    draw("cat/a.png")
    draw("b.png")
    with pytest.raises(CommandError, match="beside and inside"):
        read_folder(tmp_path)


def test_a_broken_picture_is_named(draw, tmp_path):
    draw("cat/a.png")
    (tmp_path / "cat" / "b.png").write_bytes(b"nothing")
    with pytest.raises(CommandError, match=r"b\.png cannot be read"):
        read_folder(tmp_path)


def test_arrays_are_found_by_shape(tmp_path):
    path = tmp_path / "set.npz"
    np.savez(path, images=np.zeros((3, 4, 4), np.uint8), labels=np.array([0, 1, 0]))
    found = read_npz(path)
    assert found.pixels.shape == (3, 4, 4, 1) and found.labels.tolist() == [0, 1, 0]
    np.savez(path, a=np.zeros((3, 4, 4)), b=np.zeros((3, 4, 4)))
    with pytest.raises(CommandError, match="no one array of images"):
        read_npz(path)
    np.savez(path, x=np.array([[[{}]]], dtype=object))
    with pytest.raises(CommandError, match="cannot be read as arrays"):
        read_npz(path)
