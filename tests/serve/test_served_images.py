"""Images come as lists, raw bytes or PNG, and the page's digit is the model's digit."""

import base64
import struct
import zlib

import numpy as np
import pytest

from diglm.data.image import ImageEncoder
from diglm.serve.errors import Refused
from diglm.serve.png import read_png
from diglm.serve.rows import ImageReader


def png(pixels, filters=None, colour=None, depth=8, interlaced=0):
    """A PNG file of pixels, with the given filter for each line."""
    height, width, channels = pixels.shape
    kind = {1: 0, 3: 2, 2: 4, 4: 6}[channels] if colour is None else colour
    lines = b""
    flat = pixels.astype(int).reshape(height, width * channels)
    for y, line in enumerate(flat):
        chosen = 0 if filters is None else filters[y % len(filters)]
        left = np.concatenate([np.zeros(channels, int), line[:-channels]])
        up = flat[y - 1] if y else np.zeros_like(line)
        corner = np.concatenate([np.zeros(channels, int), up[:-channels]])
        plane = left + up - corner
        near = np.stack([abs(plane - part) for part in (left, up, corner)])
        paeth = np.choose(np.argmin(near, axis=0), [left, up, corner])
        expected = [0 * line, left, up, (left + up) // 2, paeth][chosen]
        lines += bytes([chosen]) + ((line - expected) % 256).astype(np.uint8).tobytes()

    def chunk(name, data):
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


PIXELS = np.random.default_rng(0).integers(0, 256, (5, 4, 3)).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_png_images_are_read_whatever_their_filters(channels):
    pixels = PIXELS[:, :, :channels]
    found = read_png(png(pixels, filters=[0, 1, 2, 3, 4]), 5, 4)
    np.testing.assert_array_equal(found, pixels)
    clear = np.concatenate([pixels, np.full((5, 4, 1), 9, np.uint8)], axis=2)
    np.testing.assert_array_equal(read_png(png(clear, filters=[4, 3]), 5, 4), pixels)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (png(PIXELS)[:40], "cut short"),
        (png(PIXELS)[:20], "no header"),
        (png(PIXELS[:3]), "expected an image of 4 x 5"),
        (png(PIXELS, depth=16), "8 bits"),
        (png(PIXELS, interlaced=1), "interlaced"),
        (png(PIXELS, colour=3), "grey and RGB"),
        (png(PIXELS)[:41] + bytes(200), "unpacked"),
    ],
    ids=range(7),
)
def test_other_png_files_are_refused(data, part):
    with pytest.raises(ValueError, match=part):
        read_png(data, 5, 4)


def test_a_png_cannot_unpack_to_more_than_the_image():
    bomb = zlib.compress(bytes(10**7))
    head = png(PIXELS)[:33]
    data = head + struct.pack(">I", len(bomb)) + b"IDAT" + bomb + bytes(4)
    assert read_png(data, 5, 4).shape == (5, 4, 3)  # the rest is never unpacked


@pytest.fixture(params=[False, True], ids=["bytes", "floats"])
def reader(request):
    return ImageReader(ImageEncoder((5, 4, 3), request.param))


def test_every_form_is_the_same_image(reader):
    text = {"raw": PIXELS.tobytes(), "png": png(PIXELS)}
    images = [base64.b64encode(data).decode() for data in text.values()]
    listed = PIXELS / 255 if reader.encoder.floats else PIXELS
    given = reader.given({"images": [*images, listed.tolist()]}, 10)
    assert given.n_rows == 3
    encoded = reader.encoder.encode(reader.join([given.content]))
    for values in encoded.values:
        np.testing.assert_array_equal(values, PIXELS)


@pytest.mark.parametrize(
    "image",
    [
        "",
        "????",
        "é",
        base64.b64encode(bytes(59)).decode(),
        base64.b64encode(png(PIXELS[:, :, :1])).decode(),
        PIXELS[:4].tolist(),
        [[1, 2], [3]],
        [["a"] * 4] * 5,
        (PIXELS.astype(int) + 300).tolist(),
        (PIXELS - 0.5).tolist(),
        None,
        7,
        {"a": 1},
        [],
    ],
    ids=range(14),
)
def test_what_is_no_such_image_is_refused(reader, image):
    floats_take_anything_in_range = reader.encoder.floats
    try:
        given = reader.given({"images": [image]}, 10)
        reader.encoder.encode(reader.join([given.content]))
    except Refused as refused:
        assert refused.status == 422 and "Image 0" in refused.error
    except ValueError:
        assert floats_take_anything_in_range  # the encoder says it, and /assess makes it a 422
    else:
        pytest.fail("it was taken")
