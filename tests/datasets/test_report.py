"""The profile of a label table."""

import numpy as np
import pytest

from mlml.datasets import report
from mlml.labels.table import Table

CLASSES = ("person", "Person ", "cat", "dog", "ghost")
SPLIT = ("train", "train", "train", "validation", "test")
LABELS = np.array(
    [[1, 1, -1, -1, 0], [1, -1, 1, -1, 0], [0, 0, 0, 0, 0], [1, 1, 0, -1, -1], [1, -1, -1, 1, -1]], np.int8
)


def table(labels: np.ndarray = LABELS) -> Table:
    return Table(CLASSES, tuple("abcde"), SPLIT, labels)


def test_counts() -> None:
    lines = [line.split() for line in report.summary(table())]
    assert [line[0] for line in lines] == ["images", "train", "validation", "test", "all"]
    assert lines[1] == ["train", "3", "4", "4", "46.7%", "1", "1"]
    assert lines[2] == ["validation", "1", "2", "2", "20.0%", "0", "0"]
    assert lines[4] == ["all", "5", "8", "9", "32.0%", "1", "1"]


def test_the_rarest_class_first() -> None:
    rows = [line.split() for line in report.classes(table())]
    assert [row[0] for row in rows] == ["dog", "ghost", "Person", "cat", "person"]
    assert rows[0][1:] == ["0", "present", "2", "absent"]


def test_remarks() -> None:
    assert report.remarks(table()) == [
        "class 'dog': present in validation or test images, but in no training image: cannot be learned",
        "class 'ghost': present in no image: cannot be learned, left out of the mAP",
        "2 classes 'person', 'Person ': not known to be absent in any validation image: left out of the validation mAP",
        "2 classes 'cat', 'dog': not known to be present in any validation image: left out of the validation mAP",
        "2 classes 'person', 'dog': not known to be absent in any test image: left out of the test mAP",
        "2 classes 'Person ', 'cat': not known to be present in any test image: left out of the test mAP",
        "class 'person': never absent where it is known",
        "2 classes 'person', 'Person ': names that differ in case or spaces only",
        "1 training images have no known label: only pseudo labels can use them",
    ]


def test_nothing_to_say_about_full_labels() -> None:
    labels = np.array([[1, -1], [-1, 1]] * 3, np.int8)
    assert report.remarks(Table(("a", "b"), tuple("uvwxyz"), ("train", "validation", "test") * 2, labels)) == []


def test_positives_alone() -> None:
    remarks = report.remarks(table(np.maximum(LABELS, 0)))
    assert "no training label is known to be absent: a method that needs negatives must assume them (an)" in remarks
    assert not any("never absent" in remark for remark in remarks)


@pytest.mark.parametrize("count", [5, 8])
def test_many_names_are_counted(count: int) -> None:
    labels = np.full((3, count), -1, np.int8)
    remarks = report.remarks(Table(tuple("abcdefgh"[:count]), tuple("xyz"), ("train", "validation", "test"), labels))
    more = {5: "", 8: " and 3 more"}[count]
    assert (
        remarks[0]
        == f"{count} classes 'a', 'b', 'c', 'd', 'e'{more}: present in no image: cannot be learned, left out of the mAP"
    )
