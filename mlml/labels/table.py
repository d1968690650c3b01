"""The label table: images, their splits and their labels, read from and written to CSV.

The file has one row an image: ``image,split,<class>,<class>,...`` where a label cell is ``1`` (present),
``0`` (absent) or blank (unknown). Label cells are converted a row at a time by NumPy: for 9,605 classes that is
three to five times as fast as the csv module. pandas pads a short row with blanks instead of reporting it.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from mlml import labels as lb
from mlml.core.errors import raise_errors
from mlml.core.files import atomic_write

SPLITS = ("train", "validation", "test")
_COMMA, _BAD = ord(","), 2
_SIGNS = np.frombuffer(b"0\x001", np.uint8)  # at label + 1; the NUL of UNKNOWN is not written
_LABELS = np.full(256, _BAD, np.int8)
_LABELS[[ord("0"), ord("1"), _COMMA]] = lb.ABSENT, lb.PRESENT, lb.UNKNOWN  # a blank cell begins with the next comma


@dataclass(frozen=True)
class Table:
    """Images, their splits and their labels; row i of each belongs to image i.

    Attributes:
        classes: names of the L classes, in column order.
        images: n unique names, such as paths or ids.
        split: n times "train", "validation" or "test".
        labels: int8 [n, L] of PRESENT, ABSENT, UNKNOWN.

    Raises:
        ValueError: sizes that do not fit, a duplicate name, an unknown split, a value that is no label.
    """

    classes: tuple[str, ...]
    images: tuple[str, ...]
    split: tuple[str, ...]
    labels: lb.Labels

    def __post_init__(self) -> None:
        n, width = lb.check(self.labels).shape
        if len(self.images) != n or len(self.split) != n or len(self.classes) != width:
            raise ValueError(
                f"{len(self.images)} images, {len(self.split)} splits and {len(self.classes)} classes "
                f"do not fit labels of shape [{n}, {width}]"
            )
        for kind, names in (("class", self.classes), ("image", self.images)):
            if len(set(names)) != len(names):
                duplicate = next(name for name, count in Counter(names).items() if count > 1)
                raise ValueError(f"{kind} {duplicate!r} occurs more than once")
        for split in set(self.split) - set(SPLITS):
            image = self.images[self.split.index(split)]
            raise ValueError(f"image {image!r} has split {split!r}; it must be one of {', '.join(SPLITS)}")

    def rows(self, split: str) -> np.ndarray:
        """The row numbers of one split, int64, ascending."""
        return np.flatnonzero(np.array(self.split) == split)

    def take(self, rows: np.ndarray) -> "Table":
        """A table of only these rows, in this order."""
        return Table(
            self.classes,
            tuple(self.images[i] for i in rows),
            tuple(self.split[i] for i in rows),
            self.labels[rows],
        )


def check_splits(table: Table) -> None:
    """Check that a model can be trained, selected and tested on this table.

    Raises:
        ValueError: a split is empty, or an evaluation split has no positive label.
    """
    for split in SPLITS:
        rows = table.rows(split)
        if not len(rows):
            raise ValueError(f"there are no {split} images; {', '.join(SPLITS)} need some each")
        if split != "train" and not (table.labels[rows] == lb.PRESENT).any():
            raise ValueError(f"no {split} image has a label that is known to be present; its mAP is not defined")


def check_complete(table: Table) -> None:
    """Check that no label is unknown.

    Raises:
        ValueError: some are; names the image and class of the first, and counts them.
    """
    unknown = table.labels.size - np.count_nonzero(table.labels)
    if unknown:
        row, column = lb.first(table.labels == lb.UNKNOWN)
        raise ValueError(
            f"image {table.images[row]!r} ({table.split[row]}), class {table.classes[column]!r}: the label is unknown "
            f"({unknown} are); discarding by a rule needs full labels: setting=as_is takes them as they are"
        )


def write(table: Table, path: Path) -> None:
    """Write `table` as CSV. The file gets its name when it is complete."""
    with atomic_write(path) as part, part.open("wb") as file:
        file.write(_quoted(["image", "split", *table.classes]) + b"\n")
        for image, split, labels in zip(table.images, table.split, table.labels, strict=True):
            cells = np.full((len(labels), 2), _COMMA, np.uint8)
            cells[:, 1] = _SIGNS[labels + 1]
            file.write(_quoted([image, split]) + cells[cells != 0].tobytes() + b"\n")


def _quoted(names: list[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(names)
    return line.getvalue()[:-1].encode()


def read(path: Path) -> Table:
    """Read a table that `write` wrote.

    Raises:
        ValueError: the file has another form; names the file and the first 20 faulty rows.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _parse(file)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no CSV file in UTF-8: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _parse(file: Iterator[str]) -> Table:
    header = next(csv.reader(file, strict=True), [])
    if header[:2] != ["image", "split"] or len(header) < 3:
        raise ValueError(f"the header must be image,split,<class>,..., not {','.join(header[:4])!r}")
    classes = tuple(header[2:])
    images, split, faults = [], [], []
    labels = bytearray()  # grows in place: a list of rows would need the memory twice while it becomes one array
    for number, row in enumerate(_rows(file), 2):
        if row in ([], [""]):
            continue
        try:
            labels += _decode(row, classes)
        except ValueError as fault:
            faults.append(f"row {number}: {fault}")
        images.append(row[0])
        split.append(row[1] if len(row) > 1 else "")
    raise_errors(f"rows that cannot be read: {len(faults)}", faults)
    matrix = np.frombuffer(labels, np.int8).reshape(len(images), len(classes))
    return Table(classes, tuple(images), tuple(split), matrix)


def _rows(file: Iterator[str]) -> Iterator[list[str]]:
    """Each row as image, split and its label cells as one text. Only quoted rows need the slower csv module."""
    for line in file:
        if '"' in line:
            row = next(csv.reader(chain([line], file), strict=True))
            yield [*row[:2], ",".join(row[2:])] if len(row) > 2 else row
        else:
            yield line.rstrip("\r\n").split(",", 2)


def _decode(row: list[str], classes: tuple[str, ...]) -> bytes:
    """The labels of a row of `_rows`, one int8 each."""
    cells = f",{row[2]},".encode() if len(row) == 3 else b","
    signs = np.frombuffer(cells, np.uint8)
    commas = np.flatnonzero(signs == _COMMA)
    width = len(commas) - 1
    if width != len(classes):
        raise ValueError(f"{width + 2 if width else len(row)} cells, the header has {len(classes) + 2}")
    labels = _LABELS[signs[commas[:-1] + 1]]
    labels[np.diff(commas) > 2] = _BAD
    bad = np.flatnonzero(labels == _BAD)
    if len(bad):
        cell = cells[commas[bad[0]] + 1 : commas[bad[0] + 1]].decode()
        more = f" (and {len(bad) - 1} more cells)" if len(bad) > 1 else ""
        raise ValueError(f"class {classes[bad[0]]!r}: {cell!r} is no label; a cell is 1, 0 or blank{more}")
    return labels.tobytes()
