"""A short profile of a label table: its counts, and remarks on what is seldom intended."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from mlml import labels as lb
from mlml.core.errors import escaped
from mlml.labels import statistics
from mlml.labels.table import SPLITS, Table

_NAMED = 5  # names listed in one remark


def summary(table: Table) -> list[str]:
    """Counts of images and labels, by split and in total, as lines of text."""
    lines = [["", "images", "present", "absent", "unknown", "without a known label", "without a present one"]]
    for split in (*SPLITS, "all"):
        labels = table.labels if split == "all" else table.labels[table.rows(split)]
        totals = statistics(labels)
        counts, empty = ("images", "positives", "negatives"), ("images_without_label", "images_without_positive")
        unknown = 1 - totals["observed_share"] if len(labels) else 0.0
        lines.append(
            [
                split,
                *(f"{totals[name]:,}" for name in counts),
                f"{unknown:.1%}",
                *(f"{totals[name]:,}" for name in empty),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]


def classes(table: Table) -> list[str]:
    """Counts of present and absent training labels of each class, rarest class first, as lines of text."""
    labels = table.labels[table.rows("train")]
    positives, negatives = (lb.count(labels, value, axis=0) for value in (lb.PRESENT, lb.ABSENT))
    names = [escaped(name) for name in table.classes]
    width = max(map(len, names), default=0)
    return [
        f"{names[i]:<{width}}  {positives[i]:>9,} present  {negatives[i]:>9,} absent"
        for i in np.argsort(positives, kind="stable")
    ]


def remarks(table: Table) -> list[str]:
    """What is allowed but seldom intended, one line each."""
    present = {split: lb.count(table.labels[table.rows(split)], lb.PRESENT, axis=0) for split in SPLITS}
    train = table.labels[table.rows("train")]
    absent, known = lb.count(train, lb.ABSENT, axis=0), lb.count(train, lb.UNKNOWN, axis=0) < len(train)
    evaluated = present["validation"] + present["test"] > 0
    folded = Counter(" ".join(name.casefold().split()) for name in table.classes)
    alike = np.array([folded[" ".join(name.casefold().split())] > 1 for name in table.classes])
    untaught = present["train"] == 0
    empty = int((lb.count(train, lb.UNKNOWN, axis=1) == train.shape[1]).sum())
    groups = [
        (untaught & evaluated, "present in validation or test images, but in no training image: cannot be learned"),
        (untaught & ~evaluated, "present in no image: cannot be learned, left out of the mAP"),
        *_left_out(table, untaught & ~evaluated),
        (~untaught & known & (absent == 0) & (absent.sum() > 0), "never absent where it is known"),
        (alike, "names that differ in case or spaces only"),
    ]
    lines = [f"{_names(table.classes, mask)}: {text}" for mask, text in groups if mask.any()]
    if not absent.any():
        lines.append("no training label is known to be absent: a method that needs negatives must assume them (an)")
    if empty:
        lines.append(f"{empty:,} training images have no known label: only pseudo labels can use them")
    return lines


def _left_out(table: Table, told: np.ndarray) -> list[tuple[np.ndarray, str]]:
    """Classes that have no average precision, bool [L], by split and reason; without those that are `told` already."""
    groups = []
    for split in SPLITS[1:]:
        reasons = np.array(lb.without_ap(table.labels[table.rows(split)]), dtype=object)
        for reason in sorted({*reasons[~told]} - {""}):
            text = f"{reason} in any {split} image: left out of the {split} mAP"
            groups.append(((reasons == reason) & ~told, text))
    return groups


def _names(names: Sequence[str], mask: np.ndarray) -> str:
    rows = np.flatnonzero(mask)
    shown = ", ".join(repr(names[i]) for i in rows[:_NAMED])
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return f"{'class' if len(rows) == 1 else f'{len(rows)} classes'} {shown}{more}"
