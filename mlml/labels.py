"""The three values a label can have, and masks over them.

A label matrix is int8 [n, L]: one row an image, one column a class. In files a cell is ``1``, ``0`` or
blank (see `mlml.table`).
"""

import numpy as np
import numpy.typing as npt

PRESENT = 1
ABSENT = -1
UNKNOWN = 0

Labels = npt.NDArray[np.int8]


def check(labels: Labels) -> Labels:
    """Return `labels` if it is a label matrix: int8 [n, L] of PRESENT, ABSENT, UNKNOWN.

    Raises:
        ValueError: another number of dimensions, another dtype, or another value; names the first one.
    """
    if labels.ndim != 2 or labels.dtype != np.int8:
        raise ValueError(f"labels must be int8 [n, L], not {labels.dtype} {list(labels.shape)}")
    bad = np.argwhere((labels < ABSENT) | (labels > PRESENT))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"label [{row}, {column}] is {labels[row, column]}; a label is 1 (present), -1 (absent) or 0 (unknown)"
        )
    return labels


def check_complete(labels: Labels) -> Labels:
    """Return `labels` if it is a label matrix without an UNKNOWN.

    Raises:
        ValueError: as `check`, or a label is unknown; names the first one.
    """
    bad = np.argwhere(check(labels) == UNKNOWN)
    if len(bad):
        row, column = bad[0]
        raise ValueError(f"label [{row}, {column}] is unknown ({len(bad)} are); full labels are needed here")
    return labels
