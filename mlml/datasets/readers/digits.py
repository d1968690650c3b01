"""Multi-label images made from scikit-learn's handwritten digits: no download, small, quick to learn.

Each image is a canvas with zero to four digits among clutter; its labels are the digits that occur. The digits are
real scans (``load_digits``: 1,797 of 8x8 pixels); scans of the test images never occur in the others.
"""

import io
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image
from pydantic import Field
from sklearn.datasets import load_digits

from mlml import labels as lb
from mlml.datasets.source import Source
from mlml.datasets.split import validation_split
from mlml.labels.table import Table

POOLS = ("train", "test")
_TRAIN_SHARE = 0.7  # of the scans
_SEED = 1797
_COUNTS = (0.05, 0.35, 0.30, 0.20, 0.10)  # of images with 0, 1, .. 4 digits
_SHARES = (0.06, 0.14, 0.08, 0.11, 0.07, 0.10, 0.08, 0.08, 0.13, 0.15)  # of the digits 0 .. 9; unequal classes
_OVERLAP = 0.2  # at most, of two digits' boxes, as a share of the smaller one

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int64]


class Digit(NamedTuple):
    """A scan on the canvas: its row in ``load_digits`` and its box in pixels."""

    scan: int
    left: int
    top: int
    width: int
    height: int


def read(
    folder: Path,
    archives: Path,
    *,
    train_images: Annotated[int, Field(ge=10, le=100_000)] = 2500,
    test_images: Annotated[int, Field(ge=10, le=100_000)] = 1000,
    canvas: Annotated[int, Field(ge=32, le=512)] = 64,
) -> Source:
    """Make the data set: `train_images`, of which `validation_split` takes some for validation, and `test_images`.

    An image depends only on its name and on `canvas`: more images do not change the first ones.

    Args:
        folder: unused.
        archives: unused.
        canvas: width and height of an image in pixels.
    """
    keys = [("train", i) for i in range(train_images)] + [("test", i) for i in range(test_images)]
    digits = [layout(pool, i, canvas) for pool, i in keys]
    names = scans()[1]
    labels = np.full((len(keys), 10), lb.ABSENT, np.int8)
    for row, placed in enumerate(digits):
        labels[row, [names[digit.scan] for digit in placed]] = lb.PRESENT
    split = np.array([pool for pool, _ in keys], dtype="<U10")
    split[validation_split(train_images)[1]] = "validation"
    images = tuple(f"{pool}-{i:05d}" for pool, i in keys)
    table = Table(tuple("0123456789"), images, tuple(split.tolist()), labels)
    return Source(table, lambda row: _png(_paint(*keys[row], canvas, digits[row])))


@cache
def scans() -> tuple[_Bytes, _Ints, dict[str, _Ints]]:
    """The scans, uint8 [1797, 10, 10] of 0..240 with an empty margin; their digits; the rows of each of `POOLS`."""
    bunch = load_digits()
    order = np.random.RandomState(_SEED).permutation(len(bunch.target))
    first = round(_TRAIN_SHARE * len(order))
    pools = {"train": np.sort(order[:first]), "test": np.sort(order[first:])}
    images = np.pad(bunch.images * 15, ((0, 0), (1, 1), (1, 1))).astype(np.uint8)
    return images, bunch.target.astype(np.int64), pools


def layout(pool: str, index: int, canvas: int) -> tuple[Digit, ...]:
    """The digits of image `index` of `pool`, in painting order."""
    draw = _draws(pool, index, 0).random_sample
    _, names, pools = scans()
    placed: list[Digit] = []
    for _ in range(_choose(draw(), _COUNTS)):
        of_class = pools[pool][names[pools[pool]] == _choose(draw(), _SHARES)]
        scan = int(of_class[int(draw() * len(of_class))])
        for _ in range(100):  # on a full canvas the last place is used
            height = int((0.36 + 0.18 * draw()) * canvas)
            width = int((0.75 + 0.40 * draw()) * height)
            digit = Digit(scan, int(draw() * (canvas - width)), int(draw() * (canvas - height)), width, height)
            if all(_overlap(earlier, digit) <= _OVERLAP for earlier in placed):
                break
        placed.append(digit)
    return tuple(placed)


def _paint(pool: str, index: int, canvas: int, placed: tuple[Digit, ...]) -> Image.Image:
    rng = _draws(pool, index, 1)
    draw = rng.random_sample
    images, _, pools = scans()
    # Whole numbers throughout, so that the pixels are the same everywhere.
    cells = 3 + int(draw() * 6)
    coarse = np.frombuffer(rng.bytes(cells * cells), np.uint8).reshape(cells, cells)
    paper = int(40 * draw())
    picture = paper + (_enlarge(coarse, canvas, canvas) - 128) * int(20 * draw()) // 128

    def ink() -> int:
        return paper + int(140 + 75 * draw())

    for _ in range(int(draw() * 3)):  # clutter: a quarter of a scan, turned
        scan = images[pools[pool][int(draw() * len(pools[pool]))]]
        y, x = 1 + int(draw() * 5), 1 + int(draw() * 5)
        piece = np.pad(np.rot90(scan[y : y + 4, x : x + 4], int(draw() * 4)), 1)
        size = int((0.15 + 0.20 * draw()) * canvas)
        _blend(picture, piece, int(draw() * (canvas - size)), int(draw() * (canvas - size)), size, size, ink())
    for digit in placed:
        _blend(picture, images[digit.scan], *digit[1:], ink())
    grain = np.frombuffer(rng.bytes(canvas * canvas), np.uint8).reshape(canvas, canvas).astype(np.int64)
    picture += (grain - 128) * int(10 * draw()) // 128
    return Image.fromarray(picture.clip(0, 255).astype(np.uint8))


def _png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=1)
    return file.getvalue()


def _blend(picture: _Ints, scan: _Bytes, left: int, top: int, width: int, height: int, ink: int) -> None:
    cover = _enlarge(scan, width, height)
    part = picture[top : top + height, left : left + width]
    part += (ink - part) * cover // 240


def _enlarge(grey: _Bytes, width: int, height: int) -> _Ints:
    return np.asarray(Image.fromarray(grey).resize((width, height), Image.Resampling.BILINEAR)).astype(np.int64)


def _overlap(a: Digit, b: Digit) -> float:
    wide = min(a.left + a.width, b.left + b.width) - max(a.left, b.left)
    high = min(a.top + a.height, b.top + b.height) - max(a.top, b.top)
    return max(wide, 0) * max(high, 0) / min(a.width * a.height, b.width * b.height)


def _choose(u: float, shares: tuple[float, ...]) -> int:
    for i, share in enumerate(shares):
        u -= share
        if u < 0:
            return i
    return len(shares) - 1  # the sum of the shares is 1 but for rounding


def _draws(pool: str, index: int, use: int) -> np.random.RandomState:
    # RandomState's numbers never change between NumPy versions, a Generator's may.
    return np.random.RandomState([_SEED, POOLS.index(pool), index, use])
