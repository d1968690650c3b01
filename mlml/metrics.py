"""Average precision, as scikit-learn defines it, for all classes at once."""

import numpy as np
import numpy.typing as npt

Truth = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.floating]
_BUCKETS = 1 << 16


def average_precision(truth: Truth, scores: Scores, known: Truth | None = None) -> npt.NDArray[np.float64]:
    """Non-interpolated average precision of each class: AP = sum_k (R_k - R_{k-1}) P_k over the distinct scores.

    Equals ``sklearn.metrics.average_precision_score`` for each class, ties included: each positive contributes the
    precision among all images that score at least as high.

    Args:
        truth: bool [n, L].
        scores: float [n, L], higher = more likely present; may be infinite.
        known: bool [n, L], mask of the known labels; a class's AP is over the images whose label is known. None: all.

    Returns:
        float64 [L] in 0..1; NaN for a class without positives, whose AP is undefined, or without negatives, whose AP
        is 1 whatever the scores.

    Raises:
        ValueError: shapes or dtypes that do not fit, or a score that is NaN.
    """
    if truth.ndim != 2 or truth.shape != scores.shape or truth.dtype != bool:
        raise ValueError(f"truth must be bool [n, L] like scores, not {truth.dtype} {truth.shape} and {scores.shape}")
    if known is not None and (known.shape != truth.shape or known.dtype != bool):
        raise ValueError(f"known must be bool {list(truth.shape)}, not {known.dtype} {list(known.shape)}")
    if np.isnan(scores).any():
        raise ValueError(f"{np.isnan(scores).sum()} of the scores are NaN")
    per_class = np.full(truth.shape[1], np.nan)
    for column, (labels, values) in enumerate(zip(truth.T, scores.T, strict=True)):
        if known is None:
            per_class[column] = _class_ap(labels, values)
        else:
            rows = np.flatnonzero(known[:, column])
            per_class[column] = _class_ap(labels[rows], values[rows])
    return per_class


def mean_average_precision(truth: Truth, scores: Scores, known: Truth | None = None) -> float:
    """Mean over the classes of `average_precision`, in 0..1; a class without positives or negatives is left out.

    Raises:
        ValueError: as `average_precision`, or no class has both.
    """
    return mean(average_precision(truth, scores, known))


def mean(per_class: npt.NDArray[np.float64]) -> float:
    """Mean of the values of `average_precision`; classes whose value is NaN are left out.

    Raises:
        ValueError: all values are NaN.
    """
    if np.isnan(per_class).all():
        raise ValueError("no class has a positive and a negative: the mean average precision is not defined")
    return float(np.nanmean(per_class))


def _class_ap(truth: Truth, scores: Scores) -> float:
    """Average precision of one class; both [n].

    Each positive contributes (positives that score at least as high) / (images that score at least as high). To count
    the latter, images are sorted into buckets by score. Only images that share a bucket with a positive are compared
    by score; for the others, comparing buckets is enough.
    """
    where = np.flatnonzero(truth)
    if len(where) in (0, len(truth)):
        return np.nan
    scores = scores.astype(np.promote_types(scores.dtype, np.float32))  # computing buckets overflows in float16
    buckets = _buckets(scores)
    positives, positive_buckets = np.sort(scores[where]), np.sort(buckets[where])
    shared = np.zeros(_BUCKETS, bool)
    shared[positive_buckets] = True
    near = shared.take(buckets)
    others = np.sort(buckets[~near], kind="stable")  # a radix sort at 16 bits
    retrieved = _at_least(np.sort(scores[near]), positives) + _at_least(others, positive_buckets)
    return float(np.mean(_at_least(positives, positives) / retrieved))


def _buckets(scores: Scores) -> npt.NDArray[np.uint16]:
    """The bucket of each score: evenly spaced over their range, never lower for a higher score. All [n], n > 0."""
    finite = np.clip(scores, -1e30, 1e30)
    low, high = float(finite.min()), float(finite.max())
    scale = (_BUCKETS - 100) / max(high - low, 1e-30)  # less 100: a margin for rounding
    return ((finite - low) * scale).astype(np.uint16)


def _at_least(ordered: npt.NDArray[np.generic], values: npt.NDArray[np.generic]) -> npt.NDArray[np.intp]:
    """For each of `values`, how many of `ordered`, ascending, are at least as high."""
    return len(ordered) - np.searchsorted(ordered, values)
