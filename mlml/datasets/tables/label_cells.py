"""The cells that say whether a label is present: 1, 0, blank, and -1, whose meaning options must say."""

import numpy as np
import numpy.typing as npt

from mlml import labels as lb
from mlml.core.errors import quoted
from mlml.datasets.tables.csv_table import Sheet
from mlml.datasets.user_folder import STATES, State

ONE, ZERO, BLANK, MINUS_ONE, BAD = range(5)  # codes of cells
_CODES = {
    **dict.fromkeys(("1", "1.0", "1,0", "+1", "True", "true", "TRUE"), ONE),
    **dict.fromkeys(("0", "0.0", "0,0", "-0.0", "False", "false", "FALSE"), ZERO),
    **dict.fromkeys(("", "nan", "NaN", "NAN", "NA", "N/A", "null"), BLANK),
    **dict.fromkeys(("-1", "-1.0", "-1,0"), MINUS_ONE),
}
ALLOWED = "1, 0, -1 or blank"
ASK = (
    "there are -1 cells, so say what 0 and -1 mean: images.options.zero and images.options.minus_one of dataset.yaml, "
    "each absent or unknown"
)


def codes(cells: list[str]) -> bytes:
    """The code of each cell; `BAD` for one that is not `ALLOWED`."""
    try:
        return bytes(map(_CODES.__getitem__, cells))
    except KeyError:
        return bytes([_CODES.get(cell.strip(), BAD) for cell in cells])


def meaning(zero: State | None, minus_one: State | None, blank: State = "unknown") -> npt.NDArray[np.int8]:
    """The label of each code, int8 [5]: PRESENT, ABSENT or UNKNOWN. Without -1 in a table, 0 means absent."""
    states = (STATES[zero or "absent"], STATES[blank], STATES[minus_one or "absent"])
    return np.array([lb.PRESENT, *states, lb.UNKNOWN], np.int8)


class ValueColumn:
    """The column of a table that says whether a row's classes are present.

    Args:
        column: its name; None: there is none.
        zero, minus_one: as in `meaning`.
    """

    def __init__(self, sheet: Sheet, column: str | None, zero: State | None, minus_one: State | None) -> None:
        self._at = sheet.columns.index(column) if column else None
        self._labels = meaning(zero, minus_one).tolist()
        self._ask = zero is None or minus_one is None

    def parse(self, row: list[str]) -> tuple[int | None, list[str]]:
        """The label that a row gives, None if there is no such column; and the faults."""
        if self._at is None:
            return None, []
        code = codes([row[self._at]])[0]
        faults = [f"the value {quoted(row[self._at])} is not {ALLOWED}"] if code == BAD else []
        if code == MINUS_ONE and self._ask:
            self._ask = False  # once is enough
            faults = [ASK]
        return self._labels[code], faults
