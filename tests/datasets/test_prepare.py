"""Prepared images equal Pillow's, and are complete or absent whenever the work stops."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mlml.core.params import parse
from mlml.datasets import prepare as preparation
from mlml.datasets.prepare import PrepareParams, prepare
from mlml.datasets.source import Source
from mlml.images.store import Storage, open_images
from tests.core.test_threads import soon
from tests.images import shared
from tests.images.shared import by_pillow, pixels
from tests.test_architecture import ROOT

STORAGES: tuple[Storage, ...] = ("rows", "encoded")
FILES = {"rows": ["rows.json", "rows.npy"], "encoded": ["encoded.bin", "encoded.npz"]}
both = pytest.mark.parametrize("storage", STORAGES)


def smooth(height: int, width: int) -> Image.Image:
    """Enlarged coarse noise, which resembles a photograph."""
    coarse = np.random.RandomState(height).randint(0, 256, (5, 7, 3)).astype(np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def source(folder: Path, names: list[str], upright: bool = False) -> Source:
    return shared.source(names, lambda row: (folder / names[row]).read_bytes(), upright)


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images of many sizes, and of some kinds: tests of decoding have all."""
    path = tmp_path / "pictures"
    path.mkdir()
    for i, (height, width) in enumerate([(375, 500), (500, 333), (1, 1), (7, 300), (90, 90), (46, 45)]):
        smooth(height, width).save(path / f"{i}.jpg", quality=90)
    photo, exif = smooth(60, 80), Image.Exif()
    for name, mode in {
        "grey.jpg": "L",
        "bits.png": "1",
        "cmyk.jpg": "CMYK",
        "palette.gif": "P",
        "alpha.png": "LA",
    }.items():
        photo.convert(mode).save(path / name)
    exif[0x0112] = 6  # turned by the camera: Pillow, and so the published numbers, take the pixels as they are
    photo.save(path / "turned.jpg", exif=exif)
    return path


@both
@pytest.mark.parametrize("size", [8, 45, 64, 448])
def test_images_are_pillows_to_the_bit(folder: Path, tmp_path: Path, size: int, storage: Storage) -> None:
    names, target = listing(folder), tmp_path / "deep" / "images"
    prepare(source(folder, names), size, target, storage)
    assert (len(open_images(target)), open_images(target).size) == (len(names), size) == (12, size)
    decoded = pixels(target)
    assert decoded.shape == (12, size, size, 3) and decoded.dtype == np.uint8
    for name, row in zip(names, decoded, strict=True):
        with Image.open(folder / name) as image:
            assert np.array_equal(row, by_pillow(image, size)), name
    assert listing(target) == FILES[storage]


@both
def test_upright_pictures(folder: Path, tmp_path: Path, storage: Storage) -> None:
    prepare(source(folder, ["turned.jpg"], upright=True), 32, tmp_path / "images", storage)
    with Image.open(folder / "turned.jpg") as image:
        assert np.array_equal(pixels(tmp_path / "images")[0], by_pillow(image.rotate(-90, expand=True), 32))


@both
def test_many_images_keep_their_rows(tmp_path: Path, storage: Storage) -> None:
    def read(row: int) -> bytes:
        file = io.BytesIO()
        Image.new("L", (10 + row % 7, 9), row % 251).save(file, "PNG")
        return file.getvalue()

    prepare(shared.source(range(601), read), 8, tmp_path, storage)
    greys = np.arange(601)[:, None, None, None] % 251
    assert np.array_equal(pixels(tmp_path), np.broadcast_to(greys, (601, 8, 8, 3)))


# (a) Images that cannot be read


