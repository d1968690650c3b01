"""Any file gives Pillow's image or an error of one line."""

import io
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps, features

from mlml.images import decoding
from mlml.images.decoding import decode, to_row
from tests.images.shared import by_pillow


def picture(mode: str = "RGB", width: int = 31, height: int = 23) -> Image.Image:
    """A smooth image without symmetry."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([x * 255 // width, y * 255 // height, (x * y) % 256], axis=2).astype(np.uint8)
    return Image.fromarray(pixels).convert(mode)


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def png(width: int, height: int, bits: int, kind: int, rows: Iterator[bytes]) -> bytes:
    """A PNG written by hand. kind 0: grey, 2: RGB. A row begins with its filter's number."""
    packer = zlib.compressobj()
    data = b"".join(packer.compress(row) for row in rows) + packer.flush()
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)), (b"IDAT", data), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body)) for tag, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def fault(data: bytes, upright: bool = False) -> str:
    with pytest.raises(ValueError) as error:
        decode(data, upright)
    message = str(error.value)
    assert "\n" not in message
    assert "; " in message  # the remedy
    return message


# (a) Pictures of all kinds


def indexed(**options: object) -> bytes:
    return encoded(picture().quantize(16), "PNG", **options)


KINDS = {
    "jpeg": encoded(picture(), "JPEG", quality=90),
    "progressive jpeg": encoded(picture(), "JPEG", progressive=True),
    "grey jpeg": encoded(picture("L"), "JPEG"),
    "four-component jpeg": encoded(picture("CMYK"), "JPEG"),
    "png": encoded(picture(), "PNG"),
    "grey png": encoded(picture("L"), "PNG"),
    "1-bit png": encoded(picture("1"), "PNG"),
    "grey png with alpha": encoded(picture("LA"), "PNG"),
    "png with alpha": encoded(picture("RGBA"), "PNG"),
    "palette png": indexed(),
    "palette png, one colour transparent": indexed(transparency=3),
    "palette png, alpha a colour": indexed(transparency=bytes(range(0, 256, 16))),
    "grey png, one grey transparent": encoded(picture("L"), "PNG", transparency=7),
    "gif": encoded(picture(), "GIF"),
    "gif, transparent": encoded(picture().quantize(16), "GIF", transparency=1),
    "bmp": encoded(picture(), "BMP"),
    "ppm": encoded(picture(), "PPM"),
    "tiff": encoded(picture(), "TIFF"),
    "tiff lzw": encoded(picture(), "TIFF", compression="tiff_lzw"),
    "tiff jpeg": encoded(picture(), "TIFF", compression="jpeg"),
    "tiff cmyk": encoded(picture("CMYK"), "TIFF"),
    "webp": encoded(picture(), "WEBP"),
    "webp with alpha": encoded(picture("RGBA"), "WEBP", lossless=True),
    "mpo": encoded(picture(), "MPO", save_all=True, append_images=[picture().rotate(180)]),
}
Image.init()
if "AVIF" in Image.SAVE:
    KINDS["avif"] = encoded(picture(), "AVIF")
