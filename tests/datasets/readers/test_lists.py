"""A table of label lists: accepted variants, no guesses; one message reports all faults."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlml.datasets.readers import lists
from mlml.datasets.tables import label_cells
from tests.datasets.readers.shared import Reader
from tests.shared import traced

READER = Reader("lists", unlisted="absent")
read, fault, faults = READER.read, READER.fault, READER.faults


def brought(folder: Path, labels: str | bytes, images: str = "a b c d e") -> Path:
    """A folder with this labels.csv and placeholder files with these names."""
    folder.mkdir(exist_ok=True)
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


@pytest.mark.parametrize("sign", ",;")
def test_a_separator_that_separates_the_columns_too(tmp_path: Path, sign: str) -> None:
    text = f'image,labels\na.jpg,"cat{sign}dog"\nb.jpg,cat\n'
    if sign == ";":
        text = text.replace(",", sign)
    table = read(brought(tmp_path, text), separator=sign).table
    assert table.labels.tolist() == [[1, 1], [1, -1]]
    assert faults(brought(tmp_path, text.replace('"', "")), separator=sign) == ["row 2: 3 cells, the header has 2"]


# Names that look like lists or have quotes around them are in test_name_lists.py.
NAMES = st.text("abcé.[]", min_size=1, max_size=4).filter(lambda name: name[0] != "[")


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


def notes(folder: Path, **options: Any) -> list[str]:
    return [note.removeprefix(f"{folder / 'labels.csv'}: ") for note in read(folder, **options).notes]


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    brought(tmp_path, ',image,labels,"a\x1b",note,\n0,a.jpg,cat;dog,val,x,\n1,b.jpg,cat,val,x,\n', "a b")
    assert notes(tmp_path) == ["columns that are not read: 'a\\x1b, note'"]
    brought(tmp_path, "image,labels,,\na.jpg,cat,dog,\nb.jpg,cat,,\n")
    assert faults(tmp_path) == ["row 2: 'dog' stands in column 3, which has no name; name it, or remove what is in it"]


@pytest.mark.parametrize(
    "cells",
    [
        ('"{""choices"":[""cat"",""dog""]}"', "cat", '"[""dog""]"'),  # Label Studio
        ("\"['cat', 'dog']\"", "['cat']", "['dog']"),  # pandas
        ('"[""cat"",""dog""]"', '"[""cat""]"', '"[""dog""]"'),
    ],
)
def test_lists_as_programs_write_them(tmp_path: Path, cells: tuple[str, ...]) -> None:
    text = "image,labels\n" + "".join(f"{name}.jpg,{cell}\n" for name, cell in zip("abc", cells, strict=True))
    table = read(brought(tmp_path, text)).table
    assert table.classes == ("cat", "dog")
    assert table.labels.tolist() == [[1, 1], [1, -1], [-1, 1]]


def test_what_looks_like_a_list_is_no_class(tmp_path: Path) -> None:
    text = 'image,labels\na.jpg,cat|dog\nb.jpg,cat;dog\nc.jpg,"cat,cow"\nd.jpg,"[cat, dog]"\ne.jpg,\'cat\'\n'
    lines = faults(brought(tmp_path, text))
    assert [line[:28] for line in lines] == [
        "row 2: 'cat|dog' looks like ",
        "row 4: 'cat,cow' looks like ",
        "row 5: '[cat, dog]' is no li",
        "row 6: \"'cat'\" has quotes ar",
    ]
    names = ["cat|dog", "cat", "dog", "cat,cow", "[cat, dog]", "'cat'"]
    assert read(tmp_path, classes=names).table.classes == tuple(names)
    brought(tmp_path / "other", "image,labels\na.jpg,cat dog\nb.jpg,cow bird\n", "a b")
    assert notes(tmp_path / "other") == ["no image lists more than one class; images.options.separator is ';'"]


def test_names_that_mislead(tmp_path: Path) -> None:
    text = 'image,labels\na.jpg,cat;Cat\nb.jpg,c\u200bat\nc.jpg,a\x1b[31m\nd.jpg,"dog\ncow"\ne.jpg,NaN\n'
    lines = faults(brought(tmp_path, text))
    assert all(line.isprintable() for line in lines)
    assert [line[:24] for line in lines] == [
        "row 3: the classes 'cat'",
        "row 4: the class 'a\\x1b[",
        "row 5: the class 'dog\\nc",
        "row 6: 'NaN' is a word f",
    ]


CHEST_XRAY14 = (
    "Image Index,Finding Labels,Follow-up #,OriginalImage[Width,Height],\n"
    "a.jpg,Cardiomegaly|Emphysema,0,2682,2749,\n"
    "b.jpg,No Finding,1,2682,2749,\n"
    "c.jpg,Emphysema,2,2682,2749,\n"
)


@pytest.mark.parametrize(("unlisted", "value"), [("absent", -1), ("unknown", 0)])
def test_chest_xray14_as_it_comes(tmp_path: Path, unlisted: str, value: int) -> None:
    folder = brought(tmp_path, CHEST_XRAY14, "a b c")
    assert fault(folder).endswith("go into images.options, as image_column: ..., column: ...")
    options = {"image_column": "Image Index", "column": "Finding Labels", "unlisted": unlisted}
    (line,) = faults(folder, **options)
    assert "'Cardiomegaly|Emphysema' looks like several classes; set images.options.separator: '|'" in line
    options["separator"] = "|"
    options["none"] = "No Finding"
    assert notes(folder, **options) == ["columns that are not read: 'Follow-up #, OriginalImage[Width, Height]'"]
    table = read(folder, **options).table
    assert table.classes == ("Cardiomegaly", "Emphysema")
    assert table.labels.tolist() == [[1, 1], [-1, -1], [value, 1]]
    assert notes(folder, **{**options, "none": "None"})[-1] == "no image lists 'None' (images.options.none)"


def test_none_stands_alone(tmp_path: Path) -> None:
    text = "image,labels,not\na.jpg,none;cat,\nb.jpg,cat,none\nc.jpg,none,dog\nd.jpg,none,\nd.jpg,cat,\ne.jpg,cat,\n"
    alone = "'none' says that no class is present: it must stand alone, as present"
    assert faults(brought(tmp_path, text), none="none", absent_column="not", rows="label") == [
        f"row 2: {alone}",
        f"row 3: {alone}",
        "row 6: 'cat' is present in row 6, but no class is in row 5",
    ]


OPEN_IMAGES = (
    "ImageID,Source,LabelName,Confidence\n"
    "a,verification,/m/cat,1\n"
    "a,verification,/m/dog,0\n"
    "b,verification,/m/cat,0\n"
    "b,verification,/m/dog,\n"
    "a,verification,/m/cow,1\n"
    "b,verification,/m/cat,0\n"
)
OPEN_IMAGES_OPTIONS = {
    "image_column": "ImageID",
    "image_path": "{}.jpg",
    "column": "LabelName",
    "rows": "label",
    "value_column": "Confidence",
    "unlisted": "unknown",
}


def test_a_row_for_each_label(tmp_path: Path) -> None:
    source = read(brought(tmp_path, OPEN_IMAGES), **OPEN_IMAGES_OPTIONS)
    assert source.table.images == ("a.jpg", "b.jpg")
    assert source.table.classes == ("/m/cat", "/m/cow", "/m/dog")
    assert source.table.labels.tolist() == [[1, 1, -1], [-1, 0, 0]]
    assert source.places and source.places[1].endswith("labels.csv, row 4: b.jpg")
    table = read(tmp_path, **{**OPEN_IMAGES_OPTIONS, "unlisted": "absent"}).table
    assert table.labels.tolist() == [[1, 1, -1], [-1, -1, 0]]
    forgotten = {key: value for key, value in OPEN_IMAGES_OPTIONS.items() if key != "value_column"}
    (line,) = faults(tmp_path, **forgotten)
    assert line == (
        "row 3: the column 'Confidence' has '0' here, and is not read; set images.options.value_column: Confidence, or "
        "rename the column if it says something else"
    )


def test_rows_of_labels_that_do_not_fit(tmp_path: Path) -> None:
    text = (
        "image,split,labels,value\n"
        "a.jpg,train,cat,1\n"
        "b.jpg,train,cat,-1\n"
        "a.jpg,train,cat,0\n"
        "a.jpg,val,dog,1\n"
        "b.jpg,train,dog,0.7\n"
        "b.jpg,train,dog,-1\n"
        "b.jpg,train,dog,yes\n"
    )
    options = {"rows": "label", "value_column": "value"}
    lines = faults(brought(tmp_path, text), **options)
    assert lines == [
        f"row 3: {label_cells.ASK}",
        "row 4: 'cat' is present in row 2, but absent in row 4",
        "row 5: image 'a.jpg' is in two splits, train (row 2) and validation; a photograph belongs in one",
        "row 6: the value '0.7' is not 1, 0, -1 or blank",
        "row 8: the value 'yes' is not 1, 0, -1 or blank",
    ]


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
        "row 3: split 'trian' is not train, val or test",
        "row 3: 'cow' is not in images.options.classes",
        "row 3: 'pig' is not in images.options.classes",
        "row 4: 'cat' is in both lists, present and absent",
        "row 4: 'dog' is in both lists, present and absent",
        "row 5: 3 cells, the header has 4",
        "row 6: image 'x.jpg' is missing",
        "row 7: image 'a.jpg' stands in row 2 too; merge the rows, or set images.options.rows: label if a row is one "
        "label of an image",
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
        (TABLE, {"classes": ["cat", "dog", "cat"]}, "images.options.classes: 'cat' is there twice"),
        (TABLE, {"classes": ["cat "]}, "images.options.classes: 'cat ' begins or ends with a space"),
        (TABLE, {"rows": "labels"}, "images.options.rows: 'labels' is not allowed; must be 'image' or 'label'"),
        (TABLE, {"none": ""}, "images.options.none: '' is not allowed; "),
        (TABLE, {"none": "cat", "classes": ["cat"]}, "images.options.none: 'cat' is among images.options.classes"),
        (TABLE, {"zero": "absent"}, "images.options: zero and minus_one are of use with value_column only"),
        (TABLE, {"absent_column": "a", "value_column": "b"}, "images.options: absent_column and value_column exclude"),
        (
            TABLE,
            {"value_column": "value"},
            "FOLDER/labels.csv: the first row must name the columns image, labels, value",
        ),
        (TABLE.replace("split", "SPLIT"), {}, "FOLDER/labels.csv: rename the column 'SPLIT', to 'split' if it"),
        (
            TABLE.replace("e,split,", "e,split,split,"),
            {},
            "FOLDER/labels.csv: the first row has 'split' more than once",
        ),
        *(
            (TABLE, options, "images.options: image_column, column")
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
