"""A table of label lists: accepted variants, no guesses; one message reports all faults."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlml.datasets.readers import lists
from tests.datasets.readers.shared import Reader
from tests.shared import traced

READER = Reader("lists", unlisted="absent")
read, fault, faults = READER.read, READER.fault, READER.faults


def brought(folder: Path, labels: str | bytes, images: str = "a b c d e") -> Path:
    """A folder with this labels.csv and placeholder files with these names."""
    for name in images.split():
        (folder / f"{name}.jpg").write_bytes(name.encode())
    (folder / "labels.csv").write_bytes(labels.encode() if isinstance(labels, str) else labels)
    return folder


TABLE = "image,split,labels\nc.jpg,train,dog;cat\na.jpg,val, cat ;\nb.jpg,test,\nd.jpg,train,cat;dog;cat\n"


@pytest.mark.parametrize(("unlisted", "value"), [("absent", -1), ("unknown", 0)])
def test_a_table(tmp_path: Path, unlisted: str, value: int) -> None:
    source = read(brought(tmp_path, TABLE), unlisted=unlisted)
    table = source.table
    assert table.classes == ("cat", "dog")
    assert table.images == ("a.jpg", "b.jpg", "c.jpg", "d.jpg")
    assert table.split == ("validation", "test", "train", "train")
    assert table.labels.dtype == np.int8
    assert table.labels.tolist() == [[1, value], [value, value], [1, 1], [1, 1]]
    assert [source.read(row) for row in range(4)] == [b"a", b"b", b"c", b"d"]
    assert source.upright
    assert source.places is not None and source.places[2].endswith("labels.csv, row 2: c.jpg")


def test_two_lists(tmp_path: Path) -> None:
    text = "not,image,tags\ncat;,a.jpg,dog\n,b.jpg,bird|dog\nbird;dog,c.jpg,\n"
    folder = brought(tmp_path, text.replace("|", ";"))
    table = read(folder, unlisted="unknown", column="tags", absent_column="not").table
    assert table.classes == ("bird", "cat", "dog")
    assert table.labels.tolist() == [[0, -1, 1], [1, 0, 1], [-1, 0, -1]]


def test_given_classes_keep_their_order_and_stay_without_images(tmp_path: Path) -> None:
    table = read(brought(tmp_path, TABLE), classes=["zebra", "dog", "cat"]).table
    assert table.classes == ("zebra", "dog", "cat")
    assert table.labels.tolist() == [[-1, -1, 1], [-1, -1, -1], [-1, 1, 1], [-1, 1, 1]]


@pytest.mark.parametrize("separator", ["|", " ", ", ", "&&", "/"])
def test_as_programs_save_it(tmp_path: Path, separator: str) -> None:
    text = f'\ufeffimage,labels,split\r\na.jpg,"Käse{separator}x;y",train\r\nb.jpg,"Käse",val\r\n,,\r\n'
    table = read(brought(tmp_path, text), separator=separator).table
    assert table.classes == ("Käse", "x;y")
    assert table.labels.tolist() == [[1, 1], [1, -1]]


@pytest.mark.parametrize("sign", ",;\t")
def test_a_separator_that_separates_the_columns(tmp_path: Path, sign: str) -> None:
    text = TABLE.replace(";", "|").replace(",", sign)
    assert fault(brought(tmp_path, text), separator=sign) == (
        f"FOLDER/labels.csv: {sign!r} separates its columns, so images.options.separator must be another sign; "
        "save the table with another one"
    )
    assert read(tmp_path, separator="|").table.classes == ("cat", "dog")


NAMES = st.text("abcé -_.'\"[]", min_size=1, max_size=4).map(str.strip).filter(bool)


@settings(max_examples=50)
@given(
    st.lists(st.dictionaries(NAMES, st.sampled_from([1, -1]), max_size=4), min_size=1, max_size=5),
    st.sampled_from(["absent", "unknown"]),
    st.sampled_from(",;\t"),
    st.randoms(use_true_random=False),
)
def test_each_label_is_where_it_belongs(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, int]], unlisted: str, delimiter: str, random: Any
) -> None:
    folder = brought(tmp_path_factory.mktemp("lists"), "")
    order = random.sample(range(len(rows)), len(rows))
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["image", "labels", "not"])
        for i in order:
            writer.writerow([f"{'abcde'[i]}.jpg", *("|".join(n for n in rows[i] if rows[i][n] == v) for v in (1, -1))])
    options = {"unlisted": unlisted, "separator": "|", "absent_column": "not"}
    names = sorted({name for row in rows for name in row})
    if not names:
        assert "no row lists a class" in fault(folder, **options)
        return
    table = read(folder, **options).table
    assert table.classes == tuple(names)
    value = {"absent": -1, "unknown": 0}[unlisted]
    assert table.labels.tolist() == [[row.get(name, value) for name in names] for row in rows]


def test_columns_that_are_not_read_are_named(tmp_path: Path, capsys: Any) -> None:
    read(brought(tmp_path, "image,labels,Split,note\na.jpg,cat,val,x\nb.jpg,cat,val,x\n"))
    assert capsys.readouterr().err == f"{tmp_path}/labels.csv: not read: Split, note\n"


def test_all_faults_together(tmp_path: Path) -> None:
    text = (
        "image,split,labels,not\n"
        "a.jpg,train,cat;dog,\n"
        "b.jpg,trian,cow,pig\n"
        "c.jpg,val,cat;dog,dog;cat\n"
        "d.jpg,val,cat\n"
        "x.jpg,test,dog,\n"
        "a.jpg,train,cat;dog,\n"
    )
    options = {"absent_column": "not", "classes": ["cat", "dog"]}
    assert faults(brought(tmp_path, text), **options) == [
        "row 5: 3 cells, the header has 4",
        "row 3: split 'trian' is not train, val or test",
        "row 3: 'cow' is not in images.options.classes",
        "row 3: 'pig' is not in images.options.classes",
        "row 4: 'cat' is in both lists, present and absent",
        "row 4: 'dog' is in both lists, present and absent",
        "row 6: image 'x.jpg' is missing",
    ]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("image,labels\na.jpg,\nb.jpg, ; \n", {}, "FOLDER/labels.csv: no row lists a class in the column labels"),
        ("image,tags\na.jpg,cat\n", {}, "FOLDER/labels.csv: the first row must name the columns image, labels, ..."),
        (TABLE, {"absent_column": "not"}, "FOLDER/labels.csv: the first row must name the columns image, labels, not"),
        (TABLE, {"unlisted": "present"}, "images.options.unlisted: 'present' is not allowed; must be 'absent' or"),
        (TABLE, {"labels": "../labels.csv"}, "images.options.labels: '../labels.csv' is not allowed; must be a path"),
        (TABLE, {"labels": "none.csv"}, "FOLDER/none.csv is missing"),
        (TABLE, {"separator": ""}, "images.options.separator: '' is not allowed; "),
        (TABLE, {"classes": []}, "images.options.classes: [] is not allowed; "),
        (TABLE, {"classes": ["cat", 1]}, "images.options.classes.1: 1 is not allowed; must be a valid string"),
        (TABLE, {"classes": ["cat", "dog", "cat"]}, "class 'cat' occurs more than once"),
        *(
            (TABLE, options, "images.options.column and absent_column must be two columns beside image and split")
            for options in (
                {"column": "split"},
                {"absent_column": "image"},
                {"column": "labels", "absent_column": "labels"},
            )
        ),
    ],
)
def test_what_else_is_refused(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    assert fault(brought(tmp_path, text), **options).startswith(message)


def test_what_is_not_listed_must_be_said(tmp_path: Path) -> None:
    assert Reader("lists").fault(brought(tmp_path, TABLE)) == "images.options.unlisted: missing"


def test_the_matrix_is_filled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n, width = 400, 9605
    rows = "".join(f"{i:04}.jpg,c{i % width};c{(i * 7 + 1) % width}\n" for i in range(n))
    folder = brought(tmp_path, f"image,labels\n{rows}")
    monkeypatch.setattr(lists, "source", lambda raw, upright: raw)  # of the reader's own work alone
    classes = [f"c{i}" for i in range(width)]
    raw: Any
    raw, peak = traced(lambda: read(folder, classes=classes))
    assert raw.labels.shape == (n, width) and raw.labels.dtype == np.int8
    assert (raw.labels == 1).sum() == 2 * n
    assert peak < 2 * n * width
