"""Prepared images: uint8 rows on disk, read as a memory map, gathered into batches."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.uint8]


def open_rows(path: Path) -> Rows:
    """The prepared images as a read-only memory map, uint8 [n, S, S, 3].

    Raises:
        ValueError: the file holds something else, or less than its header says.
    """
    try:
        rows: Rows = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is no file of prepared images: {error}") from None
    if rows.dtype != np.uint8 or rows.ndim != 4 or rows.shape[3] != 3:
        raise ValueError(f"{path} holds {rows.dtype} {list(rows.shape)}, not uint8 [n, S, S, 3]")
    return rows
