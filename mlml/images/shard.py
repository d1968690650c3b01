"""The unchanged image files of a data set, concatenated in one file, with an index of offsets."""

import os
import weakref
from pathlib import Path

import numpy as np
import numpy.typing as npt

SHARD = "encoded.bin"
INDEX = "encoded.npz"
MAX_SIZE = 8192  # pixels of an edge; a square picture that is larger is not read: `mlml.images.decoding.MAX_PIXELS`
REMEDY = "run the stage `prepare` again"


class Shard:
    """n concatenated image files; any number of threads may read.

    Attributes:
        path: the file that holds them.
        size: edge S that images are resized to, in pixels.
        upright: as in `mlml.images.decoding.decode`.
    """

    def __init__(self, folder: Path) -> None:
        """Open the shard in `folder`.

        Raises:
            ValueError: the shard or its index is missing, cut short or of another form.
        """
        self.path = folder / SHARD
        self._offsets, self.size, self.upright = _read_index(folder / INDEX)
        if not self.path.is_file():
            raise ValueError(f"{self.path} is missing: {REMEDY}")
        self._file = os.open(self.path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        length = os.fstat(self._file).st_size
        if length != self._offsets[-1]:
            raise ValueError(f"{self.path} has {length:,} bytes, not {self._offsets[-1]:,}: {REMEDY}")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def read(self, row: int) -> bytes:
        """The content of image file `row`.

        Raises:
            IndexError: no such row.
            ValueError: the shard has been truncated.
        """
        if not 0 <= row < len(self):
            raise IndexError(f"{self.path}: no row {row}; there are {len(self)}")
        start, end = (int(offset) for offset in self._offsets[row : row + 2])
        data = os.pread(self._file, end - start, start)
        if len(data) != end - start:
            raise ValueError(f"{self.path}: row {row} is cut short: {REMEDY}")
        return data


def write_index(path: Path, lengths: npt.NDArray[np.int64], size: int, upright: bool) -> None:
    """Write the index of a shard.

    Args:
        lengths: int64 [n], length of each file in bytes.
        size, upright: as in `Shard`.
    """
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    with path.open("wb") as file:
        np.savez(file, offsets=offsets, size=np.int64(size), upright=np.bool_(upright))


def _read_index(path: Path) -> tuple[npt.NDArray[np.int64], int, bool]:
    try:
        with path.open("rb") as file, np.load(file) as index:
            offsets, size, upright = index["offsets"], int(index["size"]), bool(index["upright"])
        if not 1 <= size <= MAX_SIZE:
            raise ValueError
    except Exception:  # numpy and zipfile raise nearly everything on a damaged file
        raise ValueError(f"{path} is no index of prepared images: {REMEDY}") from None
    if offsets.dtype != np.int64 or offsets.ndim != 1 or not len(offsets) or offsets[0] or (np.diff(offsets) < 0).any():
        raise ValueError(f"{path} holds no offsets of image files: {REMEDY}")
    return offsets, size, upright
