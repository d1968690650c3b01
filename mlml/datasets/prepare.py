"""Decodes and resizes all images of a data set once, and checks them."""

import errno
import os
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

from mlml.core.errors import message, raise_errors
from mlml.core.files import NO_ROOM, atomic_write, write_json
from mlml.core.params import Section
from mlml.core.progress import progress
from mlml.core.threads import cores, in_order
from mlml.datasets.source import Source
from mlml.images.decoding import decode, to_row
from mlml.images.shard import INDEX, SHARD, write_index
from mlml.images.store import ABOUT, ROWS, Size, Storage

_Result = TypeVar("_Result")
_CHUNK = 4  # images a task: enough to hide the cost of a task, few enough to hold their files in memory


class PrepareParams(Section):
    """Section ``prepare`` of params.yaml.

    Attributes:
        image_size: edge S of the prepared images in pixels; None: the data set's.
        storage: "rows" or "encoded" (see `prepare`); None: the data set's.
    """

    image_size: Size | None = None
    storage: Storage | None = None


def prepare(source: Source, size: int, folder: Path, storage: Storage = "rows") -> None:
    """Write all images of `source` to `folder`, for `mlml.images.store.open_images`; image i is row i.

    All cores decode; memory does not grow with n. The files get their names when they are complete; until then, and
    after an error, the previous files stay.

    Args:
        size: edge S of the prepared images in pixels.
        storage: "rows": one array uint8 [n, S, S, 3] of decoded and resized images. "encoded": the unchanged image
            files in one file, for a disk that the rows do not fit on; each is decoded once as a check.

    Raises:
        ValueError: images cannot be read; names the first 20 and counts them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (_write_rows if storage == "rows" else _write_encoded)(source, size, folder)


def _write_rows(source: Source, size: int, folder: Path) -> None:
    shape = (len(source.table.images), size, size, 3)
    with atomic_write(folder / ROWS) as part:
        start = np.lib.format.open_memmap(part, "w+", np.uint8, shape).offset
        with part.open("r+b") as file:
            _reserve(file.fileno(), part.stat().st_size)

            def write_row(row: int) -> None:
                # Writing through the memory map takes 1.45 times the processor time of decoding and writing like this.
                pixels = to_row(source.read(row), size, source.upright, strict=not source.published)
                if os.pwrite(file.fileno(), pixels.data, start + row * pixels.nbytes) != pixels.nbytes:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            each_image(source, "prepare", write_row)
        _remove(folder, INDEX, SHARD)
        write_json(folder / ABOUT, {"upright": source.upright})


def _reserve(file: int, size: int) -> None:
    """Report a full disk now, not at the end."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            needed = f"for {size / 1e6:,.0f} MB of decoded images (prepare.storage=encoded takes less)"
            raise OSError(error.errno, f"{os.strerror(error.errno or 0)} {needed}") from error


def _write_encoded(source: Source, size: int, folder: Path) -> None:
    lengths = array("q")
    # The index gets its name last; while a shard is replaced, there is no index.
    with atomic_write(folder / INDEX) as index, atomic_write(folder / SHARD) as shard, shard.open("wb") as file:

        def check(row: int) -> bytes:
            data = source.read(row)
            decode(data, source.upright, strict=not source.published)
            return data

        def append(data: bytes) -> None:
            file.write(data)
            lengths.append(len(data))

        each_image(source, "prepare", check, append)
        file.close()
        _remove(folder, INDEX, ROWS, ABOUT)
        write_index(index, np.array(lengths, np.int64), size, source.upright)


def _remove(folder: Path, *names: str) -> None:
    """Remove these files and the temporary ones that a killed process left."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
        (folder / f".{name}").unlink(missing_ok=True)


def each_image(
    source: Source, label: str, work: Callable[[int], _Result], keep: Callable[[_Result], object] | None = None
) -> None:
    """Call ``work(row)`` for all images on all cores, with a progress bar labelled `label`.

    Args:
        keep: called with each result in row order, in the calling thread.

    Raises:
        ValueError: `work` raised ValueError or OSError; names the first 20 images and counts them.
    """
    n = len(source.table.images)
    places = source.places or source.table.images

    def some(rows: range) -> tuple[list[_Result], list[str]]:
        results, faults = [], []
        for row in rows:
            try:
                results.append(work(row))
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    raise  # it is about the file that is written
                faults.append(f"{places[row]}: {message(error)}")
        return results, faults

    chunks = ([range(first, min(first + _CHUNK, n))] for first in range(0, n, _CHUNK))
    errors: list[str] = []
    # Threads, not processes: decoding and resizing release the interpreter's lock.
    with ThreadPoolExecutor(cores()) as pool, progress(label, n, "images") as advance:
        for ((results, faults),) in in_order(pool, some, chunks, 2 * cores()):
            errors += faults
            if keep:
                for result in results:
                    keep(result)
            advance(len(results) + len(faults))
    raise_errors(f"{len(errors)} images cannot be read", errors)
