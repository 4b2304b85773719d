"""PNG images of 8 bits, read without a library; what could unpack to more than asked is refused."""

import struct
import zlib

import numpy as np
from jaxtyping import UInt8

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # by colour type: grey, RGB, and both with transparency


def is_png(data: bytes) -> bool:
    """Whether these bytes say that they are a PNG image."""
    return data.startswith(SIGNATURE)


def read_png(data: bytes, height: int, width: int) -> UInt8[np.ndarray, "height width channels"]:
    """The pixels of an image of this size, without transparency; ValueError for anything else."""
    header, packed = _chunks(data)
    if header != (width, height):
        raise ValueError(
            f"expected an image of {width} x {height} pixels, got {header[0]} x {header[1]}"
        )
    kind = data[25]
    channels = CHANNELS[kind]
    length = width * channels
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(packed, height * (length + 1))  # never more than this
    except zlib.error as error:
        raise ValueError("its pixels cannot be unpacked") from error
    if len(raw) != height * (length + 1):
        raise ValueError("it is cut short")
    lines = np.frombuffer(raw, np.uint8).reshape(height, length + 1)
    pixels = _unfiltered(lines[:, 0], lines[:, 1:], channels)
    pixels = pixels.reshape(height, width, channels)
    return pixels if kind in (0, 2) else pixels[:, :, :-1]


def _chunks(data: bytes) -> tuple[tuple[int, int], bytes]:
    """Width and height, and the packed pixels."""
    if len(data) < 33 or data[12:16] != b"IHDR":
        raise ValueError("it has no header")
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if depth != 8 or kind not in CHANNELS or interlaced:
        raise ValueError("only grey and RGB images of 8 bits a channel, not interlaced, are read")
    place, packed = 8, []
    while place + 12 <= len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"IDAT":
            packed.append(data[place + 8 : place + 8 + size])
        place += 12 + size
    return (width, height), b"".join(packed)


def _unfiltered(
    filters: UInt8[np.ndarray, " height"], lines: UInt8[np.ndarray, "height length"], step: int
) -> UInt8[np.ndarray, "height length"]:
    """Undo the five filters: each byte was stored less what its neighbours let expect."""
    if filters.max(initial=0) > 4:
        raise ValueError("it has an unknown filter")
    out = np.zeros((len(lines) + 1, lines.shape[1] + step), int)  # a border of zeros
    for y, (kind, line) in enumerate(zip(filters.tolist(), lines, strict=True), 1):
        for x, value in enumerate(line.tolist(), step):
            left, up, corner = out[y, x - step], out[y - 1, x], out[y - 1, x - step]
            out[y, x] = (value + _expected(kind, int(left), int(up), int(corner))) % 256
    return out[1:, step:].astype(np.uint8)


def _expected(kind: int, left: int, up: int, corner: int) -> int:
    if kind == 4:  # Paeth's: the neighbour nearest to the plane through all three
        plane = left + up - corner
        return min((left, up, corner), key=lambda value: abs(plane - value))
    return (0, left, up, (left + up) // 2)[kind]
