"""Pascal VOC 2012: the official lists give the published counts; a tar in the official layout is read as it stands."""

import functools
import hashlib
import io
import os
import re
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mlml import datasets
from mlml.datasets.prepare import prepare
from mlml.datasets.readers import voc2012
from mlml.datasets.source import Source
from mlml.datasets.split import validation_split
from mlml.download.archives import Archive
from mlml.download.fetch import fetch
from mlml.images.store import open_images
from mlml.labels.table import Table
from tests.shared import DATA

OFFICIAL = DATA / "voc2012"
LISTS = "VOCdevkit/VOC2012/ImageSets/Main"
PHOTOGRAPHS = "VOCdevkit/VOC2012/JPEGImages"
needs_voc = pytest.mark.skipif(not OFFICIAL.is_dir(), reason=f"{OFFICIAL} is not here: the official lists")

Files = dict[str, bytes]


def read(archives: Path) -> Source:
    return datasets.read("voc2012", Path("nowhere"), archives)


def write_tar(path: Path, files: Files) -> Path:
    with tarfile.open(path, "w") as tar:
        folder = tarfile.TarInfo("VOCdevkit/VOC2012")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def prepared(folder: Path) -> np.ndarray:
    """All prepared images, uint8 [n, S, S, 3]."""
    images = open_images(folder)
    return next(images.stream([np.arange(len(images))]))


def pairs(text: str, value: str) -> set[str]:
    """Ids to which a list gives this value."""
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


@needs_voc
def test_difficult_ones_would_have_been_counted_otherwise(official: Table) -> None:
    training = {official.images[row] for row in official.rows("train")}
    count = {"1": 0, "0": 0}
    for name in official.classes:
        text = (OFFICIAL / LISTS / f"{name}_train.txt").read_text()
        for value in count:
            count[value] += len(pairs(text, value) & training)
    assert count["1"] == 6665
    assert count["1"] + count["0"] == 7106


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