@both
def test_unreadable_images_are_named_together_and_nothing_is_left(
    folder: Path, tmp_path: Path, storage: Storage
) -> None:
    names, whole = listing(folder), (folder / "0.jpg").read_bytes()
    contents = {
        "cut.jpg": whole[: len(whole) // 2],
        "cut header.jpg": whole[:15],
        "empty.jpg": b"",
        "page.jpg": b"<html>",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    broken = [*contents, "missing.jpg"]
    mixed = [*broken[:3], *names[:9], *broken[3:], *names[9:]]
    with pytest.raises(ValueError) as error:
        prepare(source(folder, mixed), 16, tmp_path / "images", storage)
    first, *lines = str(error.value).split("\n")
    assert first == "5 images cannot be read"
    assert [line.partition(": ")[0] for line in lines] == broken
    assert all(line.partition(": ")[2] for line in lines)
    assert listing(tmp_path / "images") == []
    with pytest.raises(ValueError, match="holds no prepared images"):
        open_images(tmp_path / "images")


@both
def test_many_unreadable_images_are_counted_and_named_by_their_places(tmp_path: Path, storage: Storage) -> None:
    names = [f"{i}.jpg" for i in range(30)]
    places = tuple(f"labels.csv, row {i + 2}: {name}" for i, name in enumerate(names))
    with pytest.raises(ValueError) as error:
        prepare(source(tmp_path, names)._replace(places=places), 16, tmp_path / "images", storage)
    lines = str(error.value).split("\n")
    assert lines[0] == "30 images cannot be read" and lines[-1] == "... and 10 more"
    assert all(line.startswith(f"{place}: ") for line, place in zip(lines[1:-1], places, strict=False))
    assert len(lines) == 22
    assert listing(tmp_path / "images") == []


@both
def test_another_error_is_no_fault_of_an_image(folder: Path, tmp_path: Path, storage: Storage) -> None:
    def read(row: int) -> bytes:
        raise KeyError(row)

    with pytest.raises(KeyError):
        prepare(source(folder, listing(folder))._replace(read=read), 16, tmp_path / "images", storage)
    assert listing(tmp_path / "images") == []


@both
def test_a_full_disk_is_an_error_and_leaves_nothing(
    folder: Path, tmp_path: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    places = {"rows": [(os, "posix_fallocate"), (os, "pwrite")], "encoded": [(preparation, "write_index")]}
    for module, name in places[storage]:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, full)
            with pytest.raises(OSError) as error:
                prepare(source(folder, listing(folder)), 16, tmp_path / "images", storage)
        assert str(error.value).startswith("[Errno 28] No space left on device")
        assert Path(error.value.filename).parent == tmp_path / "images"
        assert listing(tmp_path / "images") == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_names_the_shard(folder: Path, tmp_path: Path) -> None:
    (tmp_path / ".encoded.bin").symlink_to("/dev/full")
    with pytest.raises(OSError) as error:
        prepare(source(folder, listing(folder)), 16, tmp_path, "encoded")
    assert error.value.filename == str(tmp_path / "encoded.bin")


@both
def test_a_damaged_picture_is_refused_unless_it_was_published_so(
    folder: Path, tmp_path: Path, storage: Storage
) -> None:
    data = (folder / "0.jpg").read_bytes()
    (folder / "half.jpg").write_bytes(data[: len(data) // 2] + b"\xff\xd9")
    half = source(folder, ["half.jpg"])
    with pytest.raises(ValueError, match=r"half\.jpg: damaged: the file does not hold all of the picture"):
        prepare(half, 16, tmp_path / "images", storage)
    prepare(half._replace(published=True), 16, tmp_path / "images", storage)
    with Image.open(folder / "half.jpg") as image:
        assert np.array_equal(pixels(tmp_path / "images")[0], by_pillow(image, 16))


# (b) What was there before


@both
def test_the_old_files_are_neither_written_through_nor_lost(folder: Path, tmp_path: Path, storage: Storage) -> None:
    target, cache = tmp_path / "images", tmp_path / "cache"
    prepare(source(folder, ["0.jpg", "1.jpg"]), 16, target, storage)
    cache.mkdir()
    for name in FILES[storage]:
        os.link(target / name, cache / name)
    before = {name: (cache / name).read_bytes() for name in FILES[storage]}
    names = ["1.jpg", "0.jpg"]
    with pytest.raises(ValueError, match=r"^1 images cannot be read\nmissing\.jpg: "):
        prepare(source(folder, [*names, "missing.jpg"]), 16, target, storage)
    assert all(os.path.samefile(target / name, cache / name) for name in FILES[storage])
    old = pixels(target)
    prepare(source(folder, names), 16, target, storage)
    assert {name: (cache / name).read_bytes() for name in FILES[storage]} == before
    assert np.array_equal(pixels(target), old[::-1])
    assert listing(target) == FILES[storage]


@pytest.mark.parametrize(("first", "second"), [("rows", "encoded"), ("encoded", "rows")])
def test_another_storage_takes_the_place_of_the_first(
    folder: Path, tmp_path: Path, first: Storage, second: Storage
) -> None:
    names = listing(folder)
    prepare(source(folder, names), 16, tmp_path / "images", first)
    old = pixels(tmp_path / "images")
    with pytest.raises(ValueError):
        prepare(source(folder, [*names, "missing.jpg"]), 16, tmp_path / "images", second)
    assert listing(tmp_path / "images") == FILES[first]
    prepare(source(folder, names), 16, tmp_path / "images", second)
    assert listing(tmp_path / "images") == FILES[second]
    assert np.array_equal(pixels(tmp_path / "images"), old)


# (c) Work that is stopped


# Each begins so and runs from the root: `python -c` then imports the tests, too.
IMPORTS = """
import os, pathlib, re, sys, time
from mlml.datasets import prepare as preparation
from mlml.datasets.prepare import prepare
from mlml.images.store import open_images
from tests.images.shared import source
"""
STOPPED = """
def read(row):
    if row == 100:
        print("now", flush=True)
    if row >= 100:
        time.sleep(0.1)
    return pathlib.Path(sys.argv[1], "0.jpg").read_bytes()
prepare(source(range(400), read), 16, pathlib.Path(sys.argv[2]), sys.argv[3])
"""


def script(code: str, *arguments: object) -> "subprocess.Popen[str]":
    words = [sys.executable, "-W", "ignore", "-c", IMPORTS + code, *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def printed(code: str, *arguments: object) -> list[str]:
    """The lines that a script prints; it must succeed."""
    with script(code, *arguments) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output.splitlines()


def stopped(folder: Path, target: Path, storage: Storage, number: signal.Signals) -> tuple[int, str]:
    """Send a signal to a process in the middle of `prepare`; returns its exit status and standard error."""
    with script(STOPPED, folder, target, storage) as process:
        assert process.stdout and process.stdout.readline() == "now\n"
        process.send_signal(number)
        return process.wait(60), process.stderr.read() if process.stderr else ""


@both
def test_a_killed_process_leaves_nothing_that_opens(folder: Path, tmp_path: Path, storage: Storage) -> None:
    target = tmp_path / "images"
    assert stopped(folder, target, storage, signal.SIGKILL)[0] == -signal.SIGKILL
    rest = listing(target)
    assert rest and all(name.startswith(".") for name in rest)
    with pytest.raises(ValueError, match="holds no prepared images"):
        open_images(target)
    names = listing(folder)
    for again in (storage, *STORAGES):  # the same storage, and the other one
        prepare(source(folder, names), 16, target, again)
        assert listing(target) == FILES[again]
        assert len(pixels(target)) == 12


@both
def test_ctrl_c_leaves_nothing(folder: Path, tmp_path: Path, storage: Storage) -> None:
    status, error = stopped(folder, tmp_path / "images", storage, signal.SIGINT)
    assert status == -signal.SIGINT
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert listing(tmp_path / "images") == []


CRASHES = """
pictures, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
def some(*names):
    return source(names, lambda row: (pictures / names[row]).read_bytes())
steps = 0
def counted(function):
    def call(*args, **options):
        global steps
        steps += 1
        if steps == last:
            os._exit(9)
        return function(*args, **options)
    return call
replace, unlink = os.replace, pathlib.Path.unlink
for first in ("rows", "encoded"):
    for second in ("rows", "encoded"):
        outcomes = ""
        for last in range(1, 100):
            target = folder / f"{first} {second} {last}"
            prepare(some("0.jpg", "1.jpg"), 16, target, first)
            child = os.fork()
            if not child:
                os.replace, pathlib.Path.unlink = counted(replace), counted(unlink)
                prepare(some("1.jpg", "0.jpg", "4.jpg"), 16, target, second)
                os._exit(0)
            done = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            try:
                outcomes += str(len(open_images(target)))
            except ValueError:
                outcomes += "-"
            if done:
                break
        print(first, second, outcomes, done)
"""


def test_a_crash_at_any_step_leaves_the_old_the_new_or_nothing(folder: Path, tmp_path: Path) -> None:
    """The process ends before each of the calls that rename or remove a file; the last time, after them."""
    lines = [line.split() for line in printed(CRASHES, folder, tmp_path)]
    assert [line[:2] for line in lines] == [[first, second] for first in STORAGES for second in STORAGES]
    for first, second, outcomes, done in lines:
        # The old images, then for a moment none, then the new ones.
        assert re.fullmatch("2+33+" if (first, second) == ("rows", "rows") else "2+-*33+", outcomes)
        assert done == "True" and len(outcomes) >= 6


# (d) Memory

MEMORY = """
preparation.cores = lambda: 2
data = pathlib.Path(sys.argv[1]).read_bytes()
def memory():
    return int(re.search(r"RssAnon:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) // 1024
most = 0
def read(row):
    global most
    most = max(most, memory())
    return data[:-1] + bytes([row % 256])  # a copy
for n in (40, 400):
    prepare(source(range(n), read), 256, pathlib.Path(sys.argv[2]), sys.argv[3])
    print(most)
"""


@both
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_images(tmp_path: Path, storage: Storage) -> None:
    smooth(400, 500).save(tmp_path / "a.bmp")
    few, many = map(int, printed(MEMORY, tmp_path / "a.bmp", tmp_path / "images", storage))
    assert many - few < 20  # MiB; the files of 360 images more have 200, their rows 68


@both
def test_files_wait_for_their_turn_in_bounded_number(
    folder: Path, tmp_path: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first image is slow, only a few others are read."""
    monkeypatch.setattr(preparation, "cores", lambda: 2)
    data, never, seen, meanwhile = (folder / "4.jpg").read_bytes(), threading.Event(), set(), []

    def read(row: int) -> bytes:
        seen.add(row)
        if row == 0:
            assert soon(lambda: len(seen) > 1)
            never.wait(0.3)
            meanwhile.append(len(seen))
        return data

    prepare(shared.source(range(300), read), 8, tmp_path / "images", storage)
    assert seen == set(range(300))
    assert 1 < meanwhile[0] <= 24


def test_parameters() -> None:
    assert parse(PrepareParams, None, "prepare") == PrepareParams(image_size=None, storage=None)
    chosen = parse(PrepareParams, {"image_size": 224, "storage": "encoded"}, "prepare")
    assert (chosen.image_size, chosen.storage) == (224, "encoded")
    with pytest.raises(ValueError, match=r"^prepare\.storage: 'jpeg' is not allowed; must be 'rows' or 'encoded'$"):
        parse(PrepareParams, {"storage": "jpeg"}, "prepare")
    for size in (7, 10**4, 10**11):  # the last two would fill the memory
        with pytest.raises(ValueError, match=rf"^prepare\.image_size: {size} is not allowed; must be "):
            parse(PrepareParams, {"image_size": size}, "prepare")
