"""The fields of files in COCO's and LVIS's format that are read, or named because they are not.

Only ids and names are kept; boxes and outlines, nearly all of a file, are skipped, so that memory stays near the file's
size. https://cocodataset.org/#format-data, https://www.lvisdataset.org/dataset
"""

import json
import re
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from mlml.core.errors import quoted

Id = int | str  # numbers in COCO; some tools write text, pandas 1.0, which is read as 1
_KEY = re.compile(rb'\s*[{,]\s*("[^"\\]*(?:\\.[^"\\]*)*")\s*:\s*')
_NOT_JSON = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?Infinity|NaN')  # or a string, which may have these words in it


class Image(msgspec.Struct, gc=False):
    """An image; the lists of ids are LVIS's, but for the positive ones, which Detic added."""

    id: Id
    file_name: str | None = None
    coco_url: str | None = None
    pos_category_ids: list[Id] = []
    neg_category_ids: list[Id] = []
    not_exhaustive_category_ids: list[Id] = []  # present, but not each of its objects has an annotation
    attributes: Any = None
    tags: Any = None
    labels: Any = None
    split: Any = None

    @property
    def file(self) -> str:
        """The name of its file: LVIS v1 gives an address instead, whose last two parts are the path there."""
        return self.file_name or "/".join((self.coco_url or "").split("/")[-2:])


class Annotation(msgspec.Struct, gc=False):
    image_id: Id
    category_id: Id
    ignore: Any = None
    difficult: Any = None
    score: Any = None
    attributes: Any = None


class Category(msgspec.Struct, gc=False):
    id: Id
    name: str


class File(msgspec.Struct):
    images: list[Image]
    annotations: list[Annotation]
    categories: list[Category]


# What may tell more about labels than is read
_NOT_READ = (
    ("annotations", ("ignore", "difficult", "score", "attributes"), ": their classes count as present"),
    ("images", ("attributes", "tags", "labels", "split"), ""),
)


def decode(text: memoryview, where: str) -> File:
    """Decode JSON in UTF-8; NaN and Infinity, which Python and pandas write though JSON has them not, are null.

    Raises:
        ValueError: no JSON, other fields, or a key of the file that stands twice; in one line, with `where`.
    """
    decoder = msgspec.json.Decoder(File, strict=False)  # 1.0 is 1
    try:
        try:
            file = decoder.decode(text)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            if not re.search(rb"NaN|Infinity", text):
                raise
            text = memoryview(_NOT_JSON.sub(lambda found: found[0] if found[0][0] == ord('"') else b"null", text))
            file = decoder.decode(text)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: not in COCO's form: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{where} is no JSON in UTF-8: {error}") from None
    except RecursionError:
        raise ValueError(f"{where}: not in COCO's form: lists in lists, too deep") from None
    if repeated := _repeated_key(text):
        raise ValueError(f"{where}: the key {quoted(repeated)} stands there twice; merge the two, or remove one")
    return file


def _repeated_key(text: memoryview) -> str | None:
    """The first key of a JSON object, of its own and not of those in it, that stands there again.

    The decoder keeps the last value of such a key. So an earlier one lies between two values that are kept, where there
    should be a key and nothing else. Measured: 0.2 s for 200 MB, which take 0.4 s to decode.
    """
    base = np.frombuffer(text, np.uint8).ctypes.data
    values = [
        np.frombuffer(value, np.uint8) for value in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).values()
    ]
    spans = sorted((start := value.ctypes.data - base, start + len(value)) for value in values)
    for (_, end), (start, _) in pairwise([(0, 0), *spans]):
        between = _KEY.match(text[end:start])
        if between and between.end() < start - end:
            return str(json.loads(between[1]))
    return None


def not_read(file: File) -> list[str]:
    """A line for each field that may tell more about labels than is read."""
    lines = []
    for part, keys, effect in _NOT_READ:
        for key in keys:
            count = sum(map(bool, map(attrgetter(key), getattr(file, part))))
            lines += [f"{count:,} {part} have {key!r}, which is not read{effect}"] if count else []
    return lines
