"""Parses annotations in the format of COCO's instances files: the categories of each image, as ids and as a matrix."""

import mmap
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mlml import labels as lb
from mlml.core.errors import quoted, raise_errors
from mlml.datasets.annotations.coco_json import Category, File, Id, Image, decode, not_read
from mlml.datasets.files.regular_files import check_file

_BOM = b"\xef\xbb\xbf"  # of UTF-8; some editors write it


class _Pairs(NamedTuple):
    """int64 [m]: images and classes; pairs may repeat."""

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]


class Instances(NamedTuple):
    """The parsed contents of a file.

    Attributes:
        categories: (id, name) of the L classes, ordered by id.
        ids: n ids of images, in the file's order.
        files: n file names of images.
        present: image and class of each annotation, and of each positive that a list names.
        absent: image and class of each negative that a list of LVIS names.
        federated: whether the file says, as LVIS does, that not all classes were looked for in an image.
        notes: what the file has beside, one line each.
    """

    categories: tuple[tuple[Id, str], ...]
    ids: list[Id]
    files: list[str]
    present: _Pairs
    absent: _Pairs
    federated: bool
    notes: list[str]

    def labels(self, unlisted: int) -> lb.Labels:
        """The label matrix, int8 [n, L]: PRESENT or ABSENT where the file says so, `unlisted` elsewhere."""
        labels = np.full((len(self.ids), len(self.categories)), unlisted, np.int8)
        labels[self.absent] = lb.ABSENT
        labels[self.present] = lb.PRESENT
        return labels


def parse_file(path: Path) -> Instances:
    """Parse a file through a memory map.

    Raises:
        ValueError: the file is missing or empty, or as `parse`.
    """
    needed = "a file of annotations in COCO's form, or say which in images.options.annotations"
    check_file(path, needed)
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty; it must be {needed}")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return parse(data, str(path))


def parse(data: bytes | mmap.mmap, where: str) -> Instances:
    """Parse the content of a file: JSON in UTF-8, with or without a byte order mark.

    Args:
        where: the file's name, for messages.

    Raises:
        ValueError: other JSON, no images or categories, a duplicate id or category name, or an annotation of an
            unlisted image or category; all faults together.
    """
    start = len(_BOM) if data[: len(_BOM)] == _BOM else 0
    with memoryview(data) as view, view[start:] as text:
        file = decode(text, where)
    images, categories = file.images, sorted(file.categories, key=lambda one: (isinstance(one.id, str), one.id))
    row = {image.id: i for i, image in enumerate(images)}
    column = {category.id: i for i, category in enumerate(categories)}
    faults = _faults(file)
    image_ids, category_ids = (list(map(attrgetter(key), file.annotations)) for key in ("image_id", "category_id"))
    rows = _positions(image_ids, row, "annotations with image_id", "images", faults)
    columns = _positions(category_ids, column, "annotations with category_id", "categories", faults)
    positive, negative = (_listed(images, key, column, faults) for key in ("pos_category_ids", "neg_category_ids"))
    present = _Pairs(*map(np.concatenate, zip((rows, columns), positive, strict=True)))
    faults += [] if faults else _both(images, categories, present, negative)
    raise_errors(f"{where}: faults: {len(faults)}", faults)
    return Instances(
        categories=tuple((category.id, category.name) for category in categories),
        ids=list(row),
        files=[image.file for image in images],
        present=present,
        absent=negative,
        federated=any(image.neg_category_ids or image.not_exhaustive_category_ids for image in images),
        notes=not_read(file),
    )


def _positions(
    ids: Sequence[Id], position: Mapping[Id, int], what: str, part: str, faults: list[str]
) -> npt.NDArray[np.int64]:
    """The position of each id, without a Python loop but for ids of another type; adds to `faults`.

    "1" stands for 1 and 1 for "1", unless both are there.
    """
    positions = np.fromiter(map(position.get, ids, repeat(-1)), np.int64, len(ids))
    other = np.flatnonzero(positions < 0).tolist()
    if other:
        times = Counter(map(str, position))
        by_text = {str(id_): i for id_, i in position.items() if times[str(id_)] == 1}
        positions[other] = [by_text.get(str(ids[i]), -1) for i in other]
    missing = Counter(ids[i] for i in np.flatnonzero(positions < 0).tolist())
    faults += [f"{what} {value!r}, no id in {part}: {n}" for value, n in missing.items()]
    return positions


def _listed(images: list[Image], key: str, column: Mapping[Id, int], faults: list[str]) -> _Pairs:
    """The images and classes of the lists `key`; adds to `faults`."""
    ids = list(map(attrgetter(key), images))
    rows = np.repeat(np.arange(len(ids)), list(map(len, ids)))
    columns = _positions([*chain(*ids)], column, f"images with {key}", "categories", faults)
    return _Pairs(rows, columns)


def _both(images: list[Image], categories: list[Category], present: _Pairs, absent: _Pairs) -> list[str]:
    """Faults: classes that an image has both among its annotations and its negatives."""
    there, negative = (pairs.rows * len(categories) + pairs.columns for pairs in (present, absent))
    both = (divmod(key, len(categories)) for key in np.intersect1d(there, negative).tolist())
    return [
        f"image id {images[i].id!r}: {quoted(categories[j].name)} is both present and in neg_category_ids"
        for i, j in both
    ]


def _faults(file: File) -> list[str]:
    images, categories = file.images, file.categories
    faults = [f"{key}: there are none" for key in ("images", "categories") if not getattr(file, key)]
    faults += _duplicates("images: id", [one.id for one in images])
    faults += _duplicates("categories: id", [one.id for one in categories])
    faults += _duplicates("categories: name", [one.name for one in categories])
    faults += [f"images: id {one.id!r} has no file_name" for one in images if one.file_name is one.coco_url is None]
    return faults


def _duplicates(key: str, values: Sequence[Id]) -> list[str]:
    return [f"{key} {value!r} is there {times} times" for value, times in Counter(values).items() if times > 1]
