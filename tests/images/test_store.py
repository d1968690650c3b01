"""Both storages give the same pixels in the same order; threads decode encoded files ahead, and end."""

import gc
import io
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mlml.datasets.prepare import prepare
from mlml.datasets.source import Source
from mlml.images import store as module
from mlml.images.shard import Shard
from mlml.images.store import EncodedImages, RowImages, Storage, open_images
from tests.core.test_threads import soon
from tests.images import shared

N, S = 40, 20


def file_of(row: int) -> bytes:
    """The image file of a row, each different, some with an EXIF orientation."""
    pixels = np.random.RandomState(row).randint(0, 256, (9 + row % 5, 30 - row % 7, 3)).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 1 + row % 8
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG" if row % 3 else "JPEG", exif=exif)
    return file.getvalue()


@pytest.fixture(scope="module", params=[False, True])
def prepared(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    prepare(source(upright=request.param), S, folder / "rows")
    prepare(source(upright=request.param), S, folder / "encoded", "encoded")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(source(), S, tmp_path / "images", "encoded")
    return tmp_path / "images"


def source(upright: bool = False) -> Source:
    return shared.source(range(N), file_of, upright)


def batches(n: int, size: int) -> list[np.ndarray]:
    return np.array_split(np.random.default_rng(n).permutation(N)[:n], range(size, n, size))


def test_both_storages_have_the_same_pixels(prepared: Path) -> None:
    rows, encoded = open_images(prepared / "rows"), open_images(prepared / "encoded")
    assert isinstance(rows, RowImages) and isinstance(encoded, EncodedImages)
    assert len(rows) == len(encoded) == N
    assert rows.size == encoded.size == S
    asked = [*batches(N, 7), np.array([3]), np.array([5, 5, 5, 0]), np.arange(N), np.array([], np.int64)]
    for _ in range(3):
        decoded = list(encoded.stream(iter(asked)))
        assert len(decoded) == len(asked) and list(encoded.stream([])) == list(rows.stream([])) == []
        for batch, one, other in zip(asked, rows.stream(asked), decoded, strict=True):
            assert one.dtype == other.dtype == np.uint8
            assert one.shape == other.shape == (len(batch), S, S, 3)
            assert np.array_equal(one, other)


def test_files_are_kept_unchanged_in_order(folder: Path) -> None:
    assert (folder / "encoded.bin").read_bytes() == b"".join(map(file_of, range(N)))
    assert [Shard(folder).read(row) for row in range(N)] == [file_of(row) for row in range(N)]


def test_batches_are_the_callers_to_keep_and_change(folder: Path) -> None:
    images = open_images(folder)
    first = list(images.stream(batches(N, 8)))
    copies = [batch.copy() for batch in first]
    first[0][:] = 0
    again = list(images.stream(batches(N, 8)))
    assert all(np.array_equal(one, other) for one, other in zip(again, copies, strict=True))
    assert all(batch.flags.writeable for batch in again)


def decoders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("decode")]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Four threads decode; the list grows by one for each image."""
    done: list[int] = []
    real = module.to_row

    def to_row(*args: object) -> np.ndarray:
        done.append(1)
        return real(*args)

    monkeypatch.setattr(module, "cores", lambda: 4)
    monkeypatch.setattr(module, "to_row", to_row)
    assert soon(lambda: not decoders())
    yield done
    gc.collect()
    assert soon(lambda: not decoders())  # no test leaves a thread


def test_images_are_decoded_ahead_but_not_all(folder: Path, counted: list[int]) -> None:
    asked = []

    def generator() -> Iterator[np.ndarray]:
        for batch in batches(N, 4):
            asked.append(batch)
            yield batch

    stream = open_images(folder).stream(generator())
    assert not asked
    next(stream)
    assert soon(lambda: len(counted) == 12)  # this batch and two more
    assert len(asked) == 3
    next(stream)
    assert soon(lambda: len(counted) == 16)
    assert len(asked) == 4
    assert len(list(stream)) == 8
    assert len(counted) == N


def test_a_consumer_that_stops_leaves_no_thread(folder: Path, counted: list[int]) -> None:
    images = open_images(folder)
    for number, _ in enumerate(images.stream(batches(N, 2))):
        if number == 3:
            break
    assert len(counted) < N
    assert len(decoders()) == 4
    expected = list(images.stream(batches(N, 9)))  # it can be used as before
    assert sum(map(len, expected)) == N
    del images


def test_epochs_share_their_threads(folder: Path, counted: list[int]) -> None:
    images = open_images(folder)
    list(images.stream(batches(N, 4)))
    threads = {thread.ident for thread in decoders()}
    assert len(threads) == 4
    for _ in range(5):
        list(images.stream(batches(N, 4)))
        assert {thread.ident for thread in decoders()} == threads


def test_two_consumers_at_once(folder: Path, counted: list[int]) -> None:
    images = open_images(folder)
    one, other = images.stream(batches(N, 4)), images.stream(reversed(batches(N, 4)))
    pairs = list(zip(one, other, strict=True))
    assert all(np.array_equal(a, b) for (a, _), (_, b) in zip(pairs, reversed(pairs), strict=True))


def test_a_damaged_file_is_said_at_its_batch(folder: Path, counted: list[int]) -> None:
    images = open_images(folder)
    shard = folder / "encoded.bin"
    content = bytearray(shard.read_bytes())
    start = sum(len(file_of(row)) for row in range(17))
    content[start : start + 40] = bytes(40)
    shard.write_bytes(content)
    stream = images.stream(np.array_split(np.arange(N), 10))
    assert [len(next(stream)) for _ in range(4)] == [4] * 4
    with pytest.raises(ValueError) as error:
        next(stream)
    assert str(error.value).startswith(f"{shard}, row 17: the file is no image of a known format")
    assert str(error.value).endswith("; or run the stage `prepare` again")
    assert np.array_equal(next(images.stream([np.array([16, 18])])).shape, (2, S, S, 3))


@pytest.mark.parametrize("row", [-1, N, 10**6])
def test_a_row_that_there_is_not(folder: Path, counted: list[int], row: int) -> None:
    with pytest.raises(IndexError) as error:
        list(open_images(folder).stream([np.array([0, row])]))
    assert str(error.value) == f"{folder}/encoded.bin: no row {row}; there are {N}"


def test_a_process_ends_in_the_middle_of_an_epoch(folder: Path) -> None:
    code = """if True:
        import pathlib, sys
        import numpy as np
        from mlml.images.store import open_images
        stream = open_images(pathlib.Path(sys.argv[1])).stream(np.array([row % 40]) for row in range(10**6))
        print(next(stream).shape)
        """
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"(1, {S}, {S}, 3)\n", "")


# Folders that hold something else


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def index(folder: Path, **changed: object) -> None:
    with np.load(folder / "encoded.npz") as old:
        values = {**old, **changed}
    np.savez(folder / "encoded.npz", **{key: value for key, value in values.items() if value is not None})


AGAIN = "run the stage `prepare` again"
NO_INDEX = f"FOLDER/encoded.npz is no index of prepared images: {AGAIN}"
NO_OFFSETS = f"FOLDER/encoded.npz holds no offsets of image files: {AGAIN}"
SIZE = sum(len(file_of(row)) for row in range(N))
SHORT = f"{SIZE - 1:,}"


BIN, NPZ = "encoded.bin", "encoded.npz"
LACKS = f"FOLDER holds no prepared images; encoded.bin lacks its index: {AGAIN}"
BOTH = f"FOLDER holds both rows.npy and encoded.npz: remove it and {AGAIN}"
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "short": (lambda folder: cut(folder / BIN), f"FOLDER/encoded.bin has {SHORT} bytes, not {SIZE:,}: {AGAIN}"),
    "no shard": (lambda folder: (folder / BIN).unlink(), f"FOLDER/encoded.bin is missing: {AGAIN}"),
    "no index": (lambda folder: (folder / NPZ).unlink(), LACKS),
    "short index": (lambda folder: cut(folder / NPZ), NO_INDEX),
    "empty index": (lambda folder: (folder / NPZ).write_bytes(b""), NO_INDEX),
    "html": (lambda folder: (folder / NPZ).write_bytes(b"<html>"), NO_INDEX),
    "no upright": (lambda folder: index(folder, upright=None), NO_INDEX),
    "two sizes": (lambda folder: index(folder, size=np.zeros(2)), NO_INDEX),
    "floats": (lambda folder: index(folder, offsets=np.zeros(3)), NO_OFFSETS),
    "a matrix": (lambda folder: index(folder, offsets=np.zeros((2, 2), np.int64)), NO_OFFSETS),
    "nothing": (lambda folder: index(folder, offsets=np.array([], np.int64)), NO_OFFSETS),
    "descending": (lambda folder: index(folder, offsets=np.array([0, 9, 5])), NO_OFFSETS),
    "not from 0": (lambda folder: index(folder, offsets=np.array([1, 2, 5])), NO_OFFSETS),
    "both": (lambda folder: np.save(folder / "rows.npy", np.zeros((2, 8, 8, 3), np.uint8)), BOTH),
    "no folder": (shutil.rmtree, f"FOLDER holds no prepared images: {AGAIN}"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_encoded_images_that_are_not_complete(folder: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    change(folder)
    with pytest.raises(ValueError) as error:
        open_images(folder)
    assert str(error.value).replace(str(folder), "FOLDER") == message


def test_rows_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    prepare(source(), S, tmp_path)
    cut(path)
    for content in (path.read_bytes(), b"", b"<html>"):
        path.write_bytes(content)
        with pytest.raises(ValueError) as error:
            open_images(tmp_path)
        message = str(error.value)
        assert message.startswith(f"{path} is no file of prepared images (") and message.endswith(f": {AGAIN}")
    for other in (np.zeros((2, 8, 8, 3), np.float32), np.zeros((2, 8, 9, 3), np.uint8), np.zeros((2, 8, 8), np.uint8)):
        np.save(path, other)
        with pytest.raises(ValueError) as error:
            open_images(tmp_path)
        assert str(error.value) == f"{path} holds {other.dtype} {list(other.shape)}, not uint8 [n, S, S, 3]: {AGAIN}"


@pytest.mark.parametrize("storage", ["rows", "encoded"])
@pytest.mark.parametrize("upright", [False, True])
def test_whether_pictures_were_turned_upright_is_kept(tmp_path: Path, storage: Storage, upright: bool) -> None:
    prepare(source(upright=upright), S, tmp_path, storage)
    images = open_images(tmp_path)
    assert images.upright is upright
    if storage == "rows":
        for content in ("", "{}", '{"upright": 1}'):
            (tmp_path / "rows.json").write_text(content)
            with pytest.raises(ValueError, match=r"rows\.json does not say how rows\.npy was made: run the stage"):
                open_images(tmp_path)
