"""The images that the rows of a user's table are about, with their splits and places."""

from typing import Annotated

from pydantic import AfterValidator

from mlml.core.errors import quoted
from mlml.datasets.class_names import CONTROL
from mlml.datasets.tables.csv_table import Sheet

IMAGE, SPLIT = "image", "split"  # names of columns
_LONGEST = 4096  # characters of a path


def _template(text: str) -> str:
    if text.count("{}") != 1:
        raise ValueError("must be a path with {} in place of the cell, such as images/{}.jpg")
    return text


Template = Annotated[str, AfterValidator(_template)]


class ImageRows:
    """The images of the rows added so far.

    Args:
        sheet: the table.
        column: the column that names the images.
        path: the path of an image file, with ``{}`` for the cell of that column.
        again: the remedy for an image in a second row; None: an image may be in several rows.

    Attributes:
        images: n paths.
        split: n words; blank without a column `SPLIT`.
        places: n places, "row 7", each the first of an image.
        faults: (place, message) of the rows that cannot be used.

    Raises:
        ValueError: a column is called Split or SPLIT and none split, or several are called split.
    """

    def __init__(self, sheet: Sheet, column: str, path: str, again: str | None) -> None:
        at = {name: i for i, name in enumerate(sheet.columns)}
        like = [name for name in at if name != SPLIT and name.casefold() == SPLIT]
        if like and SPLIT not in at:
            raise ValueError(f"{sheet.path}: rename the column {like[0]!r}, to {SPLIT!r} if it says the split")
        if sheet.columns.count(SPLIT) > 1:
            raise ValueError(f"{sheet.path}: the first row has {SPLIT!r} more than once; rename the others")
        self.has_split = SPLIT in at
        self._width, self._column, self._at, self._split_at = len(sheet.columns), column, at[column], at.get(SPLIT)
        self._path, self._again = path, again
        self._index: dict[str, int] = {}
        self.images: list[str] = []
        self.split: list[str] = []
        self.places: list[str] = []
        self.faults: list[tuple[str, str]] = []

    def add(self, number: int, row: list[str]) -> int | None:
        """The index of the image that a row is about; None if the row has a fault."""
        place = f"row {number}"
        fault = self._fault(row)
        if fault:
            self.faults.append((place, fault))
            return None
        image = self._path.replace("{}", row[self._at].strip())
        word = "" if self._split_at is None else row[self._split_at].strip()
        new = len(self.images)
        index = self._index.setdefault(image, new)
        if index < new and word == self.split[index]:
            if self._again is None:
                return index
            self.faults.append((place, f"image {quoted(image)} stands in {self.places[index]} too; {self._again}"))
            return None
        # An image in two splits stays in the list: `user_folder.source` says so.
        self.images.append(image)
        self.split.append(word)
        self.places.append(place)
        return new

    def _fault(self, row: list[str]) -> str | None:
        if len(row) != self._width:
            return f"{len(row)} cells, the header has {self._width}"
        cell = row[self._at].strip()
        if not cell:
            return f"the cell {self._column!r} is blank; it must name an image"
        if len(cell) > _LONGEST or CONTROL.search(cell):
            what = "it is too long, or has control characters or a line break; is a quote open?"
            return f"image {quoted(cell)} is no path: {what}"
        return None
