"""Pictures that lack a part although Pillow decodes them; and none that is whole."""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from mlml.images.decoding import decode
from tests.images.test_decoding import encoded, png
from tests.shared import DATA, needs_data

DAMAGED = "damaged: the file does not hold all of the picture, or more than it; bring it again"


def refused(data: bytes) -> bool:
    """Whether `strict` alone refuses a file."""
    plain = decode(data)
    try:
        image = decode(data, strict=True)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
        assert np.array_equal(np.asarray(image), np.asarray(plain))
    assert message in ("", DAMAGED)
    return bool(message)


def photograph(width: int = 200, height: int = 150) -> Image.Image:
    """Noise at several scales, as in a photograph."""
    random = np.random.RandomState(0)
    layers = [
        np.asarray(Image.fromarray(random.randint(0, 256, (n, n, 3), np.uint8)).resize((width, height)), np.float32)
        for n in (4, 16, 64)
    ]
    return Image.fromarray((sum(layers) / 3).astype(np.uint8))


# PNG and TIFF: fewer rows than the header says, with checksums that are right


def rows(n: int, grey: int = 9, width: int = 64) -> Iterator[bytes]:
    return (b"\0" + bytes([grey] * 3 * width) for _ in range(n))


@pytest.mark.parametrize("grey", [0, 9, 255])
def test_a_png_without_its_last_rows(grey: int) -> None:
    for there in (1, 10, 63):
        assert refused(png(64, 64, 8, 2, rows(there, grey)))
    assert not refused(png(64, 64, 8, 2, rows(64, grey)))


@pytest.mark.parametrize(("kind", "bits", "bytes_a_row"), [(0, 1, 8), (0, 8, 64), (4, 8, 128), (6, 8, 256)])
def test_a_png_of_another_kind(kind: int, bits: int, bytes_a_row: int) -> None:
    for there, lacks in ((40, True), (64, False)):
        assert refused(png(64, 64, bits, kind, (bytes(1 + bytes_a_row) for _ in range(there)))) is lacks


@pytest.mark.parametrize("height", [1, 2, 63, 64])
def test_an_interlaced_png_without_its_last_pass(height: int) -> None:
    passes = [(0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2)]
    sizes = [(len(range(x, 64, right)), len(range(y, height, down))) for x, right, y, down in passes]

    def interlaced(count: int) -> bytes:
        data = b"".join(bytes(1 + 3 * wide) * high for wide, high in sizes[:count])
        whole = bytearray(png(64, height, 8, 2, iter([data])))
        whole[28] = 1
        whole[29:33] = struct.pack(">I", zlib.crc32(whole[12:29]))
        return bytes(whole)

    assert not refused(interlaced(7))
    assert refused(interlaced(6)) is (height > 1)


def test_a_tiff_without_its_last_rows() -> None:
    whole = encoded(photograph(), "TIFF")
    assert not refused(whole)
    entry = struct.pack("<HHI", 257, 4, 1)  # the height; the one strip has 150 rows
    assert refused(whole.replace(entry + struct.pack("<I", 150), entry + struct.pack("<I", 170)))


def test_black_pictures_are_whole() -> None:
    for form in ("PNG", "TIFF", "GIF", "BMP", "JPEG", "WEBP"):
        for mode in ("L", "RGB"):
            assert not refused(encoded(Image.new(mode, (40, 30)), form))
    assert not refused(encoded(Image.new("P", (40, 30)), "PNG"))


# JPEG


KINDS = {
    "colour": dict[str, object](quality=90),
    "colour, full resolution": dict[str, object](subsampling=0),
    "own codes": dict[str, object](optimize=True),
    "restarts": dict[str, object](restart_marker_rows=1),
    "poor": dict[str, object](quality=10),
    "progressive": dict[str, object](progressive=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_whole_jpegs(kind: str, mode: str) -> None:
    image = photograph(201, 143).convert(mode)
    assert not refused(encoded(image, "JPEG", **KINDS[kind]))
    for grey in (126, 127, 128, 129):  # what libjpeg fills missing parts with
        image.paste((grey,) * len(mode) if mode != "L" else grey, (80, 70, 201, 143))
        assert not refused(encoded(image, "JPEG", **KINDS[kind]))


def pixels_of(data: bytes) -> tuple[int, int]:
    """Where the coded pixels begin and end."""
    start = data.index(b"\xff\xda")
    return start + 2 + int.from_bytes(data[start + 2 : start + 4], "big"), len(data) - 2


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_jpeg_with_fewer_or_more_pixels_than_it_should_have(mode: str) -> None:
    data = encoded(photograph().convert(mode), "JPEG", quality=90)
    start, end = pixels_of(data)
    for kept in (0.1, 0.5, 0.9, 0.97):
        cut = start + int(kept * (end - start)) & ~1
        assert refused(data[: cut - (data[cut - 1] == 0xFF)] + b"\xff\xd9")
    assert refused(data[:end] + data[start : start + 100].rstrip(b"\xff") + b"\xff\xd9")
    assert not refused(data + b"what cameras append")
    assert not refused(data + data)
    assert refused(data[: start + 2000].rstrip(b"\xff") + b"\xff\xd9" + data)
    assert not refused(data[:end] + b"\xff" * 100 + data[end:])  # bytes that may stand before each marker


@pytest.mark.parametrize("kind", KINDS)
def test_a_jpeg_with_a_zeroed_block(kind: str) -> None:
    data = encoded(photograph(640, 480), "JPEG", **KINDS[kind])
    start, end = pixels_of(data)
    places = np.linspace(start, end - 600, 20).astype(int)
    found = [refused(data[:at] + bytes(400) + data[at + 400 :]) for at in places]
    # In a progressive JPEG it may lie in a scan where zeros mean a flat area.
    assert sum(found) > 5 if kind == "progressive" else all(found)


@needs_data
def test_no_false_alarm_on_photographs() -> None:
    files = [*sorted(DATA.glob("voc2012/**/*.jpg")), *sorted(DATA.glob("photos/images/*"))[::25]]
    assert len(files) > 200
    assert [file.name for file in files if refused(file.read_bytes())] == []
