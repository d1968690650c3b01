"""Pascal VOC 2012: the official lists give the published counts; a tar in the official layout is read in place."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mlml.datasets.prepare import prepare
from mlml.datasets.readers import voc2012
from mlml.datasets.split import validation_split
from mlml.labels.table import Table
from tests.datasets.files.test_archive_members import write_tar
from tests.datasets.readers.shared import Reader
from tests.images.shared import by_pillow, pixels
from tests.shared import DATA

OFFICIAL = DATA / "voc2012"
LISTS = "VOCdevkit/VOC2012/ImageSets/Main"
PHOTOGRAPHS = "VOCdevkit/VOC2012/JPEGImages"
needs_voc = pytest.mark.skipif(not OFFICIAL.is_dir(), reason=f"{OFFICIAL} is not here: the official lists")

Files = dict[str, bytes]
VOC = Reader("voc2012")


def pairs(text: str, value: str) -> set[str]:
    """The ids with this value in a list."""
    return set(re.findall(rf"^(\S+)[ ]+{value}[ ]*\r?$", text, re.MULTILINE))


# (a) The official lists


@pytest.fixture(scope="module")
def official() -> Table:
    return voc2012.label_table(lambda path: (OFFICIAL / path).read_text())


@needs_voc
def test_official_lists_give_the_published_counts(official: Table) -> None:
    assert [len(official.rows(split)) for split in ("train", "validation", "test")] == [4574, 1143, 5823]
    train = official.labels[official.rows("train")]
    assert ((train == 1).sum(), (train == -1).sum()) == (6665, 84815)
    assert not (official.labels == 0).any()
    # As many as are not difficult: with these, there would be more.
    training = {official.images[row] for row in official.rows("train")}
    texts = [(OFFICIAL / LISTS / f"{name}_train.txt").read_text() for name in official.classes]
    assert [sum(len(pairs(text, value) & training) for text in texts) for value in ("1", "0")] == [6665, 441]


@needs_voc
def test_each_official_label_is_where_it_belongs(official: Table) -> None:
    assert official.classes == tuple(sorted(path.name[:-8] for path in (OFFICIAL / LISTS).glob("*_val.txt")))
    assert official.classes[0] == "aeroplane" and official.classes[14] == "person" and len(official.classes) == 20
    ids = {part: (OFFICIAL / LISTS / f"{part}.txt").read_text().split() for part in ("train", "val")}
    assert official.images == (*sorted(ids["train"]), *sorted(ids["val"]))
    row = {image: i for i, image in enumerate(official.images)}
    expected = np.full((11540, 20), -1)
    for column, name in enumerate(official.classes):
        for part in ("train", "val"):
            for image in pairs((OFFICIAL / LISTS / f"{name}_{part}.txt").read_text(), "1"):
                expected[row[image], column] = 1
    assert np.array_equal(official.labels, expected)
    training, validation = validation_split(5717)
    assert np.array_equal(official.rows("train"), training)
    assert np.array_equal(official.rows("validation"), validation)
    assert np.array_equal(official.rows("test"), np.arange(5717, 11540))


# (b) Real photographs


@needs_voc
def test_from_an_archive_to_rows(tmp_path: Path) -> None:
    photographs = {path.stem: path for path in sorted((OFFICIAL / PHOTOGRAPHS).glob("*.jpg"))}
    assert len(photographs) == 200
    files: Files = {f"{PHOTOGRAPHS}/{path.name}": path.read_bytes() for path in photographs.values()}
    lists: dict[str, str] = {}
    for path in sorted((OFFICIAL / LISTS).glob("*.txt")):
        kept = [line for line in path.read_text().splitlines(keepends=True) if line.split()[0] in photographs]
        lists[path.name] = "".join(kept)
        files[f"{LISTS}/{path.name}"] = lists[path.name].encode()
    write_tar(tmp_path / voc2012.ARCHIVE, files)
    source = VOC.read(tmp_path)
    prepare(source, 448, tmp_path / "images")
    table, rows = source.table, pixels(tmp_path / "images")

    ids = [lists[f"{part}.txt"].split() for part in ("train", "val")]
    assert table.images == (*sorted(ids[0]), *sorted(ids[1]))
    assert [len(table.rows(split)) for split in ("train", "validation", "test")] == [112, 28, 60]
    assert np.array_equal(table.rows("validation"), validation_split(140)[1])
    for column, name in enumerate(table.classes):
        present = pairs(lists[f"{name}_train.txt"], "1") | pairs(lists[f"{name}_val.txt"], "1")
        assert {table.images[row] for row in np.flatnonzero(table.labels[:, column] == 1)} == present
    assert rows.shape == (200, 448, 448, 3)
    for row in range(0, 200, 10):
        with Image.open(photographs[table.images[row]]) as image:
            assert np.array_equal(rows[row], by_pillow(image, 448))


# (c) A small archive, and what can be wrong with it

TRAIN, TEST = [f"2008_{i:06}" for i in range(10)], [f"2009_{i:06}" for i in range(4)]


def jpeg(grey: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (24, 16), (grey, grey, grey)).save(file, "JPEG")
    return file.getvalue()


def cell(image: str, name: str) -> str:
    """1, 0 or -1, in a different order for each class."""
    return ("1", "0", "-1", "-1")[(int(image[-2:]) + voc2012.CLASSES.index(name)) % 4]


def small() -> Files:
    files: Files = {}
    for part, images in (("train", TRAIN), ("val", TEST)):
        for name in voc2012.CLASSES:
            # As official: the sign of -1 takes the place of a blank. Not sorted, which the reader does.
            lines = [f"{image} {cell(image, name):>2}\n" for image in images[::-1]]
            files[f"{LISTS}/{name}_{part}.txt"] = "".join(lines).encode()
    for grey, image in enumerate([*TRAIN, *TEST]):
        files[f"{PHOTOGRAPHS}/{image}.jpg"] = jpeg(grey * 10)
    files[f"{PHOTOGRAPHS}/2007_000001.jpg"] = jpeg(255)  # photographs that no list has are not read
    return files


def test_a_small_archive(tmp_path: Path) -> None:
    write_tar(tmp_path / voc2012.ARCHIVE, small())
    source = VOC.read(tmp_path)
    assert source.table.images == (*TRAIN, *TEST)
    expected = [[1 if cell(image, name) == "1" else -1 for name in voc2012.CLASSES] for image in (*TRAIN, *TEST)]
    assert source.table.labels.tolist() == expected
    assert source.table.rows("validation").tolist() == validation_split(10)[1].tolist()
    assert source.table.rows("test").tolist() == [10, 11, 12, 13]
    prepare(source, 16, tmp_path / "images")
    greys = np.arange(14)[:, None, None, None] * 10
    assert np.array_equal(pixels(tmp_path / "images"), np.broadcast_to(greys, (14, 16, 16, 3)))


def test_files_that_are_missing(tmp_path: Path) -> None:
    archive = tmp_path / voc2012.ARCHIVE
    assert VOC.fault(tmp_path) == f"FOLDER/{archive.name} is missing; `dvc repro download` fetches it"
    write_tar(archive, {path: content for path, content in small().items() if path != f"{LISTS}/cow_val.txt"})
    assert VOC.fault(tmp_path) == f"FOLDER/{archive.name}: {LISTS}/cow_val.txt is missing"
    gone = [f"{PHOTOGRAPHS}/{image}.jpg" for image in (TRAIN[3], TEST[0], TEST[1])]
    write_tar(archive, {path: content for path, content in small().items() if path not in gone})
    assert VOC.fault(tmp_path) == f"FOLDER/{archive.name}: 3 photographs are missing, the first is {gone[0]}"


FORM, OTHER = "not an image id and 1, 0 or -1", "is not in the lists of all classes"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("cow_train", lambda text: f"{TRAIN[8]}-1\n{text}", f"cow_train.txt: line 1 is '{TRAIN[8]}-1', {FORM}"),
        ("dog_val", lambda text: text + "2009_000009\n", f"dog_val.txt: line 5 is '2009_000009', {FORM}"),
        ("dog_val", lambda text: "2009_000009 2\n" + text, f"dog_val.txt: line 1 is '2009_000009 2', {FORM}"),
        ("cat_train", lambda text: text + "2008_000099 -1\n", f"cat_train.txt: image '2008_000099' {OTHER}"),
        ("cat_train", lambda text: text.partition("\n")[2], f"cat_train.txt: image '{TRAIN[9]}' {OTHER}"),
        ("aeroplane_val", lambda text: text.partition("\n")[2], f"bicycle_val.txt: image '{TEST[3]}' {OTHER}"),
    ],
)
def test_lists_with_other_content(tmp_path: Path, name: str, change: Callable[[str], str], message: str) -> None:
    files, path = small(), f"{LISTS}/{name}.txt"
    files[path] = change(files[path].decode()).encode()
    write_tar(tmp_path / voc2012.ARCHIVE, files)
    assert VOC.fault(tmp_path) == f"{LISTS}/{message}"
