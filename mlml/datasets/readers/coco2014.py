"""COCO 2014, read from the official archives without unpacking them.

Protocol of Cole et al. 2021: images with at least one annotation, ordered by id as text; the official train images are
split into training and validation images, the official val images are the test images. A class is present where it has
an annotation, and absent elsewhere; classes are in the order of their category ids.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlml import labels as lb
from mlml.datasets.annotations.coco import parse
from mlml.datasets.annotations.coco_json import Id
from mlml.datasets.files.archive_members import ZipMembers
from mlml.datasets.source import Source
from mlml.datasets.split import validation_split
from mlml.labels.table import Table

ANNOTATIONS = "annotations_trainval2014.zip"
PHOTOGRAPHS = {"train2014": "train2014.zip", "val2014": "val2014.zip"}


def read(folder: Path, archives: Path) -> Source:
    """Read the archives in `archives`; images are named as in them: ``train2014/COCO_train2014_000000000009.jpg``.

    Raises:
        ValueError: an archive is missing, is not a zip file, or lacks its annotations or a photograph.
    """
    members = {part: ZipMembers(archives / file) for part, file in PHOTOGRAPHS.items()}
    table = label_table(ZipMembers(archives / ANNOTATIONS).read)
    for part, there in members.items():
        missing = [image for image in table.images if _part(image) == part and image not in there]
        if missing:
            raise ValueError(f"{there.path}: {len(missing)} photographs are missing, the first is {missing[0]}")

    def photograph(row: int) -> bytes:
        return members[_part(table.images[row])].read(table.images[row])

    return Source(table, photograph, published=True)


def _part(image: str) -> str:
    return image.partition("/")[0]


def label_table(content: Callable[[str], bytes]) -> Table:
    """The label table of the official annotations.

    Args:
        content: path of a file, such as "annotations/instances_train2014.json" -> its content. The files are very
            large, so the first is freed before the second is read.

    Raises:
        ValueError: a file that `mlml.datasets.annotations.coco` refuses, or two files with different categories.
    """
    (categories, train_images, train), (others, test_images, test) = (_official(content, part) for part in PHOTOGRAPHS)
    if categories != others:
        raise ValueError(f"{_path('val2014')} has other categories than {_path('train2014')}")
    split = np.array(["train"] * len(train_images), dtype=object)
    split[validation_split(len(train_images))[1]] = "validation"
    return Table(
        tuple(name for _, name in categories),
        (*train_images, *test_images),
        (*split, *["test"] * len(test_images)),
        np.concatenate([train, test]),
    )


def _path(part: str) -> str:
    return f"annotations/instances_{part}.json"


def _official(content: Callable[[str], bytes], part: str) -> tuple[tuple[tuple[Id, str], ...], list[str], lb.Labels]:
    """Categories, names of the images with an annotation, and their labels int8 [n, L]."""
    parsed = parse(content(_path(part)), _path(part))
    annotated = np.unique(parsed.present.rows).tolist()
    rows = np.array(sorted(annotated, key=lambda row: str(parsed.ids[row])), np.int64)
    return parsed.categories, [f"{part}/{parsed.files[row]}" for row in rows], parsed.labels(lb.ABSENT)[rows]