# (b) Real photographs, all the way from a server to rows


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of the folder `served`."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "served").mkdir()
    handler = functools.partial(Quiet, directory=str(tmp_path / "served"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@needs_voc
def test_from_a_server_to_rows(tmp_path: Path, url: str) -> None:
    photographs = {path.stem: path for path in sorted((OFFICIAL / PHOTOGRAPHS).glob("*.jpg"))}
    assert len(photographs) == 200
    files: Files = {f"{PHOTOGRAPHS}/{path.name}": path.read_bytes() for path in photographs.values()}
    lists: dict[str, str] = {}
    for path in sorted((OFFICIAL / LISTS).glob("*.txt")):
        kept = [line for line in path.read_text().splitlines(keepends=True) if line.split()[0] in photographs]
        lists[path.name] = "".join(kept)
        files[f"{LISTS}/{path.name}"] = lists[path.name].encode()
    content = write_tar(tmp_path / "served" / voc2012.ARCHIVE, files).read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    archive = Archive(file=voc2012.ARCHIVE, urls=[f"{url}/{voc2012.ARCHIVE}"], bytes=len(content), sha256=sha256)
    got = fetch(archive, tmp_path / "archives")
    assert got.read_bytes() == content

    source = read(tmp_path / "archives")
    prepare(source, 448, tmp_path / "images")
    table, rows = source.table, prepared(tmp_path / "images")

    ids = [lists[f"{part}.txt"].split() for part in ("train", "val")]
    assert [len(part) for part in ids] == [140, 60]
    assert table.images == (*sorted(ids[0]), *sorted(ids[1]))
    assert [len(table.rows(split)) for split in ("train", "validation", "test")] == [112, 28, 60]
    assert np.array_equal(table.rows("validation"), validation_split(140)[1])
    for column, name in enumerate(table.classes):
        present = pairs(lists[f"{name}_train.txt"], "1") | pairs(lists[f"{name}_val.txt"], "1")
        assert {table.images[row] for row in np.flatnonzero(table.labels[:, column] == 1)} == present
    assert set(np.unique(table.labels)) == {-1, 1}
    assert rows.shape == (200, 448, 448, 3)
    for row in range(0, 200, 10):
        with Image.open(photographs[table.images[row]]) as image:
            expected = np.asarray(image.convert("RGB").resize((448, 448), Image.BILINEAR))
        assert np.array_equal(rows[row], expected)


# (c) A small archive, and what can be wrong with it

TRAIN, TEST = [f"2008_{i:06}" for i in range(10)], [f"2009_{i:06}" for i in range(4)]


def jpeg(grey: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (24, 16), (grey, grey, grey)).save(file, "JPEG")
    return file.getvalue()


def cell(image: str, name: str) -> str:
    """1, 0 and -1 in turn, another turn for each class."""
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
    source = read(tmp_path)
    assert source.table.images == (*TRAIN, *TEST)
    expected = [[1 if cell(image, name) == "1" else -1 for name in voc2012.CLASSES] for image in (*TRAIN, *TEST)]
    assert source.table.labels.tolist() == expected
    assert source.table.rows("validation").tolist() == validation_split(10)[1].tolist()
    assert source.table.rows("test").tolist() == [10, 11, 12, 13]
    prepare(source, 16, tmp_path / "images")
    greys = np.arange(14)[:, None, None, None] * 10
    assert np.array_equal(prepared(tmp_path / "images"), np.broadcast_to(greys, (14, 16, 16, 3)))


def test_a_source_keeps_its_archive_open_and_closes_it(tmp_path: Path) -> None:
    path = write_tar(tmp_path / voc2012.ARCHIVE, small())
    source = read(tmp_path)
    path.rename(tmp_path / "moved.tar")
    assert source.read(3) == jpeg(30)
    members = next(cell.cell_contents for cell in source.read.__closure__ or () if hasattr(cell.cell_contents, "text"))
    descriptor = members._file
    assert os.fstat(descriptor).st_ino == (tmp_path / "moved.tar").stat().st_ino
    del source, members
    with pytest.raises(OSError):
        os.fstat(descriptor)


def fault(archives: Path) -> str:
    with pytest.raises(ValueError) as error:
        read(archives)
    message = str(error.value)
    assert "\n" not in message
    return message.replace(str(archives), "ARCHIVES").replace(voc2012.ARCHIVE, "TAR")


def edit(name: str, change: Callable[[str], str]) -> Callable[[Files], object]:
    path = f"{LISTS}/{name}.txt"
    return lambda files: files.update({path: change(files[path].decode()).encode()})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda files: [files.pop(f"{PHOTOGRAPHS}/{image}.jpg") for image in (TRAIN[3], TEST[0], TEST[1])],
            f"ARCHIVES/TAR: 3 photographs are missing, the first is {PHOTOGRAPHS}/{TRAIN[3]}.jpg",
        ),
        (lambda files: files.pop(f"{LISTS}/cow_val.txt"), f"ARCHIVES/TAR: {LISTS}/cow_val.txt is missing"),
        (
            edit("cow_train", lambda text: f"{TRAIN[8]}-1\n{text}"),
            f"{LISTS}/cow_train.txt: line 1 is '{TRAIN[8]}-1', not an image id and 1, 0 or -1",
        ),
        (
            edit("dog_val", lambda text: text + "2009_000009\n"),
            f"{LISTS}/dog_val.txt: line 5 is '2009_000009', not an image id and 1, 0 or -1",
        ),
        (
            edit("dog_val", lambda text: text + "2009_000009 1 1\n"),
            f"{LISTS}/dog_val.txt: line 5 is '2009_000009 1 1', not an image id and 1, 0 or -1",
        ),
        (
            edit("dog_val", lambda text: "2009_000009 2\n" + text),
            f"{LISTS}/dog_val.txt: line 1 is '2009_000009 2', not an image id and 1, 0 or -1",
        ),
        (
            edit("cat_train", lambda text: text + "2008_000099 -1\n"),
            f"{LISTS}/cat_train.txt: image '2008_000099' is not in the lists of all classes",
        ),
        (
            edit("cat_train", lambda text: text.partition("\n")[2]),
            f"{LISTS}/cat_train.txt: image '{TRAIN[9]}' is not in the lists of all classes",
        ),
        (
            edit("aeroplane_val", lambda text: text.partition("\n")[2]),
            f"{LISTS}/bicycle_val.txt: image '{TEST[3]}' is not in the lists of all classes",
        ),
    ],
)
def test_an_archive_with_other_content(tmp_path: Path, change: Callable[[Files], object], message: str) -> None:
    files = small()
    change(files)
    write_tar(tmp_path / voc2012.ARCHIVE, files)
    assert fault(tmp_path) == message


def test_no_archive(tmp_path: Path) -> None:
    assert fault(tmp_path) == "ARCHIVES/TAR is missing; `dvc repro download` fetches it"


@pytest.mark.parametrize("content", [b"", b"<html>", b"<html>" * 1000, jpeg(3)])
def test_no_tar_at_all(tmp_path: Path, content: bytes) -> None:
    (tmp_path / voc2012.ARCHIVE).write_bytes(content)
    assert fault(tmp_path).startswith("ARCHIVES/TAR is no tar archive, or is cut short: ")


def test_a_truncated_archive_anywhere(tmp_path: Path) -> None:
    path = write_tar(tmp_path / voc2012.ARCHIVE, small())
    content = path.read_bytes()
    with tarfile.open(path) as tar:
        last = tar.getmembers()[-2]  # the last that a list has
    end = last.offset_data + last.size
    for size in (*range(1, end, 977), end - 1):
        path.write_bytes(content[:size])
        assert re.match(r"ARCHIVES/TAR( is no tar archive, or is cut short: |: .* missing)", fault(tmp_path)), size


def test_an_archive_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = write_tar(tmp_path / voc2012.ARCHIVE, small())
    source = read(tmp_path)
    with tarfile.open(path) as tar:
        place = tar.getmember(f"{PHOTOGRAPHS}/{TRAIN[5]}.jpg")
    os.truncate(path, place.offset_data + 7)
    expected = f"{path}: {place.name} is cut short (7 of {place.size} bytes)"
    with pytest.raises(ValueError) as error:
        source.read(5)
    assert str(error.value) == expected
    with pytest.raises(ValueError) as error:
        prepare(source, 16, tmp_path / "images")
    lines = str(error.value).split("\n")
    assert lines[0] == "9 images cannot be read"
    assert lines[1] == f"{TRAIN[5]}: {expected}"
    assert not any((tmp_path / "images").iterdir())
