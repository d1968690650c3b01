"""Annotations in the form of COCO's instances files: which categories each image has.

Only the few fields that say so are kept, so that memory stays near the file's own size: boxes and outlines, nearly all
of a file, are passed over. https://cocodataset.org/#format-data
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

Id = int | str  # COCO's are numbers; tools that people use also write texts
_MARK = b"\xef\xbb\xbf"  # of UTF-8, as some editors put it before a text
_SHOWN = 20  # bytes of the file in a message


class Instances(NamedTuple):
    """What a file says.

    Attributes:
        categories: (id, name) of the L classes, ordered by id.
        ids: n ids of images, in the file's order.
        files: n file names of images.
        rows, columns: int64 [m], the image and the class of each annotation; some pairs are there several times.
    """

    categories: tuple[tuple[Id, str], ...]
    ids: list[Id]
    files: list[str]
    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]

    def labels(self, unlisted: int) -> lb.Labels:
        """Label matrix int8 [n, L]: PRESENT where there is an annotation, `unlisted` elsewhere."""
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
    """Read a file, through a memory map.

    Raises:
        ValueError: no such file, or as `parse`.
    """
    if not path.is_file() or not path.stat().st_size:
        how = "empty" if path.is_file() else "missing"
        raise ValueError(f"{path} is {how}; it must be a file of annotations in COCO's form")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return parse(data, str(path))


def parse(data: bytes | mmap.mmap, where: str) -> Instances:
    """Read the content of a file: JSON in UTF-8, with or without a byte order mark.

    Args:
        where: the file's name, for messages.

    Raises:
        ValueError: it is no such JSON, has no images or no categories, an id or the name of a category is there
            twice, or an annotation is of no image or of no category; all of these together.
    """
    start = len(_MARK) if data[: len(_MARK)] == _MARK else 0
    with memoryview(data) as view, view[start:] as text:
        file = _decode(text, where)
    categories = sorted(file.categories, key=lambda category: _order(category.id))
    row = {image.id: i for i, image in enumerate(file.images)}
    column = {category.id: i for i, category in enumerate(categories)}
    rows = _numbers(row, file.annotations, "image_id")
    columns = _numbers(column, file.annotations, "category_id")
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
        found = bytes(text[int(at[1]) :][:_SHOWN]).decode("utf-8", "replace") if at else ""
        raise ValueError(f"{where} is no JSON in UTF-8: {error}{f', at {found!r}' if at else ''}") from None
    except RecursionError:
        raise ValueError(f"{where}: not in COCO's form: lists in lists, too deep") from None


def _order(one: Id) -> tuple[bool, int, str]:
    """Numbers by value, then texts."""
    return (True, 0, one) if isinstance(one, str) else (False, one, "")


def _numbers(number: Mapping[Id, int], annotations: list[_Annotation], key: str) -> npt.NDArray[np.int64]:
    """The number of each annotation's id, -1 if there is none; no step of Python's own for each."""
    found = map(number.get, map(attrgetter(key), annotations), repeat(-1))
    return np.fromiter(found, np.int64, len(annotations))


def _faults(file: _File, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]) -> list[str]:
    images, annotations, categories = file.images, file.annotations, file.categories
    faults = [f"{what}: there are none" for what in ("images", "categories") if not getattr(file, what)]
    faults += _twice("images: id", [one.id for one in images])
    faults += _twice("categories: id", [one.id for one in categories])
    faults += _twice("categories: name", [one.name for one in categories])
    faults += [f"categories: the name of id {one.id!r} is blank" for one in categories if not one.name.strip()]
    faults += _unknown("image_id", [annotations[i].image_id for i in np.flatnonzero(rows < 0)], "images")
    faults += _unknown("category_id", [annotations[i].category_id for i in np.flatnonzero(columns < 0)], "categories")
    return faults


def _twice(what: str, values: list[Id] | list[str]) -> list[str]:
    return [f"{what} {value!r} is there {times} times" for value, times in Counter(values).items() if times > 1]


def _unknown(key: str, values: list[Id], of: str) -> list[str]:
    return [f"annotations with {key} {value!r}, no id in {of}: {n}" for value, n in Counter(values).items()]
