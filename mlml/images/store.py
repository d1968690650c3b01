"""Prepared images on disk, read in batches."""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mlml.core.threads import cores, in_order
from mlml.images.decoding import Rows, to_row
from mlml.images.shard import INDEX, MAX_SIZE, REMEDY, SHARD, Shard

ROWS, ABOUT = "rows.npy", "rows.json"

Storage = Literal["rows", "encoded"]
Size = Annotated[int, Field(ge=8, le=MAX_SIZE)]
Batch = npt.NDArray[np.int64]
Allocate = Callable[[tuple[int, ...]], Rows]


def new(shape: tuple[int, ...]) -> Rows:
    """Allocate a batch of images, uint8."""
    return np.empty(shape, np.uint8)


class Images(Protocol):
    """The N prepared images of a data set, of S x S pixels, in either storage."""

    @property
    def size(self) -> int:
        """S, in pixels."""

    @property
    def upright(self) -> bool:
        """Whether pictures were turned by their EXIF orientation; see `mlml.images.decoding.decode`."""

    def __len__(self) -> int:
        """N."""

    def stream(self, batches: Iterable[Batch], allocate: Allocate = new) -> Iterator[Rows]:
        """Yield the images of each batch of row numbers: int64 [b] to uint8 [b, S, S, 3].

        Args:
            allocate: returns the memory for a batch.

        Raises:
            IndexError: no such row.
        """


class RowImages:
    """Decoded images: one array uint8 [N, S, S, 3], usually a memory map."""

    def __init__(self, rows: Rows, upright: bool = False) -> None:
        self._rows = rows
        self.upright = upright

    @property
    def size(self) -> int:
        return int(self._rows.shape[1])

    def __len__(self) -> int:
        return len(self._rows)

    def stream(self, batches: Iterable[Batch], allocate: Allocate = new) -> Iterator[Rows]:
        for batch in batches:
            if len(batch) and not 0 <= batch.min() <= batch.max() < len(self):
                raise IndexError(f"no row {batch.max() if batch.min() >= 0 else batch.min()}; there are {len(self)}")
            images = allocate((len(batch), *self._rows.shape[1:]))
            # "clip" writes into `images` itself, other modes into a copy first.
            yield np.take(self._rows, batch, axis=0, out=images, mode="clip")


class EncodedImages:
    """Unchanged image files, decoded on demand to the pixels of `RowImages`.

    All cores decode, two batches ahead of the consumer. The threads live as long as this object.
    """

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._pool = ThreadPoolExecutor(cores(), "decode")

    @property
    def size(self) -> int:
        return self._shard.size

    @property
    def upright(self) -> bool:
        return self._shard.upright

    def __len__(self) -> int:
        return len(self._shard)

    def stream(self, batches: Iterable[Batch], allocate: Allocate = new) -> Iterator[Rows]:
        """As `Images.stream`, but reads `batches` ahead of the consumer.

        Raises:
            IndexError: no such row.
            ValueError: a file in the shard has changed.
        """
        # The pool's threads must not hold `self`, or it would never be freed.
        shard, threads = self._shard, cores()
        groups = (_parts(batch, shard, threads, allocate) for batch in batches)
        for parts in in_order(self._pool, _decode, groups, 2 * threads):
            yield parts[0]


class _Part(NamedTuple):
    """The places of a batch that one thread decodes into `images`, uint8 [b, S, S, 3]."""

    shard: Shard
    batch: Batch
    images: Rows
    places: range


def _parts(batch: Batch, shard: Shard, threads: int, allocate: Allocate) -> list[_Part]:
    count = max(1, min(threads, len(batch)))
    images = allocate((len(batch), shard.size, shard.size, 3))
    return [_Part(shard, batch, images, range(first, len(batch), count)) for first in range(count)]


def _decode(part: _Part) -> Rows:
    """Decode the images of this part; returns the array of the whole batch."""
    for place in part.places:
        row = int(part.batch[place])
        data = part.shard.read(row)
        try:
            to_row(data, part.shard.size, part.shard.upright, part.images[place])
        except ValueError as error:
            raise ValueError(f"{part.shard.path}, row {row}: {error}; or {REMEDY}") from None
    return part.images


def open_images(folder: Path) -> Images:
    """Open the images that `mlml.datasets.prepare.prepare` wrote to `folder`.

    Raises:
        ValueError: there are none, they are incomplete, or a file has another form.
    """
    rows, index = (folder / ROWS).is_file(), (folder / INDEX).is_file()
    if rows and index:
        raise ValueError(f"{folder} holds both {ROWS} and {INDEX}: remove it and {REMEDY}")
    if index:
        return EncodedImages(Shard(folder))
    if rows:
        return RowImages(_open_rows(folder / ROWS), _read_upright(folder / ABOUT))
    rest = f"; {SHARD} lacks its index" if (folder / SHARD).exists() else ""
    raise ValueError(f"{folder} holds no prepared images{rest}: {REMEDY}")


def _read_upright(path: Path) -> bool:
    try:
        upright = json.loads(path.read_text("utf-8"))["upright"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        upright = None
    if not isinstance(upright, bool):
        raise ValueError(f"{path} does not say how {ROWS} was made: {REMEDY}")
    return upright


def _open_rows(path: Path) -> Rows:
    try:
        rows: Rows = np.load(path, mmap_mode="r")
    except Exception as error:  # numpy raises nearly everything on a damaged file
        raise ValueError(f"{path} is no file of prepared images ({error}): {REMEDY}") from None
    if rows.dtype != np.uint8 or rows.ndim != 4 or rows.shape[1:] != (rows.shape[1], rows.shape[1], 3):
        raise ValueError(f"{path} holds {rows.dtype} {list(rows.shape)}, not uint8 [n, S, S, 3]: {REMEDY}")
    return rows
