"""Prepared images equal Pillow's, and are complete or absent whenever the work stops."""

import io
import os
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
from mlml.images.store import Images, Storage, open_images
from mlml.labels.table import Table

RANDOM = np.random.RandomState(0)
STORAGES: tuple[Storage, ...] = ("rows", "encoded")
FILES = {"rows": ["rows.json", "rows.npy"], "encoded": ["encoded.bin", "encoded.npz"]}
both = pytest.mark.parametrize("storage", STORAGES)


def smooth(height: int, width: int, channels: int = 3) -> np.ndarray:
    """Enlarged coarse noise, which resembles a photograph."""
    coarse = RANDOM.randint(0, 256, (5, 7, channels)).astype(np.uint8)
    planes = [
        Image.fromarray(coarse[..., c]).resize((width, height), Image.Resampling.BICUBIC) for c in range(channels)
    ]
    return np.stack([np.asarray(plane) for plane in planes], axis=2)


def table(names: list[str]) -> Table:
    return Table(("cat",), tuple(names), ("train",) * len(names), np.ones((len(names), 1), np.int8))


def source(folder: Path, names: list[str], upright: bool = False) -> Source:
    return Source(table(names), lambda row: (folder / names[row]).read_bytes(), upright)


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def pixels(images: Images) -> np.ndarray:
    return np.concatenate(list(images.stream(np.array_split(np.arange(len(images)), 3))))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images of many kinds and sizes."""
    path = tmp_path / "pictures"
    path.mkdir()
    sizes = [(375, 500), (500, 333), (1, 1), (7, 300), (90, 90), (46, 45)]
    for i, (height, width) in enumerate(sizes):
        Image.fromarray(smooth(height, width)).save(path / f"{i}.jpg", quality=90)
    photo = Image.fromarray(smooth(60, 80))
    photo.convert("L").save(path / "grey.jpg")
    photo.convert("L").save(path / "grey.png")
    photo.convert("1").save(path / "bits.png")
    photo.convert("CMYK").save(path / "cmyk.jpg")
    photo.quantize(16).save(path / "palette.png")
    photo.quantize(16).save(path / "palette.gif")
    photo.save(path / "moving.gif", save_all=True, append_images=[photo.rotate(90), photo.rotate(180)])
    photo.save(path / "many.tif", save_all=True, append_images=[photo.rotate(90)])
    Image.fromarray(smooth(60, 80, 4)).save(path / "alpha.png")
    photo.convert("LA").save(path / "grey alpha.png")
    photo.save(path / "progressive.jpg", progressive=True)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by the camera: Pillow, and so the published numbers, take the pixels as they are
    photo.save(path / "turned.jpg", exif=exif)
    return path


@both
@pytest.mark.parametrize("size", [8, 45, 64, 448])
def test_images_are_pillows_to_the_bit(folder: Path, tmp_path: Path, size: int, storage: Storage) -> None:
    names = listing(folder)
    assert len(names) == 18
    target = tmp_path / "deep" / "images"
    prepare(source(folder, names), size, target, storage)
    images = open_images(target)
    assert (len(images), images.size) == (18, size)
    decoded = pixels(images)
    assert decoded.shape == (18, size, size, 3) and decoded.dtype == np.uint8
    for name, row in zip(names, decoded, strict=True):
        with Image.open(folder / name) as image:
            expected = np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))
        assert np.array_equal(row, expected), name
    assert listing(target) == FILES[storage]


@both
def test_upright_pictures(folder: Path, tmp_path: Path, storage: Storage) -> None:
    for upright, turn in ((False, 0), (True, -90)):
        prepare(source(folder, ["turned.jpg"], upright), 32, tmp_path / "images", storage)
        with Image.open(folder / "turned.jpg") as image:
            turned = image.rotate(turn, expand=True).resize((32, 32), Image.Resampling.BILINEAR)
        assert np.array_equal(pixels(open_images(tmp_path / "images"))[0], np.asarray(turned))


@both
def test_many_images_keep_their_rows(tmp_path: Path, storage: Storage) -> None:
    def read(row: int) -> bytes:
        file = io.BytesIO()
        Image.new("L", (10 + row % 7, 9), row % 251).save(file, "PNG")
        return file.getvalue()

    prepare(Source(table(list(map(str, range(601)))), read), 8, tmp_path, storage)
    greys = np.arange(601)[:, None, None, None] % 251
    assert np.array_equal(pixels(open_images(tmp_path)), np.broadcast_to(greys, (601, 8, 8, 3)))


# (a) Images that cannot be read


def break_images(folder: Path) -> list[str]:
    """Write files that hold no image; returns their names."""
    whole = (folder / "0.jpg").read_bytes()
    portable = io.BytesIO()
    Image.fromarray(smooth(50, 50)).save(portable, "PNG")
    broken = {
        "cut.jpg": whole[: len(whole) // 2],
        "cut header.jpg": whole[:15],
        "cut.png": portable.getvalue()[:2000],
        "empty.jpg": b"",
        "page.jpg": b"<html><body>Not found</body></html>",
    }
    for name, content in broken.items():
        (folder / name).write_bytes(content)
    return [*broken, "missing.jpg"]


@both
def test_unreadable_images_are_named_together_and_nothing_is_left(
    folder: Path, tmp_path: Path, storage: Storage
) -> None:
    names = listing(folder)
    broken = break_images(folder)
    mixed = [*broken[:3], *names[:9], *broken[3:], *names[9:]]
    with pytest.raises(ValueError) as error:
        prepare(source(folder, mixed), 16, tmp_path / "images", storage)
    first, *lines = str(error.value).split("\n")
    assert first == "6 images cannot be read"
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

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(preparation, "write_index", full)
    with pytest.raises(OSError, match="No space left on device"):
        prepare(source(folder, listing(folder)), 16, tmp_path / "images", storage)
    assert listing(tmp_path / "images") == []


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
    old = pixels(open_images(target))
    prepare(source(folder, names), 16, target, storage)
    assert {name: (cache / name).read_bytes() for name in FILES[storage]} == before
    assert np.array_equal(pixels(open_images(target)), old[::-1])
    assert listing(target) == FILES[storage]


@pytest.mark.parametrize(("first", "second"), [("rows", "encoded"), ("encoded", "rows")])
def test_another_storage_takes_the_place_of_the_first(
    folder: Path, tmp_path: Path, first: Storage, second: Storage
) -> None:
    names = listing(folder)
    prepare(source(folder, names), 16, tmp_path / "images", first)
    old = pixels(open_images(tmp_path / "images"))
    with pytest.raises(ValueError):
        prepare(source(folder, [*names, "missing.jpg"]), 16, tmp_path / "images", second)
    assert listing(tmp_path / "images") == FILES[first]
    prepare(source(folder, names), 16, tmp_path / "images", second)
    assert listing(tmp_path / "images") == FILES[second]
    assert np.array_equal(pixels(open_images(tmp_path / "images")), old)


# (c) Work that is stopped

STOPPED = """if True:
    import pathlib, sys, time
    import numpy as np
    from mlml.datasets.source import Source
    from mlml.datasets.prepare import prepare
    from mlml.labels.table import Table
    pictures, target, storage = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    n = 400
    def read(row):
        if row == 100:
            print("now", flush=True)
        if row >= 100:
            time.sleep(0.1)
        return (pictures / "0.jpg").read_bytes()
    table = Table(("cat",), tuple(map(str, range(n))), ("train",) * n, np.ones((n, 1), np.int8))
    prepare(Source(table, read), 16, target, storage)
    """


def stopped(folder: Path, target: Path, storage: Storage, number: signal.Signals) -> tuple[int, str]:
    """Send a signal to a process in the middle of `prepare`; returns its exit status and standard error."""
    words = [sys.executable, "-c", STOPPED, str(folder), str(target), storage]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
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
        assert len(pixels(open_images(target))) == 18


@both
def test_ctrl_c_leaves_nothing(folder: Path, tmp_path: Path, storage: Storage) -> None:
    status, error = stopped(folder, tmp_path / "images", storage, signal.SIGINT)
    assert status == -signal.SIGINT
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert listing(tmp_path / "images") == []


CRASHES = """if True:
    import os, pathlib, sys
    import numpy as np
    from mlml.datasets.source import Source
    from mlml.images.store import open_images
    from mlml.datasets.prepare import prepare
    from mlml.labels.table import Table

    pictures, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    def source(*names):
        table = Table(("cat",), names, ("train",) * len(names), np.ones((len(names), 1), np.int8))
        return Source(table, lambda row: (pictures / names[row]).read_bytes())
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
            for last in range(1, 100):
                target = folder / f"{first} {second} {last}"
                prepare(source("0.jpg", "1.jpg"), 16, target, first)
                child = os.fork()
                if not child:
                    os.replace, pathlib.Path.unlink = counted(replace), counted(unlink)
                    prepare(source("1.jpg", "0.jpg", "4.jpg"), 16, target, second)
                    os._exit(0)
                done = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                try:
                    outcome = str(len(open_images(target)))
                except ValueError:
                    outcome = "-"
                if done:
                    break
                print(first, second, outcome)
            print(first, second, "done", outcome)
    """


def test_a_crash_at_any_step_leaves_the_old_the_new_or_nothing(folder: Path, tmp_path: Path) -> None:
    """The process ends before each of the calls that rename or remove a file."""
    words = [sys.executable, "-W", "ignore", "-c", CRASHES, str(folder), str(tmp_path)]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    for first in STORAGES:
        for second in STORAGES:
            outcome = "".join(line.split()[2] for line in lines if line.split()[:2] == [first, second]).replace(
                "done", ""
            )
            finished = [line for line in lines if line.startswith(f"{first} {second} done")]
            assert finished == [f"{first} {second} done 3"]
            # The old images, then for a moment none, then the new ones.
            assert outcome == "2" * outcome.count("2") + "-" * outcome.count("-") + "3" * outcome.count("3")
            assert outcome[0] == "2" and outcome[-1] == "3" and len(outcome) >= 5
            assert (first, second) != ("rows", "rows") or "-" not in outcome


# (d) Memory

MEMORY = """if True:
    import pathlib, re, sys, threading
    import numpy as np
    from mlml.datasets import prepare as preparation
    from mlml.datasets.source import Source
    from mlml.labels.table import Table
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
        table = Table(("cat",), tuple(map(str, range(n))), ("train",) * n, np.ones((n, 1), np.int8))
        preparation.prepare(Source(table, read), 256, pathlib.Path(sys.argv[2]), sys.argv[3])
        print(most)
    """


@both
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_images(tmp_path: Path, storage: Storage) -> None:
    Image.fromarray(RANDOM.randint(0, 256, (400, 500, 3)).astype(np.uint8)).save(tmp_path / "a.bmp")
    words = [sys.executable, "-c", MEMORY, tmp_path / "a.bmp", tmp_path / "images", storage]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    few, many = map(int, done.stdout.split())
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
            never.wait(0.3)
            meanwhile.append(len(seen))
        return data

    prepare(Source(table(list(map(str, range(300)))), read), 8, tmp_path / "images", storage)
    assert seen == set(range(300))
    assert 1 < meanwhile[0] <= 24


def test_parameters() -> None:
    assert parse(PrepareParams, None, "prepare") == PrepareParams(image_size=None, storage=None)
    chosen = parse(PrepareParams, {"image_size": 224, "storage": "encoded"}, "prepare")
    assert (chosen.image_size, chosen.storage) == (224, "encoded")
    with pytest.raises(ValueError, match=r"^prepare\.storage: 'jpeg' is not allowed; must be 'rows' or 'encoded'$"):
        parse(PrepareParams, {"storage": "jpeg"}, "prepare")
    with pytest.raises(ValueError, match=r"^prepare\.image_size: 7 is not allowed; "):
        parse(PrepareParams, {"image_size": 7}, "prepare")
