"""Evaluation metrics of test scores."""

import numpy as np
import pandas as pd

from mlml import labels as lb
from mlml import metrics

DECIMALS = 4  # of a percentage


def evaluate(classes: tuple[str, ...], labels: lb.Labels, scores: np.ndarray) -> tuple[dict[str, float], pd.DataFrame]:
    """Mean and per-class average precision, in percent.

    Args:
        labels: int8 [n, L]; unknown labels count in no AP.
        scores: float32 [n, L].

    Returns:
        A summary: mAP, the numbers of images, of classes and of classes without positives (left out of the mean), and
        the share of known labels. A table with the columns class, AP (NaN without positives) and positives.

    Raises:
        ValueError: no class has a positive.
    """
    truth, known = lb.check(labels) == lb.PRESENT, labels != lb.UNKNOWN
    per_class = metrics.average_precision(truth, scores, known)
    summary = {
        "mAP": round(100 * metrics.mean(per_class), DECIMALS),
        "images": len(labels),
        "classes": len(classes),
        "classes_without_positives": int(np.isnan(per_class).sum()),
        "known_share": round(float(known.mean()), 6),
    }
    table = pd.DataFrame({"class": classes, "AP": np.round(100 * per_class, DECIMALS), "positives": truth.sum(0)})
    return summary, table
