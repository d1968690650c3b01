"""A user's own images with a table of label lists: one row an image, its labels in one cell, as ``cat;dog``.

The table has the columns ``image`` (path below the folder), ``labels`` and, if wanted, ``split`` (train, val, test).
What a list says about the classes that are not in it cannot be seen from the table and must be said in the options.
"""

import logging
from array import array
from pathlib import Path

import numpy as np

from mlml import labels as lb
from mlml.datasets.csv_table import Sheet, open_sheet
from mlml.datasets.source import Source
from mlml.datasets.user_folder import STATES, Classes, Given, State, Text, below, source

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
        folder: the data set's own folder.
        archives: unused.
        unlisted: what a class is that an image's lists don't name.
        labels: name of the table.
        column: the column with the names of the classes that are present, in any order.
        separator: what stands between two names.
        absent_column: the column with the names of the classes that are known to be absent.
        classes: the names of all classes; None: all names that occur, sorted.
        upright: whether pictures are turned as their EXIF orientation says.

    Raises:
        ValueError: the file is missing or wrong; one line a fault, all faults together.
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
        given = _parse(path, sheet, lists, separator, classes, unlisted)
    return source(given._replace(root=folder), upright)


class _Names:
    """The classes by number, in the order in which they come up, and which of them are listed for which row."""

    def __init__(self, classes: list[str] | None) -> None:
        self.fixed = classes
        self.numbers = {name: number for number, name in enumerate(dict.fromkeys(classes or []))}
        self.listed = {state: (array("q"), array("q")) for state in STATES}  # rows, numbers: no object a label

    def add(self, row: int, state: str, names: list[str]) -> list[str]:
        """Note what is listed for a row; returns what is wrong with it."""
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
) -> Given:
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
        found = {state: _split(row[at[name]], separator) for state, name in lists.items()}
        for state, listed in found.items():
            faults += [(place, text) for text in names.add(len(images), state, listed)]
        both = [name for name in found["present"] if name in found.get("absent", ())]
        faults += [(place, f"{name!r} is in both lists, present and absent") for name in both]
        images.append(row[at["image"]].strip())
        split.append(row[at["split"]] if "split" in at else "")
        places.append(place)
    if not names.numbers and not faults:
        raise ValueError(f"{path}: no row lists a class in the column {', '.join(lists.values())}")
    known, matrix = names.matrix(len(images), unlisted)
    return Given(path, known, images, split if "split" in at else None, matrix, places, faults, path.parent)


def _split(cell: str, separator: str) -> list[str]:
    """The names in a cell, each once."""
    return list(dict.fromkeys(name for part in cell.split(separator) if (name := part.strip())))
