"""The label table as a file: round trip, faulty files, atomic writes."""

import csv
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mlml.labels.table import SPLITS, Table, check_complete, check_splits, read, write
from tests.shared import traced

ODD = ["image", "split", "a,b", 'say "x"', '"', "Käse", "#1", "007", "7", "1.0", "NA", "nan", "None", "", " ", " x "]
# A line break is "\n" or "\r\n": nobody puts a bare "\r", or NUL, into a name.
names = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=8),
    st.sampled_from(["two\r\nlines", "é\nö"]),
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    classes = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    images = draw(st.lists(names, max_size=6, unique=True))
    split = draw(st.lists(st.sampled_from(SPLITS), min_size=len(images), max_size=len(images)))
    labels = draw(hnp.arrays(np.int8, (len(images), len(classes)), elements=st.integers(-1, 1)))
    return Table(tuple(classes), tuple(images), tuple(split), labels)


def table(labels: object = ((1, -1), (0, 1)), **changes: object) -> Table:
    fields = {"classes": ("cat", "dog"), "images": ("x", "y"), "split": ("train", "test")}
    return Table(**{**fields, **changes}, labels=np.array(labels, np.int8))


def same(one: Table, other: Table) -> bool:
    fields = ("classes", "images", "split")
    equal = all(getattr(one, field) == getattr(other, field) for field in fields)
    return equal and other.labels.dtype == np.int8 and np.array_equal(one.labels, other.labels)


def fault(path: Path, content: str | bytes) -> str:
    """The error of `read` for a file with this content."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError) as error:
        read(path)
    assert str(path) in str(error.value)
    return str(error.value).replace(str(path), "FILE")


@settings(max_examples=150)
@given(tables())
@example(table(classes=("image", "split")))
@example(table(classes=("split", "a")))
@example(table(classes=("1", "01"), images=("007", "7")))
def test_what_is_written_is_read(written: Table) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "labels.csv")
        write(written, path)
        assert same(written, read(path))
        # The standard library sees the same rows: names are quoted, cells are as documented.
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
    assert header == ["image", "split", *written.classes]
    cells = [["0", "", "1"][value + 1] for value in written.labels.ravel().tolist()]
    width = len(written.classes)
    assert rows == [
        [image, split, *cells[i * width : (i + 1) * width]]
        for i, (image, split) in enumerate(zip(written.images, written.split, strict=True))
    ]


def test_bytes_of_the_file(tmp_path: Path) -> None:
    written = table([[1, -1, 0], [0, 1, 1]], classes=("Käse", "a,b", 'a "b"'), images=("x y.jpg", "a,1.jpg"))
    write(written, tmp_path / "t")
    expected = 'image,split,Käse,"a,b","a ""b"""\nx y.jpg,train,1,0,\n"a,1.jpg",test,,1,1\n'
    assert (tmp_path / "t").read_bytes() == expected.encode()


def test_a_file_saved_by_a_spreadsheet_is_read(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"\xef\xbb\xbfimage,split,cat,dog\r\nx,train,1,0\r\n\r\ny,test,,1\r\n")
    assert same(read(tmp_path / "t"), table())


@pytest.mark.parametrize(
    "header", ["", "\n", "image,split", "split,image,cat", "Image,split,cat", "image;split;cat", "x,train,1"]
)
def test_wrong_header(tmp_path: Path, header: str) -> None:
    message = fault(tmp_path / "t", f"{header}\n" if header else "")
    assert "FILE: the header must be image,split,<class>,..., not" in message
    assert header.strip() in message


@pytest.mark.parametrize("cell", ["2", "-1", "1.0", "yes", " 1", "1 ", "nan", "\u0661"])
def test_a_bad_cell_is_named_with_row_and_class(tmp_path: Path, cell: str) -> None:
    message = fault(tmp_path / "t", f"image,split,cat,dog\nx,train,1,0\ny,train,1,{cell}\nz,test,{cell},1\n")
    reason = f"{cell!r} is no label; a cell is 1, 0 or blank"
    lines = ["FILE: rows that cannot be read: 2", f"row 3: class 'dog': {reason}", f"row 4: class 'cat': {reason}"]
    assert message.split("\n") == lines
    message = fault(tmp_path / "t", f"image,split,cat,dog,cow\nx,train,{cell},1,{cell}\n")
    assert message.split("\n")[1:] == [f"row 2: class 'cat': {reason} (and 1 more cells)"]


