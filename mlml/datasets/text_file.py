"""Finds out how a text file is encoded, and what a file is that is none."""

import codecs
import csv
import re
from pathlib import Path

from mlml.datasets.regular_files import check_file

_EXCEL = "in the spreadsheet save it as CSV UTF-8, or pandas.read_excel(...).to_csv('labels.csv', index=False)"
_PARQUET = "pandas.read_parquet(...).to_csv('labels.csv', index=False) saves it as CSV"
_KINDS = (
    (b"PK\x03\x04", "an Excel file (.xlsx) or another zip archive", _EXCEL),
    (b"\xd0\xcf\x11\xe0", "an Excel file (.xls)", _EXCEL),
    (b"PAR1", "a Parquet file", _PARQUET),
    (b"\x1f\x8b", "compressed with gzip", "unpack it with gunzip"),
)
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_HEAD = 4096  # bytes that are looked at
_SHOWN = 80
_AROUND = 20  # characters shown before and after a byte that is no UTF-8


def quoted(text: str) -> str:
    """`text` for a message: in quotes, control characters escaped, cut to 80 characters."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}... ({len(text):,} characters)"


def encoding(path: Path) -> str:
    """The encoding of a text file: UTF-8, or UTF-16 with a byte order mark.

    Raises:
        ValueError: none there, a folder, pipe or device, or a file of another kind.
    """
    check_file(path, "a CSV file")
    with path.open("rb") as file:
        head = file.read(_HEAD)
    for magic, kind, remedy in _KINDS:
        if head.startswith(magic):
            raise ValueError(f"{path} is {kind}, no CSV file; {remedy}")
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    if b"\0" in head:
        raise ValueError(f"{path} is no text in UTF-8: there are NUL bytes in it; save it as CSV in UTF-8")
    if head.lstrip()[:1] in (b"{", b"["):
        remedy = "for COCO's form set images.reader: coco, others must be saved as CSV"
        raise ValueError(f"{path} is JSON, no CSV file; {remedy}")
    return "utf-8-sig"


def undecodable(path: Path, delimiter: str) -> str:
    """Where the first byte of a table is that is no UTF-8, for a message."""
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        for number, row in enumerate(csv.reader(file, delimiter=delimiter), 1):
            for cell in row:
                found = re.search("[\udc80-\udcff]", cell)
                if found:
                    near = cell[max(0, found.start() - _AROUND) : found.start() + _AROUND]
                    legacy = near.encode("utf-8", "surrogateescape").decode("cp1252", "replace")
                    byte = ord(found[0]) - 0xDC00
                    return f"row {number}: the byte 0x{byte:02x} is no UTF-8; in Windows-1252 this reads {legacy!r}"
    return "there is a byte that is no UTF-8"
