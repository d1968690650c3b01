"""The label table: images, their splits and their labels, read from and written to CSV.

The file has one row per image: ``image,split,<class>,<class>,...`` where a label cell is ``1`` (present),
``0`` (absent) or blank (unknown). pandas would pad a short row with blanks instead of reporting it.
"""

import csv
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlml import labels as lb
from mlml.core.errors import quoted, raise_errors
from mlml.core.files import atomic_write

SPLITS = ("train", "validation", "test")
_CELLS = {lb.PRESENT: "1", lb.ABSENT: "0", lb.UNKNOWN: ""}
_LABELS = {cell: label for label, cell in _CELLS.items()}


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
                raise ValueError(f"{kind} {quoted(duplicate)} occurs more than once")
        for split in set(self.split) - set(SPLITS):
            image = self.images[self.split.index(split)]
            raise ValueError(f"image {quoted(image)} has split {quoted(split)}; it must be one of {', '.join(SPLITS)}")

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


def check_splits(table: Table, file: Path | str = "the label table") -> None:
    """Check that a model can be trained, selected and tested on this table.

    By which labels an epoch can be selected depends on `train.select_by`; see `mlml.training.criterion`.

    Args:
        file: where users find the labels, for messages.

    Raises:
        ValueError: a split is empty, no validation label is known to be present, or no class has an average precision
            over the test images.
    """
    for split in SPLITS:
        if not len(table.rows(split)):
            raise ValueError(f"{file}: there are no {split} images; {', '.join(SPLITS)} need some each")
    validation, test = (table.labels[table.rows(split)] for split in SPLITS[1:])
    remedy = "add known labels, or say in dataset.yaml that labels that are not given are absent, if they are"
    if not (validation == lb.PRESENT).any():
        raise ValueError(
            f"{file}: of {len(validation)} validation images none has a label known to be present, so no epoch can be "
            f"chosen; {remedy}"
        )
    if all(lb.without_ap(test)):
        raise ValueError(
            f"{file}: over {len(test)} test images no class has both a label known to be present and one known to be "
            f"absent, so there is no test mAP; {remedy}"
        )


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
    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image", "split", *table.classes])
        for image, split, labels in zip(table.images, table.split, table.labels, strict=True):
            writer.writerow([image, split, *map(_CELLS.__getitem__, labels.tolist())])


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
    rows = csv.reader(file, strict=True)
    header = next(rows, [])
    if header[:2] != ["image", "split"] or len(header) < 3:
        raise ValueError(f"the header must be image,split,<class>,..., not {quoted(','.join(header[:4]))}")
    classes = tuple(header[2:])
    images, split, faults = [], [], []
    labels = array("b")  # grows in place: a list of rows would need the memory twice while it becomes one matrix
    for number, row in _numbered(rows):
        if not row:
            continue
        try:
            if len(row) != len(header):
                raise ValueError(f"{len(row)} cells, the header has {len(header)}")
            labels.extend(_decode(row[2:], classes))
            images.append(row[0])
            split.append(row[1])
        except ValueError as fault:
            faults.append(f"row {number}: {fault}")
    raise_errors(f"rows that cannot be read: {len(faults)}", faults)
    matrix = np.frombuffer(labels, np.int8).reshape(len(images), len(classes))
    return Table(classes, tuple(images), tuple(split), matrix)


def _numbered(rows: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """The rows after the header, from 2; an error names the row."""
    number = 1
    try:
        for number, row in enumerate(rows, 2):
            yield number, row
    except csv.Error as error:
        raise csv.Error(f"row {number + 1}: {error}") from None


def _decode(cells: list[str], classes: tuple[str, ...]) -> list[int]:
    try:
        return [_LABELS[cell] for cell in cells]
    except KeyError:
        bad = [place for place, cell in enumerate(cells) if cell not in _LABELS]
        more = f" (and {len(bad) - 1} more cells)" if len(bad) > 1 else ""
        place = bad[0]
        raise ValueError(
            f"class {quoted(classes[place])}: {quoted(cells[place])} is no label; a cell is 1, 0 or blank{more}"
        ) from None
