"""A user's own folder: what it may look like, and all that is wrong with it said at once."""

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mlml import datasets
from mlml.datasets import folder
from mlml.datasets.source import Source
from mlml.datasets.split import validation_split
from tests.shared import DATA


def brought(root: Path, labels: str | bytes, images: str = "a b c d e") -> Path:
    """A folder with this labels.csv and small pictures of these names, each of another grey."""
    (root / "images").mkdir()
    for grey, name in enumerate(images.split()):
        Image.new("RGB", (4, 3), (grey, grey, grey)).save(root / f"images/{name}.png")
    (root / "labels.csv").write_bytes(labels.encode() if isinstance(labels, str) else labels)
    return root


def read(root: Path) -> Source:
    return datasets.read("folder", root, Path("nowhere"))


def fault(root: Path) -> str:
    with pytest.raises(ValueError) as error:
        read(root)
    assert str(root / "labels.csv") in str(error.value)
    return str(error.value).replace(str(root), "FOLDER")


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
    assert [np.asarray(source.load(row))[0, 0].tolist() for row in range(5)] == [[grey] * 3 for grey in range(5)]


def test_cells_as_pandas_writes_them(tmp_path: Path) -> None:
    source = read(
        brought(tmp_path, "image,split,cat\nimages/a.png,train,1.0\nimages/b.png,val,0.0\nimages/c.png,val,NaN\n")
    )
    assert source.table.labels.tolist() == [[1], [-1], [0]]


def test_a_file_saved_by_a_spreadsheet(tmp_path: Path) -> None:
    labels = '\ufeffimage,split,"a, b",Käse\r\nimages/a.png,train,1,0\r\n\r\nimages/b.png,val,0,1\r\n'
    table = read(brought(tmp_path, labels)).table
    assert table.classes == ("a, b", "Käse")
    assert table.images == ("images/a.png", "images/b.png")
    assert table.labels.tolist() == [[1, -1], [-1, 1]]


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
    assert [training[i] for i in validation_split(23)[1]] == expected


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
        ",Train,1,0\n"
    )
    assert fault(brought(root, labels)).split("\n") == [
        "FOLDER/labels.csv: 10 faults",
        "row 2: class 'Käse': 'yes' is not 1, 0 or blank",
        "row 4: class 'cat': '2' is not 1, 0 or blank",
        "row 4: split 'dev' is not train, val or test",
        "row 5: image 'images/a.png' stands in row 2 too",
        f"row 6: image '{outside}' lies outside of FOLDER",
        "row 7: image '../outside.png' lies outside of FOLDER",
        "row 8: image 'images/z.png' is missing",
        "row 9: image 'images' is missing",
        "row 10: split 'Train' is not train, val or test",
        "row 10: image '' is missing",
    ]


def test_many_faults_are_counted(tmp_path: Path) -> None:
    lines = fault(brought(tmp_path, "image,split,cat\n" + "".join(f"{i}.png,train,1\n" for i in range(50)))).split("\n")
    assert lines[0] == "FOLDER/labels.csv: 50 faults"
    assert lines[1:21] == [f"row {i + 2}: image '{i}.png' is missing" for i in range(20)]
    assert lines[21:] == ["... and 30 more"]


def test_no_file(tmp_path: Path) -> None:
    assert fault(tmp_path) == "FOLDER/labels.csv is missing; it has the columns image, split and one a class"


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ("", "0 rows with the columns ;"),
        ("image,split,cat\n", "0 rows with the columns 'image', 'split', 'cat';"),
        ("image,split\nimages/a.png,train\n", "1 rows with the columns 'image', 'split';"),
        ("file,split,cat\nimages/a.png,train,1\n", "1 rows with the columns 'file', 'split', 'cat';"),
        ("image;split;cat\nimages/a.png;train;1\n", "1 rows with the columns 'image;split;cat';"),
    ],
)
def test_other_columns(tmp_path: Path, labels: str, said: str) -> None:
    message = fault(brought(tmp_path, labels))
    assert message == f"FOLDER/labels.csv: {said} it must have rows, and the columns image, split and one a class"


@pytest.mark.parametrize(
    ("header", "name"), [("cat,cat", "cat"), ("cat,split", "split"), ("cat,image", "image"), ("cat,", "")]
)
def test_a_column_without_a_name_of_its_own(tmp_path: Path, header: str, name: str) -> None:
    message = fault(brought(tmp_path, f"image,split,{header}\nimages/a.png,train,1,0\n"))
    assert message == f"FOLDER/labels.csv: each column must have a name of its own, not {name!r}"


@pytest.mark.parametrize(
    "row", ["images/b.png,train,1", "images/b.png,train", "images/b.png,train,1,0,", "images/b.png"]
)
def test_a_row_of_another_length_is_no_row_of_unknown_labels(tmp_path: Path, row: str) -> None:
    message = fault(brought(tmp_path, f"image,split,cat,dog\nimages/a.png,train,1,0\n{row}\n"))
    assert message == f"FOLDER/labels.csv: row 3 has {row.count(',') + 1} cells, the header 4 (1 such rows)"


def test_another_encoding(tmp_path: Path) -> None:
    message = fault(brought(tmp_path, "image,split,Käse\nimages/a.png,train,1\n".encode("cp1252")))
    assert message.startswith("FOLDER/labels.csv is no CSV file in UTF-8: ")


def test_it_takes_no_options(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^images\.options\.size: unknown key; it takes none$"):
        datasets.read("folder", tmp_path, tmp_path, {"size": 3})


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
    with source.load(4321) as image:
        assert image.filename == str(root / table.images[4321])
