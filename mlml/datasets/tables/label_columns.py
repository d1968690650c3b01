"""The columns of a table that are classes, told from others by their names and cells."""

import json
import re
from typing import NamedTuple

import numpy as np

from mlml import labels as lb
from mlml.core.errors import quoted
from mlml.datasets.tables import label_cells
from mlml.datasets.tables.csv_table import Sheet
from mlml.datasets.tables.image_rows import SPLIT, ImageRows

HEADER = "row 1"
_NAMELESS = re.compile(r"(Unnamed: \d+)?")  # pandas' name for a column without one
_LISTS = "labels"  # the usual column of lists
_SEPARATOR = re.compile(r"[;|,\[{]")  # what cells with lists have
_SHOWN = 10  # columns named in a remedy

Faults = list[tuple[str, str]]


class Cells(NamedTuple):
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

    @property
    def filled(self) -> np.ndarray:
        """The number of cells of each column that are not blank, int64 [C]."""
        return len(self.codes) - lb.count(self.codes, label_cells.BLANK, axis=0)


def class_columns(sheet: Sheet, image_column: str, classes: list[str] | None, ignore: list[str]) -> list[str]:
    """The names of the columns that are classes, or may be.

    Raises:
        ValueError: there are none, one is there twice, or one that an option names is not there.
    """
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
    return names


def parse(sheet: Sheet, rows: ImageRows, names: list[str], all_columns: bool) -> Cells:
    """Parse the table row by row; adds each to `rows`.

    Args:
        all_columns: whether all columns that may be classes are `names`; those without a name may have labels, too.
    """
    nameless = [i for i, name in enumerate(sheet.columns) if all_columns and _NAMELESS.fullmatch(name)]
    columns = [*map(sheet.columns.index, names), *nameless]
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
    return Cells(columns, [sheet.columns[i] for i in columns], matrix, bad)


def judge(cells: Cells, ignore: list[str]) -> tuple[list[int], Faults]:
    """Tell the columns that are classes from those that are none by their cells.

    Returns:
        which columns are classes, and the faults.
    """
    bad, filled = lb.count(cells.codes, label_cells.BAD, axis=0), cells.filled
    nameless = np.array([bool(_NAMELESS.fullmatch(name)) for name in cells.names])
    strange = ~nameless & (2 * bad > filled)
    faults = [
        (HEADER, f"column {cells.columns[i] + 1} has labels, but no name; name or remove it")
        for i in np.flatnonzero(nameless & (filled > 0) & (bad == 0))
    ]
    if strange.any():
        faults.append((HEADER, _no_labels(cells, np.flatnonzero(strange).tolist(), (strange | nameless).all(), ignore)))
    left_out = nameless | strange
    faults += bad_cells(cells._replace(bad=[bad for bad in cells.bad if not left_out[bad[1]]]))
    return np.flatnonzero(~left_out).tolist(), faults


def bad_cells(cells: Cells) -> Faults:
    """A fault for each cell that is no label."""
    return [
        (place, f"class {quoted(cells.names[i])}: {quoted(cell)} is not {label_cells.ALLOWED}")
        for place, i, cell in cells.bad
    ]


def without(names: list[str], ignore: list[str]) -> str:
    """The option that leaves columns out beside those in `ignore`, for a message."""
    if len(names) > _SHOWN:
        return "images.options.classes, with the columns that are classes"
    return f"images.options.ignore: {json.dumps([*ignore, *names], ensure_ascii=False)}"  # YAML, too


def _no_labels(cells: Cells, strange: list[int], no_others: bool, ignore: list[str]) -> str:
    """What is wrong with columns whose cells are no labels, and what to do about it."""
    first: dict[int, tuple[str, str]] = {}
    for place, i, cell in cells.bad:
        first.setdefault(i, (place, cell))
    place, cell = first[strange[0]]
    example = f"{cells.names[strange[0]]!r} {quoted(cell)} ({place})"
    remedies = [f"write {label_cells.ALLOWED}"]
    if not no_others:
        remedies.append(f"if they are no classes, set {without([cells.names[i] for i in strange], ignore)}")
    texts = [i for i in strange if any(map(str.isalpha, first[i][1]))]
    lists = [i for i in texts if cells.names[i] == _LISTS or _SEPARATOR.search(first[i][1])]
    if lists or (texts and no_others):
        name = cells.names[(lists or texts)[0]]
        option = "" if name == _LISTS else f" and images.options.column: {json.dumps(name, ensure_ascii=False)}"
        remedies.append(f"if {name!r} lists the classes of an image, set images.reader: lists{option}")
    return f"most cells of {len(strange)} columns are no labels, as in {example}; {', or '.join(remedies)}"
