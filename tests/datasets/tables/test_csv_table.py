"""CSV files as programs save them."""

import codecs
import csv
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlml.datasets.tables.csv_table import DELIMITERS, open_sheet


def rows_of(folder: Path, content: bytes) -> list[tuple[int, list[str]]]:
    """The rows of a file with this content."""
    (folder / "t").write_bytes(content)
    with open_sheet(folder / "t", ["image"]) as sheet:
        return list(sheet.rows)


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=6)


@settings(max_examples=100)
@given(
    st.lists(st.lists(cells, min_size=3, max_size=3), max_size=5),
    st.sampled_from(DELIMITERS),
    st.booleans(),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_reads_what_the_standard_library_writes(rows: list[list[str]], delimiter: str, mark: bool, end: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        with path.open("w", newline="", encoding="utf-8-sig" if mark else "utf-8") as file:
            # Where a row ends in a carriage return, the writer leaves a newline in a cell without quotes.
            quoting = csv.QUOTE_ALL if end == "\r" else csv.QUOTE_MINIMAL
            writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
            writer.writerows([["image", "a;b, c\td", " cat "], *rows])
        with open_sheet(path, ["cat", "image"]) as sheet:
            assert sheet.columns == ("image", "a;b, c\td", "cat")
            got = list(sheet.rows)
    assert got == [(number, row) for number, row in enumerate(rows, 2) if any(row)]


def test_a_name_of_two_lines_in_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "t").write_text('"two\nlines";image\n1;x\n')
    with open_sheet(tmp_path / "t", ["image"]) as sheet:
        assert sheet.columns == ("two\nlines", "image")
        assert list(sheet.rows) == [(2, ["1", "x"])]


ROWS = [(2, ["a", "ä"]), (3, ["b", ""])]


@pytest.mark.parametrize(
    "content",
    [
        "image;x\na;ä\nb;\n".encode("utf-16"),  # with a byte order mark
        codecs.BOM_UTF16_BE + "image\tx\r\na\tä\r\nb\t\r\n".encode("utf-16-be"),
        "sep=;\nimage;x\na;ä\nb;\n".encode(),
        '\ufeff"sep=|"\r\nimage|x\r\na|ä\r\nb|\r\n'.encode(),
    ],
)
def test_as_excel_saves_it(tmp_path: Path, content: bytes) -> None:
    assert rows_of(tmp_path, content) == ROWS


def test_a_cell_of_any_length(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    long = "x" * 300_000
    assert rows_of(tmp_path, f"image,{long}\na,{long}\n".encode()) == [(2, ["a", long])]
    assert csv.field_size_limit() == before


def test_no_row_is_lost_to_a_delimiter_that_was_tried(tmp_path: Path) -> None:
    # With commas, the quote is open until the third line.
    assert rows_of(tmp_path, b'a,"b;image\n1;2\n"x,y";3\n') == [(2, ["1", "2"]), (3, ["x,y", "3"])]


QUOTE = "a quote is not closed, or one inside of a cell is not doubled"
FIRST = ": the first row must name the columns image, ..., "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'image,x\na,1\n\n"b,2\nc,3\n', f", row 4: {QUOTE} (unexpected end of data)"),
        (b'image\n"x"y\n', f", row 2: {QUOTE} (',' expected after"),
        (b'"image\nx\n', f"{FIRST}but in it {QUOTE}"),
        (b"", f"{FIRST}not ''"),
        (b"name,x\na,1\n", f"{FIRST}not 'name,x'"),
        (b"x" * 3_000_000, f"{FIRST}not {'x' * 200!r}... (3,000,000 characters)"),
        (b"image,x,image\n", ": the first row has 'image' more than once; rename the others"),
        (
            'image,x\n"a\nb",1\nc,Käse und Brot\n'.encode("cp1252"),
            ", line 4: the byte 0xe4 is no UTF-8; in Windows-1252 this reads 'c,Käse und Brot'; "
            "save the table as CSV in UTF-8",
        ),
        (
            ("image,Käse\n" + "a,1\n" * 9).encode("latin-1"),
            ", line 1: the byte 0xe4 is no UTF-8; in Windows-1252 this reads 'image,Käse'; save the table",
        ),
        ("image\na\n".encode("utf-16")[:-1], " is damaged: 'utf-16"),
        ("image\na\n".encode("utf-16-le"), " is no text in UTF-8: there are NUL bytes in it; save it as CSV in UTF-8"),
        (b"PK\x03\x04\x14\0", " is an Excel file (.xlsx) or another zip archive, no CSV file; in the spreadsheet save"),
        (b"\xd0\xcf\x11\xe0\xa1", " is an Excel file (.xls), no CSV file; in the spreadsheet save it as CSV UTF-8"),
        (b"PAR1\x15\0", " is a Parquet file, no CSV file; pandas.read_parquet(...).to_csv('labels.csv', index=False)"),
        (b"\x1f\x8b\x08\0", " is compressed with gzip, no CSV file; unpack it with gunzip"),
        (b'\n {"images": []}', " is JSON, no CSV file; for COCO's form set images.reader: coco"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(ValueError) as error:
        rows_of(tmp_path, content)
    assert str(error.value).startswith(f"{tmp_path / 't'}{message}")
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, " is missing"),
        (Path.mkdir, " is a folder"),
        (os.mkfifo, " is a named pipe"),
        (lambda path: path.symlink_to("/dev/zero"), " is a device"),
    ],
)
def test_no_file(tmp_path: Path, make: Callable[[Path], None], message: str) -> None:
    make(tmp_path / "t")
    with pytest.raises(ValueError) as error, open_sheet(tmp_path / "t", ["image"]):
        pass
    assert str(error.value) == f"{tmp_path / 't'}{message}; it must be a CSV file with the columns image, ..."


def test_the_options_that_name_other_columns(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("id;Image Index;Tags\n1;a/b.PNG;cat\n")
    with (
        pytest.raises(ValueError) as error,
        open_sheet(tmp_path / "t", ["image", "labels"], ["image_column", "column"]),
    ):
        pass
    assert str(error.value).endswith(
        "not 'id;Image Index;Tags'; columns of other names go into images.options, as image_column: ..., column: ..."
    )
