"""From scores to the numbers that are compared."""

import numpy as np
import pandas as pd

from mlml import labels as lb
from mlml import metrics

DECIMALS = 4  # of a percentage


def evaluate(classes: tuple[str, ...], labels: lb.Labels, scores: np.ndarray) -> tuple[dict[str, float], pd.DataFrame]:
    """Mean and per-class average precision, in percent.

    Args:
        labels: full labels, int8 [n, L].
        scores: float32 [n, L].

    Returns:
        mAP, number of images, of classes and of classes without positives (left out of the mean);
        and a table with the columns class, AP (NaN without positives) and positives.

    Raises:
        ValueError: a label is unknown, or no class has a positive.
    """
    truth = lb.check_complete(labels) == lb.PRESENT
    per_class = metrics.average_precision(truth, scores)
    summary = {
        "mAP": round(100 * metrics.mean_average_precision(truth, scores), DECIMALS),
        "images": len(labels),
        "classes": len(classes),
        "classes_without_positives": int(np.isnan(per_class).sum()),
    }
    table = pd.DataFrame({"class": classes, "AP": np.round(100 * per_class, DECIMALS), "positives": truth.sum(0)})
    return summary, table
