"""Decoding and resizing all images of a data set once, to uint8 rows on disk."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import numpy as np
from PIL import Image
from pydantic import Field

from mlml.datasets.source import Source
from mlml.faults import raise_faults
from mlml.files import replacing
from mlml.images import Rows
from mlml.params import Section
from mlml.progress import progress


class PrepareParams(Section):
    """Section ``prepare`` of params.yaml.

    Attributes:
        image_size: edge S of the prepared images in pixels; None: the data set's.
    """

    image_size: Annotated[int, Field(ge=8)] | None = None


def prepare(source: Source, size: int, path: Path) -> None:
    """Write all images of `source`, resized, as one .npy file uint8 [n, size, size, 3], row i = image i.

    Images are converted to RGB and resized to size x size, not cropped, by Pillow's bilinear filter, as the
    methods' published code does. All cores decode; memory does not grow with n. The file appears under its
    name only when it is complete.

    Raises:
        ValueError: images that cannot be read; names the first 20 and says how many there are.
    """
    images = source.table.images
    with replacing(path) as part:
        rows = np.lib.format.open_memmap(part, mode="w+", dtype=np.uint8, shape=(len(images), size, size, 3))
        _reserve(part)

        def one(row: int) -> str | None:
            try:
                with source.load(row) as image:
                    rows[row] = to_row(image, size)
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
                return f"{images[row]}: {error}"
            return None

        # Threads, not processes: Pillow releases the interpreter's lock while it decodes and resizes.
        faults = []
        with ThreadPoolExecutor(_cores()) as pool, progress("prepare", len(images), "images") as advance:
            for fault in pool.map(one, range(len(images))):
                faults += [fault] if fault else []
                advance(1)
        raise_faults(f"{len(faults)} images cannot be read", faults)
        rows.flush()


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _reserve(path: Path) -> None:
    """Take the file's whole size on the disk now: writing to a hole in a memory map of a full disk is a crash."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def to_row(image: Image.Image, size: int) -> Rows:
    """One picture as uint8 [size, size, 3].

    Raises:
        ValueError: it has more than 8 bits a channel, which a conversion would cut off.
    """
    if image.mode.startswith(("I", "F")):
        raise ValueError(f"more than 8 bits a pixel (Pillow's mode {image.mode}); save it with 8 bits")
    return np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))
