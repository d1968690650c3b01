"""Pictures that Pillow decodes without a word although a part of them is missing or damaged."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from PIL import Image

_LAST = 8  # bytes of a JPEG's coded pixels that its decoder gets last
_MORE = bytes(range(1, 65))  # coded pixels that may follow them
_GREY = range(126, 131)  # libjpeg fills missing blocks with 128, which colour and CMYK shift a little
_ZEROS = bytes(64)
_BASELINE, _TABLES, _SCAN, _END = (0xC0, 0xC1), 0xC4, 0xDA, b"\xff\xd9"
_MARKER = re.compile(rb"\xff[^\0\xff\xd0-\xd7]")  # in coded pixels: no escaped byte, restart or filling

Reopen = Callable[[bytes], Any]


class Jpeg:
    """A JPEG whose decoder is watched, since libjpeg's warnings do not come through Pillow.

    A damaged byte shifts what the bits after it mean, so that pixels and bytes do not end together: libjpeg fills
    missing blocks with grey, and skips bytes that are too many. This is seen in baseline JPEGs; not if the number of
    blocks stays as it was, or a restart marker makes up for it. Zeroed blocks of a disk are seen in nearly any JPEG.

    Args:
        image: opened and not yet loaded.
        data: the file.
    """

    def __init__(self, image: Any, data: bytes) -> None:
        self._image, self._read, self._asked = image, image.load_read, True
        self._data = data
        # The last end is found at once; a file of several pictures has more than one.
        self._start, self._end = _coded_pixels(data, data.find if image.format == "MPO" else data.rfind)
        self._edge = self._end - _LAST
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
        if self._data.find(_ZEROS, self._start) >= 0 and _has_zeros(self._data):
            return True
        if not self._end:
            return False
        if not self._asked:
            end = self._data.find(_END, self._start)  # what follows it may end in the same way
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


def _segments(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """The marker, the content and the end of each segment."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at : at + 2] != _END:
        marker, start = data[at + 1], at + 4
        at += 2 + int.from_bytes(data[at + 2 : start], "big")
        yield marker, data[start:at], at
        if marker == _SCAN:
            found = _MARKER.search(data, at)
            at = found.start() if found else len(data)


def _coded_pixels(data: bytes, find: Callable[[bytes, int], int]) -> tuple[int, int]:
    """Where the coded pixels start, and where they end in a baseline JPEG with one scan, by `find`; else 0."""
    channels = 0
    for marker, content, at in _segments(data):
        if marker in _BASELINE:
            channels = content[5]
        if marker == _SCAN:
            end = find(_END, at)
            return at, end if content[0] == channels and end > at + 2 * _LAST else 0
    return len(data), 0


def _has_zeros(data: bytes) -> bool:
    """Whether a scan has a run of zero bytes that no photograph gives.

    Zeros are the shortest code of the scan's table: in most tables a change of brightness, the same over and over. Only
    where they end a block may they mean a flat area.
    """
    shortest: dict[int, int] = {}
    for marker, content, at in _segments(data):
        while marker == _TABLES and len(content) > 17:
            shortest[content[0]] = content[17]
            content = content[17 + sum(content[1:17]) :]
        if marker == _SCAN:
            table, last = 0x10 | content[2] & 15, content[2 + 2 * content[0]]  # of all but a block's mean; frequency
            detail = last > 0 and shortest.get(table, 0) & 15 > 0
            found = _MARKER.search(data, at)
            if detail and data.find(_ZEROS, at, found.start() if found else len(data)) >= 0:
                return True
    return False


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
