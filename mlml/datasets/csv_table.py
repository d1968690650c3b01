"""Reads a user's CSV file row by row, as spreadsheets and programs save it."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TextIO

from mlml.datasets.text_file import encoding, quoted, undecodable

DELIMITERS = (",", ";", "\t")
_LONGEST = 2**31 - 1  # characters of a cell
_QUOTE = "a quote is not closed, or one inside of a cell is not doubled"
_IMAGE = re.compile(r"\.(jpe?g|png|webp|gif|bmp|tiff?|ppm|avif|jp2)$", re.IGNORECASE)


class Sheet(NamedTuple):
    """An open table.

    Attributes:
        path: of the file.
        columns: the names in the first row, stripped. The needed ones are there once; others may be blank or repeat.
        delimiter: the sign between two cells.
        rows: (number, cells) of each further row that is not blank. The header is row 1. There may be more or fewer
            cells than columns.
    """

    path: Path
    columns: tuple[str, ...]
    delimiter: str
    rows: Iterator[tuple[int, list[str]]]


@contextmanager
def open_sheet(path: Path, needed: Sequence[str], options: Sequence[str] = ()) -> Iterator[Sheet]:
    """Open a CSV file: UTF-8, or UTF-16 with a byte order mark; any line ends; commas, semicolons or tabs.

    A first line such as ``sep=;``, which tells Excel the delimiter, counts as no row.

    Args:
        needed: required columns; the delimiter is the one that yields them in the first row.
        options: for each of the first of them, the option of the reader that names it, for messages.

    Raises:
        ValueError: no such file, another encoding or form, a needed column that is missing or there twice; also
            while the block reads rows.
    """
    if not path.exists():
        raise ValueError(f"{path} is missing; it has the columns {', '.join(needed)}, ...")
    text = encoding(path)
    limit = csv.field_size_limit(_LONGEST)
    delimiter = ","
    try:
        with path.open(newline="", encoding=text) as file:
            columns, delimiter, lines = _header(path, file, needed, options)
            yield Sheet(path, columns, delimiter, _rows(path, lines, delimiter))
    except UnicodeDecodeError as error:
        where = f"{path}, {undecodable(path, delimiter)}" if text == "utf-8-sig" else f"{path} is damaged: {error}"
        raise ValueError(f"{where}; save the table as CSV in UTF-8") from None
    except csv.Error as error:  # a NUL in the row that is shown in a message, with Python 3.10
        raise ValueError(f"{path} is no CSV file: {error}") from None
    finally:
        csv.field_size_limit(limit)


def _rows(path: Path, lines: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    number = 1
    try:
        for number, row in enumerate(csv.reader(lines, delimiter=delimiter, strict=True), 2):
            if any(row):
                yield number, row
    except csv.Error as error:
        raise ValueError(f"{path}, row {number + 1}: {_QUOTE} ({error})") from None


def _header(
    path: Path, file: TextIO, needed: Sequence[str], options: Sequence[str]
) -> tuple[tuple[str, ...], str, Iterator[str]]:
    """Read the first row, which may span several lines; returns its names, the delimiter, and the lines after it."""
    first = file.readline()
    said = re.fullmatch(r'"?sep=([^"\r\n])"?[\r\n]*', first)
    lines = [file.readline() if said else first]

    def read() -> Iterator[str]:
        yield from lines
        for line in file:
            lines.append(line)
            yield line

    found: list[tuple[list[str], str]] = []
    for delimiter in said[1] if said else DELIMITERS:
        reader = csv.reader(read(), delimiter=delimiter, strict=True)
        try:
            columns = [name.strip() for name in next(reader, [])]
        except csv.Error:  # a quote is in a wrong place for a wrong delimiter
            continue
        for name in needed:
            if columns.count(name) > 1:
                raise ValueError(f"{path}: the first row has {quoted(name)} more than once; rename the others")
        if set(needed) <= set(columns):
            return tuple(columns), delimiter, chain(lines[reader.line_num :], file)
        found.append((columns, delimiter))
    names = ", ".join(name if name.isprintable() else repr(name) for name in needed)
    must = f"{path}: the first row must name the columns {names}, ..."
    if not found:
        raise ValueError(f"{must}, but in it {_QUOTE}")
    columns, delimiter = max(found, key=lambda pair: len(pair[0]))
    cells = next(csv.reader(chain(lines[1:], file), delimiter=delimiter), [])
    hint = _hint(columns, cells, needed, options)
    raise ValueError(f"{must}, not {quoted(lines[0].rstrip())}{hint}")


def _hint(columns: list[str], cells: list[str], needed: Sequence[str], options: Sequence[str]) -> str:
    """The options that name other columns; that of the images, the first, with the column that seems to hold them."""
    guess = next((name for name, cell in zip(columns, cells, strict=False) if _IMAGE.search(cell.strip())), "")
    shown = [guess if guess.isprintable() and guess else "...", *["..."] * len(options)]
    missing = [
        f"{option}: {example}"
        for name, option, example in zip(needed, options, shown, strict=False)
        if name not in columns
    ]
    return f"; columns of other names go into images.options, as {', '.join(missing)}" if missing else ""
