"""NUS-WIDE: both forms of the label lists give the same table; one message reports all faults."""

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlml.core.errors import quoted
from mlml.datasets.readers.nuswide import CLASSES, COLUMNS, CONCEPTS, CSV, NPY
from mlml.datasets.source import Source
from mlml.datasets.split import validation_split
from tests.datasets.readers.shared import Reader

READER = Reader("nuswide")
read, fault, faults = READER.read, READER.fault, READER.faults

Rows = list[tuple[str, list[str], str]]  # path below images/, names of the present classes, train or val


def pictures(folder: Path, rows: Rows) -> None:
    """Placeholder image files."""
    for path, _, _ in rows:
        file = folder / "images" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(path.encode())


def as_csv(folder: Path, rows: Rows) -> None:
    """The table as pandas writes a column of lists."""
    with (folder / CSV).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([f"images/{path}", str(names), part] for path, names, part in rows)


def as_npy(folder: Path, rows: Rows, order: tuple[str, ...] = CLASSES, kind: type = np.float64) -> None:
    for part, (images_file, labels_file) in NPY.items():
        chosen = [(path, names) for path, names, word in rows if word == part]
        np.save(folder / images_file, np.array([path for path, _ in chosen], dtype=str))
        matrix = np.array([[name in names for name in order] for _, names in chosen]).reshape(len(chosen), len(order))
        np.save(folder / labels_file, matrix.astype(kind))


ROWS: Rows = [
    ("c/3.jpg", ["sky", "clouds"], "train"),
    ("a/1.jpg", ["zebra"], "train"),
    ("d/9.jpg", ["airport"], "val"),
    ("b/2.jpg", [], "train"),
    ("e/5.jpg", ["clouds", "clouds"], "train"),
    ("f/0.jpg", [], "val"),
    ("d/8.jpg", ["plane", "sky", "sun"], "train"),
]
FORMS: dict[str, Callable[[Path, Rows], None]] = {"csv": as_csv, "npy": as_npy}
forms = pytest.mark.parametrize("form", FORMS)


def brought(folder: Path, form: str, rows: Rows = ROWS) -> Path:
    pictures(folder, rows)
    FORMS[form](folder, rows)
    return folder


def present(source: Source) -> dict[str, set[str]]:
    """The names of the present classes of each image."""
    table = source.table
    return {
        image: {table.classes[i] for i in np.flatnonzero(table.labels[row] == 1)}
        for row, image in enumerate(table.images)
    }


def test_the_official_classes() -> None:
    assert len(CLASSES) == 81
    assert list(CLASSES) == sorted(CLASSES)
    places = {"airport": 0, "clouds": 13, "person": 42, "plane": 43, "sky": 55, "water": 75, "zebra": 80}
    assert {name: CLASSES.index(name) for name in places} == places


@forms
def test_a_form(tmp_path: Path, form: str) -> None:
    source = read(brought(tmp_path, form))
    table = source.table
    assert table.classes == CLASSES
    assert list(table.images) == sorted(path for path, _, _ in ROWS)
    assert present(source) == {path: set(names) for path, names, _ in ROWS}
    assert table.labels.dtype == np.int8 and set(np.unique(table.labels)) == {-1, 1}
    # Five train images, sorted; the protocol takes one of them for validation. The val images are for testing.
    train = ["a/1.jpg", "b/2.jpg", "c/3.jpg", "d/8.jpg", "e/5.jpg"]
    assert [table.images[row] for row in table.rows("test")] == ["d/9.jpg", "f/0.jpg"]
    assert [table.images[row] for row in table.rows("validation")] == [train[i] for i in validation_split(5)[1]]
    assert [table.images[row] for row in table.rows("train")] == [train[i] for i in validation_split(5)[0]]
    assert [source.read(row).decode() for row in range(7)] == list(table.images)
    assert not source.upright


@forms
@pytest.mark.parametrize(("keep", "fate", "left"), [(True, "kept", 7), (False, "left out", 5)])
def test_images_without_labels(tmp_path: Path, capsys: Any, form: str, keep: bool, fate: str, left: int) -> None:
    source = read(brought(tmp_path, form), keep_unlabelled=keep)
    assert capsys.readouterr().err.splitlines() == [
        f"nuswide: 1 of 5 train images have no label; {fate}",
        f"nuswide: 1 of 2 val images have no label; {fate}",
    ]
    expected = {path: set(names) for path, names, _ in ROWS if keep or names}
    assert present(source) == expected and len(expected) == left
    assert not keep or (source.table.labels[source.table.images.index("b/2.jpg")] == -1).all()
    # The protocol's split is that of the images that are kept.
    training = sorted(path for path, _, word in ROWS if word == "train" and path in expected)
    validation = [source.table.images[row] for row in source.table.rows("validation")]
    assert validation == [training[i] for i in validation_split(len(training))[1]]


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    paths = draw(st.lists(st.integers(0, 99), min_size=1, max_size=12, unique=True))
    names = st.lists(st.sampled_from(CLASSES), max_size=5, unique=True)
    return [(f"{path % 3}/{path}.jpg", draw(names), draw(st.sampled_from(["train", "val"]))) for path in paths]


