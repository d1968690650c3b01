"""What the best epoch is chosen by: one of three quantities, of which partial validation labels allow only some."""

from typing import Literal

import numpy as np

from mlml.labels import ABSENT, PRESENT, UNKNOWN, Labels, count
from mlml.metrics import average_precision

Criterion = Literal["mAP", "mAP_an", "loss"]

_TEXTS: dict[Criterion, str] = {
    "mAP": "validation mAP",
    "mAP_an": "validation mAP with unknown labels taken as absent",
    "loss": "validation loss of the known labels",
}
_LACKS: dict[Criterion, str] = {
    "mAP": "no class has both a label known to be present and one known to be absent",
    "mAP_an": "no class is known to be present in some, but not all of them",
    "loss": "labels known to be present and labels known to be absent are needed",
}


def score(criterion: Criterion, labels: Labels, logits: np.ndarray) -> float:
    """The value of a criterion after an epoch.

    - mAP: in percent; an unknown label counts in no average precision.
    - mAP_an: in percent; an unknown label counts as absent, as in the code of Cole 2021 for partial validation labels.
    - loss: mean binary cross entropy of the known labels.

    Args:
        labels: int8 [n, L], of the validation images.
        logits: float32 [n, L], finite.

    Returns:
        NaN where it is not defined.
    """
    known = labels != UNKNOWN
    if criterion == "loss":
        wrong = np.where(labels == PRESENT, -logits, logits)[known].astype(np.float64)
        return float(np.logaddexp(0, wrong).mean()) if len(wrong) else np.nan
    per_class = average_precision(labels == PRESENT, logits, known if criterion == "mAP" else None)
    return np.nan if np.isnan(per_class).all() else 100 * float(np.nanmean(per_class))


def better(criterion: Criterion, value: float, than: float) -> bool:
    """Whether an epoch with this value of the criterion is better than one with another."""
    return value < than if criterion == "loss" else value > than


def choose(wanted: Criterion | None, labels: Labels) -> Criterion:
    """The criterion of a run.

    Args:
        wanted: None: mAP if all labels are known or at least as many are known to be absent as to be present, else
            mAP_an. The measurement that this rests on is in docs/your-data.md.
        labels: int8 [n, L], of the validation images.

    Raises:
        ValueError: the labels do not allow it; says what to do.
    """
    present, absent = (count(labels, value, axis=0) for value in (PRESENT, ABSENT))
    allowed: dict[Criterion, bool] = {
        "mAP": bool(((present > 0) & (absent > 0)).any()),
        "mAP_an": bool(((present > 0) & (present < len(labels))).any()),
        "loss": bool(present.any() and absent.any()),
    }
    sampled = present.sum() + absent.sum() == labels.size or absent.sum() >= present.sum()
    chosen = wanted or ("mAP" if allowed["mAP"] and sampled else "mAP_an")
    if not allowed[chosen]:
        others = [name for name in allowed if allowed[name]]
        remedy = f"{' or '.join(others)} is" if others else "none is: more labels of validation images must be known"
        raise ValueError(
            f"train.select_by: {chosen} is not possible with these {len(labels)} validation images: {_LACKS[chosen]}; "
            f"{remedy}"
        )
    return chosen


def line(criterion: Criterion, labels: Labels) -> str:
    """What is chosen by, in words for the user."""
    words = f"best epoch chosen by {_TEXTS[criterion]}"
    if criterion != "mAP" or (labels != UNKNOWN).all():
        return words
    present, absent = (count(labels, value, axis=0) for value in (PRESENT, ABSENT))
    return f"{words} of the known labels, defined for {((present > 0) & (absent > 0)).sum()} of {len(present)} classes"