@pytest.mark.parametrize(("row", "count"), [("y", 1), ("y,train,1", 3), ("y,train,1,0,", 5)])
def test_ragged_rows(tmp_path: Path, row: str, count: int) -> None:
    head = "image,split,cat,dog\n"
    message = fault(tmp_path / "t", f"{head}x,train,1,0\n{row}\n")
    reason = f"{count} cells, the header has 4"
    assert message.split("\n") == ["FILE: rows that cannot be read: 1", f"row 3: {reason}"]
    message = fault(tmp_path / "t", f"{head}{row}\n\n{row}\n" + f"z,test,{'1' * 0},2\n" * 30)
    lines = message.split("\n")
    assert lines[:3] == ["FILE: rows that cannot be read: 32", f"row 2: {reason}", f"row 4: {reason}"]
    assert len(lines) == 22 and lines[-1] == "... and 12 more"


def test_names_that_occur_twice_and_unknown_splits(tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert "class 'cat' occurs more than once" in fault(path, "image,split,cat,dog,cat\nx,train,1,0,1\n")
    assert "image 'x' occurs more than once" in fault(path, "image,split,cat\ny,train,1\nx,train,1\nx,test,1\n")
    message = fault(path, "image,split,cat\nx,train,1\ny,val,1\n")
    assert message == "FILE: image 'y' has split 'val'; it must be one of train, validation, test"


@pytest.mark.parametrize(
    "content",
    [
        "image,split,Käse\nx,train,1\n".encode("latin-1"),
        b'image,split,cat\n"x,train,1\n',
        b'image,split,cat\n"x"y,train,1\n',
    ],
)
def test_not_csv_or_not_utf8(tmp_path: Path, content: bytes) -> None:
    assert fault(tmp_path / "t", content).startswith("FILE is no CSV file in UTF-8: ")


def test_messages_name_the_row_and_stay_short(tmp_path: Path) -> None:
    head, long = "image,split,cat\nx,train,1\n", "x" * 100_000
    assert fault(tmp_path / "t", f'{head}\ny,train,"1\n').startswith("FILE is no CSV file in UTF-8: row 4: ")
    for content in (
        f"{long},split\n",
        f"{head}y,train,{long}\n",
        f"image,split,{long}\nx,train,2\n",
        f"{head}y,{long},1\n",
    ):
        assert len(fault(tmp_path / "t", content)) < 400


def test_a_file_cut_anywhere_never_gives_a_wrong_known_label(tmp_path: Path) -> None:
    whole = table([[1, -1, 0], [0, 1, 1], [-1, -1, 1]], classes=tuple("abc"), images=("x", "y,1", "z"), split=SPLITS)
    write(whole, tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    path, refused = tmp_path / "cut", 0
    for end in range(len(content)):
        path.write_bytes(content[:end])
        try:
            got = read(path)
        except ValueError:
            refused += 1
        else:
            if not len(got.images):
                continue  # the header, whole or cut
            # Whole rows, the last cell of which may be gone.
            assert got.images == whole.images[: len(got.images)] and got.split == SPLITS[: len(got.images)]
            expected = whole.labels[: len(got.images)].copy()
            expected[-1, -1] = got.labels[-1, -1]
            assert np.array_equal(got.labels, expected)
            assert got.labels[-1, -1] in (0, whole.labels[len(got.images) - 1, -1])
    assert refused > len(content) / 2


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    write(table(), path)
    before = path.read_bytes()
    broken = table(images=("x", "a name that no file can hold: \udc80"))
    with pytest.raises(UnicodeEncodeError):
        write(broken, path)
    assert path.read_bytes() == before
    with pytest.raises(UnicodeEncodeError):
        write(broken, tmp_path / "new.csv")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": ("x",)}, "1 images, 2 splits and 2 classes do not fit labels of shape [2, 2]"),
        ({"split": ("train",)}, "2 images, 1 splits and 2 classes do not fit labels of shape [2, 2]"),
        ({"classes": ("cat", "dog", "cow")}, "2 images, 2 splits and 3 classes do not fit labels of shape [2, 2]"),
        ({"classes": ("cat", "cat")}, "class 'cat' occurs more than once"),
        ({"images": ("x", "x")}, "image 'x' occurs more than once"),
        ({"split": ("train", "val")}, "image 'y' has split 'val'; it must be one of train, validation, test"),
        ({"labels": ((1, 0), (2, 0))}, "label [1, 0] is 2; a label is 1 (present), -1 (absent) or 0 (unknown)"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:
        table(**changes)
    assert str(error.value) == message


@given(tables(), st.data())
@settings(max_examples=50)
def test_rows_and_take(whole: Table, data: st.DataObject) -> None:
    rows = [whole.rows(split).tolist() for split in SPLITS]
    assert rows == [[i for i, name in enumerate(whole.split) if name == split] for split in SPLITS]
    n = len(whole.images)
    order = data.draw(st.permutations(range(n))) if n else []
    part = whole.take(np.array(order[: n // 2], dtype=int))
    assert part.classes == whole.classes
    for i, row in enumerate(order[: n // 2]):
        assert (part.images[i], part.split[i]) == (whole.images[row], whole.split[row])
        assert np.array_equal(part.labels[i], whole.labels[row])
    assert len(part.images) == n // 2


def test_splits_must_not_be_empty_and_something_must_be_known() -> None:
    labels = np.array([[1, 0], [1, -1], [0, 1], [0, -1]], np.int8)
    table = Table(("cat", "dog"), tuple("abcd"), ("train", "validation", "test", "test"), labels)
    check_splits(table)
    for split in SPLITS:
        with pytest.raises(ValueError, match=f"^a.csv: there are no {split} images"):
            check_splits(table.take(np.setdiff1d(np.arange(4), table.rows(split))), "a.csv")
    labels[1] = [0, -1]
    with pytest.raises(
        ValueError, match=r"^a\.csv: of 1 validation images none has a label known to be present[^\n]*$"
    ):
        check_splits(table, "a.csv")


@pytest.mark.parametrize("rows", [[[0, -1], [0, -1]], [[1, 0], [1, 1]], [[1, -1], [0, 0]], [[0, 0], [0, 0]]])
def test_some_class_must_have_a_test_ap(rows: list[list[int]]) -> None:
    labels = np.array([[1, 0], [1, -1], *rows], np.int8)
    table = Table(("cat", "dog"), tuple("abcd"), ("train", "validation", "test", "test"), labels)
    with pytest.raises(ValueError, match=r"^a\.csv: over 2 test images no class has both a label known to[^\n]*$"):
        check_splits(table, "a.csv")


def test_a_rule_that_discards_needs_full_labels() -> None:
    full = table()
    with pytest.raises(ValueError) as error:
        check_complete(full)
    reason = "image 'y' (test), class 'cat': the label is unknown (1 are); "
    assert str(error.value) == reason + "discarding by a rule needs full labels: setting=as_is takes them as they are"
    check_complete(table([[1, -1], [-1, 1]]))


def test_memory_is_that_of_the_labels(tmp_path: Path) -> None:
    """At 100,000 images and 9,605 classes another copy is a gigabyte: `python -m benchmarks growth` measures."""
    n, width = 4000, 500
    labels = np.random.default_rng(0).integers(-1, 2, (n, width), np.int8)
    whole = Table(tuple(map(str, range(width))), tuple(map(str, range(n))), ("train",) * n, labels)
    for work, most in ((lambda: write(whole, tmp_path / "t"), 0.3), (lambda: read(tmp_path / "t"), 1.7)):
        assert traced(work)[1] < most * labels.nbytes
    assert same(whole, read(tmp_path / "t"))