@settings(max_examples=30)
@given(tables(), st.permutations(CLASSES), st.sampled_from([np.float64, np.uint8, bool, np.int64]))
def test_both_forms_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: Rows, order: list[str], kind: type
) -> None:
    folder = brought(tmp_path_factory.mktemp("nuswide"), "csv", rows)
    as_npy(folder, rows, tuple(order), kind)
    (folder / CONCEPTS).write_text("\r\n".join(order) + "\r\n")
    one, other = read(folder, labels="csv").table, read(folder, labels="npy").table
    assert other.classes == tuple(order) and one.classes == CLASSES
    assert one.images == other.images and one.split == other.split
    assert np.array_equal(one.labels, other.labels[:, [order.index(name) for name in CLASSES]])
    assert present(Source(one, lambda row: b"")) == {path: set(names) for path, names, _ in rows}


def test_paths_as_others_wrote_them(tmp_path: Path) -> None:
    pictures(tmp_path, ROWS)
    text = "\ufefffilepath,label,split_name\r\n" + "".join(
        f'{path},"{names}",{part}\r\n'
        for path, names, part in [
            ("images/a/1.jpg", ["sky"], "train"),
            ("c/3.jpg", ["sun"], "train"),
            ("images\\d\\8.jpg", ["sky"], "val"),
        ]
    )
    (tmp_path / CSV).write_bytes(text.encode())
    assert read(tmp_path).table.images == ("a/1.jpg", "c/3.jpg", "d/8.jpg")
    (tmp_path / "images").rename(tmp_path / "Flickr")
    table = read(tmp_path, images="Flickr").table
    assert table.images == ("a/1.jpg", "c/3.jpg", "d/8.jpg") and table.split[2] == "test"


# What can be wrong


def test_all_faults_of_the_table_together(tmp_path: Path) -> None:
    pictures(tmp_path, ROWS)
    lines = [
        "filepath,label,split_name",
        "images/a/1.jpg,\"['sky', 'Sky', 'aeroplane']\",train",
        "images/b/2.jpg,\"['sky'\",train",
        "images/c/3.jpg,,test",
        "images/d/8.jpg,\"['sky', 3]\",val",
        "images/d/9.jpg,__import__('os').getcwd(),val",
        "",
        "images/none.jpg,['sky'],val",
        "images/e/5.jpg,['sky', 'sun'],val",
        "images/../x.jpg,[],val",
        "a/1.jpg,['sky'],val",
    ]
    (tmp_path / CSV).write_text("\n".join(lines))
    a_list = "is no list of names such as \"['clouds', 'sky']\""
    assert faults(tmp_path) == [
        "row 2: label 'Sky' is none of the 81 classes",
        "row 2: label 'aeroplane' is none of the 81 classes",
        f"row 3: label \"['sky'\" {a_list}",
        f"row 4: label '' {a_list}",
        "row 4: split_name 'test' is not train or val",
        f"row 5: label \"['sky', 3]\" {a_list}",
        f"row 6: label \"__import__('os').getcwd()\" {a_list}",
        "row 8: image 'none.jpg' is missing",
        "row 9: 4 cells, the header has 3",
        "row 10: image '../x.jpg' lies outside of FOLDER/images; put it into the folder",
        "row 11: image 'a/1.jpg' is in two splits, train (row 2) and test; a photograph belongs in one",
    ]


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param("[" * 9999 + "]" * 9999, id="nested"),
        pytest.param("-" * 100_000 + "1", id="long"),
        "('sky',)",
    ],
)
def test_a_cell_that_is_no_list(tmp_path: Path, cell: str) -> None:
    brought(tmp_path, "csv")
    (tmp_path / CSV).write_text(f'filepath,label,split_name\na/1.jpg,"{cell}",train\n')
    assert fault(tmp_path).split("\n")[1].startswith(f"row 2: label {quoted(cell)} is no list of names")


