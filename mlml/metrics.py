"""Average precision, as scikit-learn defines it, for all classes at once."""

import numpy as np
import numpy.typing as npt

Truth = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.floating]
_LAST = np.int64(-(1 << 63))  # even, as the key of an absent label


def average_precision(truth: Truth, scores: Scores, known: Truth | None = None) -> npt.NDArray[np.float64]:
    """Non-interpolated average precision of each class: AP = sum_k (R_k - R_{k-1}) P_k over the distinct scores.

    Equal to ``sklearn.metrics.average_precision_score`` a class, tied scores included: each positive adds the
    precision among all images that score at least as high.

    Args:
        truth: bool [n, L].
        scores: float [n, L], higher = more likely present; float32 is the fast path.
        known: bool [n, L], which labels are known; a class's AP is over the images whose label is. None: all.

    Returns:
        float64 [L] in 0..1; NaN for a class without positives, whose AP is not defined.

    Raises:
        ValueError: shapes or dtypes that do not fit, or a score that is NaN.
    """
    if truth.ndim != 2 or truth.shape != scores.shape or truth.dtype != bool:
        raise ValueError(f"truth must be bool [n, L] like scores, not {truth.dtype} {truth.shape} and {scores.shape}")
    if known is not None and (known.shape != truth.shape or known.dtype != bool):
        raise ValueError(f"known must be bool {list(truth.shape)}, not {known.dtype} {list(known.shape)}")
    if np.isnan(scores).any():
        raise ValueError(f"{np.isnan(scores).sum()} of the scores are NaN")
    n, width = truth.shape
    # The label in the lowest bit: one sort orders the scores and carries the labels along.
    keys = _ordered_integers(scores) << 1 | truth
    if known is not None:
        keys[~known] = _LAST  # below all others: never among the images that score at least as high as a positive
    ordered = np.sort(np.ascontiguousarray(keys.T), axis=1)  # a class a row, ascending
    result = np.full(width, np.nan)
    for column in range(width):
        row = ordered[column]
        positive = row[row & 1 == 1]
        if len(positive) == 0:
            continue
        tied = positive & ~1  # the smallest key with this score
        retrieved = n - np.searchsorted(row, tied)
        true_positives = len(positive) - np.searchsorted(positive, tied)
        result[column] = np.mean(true_positives / retrieved)
    return result


def mean_average_precision(truth: Truth, scores: Scores, known: Truth | None = None) -> float:
    """Mean over the classes of `average_precision`, in 0..1; a class without positives is left out.

    Raises:
        ValueError: as `average_precision`, or no class has a positive.
    """
    return mean(average_precision(truth, scores, known))


def mean(per_class: npt.NDArray[np.float64]) -> float:
    """Mean of what `average_precision` returns; a class without positives is left out.

    Raises:
        ValueError: no class has a positive.
    """
    if np.isnan(per_class).all():
        raise ValueError("no class has a positive: the mean average precision is not defined")
    return float(np.nanmean(per_class))


def _ordered_integers(scores: Scores) -> npt.NDArray[np.int64]:
    """Integers below 2^62 in absolute value that are ordered, and tied, as the scores are; int64, same shape."""
    if scores.dtype not in (np.float16, np.float32):
        # 64 bits leave no room for the label: use ranks.
        return np.unique(scores, return_inverse=True)[1].reshape(scores.shape).astype(np.int64)
    bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32)  # + 0 makes -0.0 and 0.0 the same
    return np.where(bits < 0, np.int32(-0x80000000) - bits, bits).astype(np.int64)
