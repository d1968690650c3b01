"""The label table: which image belongs to which split and has which labels. Reads and writes CSV.

The file has one row an image: ``image,split,<class>,<class>,...`` where a label cell is ``1`` (present),
``0`` (absent) or blank (unknown).
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mlml import labels as lb
from mlml.files import replacing

SPLITS = ("train", "validation", "test")
_CELLS = np.array(["0", "", "1"])  # ABSENT, UNKNOWN, PRESENT at label + 1


@dataclass(frozen=True)
class Table:
    """Images, their split and their labels; row i of each belongs to image i.

    Attributes:
        classes: names of the L classes, in column order.
        images: n names, unique; what a name means is the reader's business (a path, an id).
        split: n times "train", "validation" or "test".
        labels: int8 [n, L] of PRESENT, ABSENT, UNKNOWN.

    Raises:
        ValueError: sizes that do not fit, a name twice, an unknown split, a value that is no label.
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
        for what, names in (("class", self.classes), ("image", self.images)):
            if len(set(names)) != len(names):
                twice = next(name for i, name in enumerate(names) if name in names[:i])
                raise ValueError(f"{what} {twice!r} occurs more than once")
        for split in set(self.split) - set(SPLITS):
            image = self.images[self.split.index(split)]
            raise ValueError(f"image {image!r} has split {split!r}; it must be one of {', '.join(SPLITS)}")

    def rows(self, split: str) -> np.ndarray:
        """Row numbers of one split, int64, ascending."""
        return np.flatnonzero(np.array(self.split) == split)

    def take(self, rows: np.ndarray) -> "Table":
        """The table of these rows only, in this order."""
        return Table(
            self.classes,
            tuple(self.images[i] for i in rows),
            tuple(self.split[i] for i in rows),
            self.labels[rows],
        )


def check_splits(table: Table) -> None:
    """See whether a model can be trained, chosen and tested on this table.

    Raises:
        ValueError: a split is empty, or a validation or test label is unknown; names the first and counts them.
    """
    for split in SPLITS:
        rows = table.rows(split)
        if not len(rows):
            raise ValueError(f"there are no {split} images; {', '.join(SPLITS)} need some each")
        if split != "train":
            check_complete(table.take(rows))


def check_complete(table: Table) -> None:
    """See whether all labels are known.

    Raises:
        ValueError: one is not; names the first image and class, and counts them.
    """
    unknown = np.argwhere(table.labels == lb.UNKNOWN)
    if len(unknown):
        row, column = unknown[0]
        raise ValueError(
            f"image {table.images[row]!r} ({table.split[row]}), class {table.classes[column]!r}: the label is unknown "
            f"({len(unknown)} are); full labels are needed here"
        )


def write(table: Table, path: Path) -> None:
    """Write `table` as CSV; the file appears under its name only when it is complete."""
    frame = pd.DataFrame(_CELLS[table.labels + 1], columns=list(table.classes))
    for name, values in (("split", table.split), ("image", table.images)):
        frame.insert(0, name, list(values), allow_duplicates=True)  # a class may have the same name
    with replacing(path) as part:
        frame.to_csv(part, index=False, lineterminator="\n")


def read(path: Path) -> Table:
    """Read a table that `write` wrote.

    Raises:
        ValueError: not such a file; names the file and, where it can, the row and the column.
    """
    header, *rows = [row for row in read_cells(path) if row] or [[]]
    if header[:2] != ["image", "split"] or len(header) < 3:
        raise ValueError(f"{path}: the header must be image,split,<class>,..., not {','.join(header[:4])!r}")
    cells = np.array([row[2:] for row in rows], dtype=object).reshape(len(rows), len(header) - 2)
    labels = np.full(cells.shape, 2, np.int8)
    for value, cell in zip((lb.ABSENT, lb.UNKNOWN, lb.PRESENT), _CELLS, strict=True):
        labels[cells == cell] = value
    bad = np.argwhere(labels == 2)
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"{path}: row {row + 2}, class {header[column + 2]!r}: {cells[row, column]!r} is no label; "
            f"a cell is 1, 0 or blank ({len(bad)} bad cells)"
        )
    try:
        return Table(tuple(header[2:]), tuple(row[0] for row in rows), tuple(row[1] for row in rows), labels)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_cells(path: Path) -> list[list[str]]:
    """The rows of a CSV file in UTF-8, header first, each with as many cells as the header; an empty line is [].

    Not pandas, which fills up short rows with blank cells: here they would be unknown labels.

    Raises:
        ValueError: another file than that; names the file and the row.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no CSV file in UTF-8: {error}") from None
    odd = [number for number, row in enumerate(rows, 1) if row and len(row) != len(rows[0])]
    if odd:
        raise ValueError(
            f"{path}: row {odd[0]} has {len(rows[odd[0] - 1])} cells, the header {len(rows[0])} ({len(odd)} such rows)"
        )
    return rows