def test_nothing_brought(tmp_path: Path) -> None:
    assert fault(tmp_path) == (
        f"FOLDER: no label lists, {CSV} or formatted_train_images.npy, formatted_train_labels.npy, "
        "formatted_val_images.npy, formatted_val_labels.npy missing; FOLDER/dataset.yaml says where to get them"
    )
    brought(tmp_path, "npy")
    (tmp_path / NPY["val"][1]).unlink()
    assert f"no label lists, {CSV} or formatted_val_labels.npy missing" in fault(tmp_path)
    assert f"no label lists, {CSV} missing" in fault(tmp_path, labels="csv")
    as_csv(tmp_path, ROWS)
    assert len(read(tmp_path).table.images) == 7
    (tmp_path / "images").rename(tmp_path / "photos")
    assert fault(tmp_path).startswith("FOLDER/images is missing; it is the folder of the photographs")


def test_both_forms_brought(tmp_path: Path) -> None:
    brought(tmp_path, "npy")
    as_csv(tmp_path, ROWS[:4])
    assert fault(tmp_path) == f"FOLDER has {CSV} and the .npy files; say csv or npy in images.options.labels"
    assert [len(read(tmp_path, labels=form).table.images) for form in ("csv", "npy")] == [4, 7]


def test_options(tmp_path: Path) -> None:
    brought(tmp_path, "csv")
    reason = "images.options.images: '../voc2012' is not allowed; must be a path below FOLDER"
    assert fault(tmp_path, images="../voc2012") == reason
    assert fault(tmp_path, labels="xml") == "images.options.labels: 'xml' is not allowed; must be 'csv' or 'npy'"


def saved(file: str, array: Any) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / file, array, allow_pickle=True)


def concepts(names: tuple[str, ...]) -> Callable[[Path], object]:
    return lambda folder: (folder / CONCEPTS).write_text("\n".join(names))


IMAGES, LABELS = NPY["train"]
UNREADABLE = f"{LABELS} is no .npy file that can be read; bring it again"
NOT_CLASSES = "names that are not the 81 classes, a line each"
HEADER = str({"descr": "<f8", "fortran_order": False, "shape": (1 << 50, 81)}).encode()
HUGE = b"\x93NUMPY\1\0" + len(HEADER).to_bytes(2, "little") + HEADER
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "objects": (
        saved(IMAGES, np.array(["a/1.jpg"] * 5, dtype=object)),
        f"{IMAGES} holds Python objects, which may run code and are not read; if you trust the file, save "
        "it anew as text: np.save(path, np.array(np.load(path, allow_pickle=True).tolist()))",
    ),
    "numbers": (saved(IMAGES, np.arange(5)), f"{IMAGES} holds int64 [5], not text in 1 dimension"),
    "text": (saved(LABELS, np.array(["1"])), f"{LABELS} holds <U1 [1], not numbers in 2 dimensions"),
    "80 columns": (
        saved(LABELS, np.zeros((5, 80))),
        f"{LABELS} is [5, 80], not [5, 81]: a row for each of {IMAGES}, a column for each class",
    ),
    "lfs": (lambda folder: (folder / LABELS).write_text("version https://git-lfs.github.com/spec/v1\n"), UNREADABLE),
    "a size that no memory has": (lambda folder: (folder / LABELS).write_bytes(HUGE), UNREADABLE),
    "a pipe": (
        lambda folder: ((folder / LABELS).unlink(), os.mkfifo(folder / LABELS)),
        f"{LABELS} is a named pipe, not a file",
    ),
    "80 classes": (concepts(CLASSES[:-1]), f"{CONCEPTS} has 80 {NOT_CLASSES}"),
    "one twice": (concepts((*CLASSES[:-1], CLASSES[0])), f"{CONCEPTS} has 81 {NOT_CLASSES}"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_with_other_content(tmp_path: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    change(brought(tmp_path, "npy"))
    assert fault(tmp_path) == f"FOLDER/{message}"


def test_the_remedy_for_objects_mends_the_file(tmp_path: Path) -> None:
    brought(tmp_path, "npy")
    expected = present(read(tmp_path))
    path = tmp_path / IMAGES
    saved(IMAGES, np.load(path).astype(object))(tmp_path)
    remedy = fault(tmp_path).rpartition(": ")[2]
    exec(remedy, {"np": np, "path": path})
    assert present(read(tmp_path)) == expected


def test_all_faults_of_the_matrices_together(tmp_path: Path) -> None:
    brought(tmp_path, "npy")
    labels = np.load(tmp_path / LABELS)
    labels[1, 7], labels[3, 80], labels[3, 4] = -1, 2, np.nan
    np.save(tmp_path / LABELS, labels)
    (tmp_path / "images/d/9.jpg").unlink()
    assert faults(tmp_path) == [
        f"{IMAGES}[1]: a label in {LABELS} is -1.0, not 0 or 1",
        f"{IMAGES}[3]: a label in {LABELS} is nan, not 0 or 1",
        f"{NPY['val'][0]}[0]: image 'd/9.jpg' is missing",
    ]
