"""A user's images with a table of label lists: one row per image, its labels in one cell, as ``cat;dog``.

The table has the columns ``image`` (path below the folder), ``labels`` and optionally ``split`` (train, val, test). It
does not tell whether unlisted classes are absent or unknown, so an option must. With ``rows: label`` an image has a row
for each label, as in Open Images.
"""

import re
from pathlib import Path
from typing import Literal

from mlml.datasets import label_cells, name_lists
from mlml.datasets.class_names import check_option, name_fault, twins
from mlml.datasets.csv_table import Sheet, open_sheet
from mlml.datasets.image_rows import IMAGE, SPLIT, ImageRows, Template, in_order
from mlml.datasets.listed_labels import AnyState, ListedLabels
from mlml.datasets.source import Source
from mlml.datasets.text_file import quoted
from mlml.datasets.user_folder import Classes, RawTable, State, Text, below, source

_AGAIN = "merge the rows, or set images.options.rows: label if a row is one label of an image"
_NUMBER = re.compile(r"[\d.,]+")
_SHOWN = 10  # columns named in a remark
_VALUES = ("confidence", "value", "present")  # names of columns that rather say whether a label is present


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
    value = {"value_column": value_column} if value_column else {}
    columns = {"image_column": image_column, **lists, **value}
    _check(columns, zero or minus_one, none, classes)
    states: dict[int, AnyState] = {
        label_cells.ONE: "present",
        label_cells.ZERO: zero or "absent",
        label_cells.BLANK: "unknown",
        **({label_cells.MINUS_ONE: minus_one} if zero and minus_one else {}),
    }
    with open_sheet(below(folder, labels, "labels"), list(columns.values()), list(columns)) as sheet:
        images = ImageRows(sheet, image_column, image_path, _AGAIN if rows == "image" else None)
        parser = _Parser(sheet, columns, states, separator, none, classes)
        for number, row in sheet.rows:
            image = images.add(number, row)
            if image is not None:
                parser.add(image, number, row)
    faults, notes = parser.close()
    if classes is None and not parser.listed.first and not (images.faults or faults):
        raise ValueError(f"{sheet.path}: no row lists a class in the column {', '.join(lists.values())}")
    names, matrix = parser.listed.matrix(len(images.images), unlisted)
    if rows == "image" and not parser.several and len(names) > 1:
        notes.append(f"{sheet.path}: no image lists more than one class; images.options.separator is {separator!r}")
    split = images.split if images.has_split else None
    faults = in_order([*images.faults, *faults])
    raw = RawTable(sheet.path, names, images.images, split, matrix, images.places, faults, folder, tuple(notes))
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
    """Collects what the rows list.

    Args:
        sheet: the table.
        columns: its columns that are read, by the options that name them.
        states: the meaning of the codes of values; without `MINUS_ONE` it has not been said.
        separator, none, classes: as in `read`.
    """

    def __init__(
        self,
        sheet: Sheet,
        columns: dict[str, str],
        states: dict[int, AnyState],
        separator: str,
        none: str | None,
        classes: list[str] | None,
    ) -> None:
        at = {option: sheet.columns.index(name) for option, name in columns.items()}
        self._lists: dict[AnyState, int] = {"present": at["column"]}
        if "absent_column" in at:
            self._lists["absent"] = at["absent_column"]
        self._value = at.get("value_column")
        unread = [(i, name) for i, name in enumerate(sheet.columns) if i not in at.values() and name != SPLIT]
        self._unread = [name for _, name in unread if name]
        self._nameless = [i for i, name in unread if not name]
        self._forgotten = {i: name for i, name in unread if name.casefold() in _VALUES and self._value is None}
        self._path, self._states, self._separator = sheet.path, states, separator
        self._none, self._classes = none, classes
        self._faults: list[tuple[str, str]] = []
        self._asked = False
        self.listed = ListedLabels(classes)
        self.several = False

    def add(self, image: int, number: int, row: list[str]) -> None:
        """Add what a row lists for an image."""
        texts = self._unread_faults(row) if self._nameless or self._forgotten else []
        state = self._state(row, texts)
        for said, at in self._lists.items():
            try:
                names = name_lists.split(row[at], self._separator, self._classes or ())
            except ValueError as error:
                texts.append(str(error))
                continue
            self.several |= len(names) > 1
            if self._none not in names:
                texts += self.listed.add(image, number, state or said, names)
            elif names == [self._none] and (state or said) == "present":
                self.listed.add_none(image, number)
            else:
                texts.append(f"{self._none!r} says that no class is present: it must stand alone, as present")
        self._faults += [(f"row {number}", text) for text in texts]

    def close(self) -> tuple[list[tuple[str, str]], list[str]]:
        """The faults (place, message) of all rows, and remarks."""
        faults = [*self._faults, *self.listed.contradictions()]
        notes: list[str] = []
        first = self.listed.first
        if first:
            faults += [(place, text) for name, place in first.items() if (text := name_fault(name))]
            faults += [(first[other], f"{one!a} and {other!a} look the same; write one") for one, other in twins(first)]
            suspected, notes = name_lists.suspicious(first, self._separator)
            faults += suspected
        if self._none and not self.listed.said_none:
            notes.append(f"no image lists {self._none!r} (images.options.none)")
        if self._unread:
            more = f" and {len(self._unread) - _SHOWN} more" if len(self._unread) > _SHOWN else ""
            notes.append(f"columns that are not read: {', '.join(map(quoted, self._unread[:_SHOWN]))}{more}")
        return faults, [f"{self._path}: {note}" for note in notes]

    def _state(self, row: list[str], texts: list[str]) -> AnyState | None:
        """What the value of a row says about the classes that it lists; None if there is no such column."""
        if self._value is None:
            return None
        code = label_cells.codes([row[self._value]])[0]
        if code in self._states:
            return self._states[code]
        if code == label_cells.BAD:
            texts.append(f"the value {quoted(row[self._value])} is not {label_cells.ALLOWED}")
        elif not self._asked:
            self._asked = True
            texts.append(label_cells.ASK)
        return "unknown"

    def _unread_faults(self, row: list[str]) -> list[str]:
        """Faults of a row that rather has labels in columns that are not read."""
        texts = [
            f"{quoted(row[i])} stands in column {i + 1}, which has no name; name it, or remove what is in it"
            for i in self._nameless
            if row[i].strip() and not _NUMBER.fullmatch(row[i].strip())
        ]
        for i, name in list(self._forgotten.items()):
            if label_cells.codes([row[i]])[0] in (label_cells.ZERO, label_cells.MINUS_ONE):
                remedy = f"images.options.value_column: {name}, or rename the column if it says something else"
                texts.append(f"the column {name!r} has {row[i]!r} here, and is not read; set {remedy}")
                del self._forgotten[i]
        return texts
