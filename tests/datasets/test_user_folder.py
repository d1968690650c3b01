"""Rows of one image are combined without losing a label; what was found in another way than written is said."""

from pathlib import Path

import numpy as np
import pytest

from mlml.datasets.source import Source
from mlml.datasets.user_folder import RawTable, source


def table(root: Path, rows: list[tuple[str, str, list[int]]], **changes: object) -> Source:
    """A table with rows (image, split, labels) and the classes a, b, c; files of the images exist."""
    for image, _, _ in rows:
        (root / image).touch()
    images, split, labels = (list(part) for part in zip(*rows, strict=True))
    places = [f"row {number}" for number in range(2, 2 + len(rows))]
    raw = RawTable(Path("labels.csv"), tuple("abc"), images, split, np.array(labels, np.int8), places, [], root)
    return source(raw._replace(**changes), upright=True)


def fault(root: Path, rows: list[tuple[str, str, list[int]]], **changes: object) -> list[str]:
    with pytest.raises(ValueError) as error:
        table(root, rows, **changes)
    return str(error.value).split("\n")[1:]


ROWS = [
    ("y.jpg", "train", [1, 0, 0]),
    ("x.jpg", "val", [0, 0, 1]),
    ("y.jpg", "training", [0, -1, 0]),
    ("z.jpg", "test", [-1, -1, -1]),
    ("y.jpg", "train", [1, -1, 1]),
]


def test_rows_of_one_image_are_combined(tmp_path: Path) -> None:
    read = table(tmp_path, ROWS)
    assert read.table.images == ("x.jpg", "y.jpg", "z.jpg")
    assert read.table.split == ("validation", "train", "test")
    assert read.table.labels.tolist() == [[0, 0, 1], [1, -1, 1], [-1, -1, -1]]
    assert read.places == ("labels.csv, row 3: x.jpg", "labels.csv, row 2: y.jpg", "labels.csv, row 5: z.jpg")
    assert read.notes == ("2 images are listed again, as 'y.jpg' (row 2, row 4): their labels are combined",)


def test_rows_that_cannot_be_combined(tmp_path: Path) -> None:
    for name, target in (("same.jpg", "z.jpg"), ("other.jpg", "y.jpg")):
        (tmp_path / name).symlink_to(target)
    rows = [
        *ROWS,
        ("y.jpg", "train", [0, 1, 0]),
        ("y.jpg", "test", [0, 0, 0]),
        ("same.jpg", "test", [-1, -1, -1]),
        ("other.jpg", "train", [0, 0, 0]),
    ]
    assert fault(tmp_path, rows) == [
        "row 7: image 'y.jpg' stands in row 2 too, where class 'b' is absent, not present; correct or merge the two",
        "row 8: image 'y.jpg' is in two splits, train (row 2) and test; a photograph belongs in one",
        "row 9: image 'same.jpg' stands in row 5 too, as 'z.jpg', with the same labels; remove one of them",
        "row 10: image 'other.jpg' stands in row 2 too, as 'y.jpg', with other labels; merge the two",
    ]
    assert fault(tmp_path, ROWS, combine=False) == [
        "row 4: image 'y.jpg' stands in row 2 too, with other labels; merge the two",
        "row 6: image 'y.jpg' stands in row 2 too, with other labels; merge the two",
    ]


def test_names_of_classes_that_mislead(tmp_path: Path) -> None:
    """Whatever the form of the labels."""
    names = ("cat", " ", "cat ")
    assert fault(tmp_path, ROWS, classes=names, class_places={" ": "row 3"}) == [
        "classes: the classes 'cat' and 'cat ' look the same; write one",
        "row 3: the name of a class is blank",
    ]


def test_two_names_that_lead_to_one_file_are_not_combined(tmp_path: Path) -> None:
    """Their pictures may have had one name in two folders."""
    rows = [("a.jpg", "train", [1, 0, 0]), ("b.jpg", "val", [1, 0, 0]), ("c.jpg", "test", [1, 0, 0])]
    assert fault(tmp_path, rows, images=["cats/a.jpg", "dogs/a.jpg", "c.jpg"], split=None) == [
        "row 3: image 'dogs/a.jpg' stands in row 2 too, as 'cats/a.jpg', with the same labels; remove one of them"
    ]


def test_remarks(tmp_path: Path) -> None:
    rows = [("a\n.jpg", "train", [1, 0, 0]), ("b.jpg", "val", [1, 0, 0]), ("c.jpg", "test", [1, 0, 0])]
    (tmp_path / "more.jpg").touch()
    (tmp_path / "notes.txt").touch()
    read = table(tmp_path, rows, images=["a\n.jpg", "b", "c.JPG"], notes=("of the reader",))
    assert read.places is not None and read.places[0] == "labels.csv, row 2: a\n.jpg"
    assert read.notes == (
        "of the reader",
        "2 images are not listed under the names of their files, as 'b' for 'b.jpg'",
        f"1 pictures in {tmp_path} are not in the labels, as 'more.jpg'",
    )
