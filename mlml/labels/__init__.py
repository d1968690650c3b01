"""Label matrices and the label table."""

from mlml.labels.values import (
    ABSENT,
    PRESENT,
    UNKNOWN,
    Labels,
    check,
    check_complete,
    chunks,
    count,
    first,
    slices,
    statistics,
    without_ap,
)

__all__ = [
    "ABSENT",
    "PRESENT",
    "UNKNOWN",
    "Labels",
    "check",
    "check_complete",
    "chunks",
    "count",
    "first",
    "slices",
    "statistics",
    "without_ap",
]
