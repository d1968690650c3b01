"""Reads a user's CSV file row by row, as spreadsheets and programs save it."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

DELIMITERS = (",", ";", "\t")


class Sheet(NamedTuple):
    """An open table.

    Attributes:
        columns: the names in the first row, stripped, each different.
        delimiter: one of `DELIMITERS`.
        rows: (number, cells) of each further row that is not blank. The header is row 1. There may be more or fewer
            cells than columns.
    """

    columns: tuple[str, ...]
    delimiter: str
    rows: Iterator[tuple[int, list[str]]]


@contextmanager
def open_sheet(path: Path, needed: Sequence[str]) -> Iterator[Sheet]:
    """Open a CSV file in UTF-8: with or without a byte order mark, any line ends, commas, semicolons or tabs.

    Args:
        needed: required columns; the delimiter is the one that yields them in the first row.

    Raises:
        ValueError: no such file, another encoding or form, a column that is missing, nameless or duplicate; also
            while the block reads rows.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            columns, delimiter = _header(path, file, needed)
            numbered = enumerate(csv.reader(file, delimiter=delimiter, strict=True), 2)
            yield Sheet(columns, delimiter, ((number, row) for number, row in numbered if any(row)))
    except FileNotFoundError:
        raise ValueError(f"{path} is missing; it has the columns {', '.join(needed)}, ...") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no CSV file in UTF-8: {error}") from None


def _header(path: Path, file: Iterator[str], needed: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Read the first row, which may span several lines; returns its names and the delimiter."""
    lines: list[str] = []
    columns: list[str] = []

    def read() -> Iterator[str]:
        yield from lines
        for line in file:
            lines.append(line)
            yield line

    for delimiter in DELIMITERS:
        with suppress(csv.Error):  # a quote is in a wrong place for a wrong delimiter
            columns = [name.strip() for name in next(csv.reader(read(), delimiter=delimiter, strict=True), [])]
        if not set(needed) <= set(columns):
            continue
        times = Counter(columns)
        for name in columns:
            if not name or times[name] > 1:
                raise ValueError(f"{path}: each column must have a name of its own, not {name!r}")
        return tuple(columns), delimiter
    first = (lines or [""])[0].rstrip("\r\n")
    raise ValueError(f"{path}: the first row must name the columns {', '.join(needed)}, ..., not {first[:80]!r}")
