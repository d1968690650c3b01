"""The three values of a label, and checks and counts of label matrices.

A label matrix is int8 [n, L]: one row per image, one column per class.
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
        ValueError: the number of dimensions, the dtype or a value is wrong; names the first value.
    """
    if labels.ndim != 2 or labels.dtype != np.int8:
        raise ValueError(f"labels must be int8 [n, L], not {labels.dtype} {list(labels.shape)}")
    # No mask of the whole matrix, here and below: for 100,000 images and 9,605 classes a mask is a gigabyte.
    if labels.size and (labels.min() < ABSENT or labels.max() > PRESENT):
        row, column = first((labels < ABSENT) | (labels > PRESENT))
        raise ValueError(
            f"label [{row}, {column}] is {labels[row, column]}; a label is 1 (present), -1 (absent) or 0 (unknown)"
        )
    return labels


def check_complete(labels: Labels) -> Labels:
    """Return `labels` if it is a label matrix without UNKNOWN.

    Raises:
        ValueError: as `check`, or a label is unknown; names the first one.
    """
    unknown = check(labels).size - np.count_nonzero(labels)
    if unknown:
        row, column = first(labels == UNKNOWN)
        raise ValueError(f"label [{row}, {column}] is unknown ({unknown} are); full labels are needed here")
    return labels


def first(mask: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Row and column of the first True of bool [n, L], which must have one."""
    row, column = np.unravel_index(int(mask.argmax()), mask.shape)
    return int(row), int(column)


def count(labels: Labels, value: int, axis: int) -> npt.NDArray[np.int64]:
    """Count the labels equal to `value` for each image (axis 1), int64 [n], or each class (axis 0), int64 [L]."""
    counts: list[npt.NDArray[np.int64]] = [np.zeros(0 if axis else labels.shape[1], np.int64)]
    counts += [np.count_nonzero(part == value, axis=axis) for part in chunks(labels)]
    return np.concatenate(counts) if axis else np.stack(counts).sum(0)


def without_ap(labels: Labels) -> list[str]:
    """For each class, why it has no average precision over these images; "" if it has one.

    Where no label is known to be present there is nothing to rank. Where none is known to be absent any ranking is
    perfect.

    Returns:
        L texts: "not known to be present", "not known to be absent" or "".
    """
    present, absent = (count(labels, value, axis=0) > 0 for value in (PRESENT, ABSENT))
    texts = np.select([~present, ~absent], ["not known to be present", "not known to be absent"], "")
    return [str(text) for text in texts]


def statistics(observed: Labels) -> dict[str, int | float]:
    """Counts of a label matrix: the columns of the paper's Table II and the quantities in its caption.

    Returns:
        counts (int), means an image and shares (float, rounded to 6 places), by name.
    """
    n, width = check(observed).shape
    positives, negatives = (count(observed, value, axis=1) for value in (PRESENT, ABSENT))
    return {
        "images": n,
        "classes": width,
        "positives": int(positives.sum()),
        "negatives": int(negatives.sum()),
        "positives_per_image": round(float(positives.mean()), 6) if n else 0.0,
        "negatives_per_image": round(float(negatives.mean()), 6) if n else 0.0,
        "observed_share": round(float((positives + negatives).mean() / width), 6) if n else 0.0,
        "images_without_positive": int((positives == 0).sum()),
        "images_without_label": int((positives + negatives == 0).sum()),
    }


def chunks(labels: Labels) -> Iterator[Labels]:
    """The rows of `labels` in order, in chunks of at most `CHUNK_CELLS` labels."""
    for rows in slices(*labels.shape):
        yield labels[rows]


def slices(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows of `width` labels, in order, each of at most `CHUNK_CELLS` labels."""
    rows = max(1, CHUNK_CELLS // max(1, width))
    for start in range(0, n, rows):
        yield slice(start, start + rows)
