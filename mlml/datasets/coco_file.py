"""The fields of files in COCO's and LVIS's format that are read, or named because they are not.

Only ids and names are kept; boxes and outlines, nearly all of a file, are skipped, so that memory stays near the file's
size. https://cocodataset.org/#format-data, https://www.lvisdataset.org/dataset
"""

import re
from operator import attrgetter
from typing import Any

import msgspec

AnyId = int | float | str  # numbers in COCO; some tools write text, pandas 1.0
_SHOWN = 20  # bytes of the file quoted in a message
_NOT_JSON = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?Infinity|NaN')  # or a string, which may have these words in it


class Image(msgspec.Struct, gc=False):
    """An image; the lists of ids are LVIS's, but for the positive ones, which Detic added."""

    id: AnyId
    file_name: str | None = None
    coco_url: str | None = None
    pos_category_ids: list[AnyId] = []
    neg_category_ids: list[AnyId] = []
    not_exhaustive_category_ids: list[AnyId] = []  # present, but not each of its objects has an annotation
    attributes: Any = None
    tags: Any = None
    labels: Any = None
    split: Any = None

    @property
    def file(self) -> str | None:
        """The name of its file: LVIS v1 gives an address instead, whose last two parts are the path there."""
        return "/".join(self.coco_url.split("/")[-2:]) if self.file_name is None and self.coco_url else self.file_name


class Annotation(msgspec.Struct, gc=False):
    image_id: AnyId
    category_id: AnyId
    score: Any = None
    ignore: Any = None
    difficult: Any = None
    attributes: Any = None


class Category(msgspec.Struct, gc=False):
    id: AnyId
    name: str


class File(msgspec.Struct):
    images: list[Image]
    annotations: list[Annotation]
    categories: list[Category]


def decode(text: memoryview, where: str) -> File:
    """Decode JSON in UTF-8; NaN and Infinity, which Python and pandas write though JSON has them not, are null.

    Raises:
        ValueError: no JSON, or other fields; in one line, with `where`.
    """
    try:
        try:
            return msgspec.json.decode(text, type=File)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            if not re.search(rb"NaN|Infinity", text):
                raise
            text = memoryview(_NOT_JSON.sub(lambda found: found[0] if found[0][0] == ord('"') else b"null", text))
            return msgspec.json.decode(text, type=File)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: not in COCO's form: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        at = re.search(r"\(byte (\d+)\)$", str(error))
        excerpt = bytes(text[int(at[1]) :][:_SHOWN]).decode("utf-8", "replace") if at else ""
        raise ValueError(f"{where} is no JSON in UTF-8: {error}{f', at {excerpt!r}' if at else ''}") from None
    except RecursionError:
        raise ValueError(f"{where}: not in COCO's form: lists in lists, too deep") from None


def not_read(file: File) -> list[str]:
    """What may tell more about labels than is read, a line for each field."""
    notes = []
    for part, key, meaning in (
        ("annotations", "ignore", "are marked ignore: their classes count as present"),
        ("annotations", "difficult", "are marked difficult: their classes count as present"),
        ("annotations", "score", "have a score: their classes count as present, whatever it is"),
        ("annotations", "attributes", "have attributes, which are not read"),
        ("images", "attributes", "have attributes, which are not read"),
        ("images", "tags", "have tags, which are not read"),
        ("images", "labels", "have labels, which are not read"),
        ("images", "split", "have a split, which is not read: annotations takes a file for each split"),
    ):
        values = list(map(attrgetter(key), getattr(file, part)))
        count = len(values) - values.count(None) if key == "score" else sum(map(bool, values))
        if count:
            notes.append(f"{count:,} {part} {meaning}")
    return notes
