"""A user's images with a table of label lists: one row per image, its labels in one cell, as ``cat;dog``.

The table has the columns ``image`` (path below the folder), ``labels`` and optionally ``split`` (train, val, test). It
does not tell whether unlisted classes are absent or unknown, so an option must. With ``rows: label`` an image has a row
for each label, as in Open Images.
"""

from pathlib import Path
from typing import Literal

from mlml import labels as lb
from mlml.datasets.class_names import check_option
from mlml.datasets.source import Source
from mlml.datasets.tables import name_lists
from mlml.datasets.tables.csv_table import Sheet, open_sheet
from mlml.datasets.tables.image_rows import IMAGE, SPLIT, ImageRows, Template
from mlml.datasets.tables.label_cells import ValueColumn
from mlml.datasets.tables.listed_labels import ListedLabels
from mlml.datasets.tables.unread_columns import UnreadColumns
from mlml.datasets.user_folder import STATES, Classes, RawTable, State, Text, below, source

_AGAIN = "merge the rows, or set images.options.rows: label if a row is one label of an image"


def read(
    folder: Path,
    archives: Path,
    *,
    unlisted: State,
    labels: str = "labels.csv",
    image_column: Text = IMAGE,
    image_path: Template = "{}",
    column: Text = "labels",
    separator: Text = ";",
    absent_column: Text | None = None,
    rows: Literal["image", "label"] = "image",
    value_column: Text | None = None,
    zero: State | None = None,
    minus_one: State | None = None,
    none: Text | None = None,
    classes: Classes | None = None,
    upright: bool = True,
) -> Source:
    """Read a table of label lists in `folder`; rows are sorted by image.

    Args:
        folder: the data set's folder.
        archives: unused.
        unlisted: state of a class that an image's lists do not name.
        labels: name of the table.
        image_column: the column that names the images.
        image_path: the path of an image's file below `folder`, with ``{}`` for the cell of that column.
        column: the column that lists the present classes, in any order.
        separator: the text between two names. JSON's and Python's lists of strings are read as well.
        absent_column: the column that lists the absent classes.
        rows: what a row is: an image; or a label, so that an image may be in several rows.
        value_column: the column that says whether a row's classes are present: 1, 0, -1 or blank (unknown).
        zero, minus_one: meaning of 0 and -1 in `value_column`; without -1, 0 means absent.
        none: the word in place of a list that says that all classes are absent, whatever `unlisted` is.
        classes: the names of all classes; None: all names that occur, sorted.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: the file is missing or wrong; one line per fault, all faults together.
    """
    lists = {"column": column} | ({"absent_column": absent_column} if absent_column else {})
    columns = {"image_column": image_column, **lists, **({"value_column": value_column} if value_column else {})}
    _check(columns, zero or minus_one, none, classes)
    faults: list[tuple[str, str]] = []
    with open_sheet(below(folder, labels, "labels"), list(columns.values()), list(columns)) as sheet:
        images = ImageRows(sheet, image_column, image_path, _AGAIN if rows == "image" else None)
        parser = _Parser(sheet, columns, separator, none, classes)
        values, unread = ValueColumn(sheet, value_column, zero, minus_one), UnreadColumns(sheet, columns)
        for number, row in sheet.rows:
            image = images.add(number, row)
            if image is not None:
                label, texts = values.parse(row)
                texts += [*unread.faults(row), *parser.add(image, number, row, label)]
                faults += [(f"row {number}", text) for text in texts]
    listed = parser.listed
    faults += [*images.faults, *listed.contradictions()]
    faults += [(listed.first[name], text) for name, text in name_lists.suspicious(listed.first, separator)]
    if classes is None and not listed.first and not faults:
        raise ValueError(f"{sheet.path}: no row lists a class in the column {', '.join(lists.values())}")
    names, matrix = listed.matrix(len(images.images), STATES[unlisted])
    notes = unread.notes()
    if none and not listed.none:
        notes.append(f"no image lists {none!r} (images.options.none)")
    if rows == "image" and not parser.several and len(names) > 1:
        notes.append(f"no image lists more than one class; images.options.separator is {separator!r}")
    notes = [f"{sheet.path}: {note}" for note in notes]
    split = images.split if images.has_split else None
    raw = RawTable(
        sheet.path, names, images.images, split, matrix, images.places, faults, folder, tuple(notes), listed.first
    )
    return source(raw, upright)


def _check(columns: dict[str, str], values: State | None, none: str | None, classes: list[str] | None) -> None:
    """Check that the options of `read` fit together."""
    if len({SPLIT, *columns.values()}) < 1 + len(columns):
        raise ValueError(f"images.options: {', '.join(columns)} must be different columns, and none of them {SPLIT}")
    if {"absent_column", "value_column"} <= set(columns):
        raise ValueError("images.options: absent_column and value_column exclude each other")
    if values and "value_column" not in columns:
        raise ValueError("images.options: zero and minus_one are of use with value_column only")
    check_option(classes or [], "classes")
    if none in (classes or []):
        raise ValueError(f"images.options.none: {none!r} is among images.options.classes; it must be no class")


class _Parser:
    """Collects what the rows list; options as in `read`.

    Args:
        columns: the columns that are read, by the options that name them.

    Attributes:
        several: whether a row lists more than one class.
    """

    def __init__(
        self, sheet: Sheet, columns: dict[str, str], separator: str, none: str | None, classes: list[str] | None
    ) -> None:
        options = {lb.PRESENT: "column", lb.ABSENT: "absent_column"}
        self._lists = {label: sheet.columns.index(columns[key]) for label, key in options.items() if key in columns}
        self._separator, self._none, self._classes = separator, none, classes
        self.listed = ListedLabels(classes)
        self.several = False

    def add(self, image: int, number: int, row: list[str], value: int | None) -> list[str]:
        """Add what a row lists for an image; `value` is the label of all of it, if not None. Returns the faults."""
        faults = []
        for label, at in self._lists.items():
            label = label if value is None else value
            try:
                names = name_lists.split(row[at], self._separator, self._classes or ())
            except ValueError as error:
                faults.append(str(error))
                continue
            self.several |= len(names) > 1
            if self._none not in names:
                faults += self.listed.add(image, number, label, names)
            elif names == [self._none] and label == lb.PRESENT:
                self.listed.none[image] = number
            else:
                faults.append(f"{self._none!r} says that no class is present: it must stand alone, as present")
        return faults
