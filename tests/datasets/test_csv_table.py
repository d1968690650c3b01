"""CSV files as programs save them."""

import csv
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlml.datasets.csv_table import DELIMITERS, open_sheet

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
            assert (sheet.columns, sheet.delimiter) == (("image", "a;b, c\td", "cat"), delimiter)
            got = list(sheet.rows)
    assert got == [(number, row) for number, row in enumerate(rows, 2) if any(row)]


def test_a_name_of_two_lines_in_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "t").write_text('"two\nlines";image\n1;x\n')
    with open_sheet(tmp_path / "t", ["image"]) as sheet:
        assert sheet.columns == ("two\nlines", "image")
        assert list(sheet.rows) == [(2, ["1", "x"])]


def test_faults_while_rows_are_read_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for content in (b'image\n"x', b"image\n\xff\n", b'image\n"x"y\n'):
        path.write_bytes(content)
        with pytest.raises(ValueError) as error, open_sheet(path, ["image"]) as sheet:
            list(sheet.rows)
        assert str(error.value).startswith(f"{path} is no CSV file in UTF-8: ")
