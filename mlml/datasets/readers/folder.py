"""A user's images with a table of labels: one row per image, one column per class.

``labels.csv`` has a column ``image`` (path below the folder), an optional column ``split`` (train, val, test), and one
column per class; a cell is 1, 0 or blank. Some tables also have -1. Authors then differ in what it and 0 mean, so the
options must say.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mlml import labels as lb
from mlml.core.errors import quoted, raise_errors
from mlml.datasets.source import Source
from mlml.datasets.tables import label_cells
from mlml.datasets.class_names import check_option, name_faults
from mlml.datasets.tables.csv_table import Sheet, open_sheet
from mlml.datasets.tables.image_rows import IMAGE, SPLIT, ImageRows, Template
from mlml.datasets.user_folder import Classes, RawTable, State, Text, below, source

_HEADER = "row 1"
_NAMELESS = re.compile(r"(Unnamed: \d+)?")  # pandas' name for a column without one
_AGAIN = "an image has one row: merge them"
_LISTED = 10  # columns named in a remedy


def read(
    folder: Path,
    archives: Path,
    *,
    labels: str = "labels.csv",
    image_column: Text = IMAGE,
    image_path: Template = "{}",
    classes: Classes | None = None,
    ignore: Classes | None = None,
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
        image_column: the column that names the images.
        image_path: the path of an image's file below `folder`, with ``{}`` for the cell of that column.
        classes: the columns that are classes, in the order wanted; None: all but image, split and `ignore`.
        ignore: columns that are no classes.
        zero, minus_one: meaning of the cells 0 and -1; without -1, 0 means absent.
        blank: meaning of an empty cell.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: the file is missing or wrong; one line per fault, all faults together.
    """
    check_option(classes or [], "classes")
    check_option(ignore or [], "ignore")
    name, uses = Counter([image_column, SPLIT, *(classes or []), *(ignore or [])]).most_common(1)[0]
    if uses > 1:
        raise ValueError(f"images.options: {name!r} is more than one of image_column, {SPLIT}, classes and ignore")
    with open_sheet(below(folder, labels, "labels"), [image_column], ["image_column"]) as sheet:
        columns = _class_columns(sheet, image_column, classes, ignore or [])
        rows = ImageRows(sheet, image_column, image_path, _AGAIN)
        cells = _parse(sheet, rows, columns)
    kept, faults = _judge(cells, ignore or []) if classes is None else (list(range(len(columns))), _bad(cells))
    matrix = cells.codes if len(kept) == len(columns) else cells.codes[:, kept]
    names = tuple(cells.names[i] for i in kept)
    if (zero is None or minus_one is None) and lb.count(matrix, label_cells.MINUS_ONE, axis=0).any():
        row, column = lb.first(matrix == label_cells.MINUS_ONE)
        faults.append((rows.places[row], f"class {quoted(names[column])}: {label_cells.ASK}"))
    meaning = label_cells.meaning(zero, minus_one, blank)
    for part in lb.chunks(matrix):  # in place
        part[:] = meaning[part]
    split = rows.split if rows.has_split else None
    faults = [*rows.faults, *faults]
    return source(RawTable(sheet.path, names, rows.images, split, matrix, rows.places, faults, folder), upright)


class _Cells(NamedTuple):
    """The cells of C columns of labels.

    Attributes:
        columns: their positions in the table.
        names: their names.
        codes: int8 [n, C], as in `label_cells`.
        bad: (place, number of the column, text) of the cells that are no labels.
    """

    columns: list[int]
    names: list[str]
    codes: lb.Labels
    bad: list[tuple[str, int, str]]


def _class_columns(sheet: Sheet, image_column: str, classes: list[str] | None, ignore: list[str]) -> list[int]:
    """The positions of the columns that are classes, in order, or may be: those without a name."""
    for option, names in (("classes", classes or []), ("ignore", ignore)):
        absent = [name for name in names if name not in sheet.columns]
        if absent:
            raise ValueError(f"images.options.{option}: {sheet.path} has no column {quoted(absent[0])}")
    others = {image_column, SPLIT, *ignore}
    names = classes or [name for name in sheet.columns if name not in others and not _NAMELESS.fullmatch(name)]
    if not names:
        found = quoted(", ".join(sheet.columns))
        raise ValueError(f"{sheet.path}: there must be a column for each class beside {found}")
    for name in names:
        if sheet.columns.count(name) > 1:
            raise ValueError(f"{sheet.path}: each column must have a name of its own, not {quoted(name)}")
    faults = [f"{_HEADER}: {fault}" for _, fault in name_faults(names)]
    raise_errors(f"{sheet.path}: faults: {len(faults)}", faults)
    if classes:
        return [sheet.columns.index(name) for name in classes]
    return [i for i, name in enumerate(sheet.columns) if name not in others]


def _parse(sheet: Sheet, rows: ImageRows, columns: list[int]) -> _Cells:
    """Parse the table row by row; adds each to `rows`."""
    codes = bytearray()  # grows in place: a list of rows would need the memory twice while it becomes one array
    bad = []
    for number, row in sheet.rows:
        if rows.add(number, row) is None:
            continue
        cells = [row[i] for i in columns]
        row_codes = label_cells.codes(cells)
        codes += row_codes
        if label_cells.BAD in row_codes:
            bad += [(f"row {number}", i, cells[i]) for i, code in enumerate(row_codes) if code == label_cells.BAD]
    matrix = np.frombuffer(codes, np.int8).reshape(len(rows.images), len(columns))
    return _Cells(columns, [sheet.columns[i] for i in columns], matrix, bad)


def _judge(cells: _Cells, ignore: list[str]) -> tuple[list[int], list[tuple[str, str]]]:
    """Tell the columns that are classes from those that are none by their cells.

    Returns:
        which columns are classes, and the faults.
    """
    bad = lb.count(cells.codes, label_cells.BAD, axis=0)
    filled = len(cells.codes) - lb.count(cells.codes, label_cells.BLANK, axis=0)
    nameless = np.array([bool(_NAMELESS.fullmatch(name)) for name in cells.names])
    strange = np.flatnonzero(~nameless & (2 * bad > filled)).tolist()
    faults = [
        (_HEADER, f"column {cells.columns[i] + 1} has labels, but no name; name or remove it")
        for i in np.flatnonzero(nameless & (filled > 0) & (bad == 0))
    ]
    if strange:
        place, _, cell = next(bad for bad in cells.bad if bad[1] == strange[0])
        example = f"{cells.names[strange[0]]!r} {quoted(cell)} ({place})"
        all_ignored = json.dumps([*ignore, *(cells.names[i] for i in strange)], ensure_ascii=False)  # YAML, too
        remedy = f"ignore: {all_ignored}" if len(strange) <= _LISTED else "classes, with the columns that are classes"
        what = f"most cells of {len(strange)} columns are no labels, as in {example}"
        text = f"{what}; write {label_cells.ALLOWED}, or if they are no classes, set images.options.{remedy}"
        faults.append((_HEADER, text))
    left_out = nameless.copy()
    left_out[strange] = True
    faults += _bad(cells._replace(bad=[bad for bad in cells.bad if not left_out[bad[1]]]))
    return np.flatnonzero(~left_out).tolist(), faults


def _bad(cells: _Cells) -> list[tuple[str, str]]:
    return [
        (place, f"class {quoted(cells.names[i])}: {quoted(cell)} is not {label_cells.ALLOWED}")
        for place, i, cell in cells.bad
    ]
