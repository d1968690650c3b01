"""A user's own images with a table of labels: one row an image, one column a class.

``labels.csv`` has a column ``image`` (path below the folder), if wanted a column ``split`` (train, val, test), and one
column a class; a cell is 1, 0 or blank. Some tables have -1, too: what it and 0 mean then differs from one author to
the next, so it must be said in the options.
"""

from pathlib import Path

import numpy as np

from mlml import labels as lb
from mlml.datasets.csv_table import open_sheet
from mlml.datasets.source import Source
from mlml.datasets.user_folder import STATES, Given, State, below, source

_ONE, _ZERO, _BLANK, _MINUS_ONE = 0, 1, 2, 3
_CELLS = {
    **dict.fromkeys(("1", "1.0", "+1", "True", "true", "TRUE"), _ONE),
    **dict.fromkeys(("0", "0.0", "-0.0", "False", "false", "FALSE"), _ZERO),
    **dict.fromkeys(("", "nan", "NaN", "NAN", "NA", "N/A", "null"), _BLANK),
    **dict.fromkeys(("-1", "-1.0"), _MINUS_ONE),
}
_BAD = 4


def read(
    folder: Path,
    archives: Path,
    *,
    labels: str = "labels.csv",
    zero: State | None = None,
    minus_one: State | None = None,
    blank: State = "unknown",
    upright: bool = True,
) -> Source:
    """Read a table of labels in `folder`; rows are sorted by image.

    Args:
        folder: the data set's own folder.
        archives: unused.
        labels: name of the table.
        zero, minus_one: what the cells 0 and -1 mean; in a table without -1, 0 is absent.
        blank: what a cell without a value means.
        upright: whether pictures are turned as their EXIF orientation says.

    Raises:
        ValueError: the file is missing or wrong; one line a fault, all faults together.
    """
    given = _parse(below(folder, labels, "labels"), folder)
    faults = [*given.faults]
    if (zero is None or minus_one is None) and lb.count(given.labels, _MINUS_ONE, axis=0).any():
        row, column = lb.first(given.labels == _MINUS_ONE)
        text = (
            f"class {given.classes[column]!r}: there are -1 cells, so say what 0 and -1 mean: images.options.zero "
            "and images.options.minus_one of dataset.yaml, each absent or unknown"
        )
        faults.append((given.places[row], text))
    meaning = np.array([lb.PRESENT, STATES[zero or "absent"], STATES[blank], STATES[minus_one or "absent"], lb.UNKNOWN])
    for part in lb.chunks(given.labels):  # in place
        part[:] = meaning[part]
    return source(given._replace(faults=faults), upright)


def _parse(path: Path, folder: Path) -> Given:
    """The table; its `labels` are still the codes of the cells."""
    images, split, places = [], [], []
    codes = bytearray()  # grows in place; rows in a list would need the memory twice when they become one array
    faults = []
    with open_sheet(path, ["image"]) as sheet:
        at = {name: i for i, name in enumerate(sheet.columns)}
        columns = [i for name, i in at.items() if name not in ("image", "split")]
        classes = tuple(sheet.columns[i] for i in columns)
        if not classes:
            raise ValueError(f"{path}: there must be a column for each class beside {', '.join(sheet.columns)}")
        for number, row in sheet.rows:
            place = f"row {number}"
            if len(row) != len(at):
                faults.append((place, f"{len(row)} cells, the header has {len(at)}"))
                row = (row + [""] * len(at))[: len(at)]
            found, bad = _codes([row[i] for i in columns], classes)
            faults += [(place, text) for text in bad]
            codes += found
            images.append(row[at["image"]].strip())
            split.append(row[at["split"]] if "split" in at else "")
            places.append(place)
    matrix = np.frombuffer(codes, np.int8).reshape(len(images), len(classes))
    return Given(path, classes, images, split if "split" in at else None, matrix, places, faults, folder)


def _codes(cells: list[str], classes: tuple[str, ...]) -> tuple[bytes, list[str]]:
    """A code for each cell, and what is wrong with them."""
    try:
        return bytes(map(_CELLS.__getitem__, cells)), []
    except KeyError:
        codes = [_CELLS.get(cell.strip(), _BAD) for cell in cells]
    bad = [i for i, code in enumerate(codes) if code == _BAD]
    return bytes(codes), [f"class {classes[i]!r}: {cells[i]!r} is not 1, 0, -1 or blank" for i in bad]
