"""Parses annotations in the format of COCO's instances files: the categories of each image, as ids and as a matrix."""

import mmap
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlml import labels as lb
from mlml.core.errors import raise_errors
from mlml.datasets.coco_file import AnyId, Category, File, Image, decode, not_read
from mlml.datasets.regular_files import check_file

Id = int | str  # numbers in COCO; some labelling tools write strings
_BOM = b"\xef\xbb\xbf"  # of UTF-8; some editors write it
_EXACT = 1 << 53  # from here on a float may stand for another whole number


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
    categories = sorted(file.categories, key=lambda category: _order(category.id))
    row = {_whole(image.id): i for i, image in enumerate(file.images)}
    column = {_whole(category.id): i for i, category in enumerate(categories)}
    faults = _faults(file)
    image_ids, category_ids = (list(map(attrgetter(key), file.annotations)) for key in ("image_id", "category_id"))
    annotated = _Pairs(_positions(row, image_ids), _positions(column, category_ids))
    faults += _unlisted("annotations with image_id", image_ids, annotated.rows, "images")
    faults += _unlisted("annotations with category_id", category_ids, annotated.columns, "categories")
    positive, negative = (_listed(file.images, key, column, faults) for key in ("pos_category_ids", "neg_category_ids"))
    present = _Pairs(*map(np.concatenate, zip(annotated, positive, strict=True)))
    faults += [] if faults else _both(file.images, categories, present, negative)
    raise_errors(f"{where}: faults: {len(faults)}", faults)
    return Instances(
        categories=tuple((_whole(category.id), category.name) for category in categories),
        ids=list(row),
        files=[image.file or "" for image in file.images],
        present=present,
        absent=negative,
        federated=any(image.neg_category_ids or image.not_exhaustive_category_ids for image in file.images),
        notes=not_read(file),
    )


def _whole(id_: AnyId) -> Id:
    """An id as a key: 1 for 1.0; text for a float that is not exactly a whole number, which is a fault."""
    if isinstance(id_, float):
        return str(id_) if _inexact(id_) else int(id_)
    return id_


def _inexact(id_: AnyId) -> bool:
    return isinstance(id_, float) and not (id_.is_integer() and abs(id_) < _EXACT)


def _order(id_: AnyId) -> tuple[bool, float, str]:
    """Sort key: numbers by value, then strings."""
    return (True, 0, id_) if isinstance(id_, str) else (False, id_, "")


def _positions(position: Mapping[Any, int], ids: Sequence[AnyId]) -> npt.NDArray[np.int64]:
    """The position of each id, -1 if it has none; without a Python loop but for ids of another type.

    "1" stands for 1 and 1 for "1", unless both are there.
    """
    positions = np.fromiter(map(position.get, ids, repeat(-1)), np.int64, len(ids))
    if float in set(map(type, ids)):
        positions[[i for i, id_ in enumerate(ids) if _inexact(id_)]] = -1
    other = np.flatnonzero(positions < 0).tolist()
    times = Counter(map(str, position)) if other else {}
    by_text = {str(id_): i for id_, i in position.items() if times.get(str(id_)) == 1}
    positions[other] = [by_text.get(str(_whole(ids[i])), -1) for i in other]
    return positions


def _listed(images: list[Image], key: str, column: Mapping[Id, int], faults: list[str]) -> _Pairs:
    """The images and classes of the lists `key`; adds to `faults`."""
    ids = [getattr(image, key) for image in images]
    flat = [id_ for of_image in ids for id_ in of_image]
    rows = np.repeat(np.arange(len(ids)), [len(of_image) for of_image in ids])
    pairs = _Pairs(rows, _positions(column, flat))
    faults += _unlisted(f"images with {key}", flat, pairs.columns, "categories")
    return pairs


def _both(images: list[Image], categories: list[Category], present: _Pairs, absent: _Pairs) -> list[str]:
    """Faults: classes that an image has both among its annotations and its negatives."""
    there, negative = (pairs.rows * len(categories) + pairs.columns for pairs in (present, absent))
    both = (divmod(key, len(categories)) for key in np.intersect1d(there, negative).tolist())
    return [
        f"image id {images[i].id!r}: {categories[j].name!r} is both present and in neg_category_ids" for i, j in both
    ]


def _faults(file: File) -> list[str]:
    images, categories = file.images, file.categories
    faults = [f"{key}: there are none" for key in ("images", "categories") if not getattr(file, key)]
    for key, ids in (("images", [one.id for one in images]), ("categories", [one.id for one in categories])):
        faults += _duplicates(f"{key}: id", [_whole(id_) for id_ in ids])
        faults += [f"{key}: id {id_!r} is not exactly a whole number" for id_ in filter(_inexact, ids)]
    faults += _duplicates("categories: name", [one.name for one in categories])
    faults += [f"categories: the name of id {one.id!r} is blank" for one in categories if not one.name.strip()]
    faults += [f"images: id {one.id!r} has no file_name" for one in images if one.file is None]
    return faults


def _duplicates(key: str, values: Sequence[Id]) -> list[str]:
    return [f"{key} {value!r} is there {times} times" for value, times in Counter(values).items() if times > 1]


def _unlisted(what: str, ids: Sequence[AnyId], positions: npt.NDArray[np.int64], of: str) -> list[str]:
    missing = Counter(ids[i] for i in np.flatnonzero(positions < 0).tolist())
    return [f"{what} {value!r}, no id in {of}: {n}" for value, n in missing.items()]
