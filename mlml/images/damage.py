"""Pictures that Pillow decodes without a word although a part of them is missing or damaged."""

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

_LAST = 8  # bytes of a JPEG's coded pixels that its decoder gets last
_MORE = bytes(range(1, 65))  # coded pixels that may follow them
_GREY = range(126, 131)  # libjpeg fills missing blocks with 128, which colour and CMYK shift a little
_ZEROS = bytes(64)
_END = b"\xff\xd9"

Reopen = Callable[[bytes], Any]


class Jpeg:
    """A baseline JPEG whose decoder is watched, since libjpeg's warnings do not come through Pillow.

    A damaged byte shifts what the bits after it mean, so that pixels and bytes do not end together: libjpeg fills
    missing blocks with grey, and skips bytes that are too many. What cannot be seen is damage that leaves the number of
    blocks as it was, or is made up for by a restart marker, and any in a progressive JPEG.

    Args:
        image: opened and not yet loaded.
        data: the file.
    """

    def __init__(self, image: Any, data: bytes) -> None:
        self._data = data
        self._start, self._end, self._zeros_are_flat = _coded_pixels(data)
        self._edge = self._end - _LAST
        self._image, self._read, self._asked = image, image.load_read, True
        if self._end:
            image.load_read = self._read_to_edge

    def _read_to_edge(self, size: int) -> bytes:
        left = self._edge - self._image.fp.tell()
        self._asked = left <= 0
        data: bytes = self._read(min(size, left) if left > 0 else size)
        return data

    def is_damaged(self, reopen: Reopen) -> bool:
        """Whether the loaded image lacks a part, or its file holds more than it.

        Args:
            reopen: opens an image file.
        """
        if not self._end:
            return False
        zeros = not self._zeros_are_flat and self._data.find(_ZEROS, self._start, self._end) >= 0
        if zeros:
            return True
        if not self._asked:
            end = self._data.find(_END, self._start)
            return end == self._end or _is_damaged(self._data[: end + 2], reopen)
        corner = self._image.getpixel((self._image.width - 1, self._image.height - 1))
        if any(value not in _GREY for value in (corner if isinstance(corner, tuple) else (corner,))):
            return False
        # Grey may be what the picture shows. What follows complete pixels does not change them.
        longer = reopen(self._data[: self._end] + _MORE + self._data[self._end :])
        return bool(longer.tobytes() != self._image.tobytes())


def _is_damaged(data: bytes, reopen: Reopen) -> bool:
    image = reopen(data)
    jpeg = Jpeg(image, data)
    image.load()
    return jpeg.is_damaged(reopen)


def _coded_pixels(data: bytes) -> tuple[int, int, bool]:
    """Where the coded pixels of a baseline JPEG with one scan start and end, and whether zero bytes mean a flat area.

    (0, 0, True) for another file. Zeros are the shortest code of the table for the brightness; where that does not end
    a block, as in the tables that most programs use, no photograph has many of them.
    """
    at, channels, first = 2, 0, dict[int, int]()
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker, begin = data[at + 1], at + 4
        at += 2 + int.from_bytes(data[at + 2 : begin], "big")
        segment = data[begin:at]
        if marker in (0xC0, 0xC1):  # the frame
            channels = segment[5]
        while marker == 0xC4 and len(segment) > 17:  # Huffman tables
            first[segment[0]] = segment[17]
            segment = segment[17 + sum(segment[1:17]) :]
        if marker == 0xDA:  # the scan
            end = data.rfind(_END, at)  # quicker than the first, and mostly the same
            if channels and segment[0] == channels and end > at + 2 * _LAST:
                return at, end, first.get(0x10 | segment[2] & 15, 0) == 0
            break
    return 0, 0, True


def unwritten(image: Image.Image, data: bytes, reopen: Reopen) -> bool:
    """Whether the file of a loaded PNG or TIFF has no pixels for the last rows, although its checksums are right.

    Args:
        data: the file.
        reopen: opens an image file.
    """
    rows = _last_rows(image)
    if all(row.any() for row in rows):
        return False
    # Black may be what the picture shows. Pixels that are in the file do not depend on what was there before.
    again = reopen(data)
    prepare = again.load_prepare

    def prepare_white() -> None:
        prepare()
        bands = Image.getmodebands(again.mode)
        again.im = Image.new(again.mode, again.size, (255,) * bands if bands > 1 else 255).im

    again.load_prepare = prepare_white
    return not np.array_equal(_last_rows(again), rows)


def _last_rows(image: Image.Image) -> np.ndarray:
    """The last two rows: an interlaced file ends with every other row."""
    return np.asarray(image.crop((0, max(0, image.height - 2), *image.size)))
