"""A user's images with a table of labels: one row per image, one column per class.

``labels.csv`` has a column ``image`` (path below the folder), an optional column ``split`` (train, val, test), and one
column per class; a cell is 1, 0 or blank. Some tables also have -1. Authors then differ in what it and 0 mean, so the
options must say.
"""

from pathlib import Path

import numpy as np

from mlml import labels as lb
from mlml.datasets.csv_table import open_sheet
from mlml.datasets.source import Source
from mlml.datasets.user_folder import STATES, RawTable, State, below, source

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
        folder: the data set's folder.
        archives: unused.
        labels: name of the table.
        zero, minus_one: meaning of the cells 0 and -1; without -1, 0 means absent.
        blank: meaning of an empty cell.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: the file is missing or wrong; one line per fault, all faults together.
    """
    raw = _parse(below(folder, labels, "labels"), folder)
    faults = [*raw.faults]
    if (zero is None or minus_one is None) and lb.count(raw.labels, _MINUS_ONE, axis=0).any():
        row, column = lb.first(raw.labels == _MINUS_ONE)
        text = (
            f"class {raw.classes[column]!r}: there are -1 cells, so say what 0 and -1 mean: images.options.zero "
            "and images.options.minus_one of dataset.yaml, each absent or unknown"
        )
        faults.append((raw.places[row], text))
    meaning = np.array([lb.PRESENT, STATES[zero or "absent"], STATES[blank], STATES[minus_one or "absent"], lb.UNKNOWN])
    for part in lb.chunks(raw.labels):  # in place
        part[:] = meaning[part]
    return source(raw._replace(faults=faults), upright)


def _parse(path: Path, folder: Path) -> RawTable:
    """Parse the table; `labels` holds the codes of the cells."""
    images, split, places = [], [], []
    codes = bytearray()  # grows in place: a list of rows would need the memory twice while it becomes one array
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
            row_codes, bad = _codes([row[i] for i in columns], classes)
            faults += [(place, text) for text in bad]
            codes += row_codes
            images.append(row[at["image"]].strip())
            split.append(row[at["split"]] if "split" in at else "")
            places.append(place)
    matrix = np.frombuffer(codes, np.int8).reshape(len(images), len(classes))
    return RawTable(path, classes, images, split if "split" in at else None, matrix, places, faults, folder)


def _codes(cells: list[str], classes: tuple[str, ...]) -> tuple[bytes, list[str]]:
    """The code of each cell, and the faults."""
    try:
        return bytes(map(_CELLS.__getitem__, cells)), []
    except KeyError:
        codes = [_CELLS.get(cell.strip(), _BAD) for cell in cells]
    bad = [i for i, code in enumerate(codes) if code == _BAD]
    return bytes(codes), [f"class {classes[i]!r}: {cells[i]!r} is not 1, 0, -1 or blank" for i in bad]
