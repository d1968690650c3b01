"""Columns that are not read although they may have labels."""

import re

from mlml.core.errors import quoted
from mlml.datasets.tables.csv_table import Sheet
from mlml.datasets.tables.image_rows import SPLIT
from mlml.datasets.tables.label_cells import MINUS_ONE, ZERO, codes

_NUMBER = re.compile(r"[\d.,]+")
_VALUES = ("confidence", "value", "present")  # names of columns that rather say whether a label is present


class UnreadColumns:
    """The columns of a table that a reader does not read.

    Args:
        columns: the columns that are read, by the options that name them.
    """

    def __init__(self, sheet: Sheet, columns: dict[str, str]) -> None:
        names = {i: name for i, name in enumerate(sheet.columns) if name not in {SPLIT, *columns.values()}}
        self._named = [name for name in names.values() if name]
        self._nameless = [i for i, name in names.items() if not name]
        self._values = {i: name for i, name in names.items() if name.casefold() in _VALUES}
        if "value_column" in columns:
            self._values = {}

    def faults(self, row: list[str]) -> list[str]:
        """Faults of a row that rather has labels in columns that are not read."""
        texts = [
            f"{quoted(row[i])} stands in column {i + 1}, which has no name; name it, or remove what is in it"
            for i in self._nameless
            if row[i].strip() and not _NUMBER.fullmatch(row[i].strip())
        ]
        for i, name in list(self._values.items()):
            if codes([row[i]])[0] in (ZERO, MINUS_ONE):
                remedy = f"images.options.value_column: {name}, or rename the column if it says something else"
                texts.append(f"the column {name!r} has {row[i]!r} here, and is not read; set {remedy}")
                del self._values[i]  # once is enough
        return texts

    def notes(self) -> list[str]:
        """A remark on the columns with a name."""
        return [f"columns that are not read: {quoted(', '.join(self._named))}"] if self._named else []
