"""Checking, decoding and resizing all images of a data set once."""

import os
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from pydantic import Field

from mlml.core.errors import raise_errors
from mlml.core.files import atomic_write
from mlml.core.params import Section
from mlml.core.progress import progress
from mlml.core.threads import cores, in_order
from mlml.datasets.source import Source
from mlml.images.decoding import decode, to_row
from mlml.images.shard import INDEX, SHARD, write_index
from mlml.images.store import ROWS, Storage

_Result = TypeVar("_Result")
_CHUNK = 4  # images a task: many enough for tasks to cost nothing, few enough to keep the files of


class PrepareParams(Section):
    """Section ``prepare`` of params.yaml.

    Attributes:
        image_size: edge S of the prepared images in pixels; None: the data set's.
        storage: "rows" or "encoded" (see `prepare`); None: the data set's.
    """

    image_size: Annotated[int, Field(ge=8)] | None = None
    storage: Storage | None = None


def prepare(source: Source, size: int, folder: Path, storage: Storage = "rows") -> None:
    """Write all images of `source` to `folder`, for `mlml.images.store.open_images`; image i is row i.

    All cores decode; memory does not grow with n. The images are there only when they are complete; until then, and
    after a fault, what was there before stays.

    Args:
        size: edge S of the prepared images in pixels.
        storage: "rows": decoded and resized, one array uint8 [n, S, S, 3]. "encoded": the files as they came, one
            behind the other, for a disk that the rows do not fit on; each is decoded once, to see whether it can be.

    Raises:
        ValueError: images that cannot be read; names the first 20 and says how many there are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (_write_rows if storage == "rows" else _write_encoded)(source, size, folder)


def _write_rows(source: Source, size: int, folder: Path) -> None:
    with atomic_write(folder / ROWS) as part, part.open("wb") as file:
        shape = (len(source.table.images), size, size, 3)
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        file.flush()
        start, length = file.tell(), size * size * 3
        _reserve(file.fileno(), start + len(source.table.images) * length)

        def one(row: int) -> None:
            # Not by a memory map: the first touch of each of its pages costs more than the copy.
            pixels = to_row(source.read(row), size, source.upright)
            if os.pwrite(file.fileno(), pixels.data, start + row * length) != length:
                raise OSError(f"{part}: the file system does not take all of it")

        each_image(source, "prepare", one)
        _remove(folder, INDEX, SHARD)


def _write_encoded(source: Source, size: int, folder: Path) -> None:
    lengths = array("q")
    # The index takes its name last, and while a shard is replaced there is none.
    with atomic_write(folder / INDEX) as index, atomic_write(folder / SHARD) as shard, shard.open("wb") as file:

        def one(row: int) -> bytes:
            data = source.read(row)
            decode(data, source.upright)
            return data

        def keep(data: bytes) -> None:
            file.write(data)
            lengths.append(len(data))

        each_image(source, "prepare", one, keep)
        file.close()
        _remove(folder, INDEX, ROWS)
        write_index(index, np.array(lengths, np.int64), size, source.upright)


def _remove(folder: Path, *names: str) -> None:
    """Remove these files, and what a process that was killed left of them."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
        (folder / f".{name}").unlink(missing_ok=True)


def each_image(
    source: Source, what: str, work: Callable[[int], _Result], keep: Callable[[_Result], object] | None = None
) -> None:
    """Call ``work(row)`` for all images, on all cores, with a progress bar called `what`.

    Args:
        keep: is called with each result, in the order of rows, in this thread.

    Raises:
        ValueError: `work` raised ValueError or OSError; names the first 20 images and says how many there are.
    """
    n = len(source.table.images)
    places = source.places or source.table.images

    def some(rows: range) -> tuple[list[_Result], list[str]]:
        results, faults = [], []
        for row in rows:
            try:
                results.append(work(row))
            except (OSError, ValueError) as error:
                faults.append(f"{places[row]}: {error}")
        return results, faults

    chunks = ([range(first, min(first + _CHUNK, n))] for first in range(0, n, _CHUNK))
    found: list[str] = []
    # Threads, not processes: decoding and resizing do without the interpreter's lock.
    with ThreadPoolExecutor(cores()) as pool, progress(what, n, "images") as advance:
        for ((results, faults),) in in_order(pool, some, chunks, 2 * cores()):
            found += faults
            if keep:
                for result in results:
                    keep(result)
            advance(len(results) + len(faults))
    raise_errors(f"{len(found)} images cannot be read", found)


def _reserve(file: int, length: int) -> None:
    """Give the file its length, and its place on the disk now: a full disk is better met here than at the end."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, length)
    os.truncate(file, length)
