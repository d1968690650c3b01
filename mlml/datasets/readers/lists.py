"""A user's images with a table of label lists: one row per image, its labels in one cell, as ``cat;dog``.

The table has the columns ``image`` (path below the folder), ``labels`` and optionally ``split`` (train, val, test). It
does not tell whether unlisted classes are absent or unknown, so an option must.
"""

import logging
from array import array
from pathlib import Path

import numpy as np

from mlml import labels as lb
from mlml.datasets.csv_table import Sheet, open_sheet
from mlml.datasets.source import Source
from mlml.datasets.user_folder import STATES, Classes, RawTable, State, Text, below, source

logger = logging.getLogger(__name__)


def read(
    folder: Path,
    archives: Path,
    *,
    unlisted: State,
    labels: str = "labels.csv",
    column: Text = "labels",
    separator: Text = ";",
    absent_column: Text | None = None,
    classes: Classes | None = None,
    upright: bool = True,
) -> Source:
    """Read a table of label lists in `folder`; rows are sorted by image.

    Args:
        folder: the data set's folder.
        archives: unused.
        unlisted: state of a class that an image's lists do not name.
        labels: name of the table.
        column: the column that lists the present classes, in any order.
        separator: the text between two names.
        absent_column: the column that lists the absent classes.
        classes: the names of all classes; None: all names that occur, sorted.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: the file is missing or wrong; one line per fault, all faults together.
    """
    path = below(folder, labels, "labels")
    lists = {"present": column, **({"absent": absent_column} if absent_column else {})}
    if len({"image", "split", *lists.values()}) < 2 + len(lists):
        raise ValueError("images.options.column and absent_column must be two columns beside image and split")
    with open_sheet(path, ["image", *lists.values()]) as sheet:
        if sheet.delimiter == separator:
            raise ValueError(
                f"{path}: {separator!r} separates its columns, so images.options.separator must be another sign; "
                "save the table with another one"
            )
        raw = _parse(path, sheet, lists, separator, classes, unlisted)
    return source(raw._replace(root=folder), upright)


class _Names:
    """Numbers the classes as they come up, and collects the numbers listed for each row."""

    def __init__(self, classes: list[str] | None) -> None:
        self.fixed = classes
        self.numbers = {name: number for number, name in enumerate(dict.fromkeys(classes or []))}
        # Rows and numbers; arrays, for there may be millions.
        self.listed = {state: (array("q"), array("q")) for state in STATES}

    def add(self, row: int, state: str, names: list[str]) -> list[str]:
        """Add the names listed for a row; returns the faults."""
        faults = []
        for name in names:
            if self.fixed is not None and name not in self.numbers:
                faults.append(f"{name!r} is not in images.options.classes")
                continue
            rows, numbers = self.listed[state]
            rows.append(row)
            numbers.append(self.numbers.setdefault(name, len(self.numbers)))
        return faults

    def matrix(self, n: int, unlisted: State) -> tuple[tuple[str, ...], lb.Labels]:
        """The classes and the labels int8 [n, L]."""
        classes = tuple(self.fixed or sorted(self.numbers))
        place = {name: i for i, name in enumerate(classes)}
        column = np.array([place[name] for name in self.numbers], np.int64)
        labels = np.full((n, len(classes)), STATES[unlisted], np.int8)
        for state, (rows, numbers) in self.listed.items():
            labels[np.array(rows, np.int64), column[np.array(numbers, np.int64)]] = STATES[state]
        return classes, labels


def _parse(
    path: Path, sheet: Sheet, lists: dict[str, str], separator: str, classes: list[str] | None, unlisted: State
) -> RawTable:
    at = {name: i for i, name in enumerate(sheet.columns)}
    unused = [name for name in at if name not in ("image", "split", *lists.values())]
    if unused:
        logger.warning(f"{path}: not read: {', '.join(unused)}")
    images: list[str] = []
    split, places, faults = [], [], []
    names = _Names(classes)
    for number, row in sheet.rows:
        place = f"row {number}"
        if len(row) != len(at):
            faults.append((place, f"{len(row)} cells, the header has {len(at)}"))
            continue
        listed = {state: _split(row[at[name]], separator) for state, name in lists.items()}
        for state, classes_of_row in listed.items():
            faults += [(place, text) for text in names.add(len(images), state, classes_of_row)]
        both = [name for name in listed["present"] if name in listed.get("absent", ())]
        faults += [(place, f"{name!r} is in both lists, present and absent") for name in both]
        images.append(row[at["image"]].strip())
        split.append(row[at["split"]] if "split" in at else "")
        places.append(place)
    if not names.numbers and not faults:
        raise ValueError(f"{path}: no row lists a class in the column {', '.join(lists.values())}")
    all_classes, matrix = names.matrix(len(images), unlisted)
    return RawTable(path, all_classes, images, split if "split" in at else None, matrix, places, faults, path.parent)


def _split(cell: str, separator: str) -> list[str]:
    """The names in a cell, each once."""
    return list(dict.fromkeys(name for part in cell.split(separator) if (name := part.strip())))
