"""Prepared images are what Pillow gives, all of them or none."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mlml.datasets.source import Source
from mlml.images import open_rows
from mlml.preparation import prepare, to_row
from mlml.table import Table

RANDOM = np.random.RandomState(0)


def smooth(height: int, width: int, channels: int = 3) -> np.ndarray:
    """Something like a photograph: coarse noise, enlarged."""
    coarse = RANDOM.randint(0, 256, (5, 7, channels)).astype(np.uint8)
    planes = [
        Image.fromarray(coarse[..., c]).resize((width, height), Image.Resampling.BICUBIC) for c in range(channels)
    ]
    return np.stack([np.asarray(plane) for plane in planes], axis=2)


def source(folder: Path, names: list[str]) -> Source:
    n = len(names)
    table = Table(("cat",), tuple(names), ("train",) * n, np.ones((n, 1), np.int8))
    return Source(table, lambda row: Image.open(folder / names[row]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures of many kinds and sizes."""
    path = tmp_path / "images"
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


@pytest.mark.parametrize("size", [8, 45, 64, 448])
def test_rows_are_pillows_to_the_bit(folder: Path, tmp_path: Path, size: int) -> None:
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 18
    target = tmp_path / "images.npy"
    prepare(source(folder, names), size, target)
    rows = open_rows(target)
    assert isinstance(rows, np.memmap)
    assert rows.shape == (18, size, size, 3) and rows.dtype == np.uint8
    assert target.stat().st_size == rows.offset + 18 * size * size * 3
    for name, row in zip(names, rows, strict=True):
        with Image.open(folder / name) as image:
            expected = np.asarray(image.convert("RGB").resize((size, size), Image.BILINEAR))
        assert np.array_equal(row, expected), name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "images.npy"]


def plain(mode: str, color: object) -> Image.Image:
    return Image.new(mode, (30, 20), color)


def indexed() -> Image.Image:
    image = plain("P", 3)
    image.putpalette([0] * 9 + [10, 20, 30])
    return image


@pytest.mark.parametrize(
    ("image", "color"),
    [
        (plain("RGB", (1, 2, 3)), (1, 2, 3)),
        (plain("L", 77), (77, 77, 77)),
        (plain("1", 1), (255, 255, 255)),
        (plain("LA", (77, 5)), (77, 77, 77)),
        (plain("RGBA", (1, 2, 3, 0)), (1, 2, 3)),
        (plain("CMYK", (0, 255, 255, 0)), (255, 0, 0)),
        (indexed(), (10, 20, 30)),
    ],
)
def test_every_kind_of_picture_becomes_rgb(image: Image.Image, color: tuple[int, int, int]) -> None:
    row = to_row(image, 8)
    assert row.shape == (8, 8, 3) and row.dtype == np.uint8
    assert (row == np.array(color)).all()


def test_the_whole_picture_is_kept() -> None:
    """Resized, not cropped: left is red, right is blue, at any shape."""
    for width, height in ((400, 20), (20, 400)):
        image = Image.new("RGB", (width, height), (255, 0, 0))
        image.paste((0, 0, 255), (width // 2, 0, width, height))
        row = to_row(image, 32)
        assert (row[:, :14] == (255, 0, 0)).all() and (row[:, 18:] == (0, 0, 255)).all()


def break_images(folder: Path) -> list[str]:
    """Files that hold no picture; their names."""
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


def test_unreadable_images_are_named_together_and_nothing_is_left(folder: Path, tmp_path: Path) -> None:
    names = [path.name for path in sorted(folder.iterdir())]
    broken = break_images(folder)
    mixed = [*broken[:3], *names[:9], *broken[3:], *names[9:]]
    target = tmp_path / "out" / "images.npy"
    target.parent.mkdir()
    with pytest.raises(ValueError) as error:
        prepare(source(folder, mixed), 16, target)
    first, *lines = str(error.value).split("\n")
    assert first == "6 images cannot be read"
    assert [line.partition(": ")[0] for line in lines] == broken
    assert all(line.partition(": ")[2] for line in lines)
    assert list(target.parent.iterdir()) == []


def test_many_unreadable_images_are_counted(tmp_path: Path) -> None:
    names = [f"{i}.jpg" for i in range(30)]
    with pytest.raises(ValueError) as error:
        prepare(source(tmp_path, names), 16, tmp_path / "images.npy")
    lines = str(error.value).split("\n")
    assert lines[0] == "30 images cannot be read" and lines[-1] == "... and 10 more"
    assert [line.partition(": ")[0] for line in lines[1:-1]] == names[:20]
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_would_fill_the_memory_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 375 * 500 // 3)
    with pytest.raises(ValueError, match=r"^1 images cannot be read\n0\.jpg: Image size \(187500 pixels\) exceeds"):
        prepare(source(folder, ["grey.jpg", "0.jpg", "4.jpg"]), 16, tmp_path / "images.npy")


def test_the_old_file_is_neither_written_through_nor_lost(folder: Path, tmp_path: Path) -> None:
    target, cache = tmp_path / "images.npy", tmp_path / "cache"
    prepare(source(folder, ["0.jpg", "1.jpg"]), 16, target)
    os.link(target, cache)
    before = cache.read_bytes()
    names = ["1.jpg", "0.jpg"]
    with pytest.raises(ValueError, match=r"^1 images cannot be read\nmissing\.jpg: "):
        prepare(source(folder, [*names, "missing.jpg"]), 16, target)
    assert target.read_bytes() == before and os.path.samefile(target, cache)
    prepare(source(folder, names), 16, target)
    assert cache.read_bytes() == before
    assert np.array_equal(open_rows(target), open_rows(cache)[::-1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "images", "images.npy"]


def test_many_images_keep_their_rows(tmp_path: Path) -> None:
    greys = np.arange(600) % 251
    table = Table(("cat",), tuple(map(str, range(600))), ("train",) * 600, np.ones((600, 1), np.int8))
    drawn = Source(table, lambda row: Image.new("L", (10 + row % 7, 9), int(greys[row])))
    prepare(drawn, 8, tmp_path / "images.npy")
    rows = open_rows(tmp_path / "images.npy")
    assert np.array_equal(rows, np.broadcast_to(greys[:, None, None, None], (600, 8, 8, 3)))


def test_a_file_cut_short_is_not_opened(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "images.npy"
    prepare(source(folder, ["0.jpg", "1.jpg"]), 16, target)
    target.write_bytes(target.read_bytes()[:-1])
    with pytest.raises(ValueError) as error:
        open_rows(target)
    assert str(error.value).startswith(f"{target} is no file of prepared images: ")
    np.save(target, np.zeros((2, 8, 8, 3), np.float32))
    with pytest.raises(ValueError) as error:
        open_rows(target)
    assert str(error.value) == f"{target} holds float32 [2, 8, 8, 3], not uint8 [n, S, S, 3]"


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_more_than_8_bits_are_refused_instead_of_cut_off(mode: str) -> None:
    with pytest.raises(ValueError, match="more than 8 bits a pixel"):
        to_row(Image.new(mode, (9, 9)), 8)
