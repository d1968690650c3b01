"""The three values a label can have, and masks over them.

A label matrix is int8 [n, L]: one row an image, one column a class. In files a cell is ``1``, ``0`` or
blank (see `mlml.table`).
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

PRESENT = 1
ABSENT = -1
UNKNOWN = 0

CHUNK_CELLS = 1 << 22

Labels = npt.NDArray[np.int8]


def check(labels: Labels) -> Labels:
    """Return `labels` if it is a label matrix: int8 [n, L] of PRESENT, ABSENT, UNKNOWN.

    Raises:
        ValueError: another number of dimensions, another dtype, or another value; names the first one.
    """
    if labels.ndim != 2 or labels.dtype != np.int8:
        raise ValueError(f"labels must be int8 [n, L], not {labels.dtype} {list(labels.shape)}")
    # No masks of the whole matrix, here and below: for 100,000 images and 9,605 classes each is a gigabyte.
    if labels.size and (labels.min() < ABSENT or labels.max() > PRESENT):
        row, column = first((labels < ABSENT) | (labels > PRESENT))
        raise ValueError(
            f"label [{row}, {column}] is {labels[row, column]}; a label is 1 (present), -1 (absent) or 0 (unknown)"
        )
    return labels


def check_complete(labels: Labels) -> Labels:
    """Return `labels` if it is a label matrix without an UNKNOWN.

    Raises:
        ValueError: as `check`, or a label is unknown; names the first one.
    """
    unknown = check(labels).size - np.count_nonzero(labels)
    if unknown:
        row, column = first(labels == UNKNOWN)
        raise ValueError(f"label [{row}, {column}] is unknown ({unknown} are); full labels are needed here")
    return labels


def first(mask: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Row and column of the first True of bool [n, L], of which there must be one."""
    row, column = np.unravel_index(int(mask.argmax()), mask.shape)
    return int(row), int(column)


def count(labels: Labels, value: int, axis: int) -> npt.NDArray[np.int64]:
    """How many labels are `value`: of each image (axis 1), int64 [n], or of each class (axis 0), int64 [L]."""
    counts: list[npt.NDArray[np.int64]] = [np.zeros(0 if axis else labels.shape[1], np.int64)]
    counts += [np.count_nonzero(part == value, axis=axis) for part in chunks(labels)]
    return np.concatenate(counts) if axis else np.stack(counts).sum(0)


def chunks(labels: Labels) -> Iterator[Labels]:
    """The rows of `labels` in parts of bounded size, in order."""
    rows = max(1, CHUNK_CELLS // max(1, labels.shape[1]))
    for start in range(0, len(labels), rows):
        yield labels[start : start + rows]
