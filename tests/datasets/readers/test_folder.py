"""A user's folder with a table: accepted variants; one message reports all faults."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from mlml import datasets
from mlml.datasets.readers import folder
from mlml.images.decoding import to_row
from tests.datasets.readers.shared import Reader
from tests.shared import DATA

READER = Reader("folder")
read, fault, faults = READER.read, READER.fault, READER.faults


def brought(root: Path, labels: str | bytes, images: str = "a b c d e") -> Path:
    """A folder with this labels.csv and small images with these names, each in a different grey."""
    (root / "images").mkdir()
    for grey, name in enumerate(images.split()):
        Image.new("RGB", (4, 3), (grey, grey, grey)).save(root / f"images/{name}.png")
    (root / "labels.csv").write_bytes(labels.encode() if isinstance(labels, str) else labels)
    return root


def test_partial_labels_splits_and_order(tmp_path: Path) -> None:
    labels = (
        "split,dog,image,cat\n"
        "test,1,images/c.png,0\n"
        "train,,images/b.png,1\n"
        "val,0,images/d.png,\n"
        "validation, 1 ,images/a.png,0\n"
        "train,,images/e.png,\n"
    )
    source = read(brought(tmp_path, labels))
    table = source.table
    assert table.classes == ("dog", "cat")
    assert table.images == tuple(f"images/{name}.png" for name in "abcde")
    assert table.split == ("validation", "train", "test", "validation", "train")
    assert table.labels.dtype == np.int8
    # 1 is present, -1 absent, 0 unknown, and stays so.
    assert table.labels.tolist() == [[1, -1], [0, 1], [1, -1], [-1, 0], [0, 0]]
    assert [to_row(source.read(row), 8)[0, 0].tolist() for row in range(5)] == [[grey] * 3 for grey in range(5)]
    assert source.places is not None and source.places[0] == f"{tmp_path}/labels.csv, row 5: images/a.png"


def test_as_a_spreadsheet_and_as_pandas_save_it(tmp_path: Path) -> None:
    text = "\ufeffimage;split;Käse\r\nimages/a.png;train;1.0\r\n;;\r\nimages/b.png;val;0.0\r\nimages/c.png;val;NaN\r\n"
    table = read(brought(tmp_path, text)).table
    assert table.classes == ("Käse",)
    assert table.labels.tolist() == [[1], [-1], [0]]


def test_names_of_classes_are_texts(tmp_path: Path) -> None:
    names = ["007", "7", "label", "nan", "train", "validation", "0"]
    table = read(brought(tmp_path, f"image,split,{','.join(names)}\nimages/a.png,val,1,0,1,0,,0,1\n")).table
    assert table.classes == tuple(names)
    assert table.labels.tolist() == [[1, -1, 1, -1, 0, -1, 1]]


def test_without_validation_rows_the_protocol_splits_the_training_rows(tmp_path: Path) -> None:
    # The test row stands in the middle: the protocol counts the training rows, sorted by image, alone.
    rows = [f"images/{i:02}.png,{'test' if i == 11 else 'train'},1" for i in range(24)]
    names = " ".join(f"{i:02}" for i in range(24))
    table = read(brought(tmp_path, "\n".join(["image,split,cat", *rows[::-1]]), names)).table
    training = [i for i in range(24) if i != 11]
    order = np.random.RandomState(1200).permutation(23)
    expected = sorted(training[i] for i in order[-5:])  # round(0.2 * 23) = 5
    assert table.images == tuple(f"images/{i:02}.png" for i in range(24))
    assert table.rows("validation").tolist() == expected
    assert table.rows("test").tolist() == [11]
    assert table.rows("train").tolist() == [i for i in training if i not in expected]


def test_without_a_split_column_the_protocol_splits_all_rows(tmp_path: Path) -> None:
    rows = [f"images/{i:02}.png,1" for i in range(30)]
    table = read(brought(tmp_path, "\n".join(["image,cat", *rows]), " ".join(f"{i:02}" for i in range(30)))).table
    assert [len(table.rows(split)) for split in ("train", "validation", "test")] == [19, 5, 6]
    assert table.rows("test").tolist() == sorted(np.random.RandomState(1200).permutation(30)[-6:])
    rest = [i for i in range(30) if table.split[i] != "test"]
    order = np.random.RandomState(1200).permutation(24)
    assert table.rows("validation").tolist() == sorted(rest[i] for i in order[-5:])


@pytest.mark.parametrize("word", ["train", "Training", " TRAIN "])
def test_words_for_a_split(tmp_path: Path, word: str) -> None:
    labels = f"image,split,cat\nimages/a.png,{word},1\nimages/b.png,Valid,1\nimages/c.png,testing,1\n"
    assert read(brought(tmp_path, labels)).table.split == ("train", "validation", "test")


def test_the_meaning_of_0_and_minus_1_is_asked_for(tmp_path: Path) -> None:
    labels = "image,cat,dog\nimages/a.png,1,0\nimages/b.png,,-1\nimages/c.png,-1,1\n"
    root = brought(tmp_path, labels)
    reason = (
        "FOLDER/labels.csv: faults: 1\nrow 3: class 'dog': there are -1 cells, so say what 0 and -1 mean: "
        "images.options.zero and images.options.minus_one of dataset.yaml, each absent or unknown"
    )
    assert fault(root) == fault(root, zero="unknown") == fault(root, minus_one="absent") == reason
    assert read(root, zero="unknown", minus_one="absent").table.labels.tolist() == [[1, 0], [0, -1], [-1, 1]]
    assert read(root, zero="absent", minus_one="unknown").table.labels.tolist() == [[1, -1], [0, 0], [0, 1]]
    everything = {"zero": "unknown", "minus_one": "unknown", "blank": "absent"}
    assert read(root, **everything).table.labels.tolist() == [[1, 0], [-1, 0], [0, 1]]
    (root / "labels.csv").write_text("image,cat,dog\nimages/a.png,1,0\nimages/b.png,0,\n")
    assert read(root).table.labels.tolist() == [[1, -1], [-1, 0]]
    assert read(root, zero="unknown").table.labels.tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"zero": "present"}, "images.options.zero: 'present' is not allowed; must be 'absent' or 'unknown'"),
        ({"labels": "../labels.csv"}, "images.options.labels: '../labels.csv' is not allowed; must be a path below"),
        ({"labels": "/labels.csv"}, "images.options.labels: '/labels.csv' is not allowed; must be a path below"),
        ({"size": 3}, "images.options.size: unknown key; it takes blank, classes, ignore, image_column, image_path,"),
        ({"labels": ["a"]}, "images.options.labels: ['a'] is not allowed; must be a path, or a path each"),
        ({"image_column": ""}, "images.options.image_column: '' is not allowed; "),
        ({"image_path": "images/"}, "images.options.image_path: 'images/' is not allowed; must be a path with {} in"),
        ({"ignore": "Sex"}, "images.options.ignore: 'Sex' is not allowed; must be a valid list"),
        ({"classes": ["cat", True]}, "images.options.classes.1: True is not allowed; must be a valid string"),
        ({"classes": ["cat", "dog "]}, "images.options.classes: 'dog ' begins or ends with a space"),
        ({"classes": ["cat", "split"]}, "images.options: 'split' is more than one of image_column, split, classes and"),
        ({"ignore": ["image"]}, "images.options: 'image' is more than one of image_column, split, classes and ignore"),
        ({"upright": "no"}, "images.options.upright: 'no' is not allowed; must be a valid boolean"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, object], line: str) -> None:
    assert fault(tmp_path, **options).startswith(line)


def test_all_faults_together_with_their_rows(tmp_path: Path) -> None:
    outside = tmp_path / "outside.png"
    Image.new("RGB", (4, 3)).save(outside)
    root = tmp_path / "mine"
    root.mkdir()
    labels = (
        "image,split,cat,Käse\n"
        "images/a.png,train,1,yes\n"
        "\n"
        "images/b.png,dev,2,0\n"
        "images/a.png,val,1,0\n"
        f"{outside},test,1,0\n"
        "../outside.png,test,,\n"
        "images/z.png,test,1,0\n"
        "images,test,1,0\n"
        ",train,1,0\n"
        "images/c.png,train,1\n"
        "images/d.png,train,1,0,1\n"
        "images/../images/b.png,train,1,0\n"
    )
    assert faults(brought(root, labels)) == [
        "row 2: class 'Käse': 'yes' is not 1, 0, -1 or blank",
        "row 4: split 'dev' is not train, val or test",
        "row 4: class 'cat': '2' is not 1, 0, -1 or blank",
        "row 5: image 'images/a.png' is in two splits, train (row 2) and validation; a photograph belongs in one",
        f"row 6: image '{outside}' lies outside of FOLDER; put it into the folder",
        "row 7: image '../outside.png' lies outside of FOLDER; put it into the folder",
        "row 8: image 'images/z.png' is missing",
        "row 9: image 'images' is missing: it is a folder",
        "row 10: the cell 'image' is blank; it must name an image",
        "row 11: 3 cells, the header has 4",
        "row 12: 5 cells, the header has 4",
        "row 13: image 'images/../images/b.png' stands in row 4 too, as 'images/b.png', with other labels; "
        "merge the two",
    ]


def table_of(*images: str) -> str:
    return "image,split,cat\n" + "".join(f"{image},train,1\n" for image in images)


def test_links(tmp_path: Path) -> None:
    """Links out of the folder are refused, for DVC would not see a change; links into DVC's cache are DVC's."""
    root = tmp_path / "mine"
    root.mkdir()
    brought(root, table_of("images/out.png", "images/circle.png", "images/a.png", "images/same.png"))
    outside = tmp_path / "outside.png"
    Image.new("RGB", (4, 3)).save(outside)
    (root / "images/out.png").symlink_to(outside)
    (root / "images/circle.png").symlink_to("circle.png")
    (root / "images/same.png").symlink_to("a.png")
    assert faults(root) == [
        f"row 2: image 'images/out.png' is a link that leads out of FOLDER, to {outside}; copy the file",
        "row 3: image 'images/circle.png' is missing: it is a link that leads nowhere",
        "row 5: image 'images/same.png' stands in row 4 too, as 'images/a.png', with the same labels; "
        "remove one of them",
    ]
    cached = tmp_path / "cache/files/md5/ab/cdef"
    cached.parent.mkdir(parents=True)
    outside.rename(cached)
    (root / "labels.csv").write_text(table_of("images/out.png", "images/twin.png"))
    for name in ("out.png", "twin.png"):  # one content, so one file of the cache, and two photographs
        (root / f"images/{name}").unlink(missing_ok=True)
        (root / f"images/{name}").symlink_to(cached)
    assert read(root).read(1) == cached.read_bytes()


def test_hints_for_names_that_are_nearly_right(tmp_path: Path) -> None:
    root = brought(tmp_path, table_of("images/A.PNG", "images/b.gif", "x" * 200), "a b")
    assert faults(root) == [
        "row 2: image 'images/A.PNG' is missing; there is 'a.png'",
        "row 3: image 'images/b.gif' is missing; there is 'b.png'",
        f"row 4: image '{'x' * 200}' is missing",
    ]


def test_a_folder_is_listed_once_however_many_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = brought(tmp_path, table_of(*(f"images/{name}.jpg" for name in "abcdefgh")))
    listed: list[Path] = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path) or listdir(path))
    assert fault(root).count("is missing") == 8
    assert [path for path in listed if path == root / "images"] == [root / "images"]


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ("image,split,cat\n", "no images; a data set needs some"),
        ("image,split\nimages/a.png,train\n", "there must be a column for each class beside 'image, split'"),
    ],
)
def test_other_columns(tmp_path: Path, labels: str, reason: str) -> None:
    assert fault(brought(tmp_path, labels)) == f"FOLDER/labels.csv: {reason}"


def test_no_file_and_another_encoding(tmp_path: Path) -> None:
    assert fault(tmp_path) == "FOLDER/labels.csv is missing; it must be a CSV file with the columns image, ..."
    message = fault(brought(tmp_path, "image,split,Käse\nimages/a.png,train,1\n".encode("cp1252")))
    assert message.startswith("FOLDER/labels.csv, line 1: the byte 0xe4 is no UTF-8; ")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("cat,cat ", ": each column must have a name of its own, not 'cat'"),
        ("cat,split", ": the first row has 'split' more than once; rename the others"),
        ("cat,image", ": the first row has 'image' more than once; rename the others"),
        ("cat,", ": faults: 1\nrow 1: column 4 has labels, but no name; name or remove it"),
        ("cat,Unnamed: 3", ": faults: 1\nrow 1: column 4 has labels, but no name; name or remove it"),
        ('cat,"two\nlines"', ": faults: 1\nrow 1: the class 'two\\nlines' has a control character or line break in"),
        ("cat,c\u200bat", ": faults: 1\nrow 1: the classes 'cat' and 'c\\u200bat' look the same; write one"),
        (
            "cat," + "x" * 99_999,
            f": faults: 1\nrow 1: the class {'x' * 200!r}... (99,999 characters) has",
        ),
    ],
)
def test_names_of_columns(tmp_path: Path, header: str, message: str) -> None:
    text = fault(brought(tmp_path, f"image,split,{header}\nimages/a.png,train,1,0\n"))
    assert text.startswith(f"FOLDER/labels.csv{message}") and len(text) < 600


def test_columns_without_a_name_that_hold_no_labels(tmp_path: Path) -> None:
    rows = "".join(f"{i},images/{name}.png,1,,{i}\n" for i, name in enumerate("abcde"))
    source = read(brought(tmp_path, f",image,cat,,Unnamed: 4\n{rows}"))
    assert source.table.classes == ("cat",)
    assert source.table.labels.tolist() == [[1]] * 5
    assert source.notes == ()


def test_columns_that_are_empty(tmp_path: Path) -> None:
    root = brought(tmp_path, "image,cat,dog,comment\nimages/a.png,1,,\nimages/b.png,,,\n", "a b")
    source = read(root, ignore=["cat"])
    assert source.table.classes == ("dog", "comment")
    assert [note.replace(str(root), "FOLDER") for note in source.notes] == [
        "FOLDER/labels.csv: columns without a label: 'dog, comment'; if they are no classes, set "
        'images.options.ignore: ["cat", "dog", "comment"]'
    ]
    assert read(root, classes=["cat", "dog"]).notes == read(root, ignore=["dog", "comment"]).notes == ()


@pytest.mark.parametrize(
    ("header", "cells", "remedy"),
    [
        ("labels", "cat;dog", "if 'labels' lists the classes of an image, set images.reader: lists"),
        (
            "seen by,my tags",
            'me,"[""cat""]"',
            "if 'my tags' lists the classes of an image, set images.reader: lists and images.options.column: "
            '"my tags"',
        ),
        (
            "cat,labels",
            "1,cat|dog",
            "if they are no classes, set images.options.ignore: [\"labels\"], or if 'labels' lists the classes of an "
            "image, set images.reader: lists",
        ),
        ("cat,width", "1,640", 'if they are no classes, set images.options.ignore: ["width"]'),
    ],
)
def test_a_table_of_lists(tmp_path: Path, header: str, cells: str, remedy: str) -> None:
    (line,) = faults(brought(tmp_path, f"image,split,{header}\nimages/a.png,train,{cells}\n"))
    assert line.endswith(f" (row 2); write 1, 0, -1 or blank, or {remedy}")


def exported(root: Path, **tables: str) -> Path:
    """Folders with a table each and pictures that may have the same names, as Roboflow exports them."""
    for part, text in tables.items():
        (root / part).mkdir()
        (root / part / "_classes.csv").write_text(text)
        for name in "ab":
            (root / part / f"{name}.jpg").write_text(f"{part}/{name}.jpg")
    return root


ROBOFLOW = {
    "labels": {"train": "train/_classes.csv", "val": "valid/_classes.csv", "test": "test/_classes.csv"},
    "image_column": "filename",
}


def test_a_table_for_each_split(tmp_path: Path) -> None:
    root = exported(
        tmp_path,
        train="filename, cat, dog, cow\nb.jpg,1,0,\na.jpg,0,1,\n",
        valid="filename, dog, cat, cow\na.jpg,1,0,\n",
        test="filename, cat, dog, cow\nb.jpg,1,1,\n",
    )
    source = read(root, **ROBOFLOW)
    assert source.table.classes == ("cat", "dog", "cow")
    assert source.table.images == ("test/b.jpg", "train/a.jpg", "train/b.jpg", "valid/a.jpg")
    assert source.table.split == ("test", "train", "train", "validation")
    assert source.table.labels.tolist() == [[1, 1, 0], [-1, 1, 0], [1, -1, 0], [-1, 1, 0]]
    assert [source.read(row).decode() for row in range(4)] == list(source.table.images)
    assert source.places is not None and source.places[1] == f"{root}, train/_classes.csv, row 3: train/a.jpg"
    assert source.notes[0].startswith(f"{root}: columns without a label: 'cow'; if they are no classes, set ")
    (root / "tables").mkdir()
    for part in ("train", "test"):  # away from the pictures, names start from the data set's folder
        (root / part / "_classes.csv").unlink()
        (root / f"tables/{part}.csv").write_text(f"image,cat\n{part}/a.jpg,1\n")
    assert read(root, labels={"train": "tables/train.csv", "test": "tables/test.csv"}).table.images == (
        "test/a.jpg",
        "train/a.jpg",
    )


def test_faults_of_a_table_for_each_split(tmp_path: Path) -> None:
    root = exported(
        tmp_path,
        train="filename,cat,dog\na.jpg,1,0\nb.jpg,1\nc.jpg,0,0\n",
        valid="filename,cat,dog\nb.jpg,1,yes\na.jpg,0,no\n",
        test="filename,cat,dog\na.jpg,-1,0\n",
    )
    lines = fault(root, **ROBOFLOW).split("\n")
    assert lines[:2] == [
        "FOLDER: faults: 4",
        "test/_classes.csv, row 2: class 'cat': there are -1 cells, so say what 0 and -1 mean: images.options.zero and "
        "images.options.minus_one of dataset.yaml, each absent or unknown",
    ]
    assert lines[2:] == [
        "train/_classes.csv, row 3: 2 cells, the header has 3",
        "train/_classes.csv, row 4: image 'train/c.jpg' is missing",
        "valid/_classes.csv, row 1: most cells of 1 columns are no labels, as in 'dog' 'yes' (row 2); write 1, 0, -1 "
        'or blank, or if they are no classes, set images.options.ignore: ["dog"]',
    ]
    (root / "valid/_classes.csv").write_text("filename,cat,cow\nb.jpg,1,0\n")
    assert fault(root, **ROBOFLOW) == (
        "FOLDER/valid/_classes.csv has the column 'cow', unlike FOLDER/train/_classes.csv; they must have the same, or "
        "set images.options.classes"
    )
    (root / "valid/_classes.csv").write_text("filename,split,cat,dog\nb.jpg,train,1,0\n")
    assert fault(root, **ROBOFLOW) == (
        "FOLDER/valid/_classes.csv has a column 'split', but images.options.labels says the split, too; remove one of "
        "the two"
    )


def test_split_in_another_case(tmp_path: Path) -> None:
    message = fault(brought(tmp_path, "image,Split,cat\nimages/a.png,train,1\n"))
    assert message == "FOLDER/labels.csv: rename the column 'Split', to 'split' if it says the split"


CHEXPERT = (
    "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Edema,Pneumonia\n"
    "images/a.png,Female,68,Frontal,AP,1.0,,\n"
    "images/b.png,Male,1,Lateral,,,-1.0,1.0\n"
    "images/c.png,Male,70,Frontal,PA,,0.0,-1.0\n"
)


def test_chexpert_as_it_comes(tmp_path: Path) -> None:
    root = brought(tmp_path, CHEXPERT)
    assert fault(root).endswith("; columns of other names go into images.options, as image_column: ...")
    options = {"image_column": "Path"}
    ask = "there are -1 cells, so say what 0 and -1 mean: "
    columns, meaning = faults(root, **options)
    remedy = 'ignore: ["Sex", "Age", "Frontal/Lateral", "AP/PA"]'
    assert columns == (
        "row 1: most cells of 4 columns are no labels, as in 'Sex' 'Female' (row 2); write 1, 0, -1 or blank, or if "
        f"they are no classes, set images.options.{remedy}"
    )
    assert meaning.startswith(f"row 3: class 'Edema': {ask}")
    options |= {"zero": "absent", "minus_one": "unknown"}
    (columns,) = faults(root, ignore=["Sex"], **options)
    assert columns.endswith(remedy)
    table = read(root, **yaml.safe_load(f"{{{remedy}}}"), **options).table
    assert table.classes == ("No Finding", "Edema", "Pneumonia")
    assert table.labels.tolist() == [[1, 0, 0], [0, 0, 1], [0, -1, 0]]
    table = read(root, classes=["Pneumonia", "Edema"], **options).table
    assert table.labels.tolist() == [[0, 0], [1, 0], [0, -1]]
    assert fault(root, classes=["Edema", "Oedema"], **options).endswith("/labels.csv has no column 'Oedema'")
    assert faults(root, classes=["Sex"], image_column="Path")[0] == (
        "row 2: class 'Sex': 'Female' is not 1, 0, -1 or blank"
    )


def test_paths_from_cells(tmp_path: Path) -> None:
    source = read(brought(tmp_path, "image,cat\nb,1\n a ,0\n"), image_path="images/{}.png")
    assert source.table.images == ("images/a.png", "images/b.png")
    assert source.table.labels.tolist() == [[-1], [1]]


def test_decimal_commas(tmp_path: Path) -> None:
    table = read(brought(tmp_path, "image;cat;dog;cow\nimages/a.png;1,0;0,0;-1,0\n"), zero="absent", minus_one="absent")
    assert table.table.labels.tolist() == [[1, -1, -1]]


def test_an_image_in_two_rows_and_cells_that_name_none(tmp_path: Path) -> None:
    text = f"image,cat,dog\nimages/a.png,1,\nimages/a.png,,1\na\x1b[31m,1,1\n{'x' * 99_999},1,1\n"
    lines = faults(brought(tmp_path, text))
    wrong = "is no path: it is too long, or has control characters or a line break; is a quote open?"
    assert lines == [
        "row 3: image 'images/a.png' stands in row 2 too; an image has one row: merge them",
        "row 4: image 'a\\x1b[31m' " + wrong,
        f"row 5: image {'x' * 200!r}... (99,999 characters) {wrong}",
    ]


def test_readers_by_name(tmp_path: Path) -> None:
    assert {"digits", "folder", "voc2012"} <= set(datasets.names())
    assert not {"source", "split"} & set(datasets.names())
    with pytest.raises(ValueError, match=r"^images\.reader: 'source' is not allowed; it must be one of .*folder"):
        datasets.read("source", tmp_path, tmp_path)


@pytest.mark.skipif(not (DATA / "photos").is_dir(), reason=f"{DATA / 'photos'} is not here: 5,000 real photographs")
def test_real_photographs() -> None:
    root = DATA / "photos"
    source = folder.read(root, root)
    table = source.table
    assert [len(table.rows(split)) for split in ("train", "validation", "test")] == [2500, 500, 2000]
    assert len(table.classes) == 18
    assert list(table.images) == sorted(table.images)
    # The file, read without pandas.
    with (root / "labels.csv").open(newline="") as file:
        rows = {row.pop("image"): row for row in csv.DictReader(file)}
    assert table.images == tuple(sorted(rows))
    assert table.split == tuple({"val": "validation"}.get(rows[i]["split"], rows[i]["split"]) for i in table.images)
    cells = [[int(rows[image][name]) * 2 - 1 for name in table.classes] for image in table.images]
    assert np.array_equal(table.labels, cells)
    assert (table.labels == 1).sum(1).mean() == pytest.approx(1.55, abs=0.01)
    assert source.read(4321) == (root / table.images[4321]).read_bytes()