if features.check("jpg_2000"):
    KINDS["jpeg 2000"] = encoded(picture(), "JPEG2000")


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_are_what_pillow_gives(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = Image.open(io.BytesIO(KINDS[kind])).convert("RGB")
    for upright in (False, True):
        image = decode(KINDS[kind], upright, strict=upright)
        assert image.mode == "RGB"
        assert np.array_equal(np.asarray(image), np.asarray(expected))
    row = to_row(KINDS[kind], 8)
    assert row.shape == (8, 8, 3) and row.dtype == np.uint8
    assert np.array_equal(row, by_pillow(expected, 8))


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_counts(form: str) -> None:
    colors = ((250, 0, 0), (0, 250, 0), (0, 0, 250))
    frames = [Image.new("RGB", (30, 20), color) for color in colors]
    data = encoded(frames[0], form, save_all=True, append_images=frames[1:])
    assert Image.open(io.BytesIO(data)).n_frames == 3
    row = to_row(data, 8).astype(int)
    assert (abs(row - (250, 0, 0)) < 4).all()


def deep_tiff(mode: str) -> bytes:
    """A TIFF whose header says 16 bits a channel, which Pillow does not write."""
    data, n = encoded(picture(mode), "TIFF"), len(mode)
    return data.replace(struct.pack(f"<{n}H", *[8] * n), struct.pack(f"<{n}H", *[16] * n))


def deep_jpeg2000() -> bytes:
    data = bytearray(encoded(picture(), "JPEG2000", no_jp2=True))
    data[data.index(b"\xff\x51") + 40] = 11  # bits of the first channel, less one
    return bytes(data)


DEEP: dict[str, Callable[[], bytes]] = {
    **{
        f"png of kind {kind}": lambda kind=kind, n=n: png(4, 3, 16, kind, (bytes(1 + 8 * n) for _ in range(3)))
        for kind, n in ((0, 1), (2, 3), (4, 2), (6, 4))
    },
    **{f"tiff {mode}": lambda mode=mode: encoded(Image.new(mode, (9, 9)), "TIFF") for mode in ("I;16", "I", "F")},
    "tiff rgb": lambda: deep_tiff("RGB"),
    "tiff cmyk": lambda: deep_tiff("CMYK"),
    "ppm": lambda: b"P6 2 1 65535\n" + bytes(12),
    "ppm, 10 bits": lambda: b"P6 2 1 1023\n" + bytes(12),
    "ppm in words": lambda: b"P3 1 1 65535\n1 2 3 ",
    "pgm": lambda: b"P5 2 1 65535\n" + bytes(4),
}
if features.check("jpg_2000"):
    DEEP["jpeg 2000"] = deep_jpeg2000


@pytest.mark.parametrize("kind", DEEP)
def test_more_than_8_bits_a_channel_are_refused(kind: str) -> None:
    assert fault(DEEP[kind]()) == "it has more than 8 bits a channel, of which 8 would be kept; save it with 8 bits"


@pytest.mark.skipif("AVIF" not in Image.SAVE, reason="Pillow writes no AVIF")
def test_an_avif_of_10_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow does not write one, and does not open one whose header alone says so."""
    image, data = Image.open(io.BytesIO(KINDS["avif"])), bytearray(KINDS["avif"])
    data[data.index(b"av1C") + 6] |= 0x40
    monkeypatch.setattr(Image, "open", lambda *_, **__: image)
    assert "more than 8 bits a channel" in fault(bytes(data))


def test_few_bits_a_channel_are_not() -> None:
    assert np.asarray(decode(b"P6 1 1 15\n\x0f\0\x05")).tolist() == [[[255, 0, 85]]]
    assert np.asarray(decode(b"P4 8 1\n\x0f"))[0, :, 0].tolist() == [255] * 4 + [0] * 4


# (b) EXIF orientation

# What a person sees, of the stored pixels. The EXIF standard says where row 0 and column 0 are to be shown.
TURNED = {
    1: lambda pixels: pixels,  # top, left
    2: lambda pixels: pixels[:, ::-1],  # top, right
    3: lambda pixels: pixels[::-1, ::-1],  # bottom, right
    4: lambda pixels: pixels[::-1],  # bottom, left
    5: lambda pixels: pixels.swapaxes(0, 1),  # left, top
    6: lambda pixels: np.rot90(pixels, -1),  # right, top: a quarter turn clockwise
    7: lambda pixels: pixels[::-1, ::-1].swapaxes(0, 1),  # right, bottom
    8: lambda pixels: np.rot90(pixels),  # left, bottom
}


def oriented(form: str, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(picture(), form, exif=exif)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", TURNED)
def test_upright_is_what_a_person_sees(orientation: int, form: str) -> None:
    data = oriented(form, orientation)
    with Image.open(io.BytesIO(data)) as image:  # Pillow turns a TIFF itself
        plain, turned = image.convert("RGB"), ImageOps.exif_transpose(image).convert("RGB")
    assert np.array_equal(np.asarray(decode(data)), np.asarray(plain))
    assert np.array_equal(np.asarray(decode(data, upright=True)), np.asarray(turned))
    assert turned.size == ((23, 31) if orientation > 4 else (31, 23))
    if form == "PNG":  # which keeps the pixels
        assert np.array_equal(np.asarray(plain), np.asarray(picture()))
        assert np.array_equal(np.asarray(turned), TURNED[orientation](np.asarray(picture())))


@pytest.mark.parametrize("exif", [b"Exif\0\0rubbish", b"Exif\0\0MM\0*\0\0\0\x08\0\x09", b"", None])
def test_exif_data_that_say_nothing(exif: bytes | None) -> None:
    data = oriented("JPEG", 99) if exif is None else encoded(picture(), "JPEG", exif=exif)
    assert np.array_equal(np.asarray(decode(data, upright=True)), np.asarray(decode(data)))


# (c) Files that hold no picture


HTML, LFS = "the file is an HTML page; bring the picture itself", "the file is a pointer of Git LFS"
NO_PICTURES = {
    "empty": (b"", "the file is empty (0 bytes); bring it again"),
    "html": (b"<!DOCTYPE html>\n<html><body>404</body></html>", HTML),
    "upper case": (b"\n <HTML lang=en>", HTML),
    "comment": (b"<!-- moved -->\n<html>", HTML),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid", f"{LFS}; bring the picture itself"),
    "text": (b"photographs go here\n", None),
    "pdf": (b"%PDF-1.7\n", None),
    "eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n", None),
    "zeros": (b"\0" * 5000, None),
    "heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "the file is a HEIC picture; convert it to JPEG"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
}


@pytest.mark.parametrize("kind", NO_PICTURES)
def test_files_that_are_no_picture(kind: str) -> None:
    data, message = NO_PICTURES[kind]
    formats = f"the file is no image of a known format ({', '.join(decoding._formats())}); bring the picture itself"
    assert fault(data) == (message or formats)


def test_no_other_program_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow reads PDF and EPS files by Ghostscript, which no image file may start."""
    data = encoded(picture(), "EPS")

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    assert "no image of a known format" in fault(data)


@pytest.mark.parametrize("kind", ["jpeg", "png", "gif", "webp", "tiff", "bmp", "tiff lzw"])
def test_a_file_cut_short_is_refused(kind: str) -> None:
    data = KINDS[kind]
    for length in (1, 3, 15, len(data) // 4, len(data) // 2, len(data) * 3 // 4):
        message = fault(data[:length])
        assert message.startswith(("damaged, cut short", "the file is no image")), (length, message)


# (d) Pictures that would fill the memory


def black(width: int, height: int) -> bytes:
    row = bytes(1 + (width + 7) // 8)
    return png(width, height, 1, 0, (row for _ in range(height)))


@pytest.mark.parametrize("shape", [(30_000, 30_000), (10_000, 9_000)])  # beyond Pillow's error, and its warning
def test_a_decompression_bomb_costs_no_memory(tmp_path: Path, shape: tuple[int, int]) -> None:
    bomb = tmp_path / "bomb.png"
    bomb.write_bytes(black(*shape))
    assert bomb.stat().st_size < 200_000
    code = """if True:
        import pathlib, resource, sys
        from mlml.images.decoding import decode
        data = pathlib.Path(sys.argv[1]).read_bytes()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            decode(data)
        except ValueError as error:
            print(error)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """
    done = subprocess.run([sys.executable, "-c", code, bomb], capture_output=True, text=True, check=True)
    message, grown = done.stdout.splitlines()
    assert message == "it has more than 89,478,485 pixels (a decompression bomb?); make it smaller"
    assert int(grown) < 30_000  # KiB; the picture would take 90 MB at least
    assert done.stderr == ""


def test_the_limit_itself_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_PIXELS", 31 * 23)
    assert decode(KINDS["jpeg"]).size == (31, 23)
    monkeypatch.setattr(decoding, "MAX_PIXELS", 31 * 23 - 1)
    assert "pixels (a decompression bomb?); make it smaller" in fault(KINDS["jpeg"])


# (e) Damage of any kind


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(KINDS[draw(st.sampled_from(sorted(KINDS)))])
    for _ in range(draw(st.integers(0, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data)


@settings(max_examples=300)
@given(damaged(), st.booleans())
def test_damage_gives_a_picture_or_a_line(data: bytes, upright: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            image = decode(data, upright, strict=True)
        except ValueError as error:
            message = str(error)
            assert message and "\n" not in message
        else:
            assert image.mode == "RGB" and image.width * image.height > 0
            assert image.tobytes()
    assert caught == []


def test_what_pillow_cannot_convert_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = "damaged, cut short or of a kind that Pillow cannot read ({}); bring it again"
    for error, expected in (
        (KeyError("a\nb"), damaged.format("'a\\nb'")),
        (RuntimeError("two\nlines"), damaged.format("two lines")),
        (AssertionError(), damaged.format("AssertionError")),
        (MemoryError(), "it does not fit into the memory; make it smaller"),
    ):

        def fails(*_: object, error: Exception = error, **__: object) -> Image.Image:
            raise error

        monkeypatch.setattr(Image, "open", fails)
        assert fault(b"x") == expected
