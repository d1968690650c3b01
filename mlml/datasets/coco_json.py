"""Parses annotations in the format of COCO's instances files: the categories of each image.

Only ids and names are kept; boxes and outlines, nearly all of a file, are skipped, so that memory stays near the file's
size. https://cocodataset.org/#format-data
"""

import mmap
import re
from collections import Counter
from collections.abc import Mapping
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mlml import labels as lb
from mlml.core.errors import raise_errors

Id = int | str  # numbers in COCO; some labelling tools write strings
_BOM = b"\xef\xbb\xbf"  # of UTF-8; some editors write it
_SHOWN = 20  # bytes of the file quoted in a message


class Instances(NamedTuple):
    """The parsed contents of a file.

    Attributes:
        categories: (id, name) of the L classes, ordered by id.
        ids: n ids of images, in the file's order.
        files: n file names of images.
        rows, columns: int64 [m], image and class of each annotation; pairs may repeat.
    """

    categories: tuple[tuple[Id, str], ...]
    ids: list[Id]
    files: list[str]
    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]

    def labels(self, unlisted: int) -> lb.Labels:
        """The label matrix, int8 [n, L]: PRESENT where there is an annotation, `unlisted` elsewhere."""
        labels = np.full((len(self.ids), len(self.categories)), unlisted, np.int8)
        labels[self.rows, self.columns] = lb.PRESENT
        return labels


class _Image(msgspec.Struct, gc=False):
    id: Id
    file_name: str


class _Annotation(msgspec.Struct, gc=False):
    image_id: Id
    category_id: Id


class _Category(msgspec.Struct, gc=False):
    id: Id
    name: str


class _File(msgspec.Struct):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category]


def parse_file(path: Path) -> Instances:
    """Parse a file through a memory map.

    Raises:
        ValueError: the file is missing or empty, or as `parse`.
    """
    if not path.is_file() or not path.stat().st_size:
        state = "empty" if path.is_file() else "missing"
        raise ValueError(f"{path} is {state}; it must be a file of annotations in COCO's form")
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
        file = _decode(text, where)
    categories = sorted(file.categories, key=lambda category: _order(category.id))
    row = {image.id: i for i, image in enumerate(file.images)}
    column = {category.id: i for i, category in enumerate(categories)}
    rows = _positions(row, file.annotations, "image_id")
    columns = _positions(column, file.annotations, "category_id")
    faults = _faults(file, rows, columns)
    raise_errors(f"{where}: faults: {len(faults)}", faults)
    names = tuple((category.id, category.name) for category in categories)
    return Instances(names, list(row), [image.file_name for image in file.images], rows, columns)


def _decode(text: memoryview, where: str) -> _File:
    try:
        return msgspec.json.decode(text, type=_File)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: not in COCO's form: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        at = re.search(r"\(byte (\d+)\)$", str(error))
        excerpt = bytes(text[int(at[1]) :][:_SHOWN]).decode("utf-8", "replace") if at else ""
        raise ValueError(f"{where} is no JSON in UTF-8: {error}{f', at {excerpt!r}' if at else ''}") from None
    except RecursionError:
        raise ValueError(f"{where}: not in COCO's form: lists in lists, too deep") from None


def _order(id_: Id) -> tuple[bool, int, str]:
    """Sort key: numbers by value, then strings."""
    return (True, 0, id_) if isinstance(id_, str) else (False, id_, "")


def _positions(position: Mapping[Id, int], annotations: list[_Annotation], key: str) -> npt.NDArray[np.int64]:
    """The position of each annotation's id, -1 if it has none; without a Python loop."""
    positions = map(position.get, map(attrgetter(key), annotations), repeat(-1))
    return np.fromiter(positions, np.int64, len(annotations))


def _faults(file: _File, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]) -> list[str]:
    images, annotations, categories = file.images, file.annotations, file.categories
    faults = [f"{key}: there are none" for key in ("images", "categories") if not getattr(file, key)]
    faults += _duplicates("images: id", [one.id for one in images])
    faults += _duplicates("categories: id", [one.id for one in categories])
    faults += _duplicates("categories: name", [one.name for one in categories])
    faults += [f"categories: the name of id {one.id!r} is blank" for one in categories if not one.name.strip()]
    faults += _unlisted("image_id", [annotations[i].image_id for i in np.flatnonzero(rows < 0)], "images")
    faults += _unlisted("category_id", [annotations[i].category_id for i in np.flatnonzero(columns < 0)], "categories")
    return faults


def _duplicates(key: str, values: list[Id] | list[str]) -> list[str]:
    return [f"{key} {value!r} is there {times} times" for value, times in Counter(values).items() if times > 1]


def _unlisted(key: str, values: list[Id], of: str) -> list[str]:
    return [f"annotations with {key} {value!r}, no id in {of}: {n}" for value, n in Counter(values).items()]
