"""Pascal VOC 2012, read from the official archive without unpacking it.

Protocol of Cole et al. 2021: the official train images are split into training and validation images, the
official val images are the test images. A class is present where the official list says 1; 0 ("difficult")
and -1 are absent.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlml import labels as lb
from mlml.datasets.files.archive_members import TarMembers
from mlml.datasets.source import Source
from mlml.datasets.split import validation_split
from mlml.labels.table import Table

ARCHIVE = "VOCtrainval_11-May-2012.tar"
ROOT = "VOCdevkit/VOC2012"
# fmt: off
CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)
# fmt: on


def read(folder: Path, archives: Path) -> Source:
    """Read the archive in `archives`.

    Raises:
        ValueError: the archive is missing, is not a tar file, or lacks a list or a photograph.
    """
    members = TarMembers(archives / ARCHIVE)
    table = label_table(members.text)
    paths = [f"{ROOT}/JPEGImages/{image}.jpg" for image in table.images]
    missing = [path for path in paths if path not in members]
    if missing:
        raise ValueError(f"{members.path}: {len(missing)} photographs are missing, the first is {missing[0]}")
    return Source(table, lambda row: members.read(paths[row]), published=True)


def label_table(text: Callable[[str], str]) -> Table:
    """The label table of the official per-class lists.

    Args:
        text: path of a list, from "VOCdevkit" on -> its content.

    Raises:
        ValueError: a list of another form, or one with other images than the first class's.
    """
    train_ids, train = _official(text, "train")
    test_ids, test = _official(text, "val")
    _, validation_rows = validation_split(len(train_ids))
    split = np.array(["train"] * len(train_ids), dtype=object)
    split[validation_rows] = "validation"
    return Table(
        CLASSES,
        (*train_ids, *test_ids),
        (*split, *["test"] * len(test_ids)),
        np.concatenate([train, test]),
    )


def _official(text: Callable[[str], str], part: str) -> tuple[list[str], lb.Labels]:
    """Ids, sorted, and labels int8 [n, 20] of the official "train" or "val" images."""
    columns: list[dict[str, str]] = []
    for name in CLASSES:
        path = f"{ROOT}/ImageSets/Main/{name}_{part}.txt"
        fields = [line.split() for line in text(path).splitlines() if line.strip()]
        for number, field in enumerate(fields, 1):
            if len(field) != 2 or field[1] not in ("1", "0", "-1"):
                raise ValueError(f"{path}: line {number} is {' '.join(field)!r}, not an image id and 1, 0 or -1")
        columns.append(dict(fields))
        if not fields or len(columns[-1]) != len(fields):
            raise ValueError(f"{path}: {len(fields)} lines for {len(columns[-1])} images; one line each is needed")
        if columns[-1].keys() != columns[0].keys():
            other = sorted(columns[-1].keys() ^ columns[0].keys())[0]
            raise ValueError(f"{path}: image {other!r} is not in the lists of all classes")
    ids = sorted(columns[0])
    present = np.array([[column[image] == "1" for column in columns] for image in ids]).reshape(len(ids), len(CLASSES))
    return ids, np.where(present, lb.PRESENT, lb.ABSENT).astype(np.int8)
