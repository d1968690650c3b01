"""Evaluation metrics of test scores."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from mlml import labels as lb
from mlml import metrics

DECIMALS = 4  # of a percentage
NAMED = 20  # classes named in one line


def evaluate(
    classes: tuple[str, ...], labels: lb.Labels, scores: np.ndarray
) -> tuple[dict[str, int | float | str], pd.DataFrame]:
    """Mean and per-class average precision, in percent.

    Args:
        labels: int8 [n, L]; unknown labels count in no AP.
        scores: float32 [n, L].

    Returns:
        A summary: mAP, the numbers of images, of classes, of those left out of the mean since no label is known to be
        present (`classes_without_positives`) and of others since none is known to be absent
        (`classes_without_negatives`), the names of both (`left_out`, if there are any), and the share of known labels.
        A table with the columns class, AP (NaN if left out), positives, negatives, and left_out, the reason or "".

    Raises:
        ValueError: all classes are left out.
    """
    truth, known = lb.check(labels) == lb.PRESENT, labels != lb.UNKNOWN
    per_class = metrics.average_precision(truth, scores, known)
    reasons = lb.without_ap(labels)
    positives, negatives = (lb.count(labels, value, axis=0) for value in (lb.PRESENT, lb.ABSENT))
    summary: dict[str, int | float | str] = {
        "mAP": round(100 * metrics.mean(per_class), DECIMALS),
        "images": len(labels),
        "classes": len(classes),
        "classes_without_positives": int((positives == 0).sum()),
        "classes_without_negatives": int(((positives > 0) & (negatives == 0)).sum()),
        "known_share": round(float(known.mean()), 6),
    }
    if any(reasons):
        summary["left_out"] = _left_out(classes, reasons)
    columns = {"positives": positives, "negatives": negatives, "left_out": reasons}
    return summary, pd.DataFrame({"class": classes, "AP": np.round(100 * per_class, DECIMALS), **columns})


def line(summary: Mapping[str, int | float | str]) -> str:
    """The result as one line of text."""
    left = int(summary["classes_without_positives"]) + int(summary["classes_without_negatives"])
    counted = f"{int(summary['classes']) - left} of {summary['classes']}" if left else summary["classes"]
    words = f"test mAP {summary['mAP']:.2f} on {summary['images']} images, {counted} classes"
    return f"{words}; left out, {summary['left_out']}" if left else words


def _left_out(classes: tuple[str, ...], reasons: list[str]) -> str:
    """The names of the classes that are left out of the mean, by reason, in one line: at most `NAMED` a reason."""
    groups = []
    for reason in sorted({*reasons} - {""}):
        names = [name for name, why in zip(classes, reasons, strict=True) if why == reason]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        groups.append(f"{reason}: {', '.join(names[:NAMED])}{more}")
    return "; ".join(groups)
