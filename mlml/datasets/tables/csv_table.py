"""Reads a user's CSV file row by row, as spreadsheets and programs save it."""

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from mlml.core.errors import quoted
from mlml.datasets.files.regular_files import check_file

DELIMITERS = (",", ";", "\t")
_LONGEST = 2**31 - 1  # characters of a cell
_QUOTE = "a quote is not closed, or one inside of a cell is not doubled"
_HEAD = 4096  # bytes that tell what kind of file it is
_AROUND = 20  # bytes shown before and after one that is no UTF-8
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_EXCEL = "in the spreadsheet save it as CSV UTF-8, or pandas.read_excel(...).to_csv('labels.csv', index=False)"
_PARQUET = "pandas.read_parquet(...).to_csv('labels.csv', index=False) saves it as CSV"
_OTHERS = (
    (b"PK\x03\x04", "an Excel file (.xlsx) or another zip archive", _EXCEL),
    (b"\xd0\xcf\x11\xe0", "an Excel file (.xls)", _EXCEL),
    (b"PAR1", "a Parquet file", _PARQUET),
    (b"\x1f\x8b", "compressed with gzip", "unpack it with gunzip"),
    ((b"{", b"["), "JSON", "for COCO's form set images.reader: coco, others must be saved as CSV"),
)


class Sheet(NamedTuple):
    """An open table.

    Attributes:
        path: of the file.
        columns: the names in the first row, stripped. The needed ones are there once; others may be blank or repeat.
        rows: (number, cells) of each further row that is not blank. The header is row 1. There may be more or fewer
            cells than columns.
    """

    path: Path
    columns: tuple[str, ...]
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
    check_file(path, f"a CSV file with the columns {', '.join(needed)}, ...")
    encoding = _encoding(path)
    limit = csv.field_size_limit(_LONGEST)
    try:
        with path.open(newline="", encoding=encoding) as file:
            columns, reader = _header(path, file, needed, options)
            yield Sheet(path, columns, _rows(path, reader))
    except UnicodeDecodeError as error:
        where = f"{path}, {_undecodable(path)}" if encoding == "utf-8-sig" else f"{path} is damaged: {error}"
        raise ValueError(f"{where}; save the table as CSV in UTF-8") from None
    finally:
        csv.field_size_limit(limit)


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    for start, kind, remedy in _OTHERS:
        if head.lstrip().startswith(start):
            raise ValueError(f"{path} is {kind}, no CSV file; {remedy}")
    if b"\0" in head:
        raise ValueError(f"{path} is no text in UTF-8: there are NUL bytes in it; save it as CSV in UTF-8")
    return "utf-8-sig"


def _undecodable(path: Path) -> str:
    """Where the first byte is that is no UTF-8, for a message."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                near = line[max(0, error.start - _AROUND) : error.start + _AROUND].decode("cp1252", "replace").strip()
                byte = line[error.start]
                return f"line {number}: the byte 0x{byte:02x} is no UTF-8; in Windows-1252 this reads {near!r}"
    return "there is a byte that is no UTF-8"


def _rows(path: Path, reader: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    number = 1
    try:
        for number, row in enumerate(reader, 2):
            if any(row):
                yield number, row
    except csv.Error as error:
        raise ValueError(f"{path}, row {number + 1}: {_QUOTE} ({error})") from None


def _header(
    path: Path, file: TextIO, needed: Sequence[str], options: Sequence[str]
) -> tuple[tuple[str, ...], Iterator[list[str]]]:
    """Read the first row, which may span several lines; returns its names, and the rows after it."""
    first = file.readline()
    said = re.fullmatch(r'"?sep=([^"\r\n])"?[\r\n]*', first)
    start = file.tell() if said else 0
    first = file.readline() if said else first
    found: list[list[str]] = []
    for delimiter in said[1] if said else DELIMITERS:
        file.seek(start)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            columns = [name.strip() for name in next(reader, [])]
        except csv.Error:  # a quote is in a wrong place for a wrong delimiter
            continue
        for name in needed:
            if columns.count(name) > 1:
                raise ValueError(f"{path}: the first row has {quoted(name)} more than once; rename the others")
        if set(needed) <= set(columns):
            return tuple(columns), reader
        found.append(columns)
    must = f"{path}: the first row must name the columns {', '.join(needed)}, ..."
    if not found:
        raise ValueError(f"{must}, but in it {_QUOTE}")
    columns = max(found, key=len)
    missing = [f"{option}: ..." for name, option in zip(needed, options, strict=False) if name not in columns]
    hint = f"; columns of other names go into images.options, as {', '.join(missing)}" if missing else ""
    raise ValueError(f"{must}, not {quoted(first.rstrip())}{hint}")
